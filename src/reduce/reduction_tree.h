/* The reduction tree: shards, subtrees, partial sums, chunk ownership. Pure arithmetic.
 *
 * A batch of n samples has S shards (a power of two); shard i holds the samples [i*n/S, (i+1)*n/S). Shard sums are
 * added in the binary tree over shard numbers; an empty shard passes the other side through. The partial sums of a
 * contiguous range of shards are those of the complete subtrees inside it: the stack that remains when its shards are
 * pushed in order and merged wherever both children of a subtree are complete. Pushing the subtrees of all ranges in
 * order does the remaining merges: the additions are the same for any ranges.
 *
 *     shards   0   1   2   3   4   5   6   7          range [1, 6) leaves the subtrees {1}, {2 3}, {4 5};
 *               \ /     \ /     \ /     \ /           ranges [0, 1), [1, 6), [6, 8) push {0} {1} {2 3} {4 5} {6 7},
 *                +-------+       +-------+            and every addition is one of the tree's seven
 *                 \             /
 *                  +-----------+
 *
 * Independent of threads, memory and transport. */
#pragma once

#include <stdint.h>

#include "base/reduction.h"

enum { HD_MAX_SUBTREES = 18 }; /* 2 * log2(HD_MAX_SHARDS), plus the entry being pushed, plus one */

/* A micro-batch: the shards [lo, hi), a complete subtree (hi - lo is a power of two and divides lo). */
typedef struct hd_micro_batch {
  int64_t samples; /* of the whole batch */
  int32_t shards;  /* of the whole batch */
  int32_t lo, hi;
} hd_micro_batch;

/* One complete subtree: the shards [start, start + size). */
typedef struct hd_subtree {
  int32_t start, size;
} hd_subtree;

/* The additions of a range of shards: step k pushes a shard and merges. Afterwards subtree[0 .. subtree_count-1] is
 * left on the stack. */
typedef struct hd_range_plan {
  hd_reduction pushes;
  int32_t depth; /* stack slots needed */
  int32_t subtree_count;
  hd_subtree subtree[HD_MAX_SUBTREES];
} hd_range_plan;

/* The first sample of shard `i` (i == shards: the number of samples). */
int64_t hd__tree_first_sample(int64_t samples, int32_t shards, int32_t i);

/* The default number of shards for a batch: a power of two that depends on the batch alone. */
int32_t hd__tree_default_shards(int64_t batch);

/* Micro-batch `index` of `micro_batches` (a power of two <= shards). */
hd_micro_batch hd__tree_micro_batch(int64_t samples, int32_t shards, int32_t micro_batches, int32_t index);

/* The pushes and the subtrees of the shards [lo, hi) inside `micro_batch`. Steps have sample ranges counted from the
 * micro-batch's first sample; `term` is the shard number. */
void hd__tree_range(hd_range_plan *out, const hd_micro_batch *micro_batch, int32_t lo, int32_t hi);

/* The reduction of `count` subtrees: the concatenated subtrees of neighbouring ranges that make up the micro-batch.
 * `term` is an index of `subtree`. */
void hd__tree_reduce(hd_reduction *out, const hd_micro_batch *micro_batch, const hd_subtree *subtree, int32_t count);

/* The partial sums of neighbouring ranges, whether of threads, of GPUs or of hosts: those of range r are [first[r],
 * first[r + 1]) of all, its samples [row[r], row[r + 1]) of the micro-batch. */
typedef struct hd_partial_sums {
  int32_t ranges;
  int32_t *first;       /* ranges + 1 */
  int64_t *row;         /* ranges + 1 */
  int32_t begin, end;   /* of the ranges [begin, end) also the additions: */
  hd_range_plan *range; /* range[r - begin] */
  hd_subtree subtree[HD_MAX_SHARDS];
  hd_reduction reduction; /* over all of them */
} hd_partial_sums;

/* Lays out partial sums, of which numbers and arrays are given: range r has the shards [border[r], border[r + 1]),
 * counted from the first of the micro-batch. */
void hd__tree_lay_out(hd_partial_sums *sums, const hd_micro_batch *micro_batch, const int32_t *border);

/* The levels of a tree over `shards` shards. */
int32_t hd__tree_levels(int32_t shards);

/* The largest number of partial sums of the shards [lo, hi) at any time: those of complete subtrees, and the one being
 * pushed. */
int32_t hd__tree_most_sums(int32_t lo, int32_t hi);

/* Whether the shards [lo, hi) of a micro-batch, counted from its first, hold one of the samples [first, first + rows)
 * of the batch; of any micro-batch. */
typedef struct hd_shard_range {
  int32_t lo, hi;
} hd_shard_range;

int hd__tree_holds(int64_t samples, int32_t shards, int32_t micro_batches, hd_shard_range range, int64_t first,
                   int64_t rows);

/* Splits a reduction that leaves several sums into reductions that leave one each, in order; returns their number. */
int32_t hd__tree_split_reduction(hd_reduction out[HD_MAX_SUBTREES], const hd_reduction *reduction);

/* Whether a complete subtree holds a sample. */
int hd__tree_has_samples(const hd_micro_batch *micro_batch, int32_t lo, int32_t hi);

/* Distributes `items` equal items over threads so that the last thread finishes as early as possible: thread l has the
 * items [border[l], border[l + 1]); a thread of speed 0 has none. speed == NULL: equal speeds; else they are 0 to 1000,
 * and not all 0. */
void hd__tree_distribute(int32_t *border, int32_t items, const int32_t *speed, int32_t threads);

/* The same for many items, proportionally and with rounding: the first item of `thread`; `items` for `threads`. */
int64_t hd__tree_share(int64_t items, const int32_t *speed, int32_t threads, int32_t thread);

/* Divides [0, count) into contiguous ranges with weights in proportion to the threads' speeds, as nearly as possible:
 * `thread` has [*lo, *hi). The ranges are in order, without gap or overlap. */
typedef struct hd_thread_speeds {
  const int32_t *speed;
  int32_t threads;
} hd_thread_speeds;

void hd__tree_split(int32_t *lo, int32_t *hi, const int64_t *weight, int32_t count, hd_thread_speeds of,
                    int32_t thread);

/* For accumulation, which reduces micro-batches one after the other: pushes micro-batch `index` on the stack
 * `pending` of subtrees and returns the number of merges, each of which adds a pending sum. Micro-batches without
 * samples are not pushed. */
int32_t hd__tree_push_micro_batch(hd_subtree *pending, int32_t *depth, const hd_micro_batch *micro_batch,
                                  int32_t micro_batches, int32_t index);
