/* A reduction: the order in which shard sums are added, as a list of steps for a stack.
 *
 * It is the post-order walk of the binary tree over shard numbers, without empty shards (an empty one passes the other
 * side through). Each step pushes one term on a stack and then, `merges` times, replaces the two topmost entries by
 * (lower + upper). After the last step one entry is left: the sum. src/reduce makes reductions, and whatever adds or
 * combines terms, on a CPU or a GPU, executes them by the walk below; no other code decides an order. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/host_device.h"

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

/* A walk through the steps of a reduction. The caller keeps the stack, of whatever it adds:
 *
 *     for (hd_walk w = hd__reduction_walk(reduction); hd__walk_push(&w); stack[w.top] = sum)
 *       for (sum = term[w.step->term]; hd__walk_merge(&w);)
 *         sum = stack[w.top] + sum;
 *
 * The sum is stack[0]. Of a range of shards w.top + 1 sums are left. */
typedef struct hd_walk {
  const hd_reduction_step *step, *next, *end; /* of the current push; the one after it */
  int top, merges;                            /* the topmost entry; additions left before the next push */
} hd_walk;

/* A walk of `count` steps, with `depth` entries on the stack before them. */
HD_BOTH hd_walk hd__walk_steps(const hd_reduction_step *step, int count, int depth) {
  const hd_walk walk = {step, step, step + count, depth - 1, 0};
  return walk;
}

HD_BOTH hd_walk hd__reduction_walk(const hd_reduction *reduction) {
  return hd__walk_steps(reduction->step, reduction->count, 0);
}

/* Advances to the next push, to entry `top`; false: there is none. */
HD_BOTH bool hd__walk_push(hd_walk *walk) {
  if (walk->next == walk->end)
    return false;
  walk->step = walk->next++;
  walk->merges = walk->step->merges;
  walk->top++;
  return true;
}

/* Advances to the next addition, of entry `top` and the one above it; false: the current push has no more. */
HD_BOTH bool hd__walk_merge(hd_walk *walk) {
  if (walk->merges == 0)
    return false;
  walk->merges--;
  walk->top--;
  return true;
}

/* Chan's formula for means and sums of squared deviations of two neighbouring ranges of n and `more` values: the
 * factors of the difference of the means. */
typedef struct hd_chan {
  float share, both;
} hd_chan;

HD_BOTH hd_chan hd__chan(int64_t left, int64_t right) {
  const double n = (double)left, more = (double)right;
  const hd_chan factors = {(float)(more / (n + more)), (float)(n * more / (n + more))};
  return factors;
}
