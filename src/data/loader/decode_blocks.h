/* Walks over a split that is not in memory: samples are decoded by all threads, a block at a time, and passed on one
 * by one, in order. */
#ifndef HD_DATA_LOADER_DECODE_BLOCKS_H
#define HD_DATA_LOADER_DECODE_BLOCKS_H

#include "data/loader/dataset_split.h"

/* Called with each sample in turn; a failure ends the walk. */
typedef hd_status hd_visit_fn(void *self, hd_ctx *ctx, int64_t sample, const void *elems, const int size[2]);

/* An unreadable sample ends the walk, unless it is skipped: the first in the split's order is reported. */
hd_status hd__walk(hd_ctx *ctx, const hd_dataset *split, hd_visit_fn *visit, void *self);

#endif
