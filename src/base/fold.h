/* The order in which shard sums are added: a small program, the same for everyone who adds.
 *
 * A fold is the post-order walk of the binary tree over shard numbers, with empty shards left out (an empty one passes
 * the other side through). Each step pushes one piece on a stack and then, `merges` times, replaces the two topmost
 * entries by (lower + upper). After the last step one entry is left: the sum. src/tree writes folds, kernels and
 * collectives run them; nobody else decides an order. */
#ifndef HD_BASE_FOLD_H
#define HD_BASE_FOLD_H

#include <stdint.h>

enum {
  HD_MAX_SHARDS = 256,
  HD_MAX_FOLD_DEPTH = 10
}; /* depth: log2 of the shards, plus the entry being pushed, plus one */

typedef struct hd_fold_step {
  int32_t row0, row1; /* the samples of the piece, counted from the start of the batch part; pieces follow each other */
  int32_t piece;      /* which piece is pushed: an index into the caller's list */
  int32_t merges;     /* additions after the push */
} hd_fold_step;

typedef struct hd_fold {
  int32_t count; /* 0: there is no sample at all, the sum does not exist */
  hd_fold_step step[HD_MAX_SHARDS];
} hd_fold;

#endif
