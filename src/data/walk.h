/* Going through a split that is not in memory: samples are decoded by all threads, a block at a time, and handed on one
 * by one, in order. */
#ifndef HD_DATA_WALK_H
#define HD_DATA_WALK_H

#include "data/dataset.h"

/* Gets each sample in turn; may fail, which ends the walk. */
typedef hd_status hd_visit_fn(void *self, hd_ctx *ctx, int64_t sample, const void *elems, const int size[2]);

/* A sample that cannot be had ends the walk, unless it is skipped: the first in the split's order is told. */
hd_status hd__walk(hd_ctx *ctx, const hd_dataset *split, hd_visit_fn *visit, void *self);

#endif
