/* A reduction: the order in which shard sums are added, as a list of steps for a stack.
 *
 * It is the post-order walk of the binary tree over shard numbers, without empty shards (an empty one passes the other
 * side through). Each step pushes one term on a stack and then, `merges` times, replaces the two topmost entries by
 * (lower + upper). After the last step one entry is left: the sum. src/reduce makes reductions, kernels and collectives
 * execute them; no other code decides an order. */
#pragma once

#include <stdint.h>

enum {
  HD_MAX_SHARDS = 256,
  HD_MAX_REDUCTION_DEPTH = 10
}; /* depth: log2 of the shards, plus the entry being pushed, plus one */

typedef struct hd_reduction_step {
  int32_t row0, row1; /* the samples of the term, counted from the start of the micro-batch; consecutive */
  int32_t term;       /* the term to push: an index into the caller's list */
  int32_t merges;     /* additions after the push */
} hd_reduction_step;

typedef struct hd_reduction {
  int32_t count; /* 0: there is no sample at all, the sum does not exist */
  hd_reduction_step step[HD_MAX_SHARDS];
} hd_reduction;
