/* Who adds what to what: shards, covers, folds, chunk ownership. Pure arithmetic.
 *
 * A batch of n samples has S shards (a power of two); shard i holds the samples [i*n/S, (i+1)*n/S). Shard sums are
 * added in the binary tree over shard numbers; an empty shard passes the other side through. A contiguous range of
 * shards is handed on as its cover: the stack of complete subtrees that remains when its shards are pushed in order and
 * merged wherever both halves of a subtree are there. Pushing all covers in order merges what is left: the same
 * additions, whatever the ranges were.
 *
 *     shards   0   1   2   3   4   5   6   7          range [1, 6) leaves the cover {1}, {2 3}, {4 5};
 *               \ /     \ /     \ /     \ /           ranges [0, 1), [1, 6), [6, 8) push {0} {1} {2 3} {4 5} {6 7},
 *                +-------+       +-------+            and every addition is one of the tree's seven
 *                 \             /
 *                  +-----------+
 *
 * Nothing here knows threads, memory or transport. */
#ifndef HD_TREE_TREE_H
#define HD_TREE_TREE_H

#include <stdint.h>

#include "base/fold.h"

enum { HD_MAX_COVER = 18 }; /* 2 * log2(HD_MAX_SHARDS), and the entry being pushed, and one */

/* A part of a batch: the shards [lo, hi), a complete subtree (hi - lo is a power of two and divides lo). */
typedef struct hd_part {
  int64_t samples; /* of the whole batch */
  int32_t shards;  /* of the whole batch */
  int32_t lo, hi;
} hd_part;

/* One complete subtree: the shards [start, start + size). */
typedef struct hd_subtree {
  int32_t start, size;
} hd_subtree;

/* What a range of shards does: step k pushes a shard and merges; afterwards cover[0 .. covers-1] is left on
 * the stack. */
typedef struct hd_range_plan {
  hd_fold pushes;
  int32_t depth; /* stack slots needed */
  int32_t covers;
  hd_subtree cover[HD_MAX_COVER];
} hd_range_plan;

/* The first sample of shard `i` (i == shards: the number of samples). */
int64_t hd__tree_first_sample(int64_t samples, int32_t shards, int32_t i);

/* The default number of shards for a batch: a power of two that depends on the batch alone. */
int32_t hd__tree_default_shards(int64_t batch);

/* Part `index` of `parts` (a power of two <= shards). */
hd_part hd__tree_part(int64_t samples, int32_t shards, int32_t parts, int32_t index);

/* The pushes and the cover of the shards [lo, hi) inside `part`. Steps carry sample ranges counted from the part's
 * first sample; `piece` is the shard number. */
void hd__tree_range(hd_range_plan *out, const hd_part *part, int32_t lo, int32_t hi);

/* The fold of pieces that are the concatenated covers of neighbouring ranges which together are the whole part. */
void hd__tree_fold_covers(hd_fold *out, const hd_part *part, const hd_subtree *piece, int32_t count);

/* A fold that leaves several sums, cut into those that leave one each, in order; returns how many. */
int32_t hd__tree_cut_fold(hd_fold out[HD_MAX_COVER], const hd_fold *fold);

/* Whether a complete subtree holds a sample. */
int hd__tree_has_samples(const hd_part *part, int32_t lo, int32_t hi);

/* Deals `items` equal items out to lanes so that the last one is done as early as can be: lane l gets the neighbours
 * [border[l], border[l + 1]), and a lane of speed 0 none. speed == NULL: all alike; else the speeds are 0 to 1000, and
 * not all 0. */
void hd__tree_deal(int32_t *border, int32_t items, const int32_t *speed, int32_t lanes);

/* The same for many items, where one more or less does not matter: the first item of `lane`, of `lanes` their end. */
int64_t hd__tree_share(int64_t items, const int32_t *speed, int32_t lanes, int32_t lane);

/* Cuts [0, count) into contiguous ranges whose weights are as the lanes' speeds, as nearly as can be: `lane` gets [*lo,
 * *hi). Ranges cover everything, in order, without overlap. */
void hd__tree_split(int32_t *lo, int32_t *hi, const int64_t *weight, int32_t count, const int32_t *speed, int32_t lanes,
                    int32_t lane);

/* Merges that follow the push of part `index` when parts are folded one after the other (accumulation): how many
 * pending part sums are added to it. Parts without samples are not pushed. `pending` is the stack of part indices'
 * subtrees, in units of parts; returns the merges and updates the stack. */
int32_t hd__tree_push_part(hd_subtree *pending, int32_t *depth, const hd_part *part, int32_t parts, int32_t index);

#endif
