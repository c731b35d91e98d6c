/* Statistics of a data set: mean and standard deviation per channel, and checksums.
 *
 * Bytes are counted in integers, as pixels in [0, 1]. Floats are added in double in one fixed order: differences to
 * the set's first element, and their squares, down a sample's channel, and then sample by sample. Both are rounded
 * to 4 decimals; a standard deviation of 0 becomes 1. The results are the same on every machine.
 *
 * A checksum is XXH3-64 of a split's samples (bytes; floats as little-endian) or of its labels (bytes, where all are
 * below 256, else little-endian 32-bit numbers; targets as big-endian floats): one set has the same in every format. */
#pragma once

#include "data/split/split.h"

typedef struct hd_statistics {
  double mean[HD_DATA_MAX_CHANNELS], std[HD_DATA_MAX_CHANNELS]; /* of the training set */
  uint64_t checksum[HD_DATA_PARTS];
} hd_statistics;

/* Reads every sample once. */
hd_status hd__statistics_measure(hd_statistics *out, hd_ctx *ctx, const hd_split *train, const hd_split *test);

/* The checksums of a split that is in memory, of its samples, and of its labels without weights. */
uint64_t hd__samples_checksum(const hd_split *split);
hd_status hd__labels_checksum(uint64_t *out, hd_ctx *ctx, const hd_split *split);

/* The mean and standard deviation of one channel of a split that is in memory. */
void hd__channel_statistics(double *mean, double *std, const hd_split *split, int channel);

/* Walks over a split that is not in memory: samples are decoded by all threads, a block at a time, and passed on one
 * by one, in order. */

/* Called with each sample in turn; a failure ends the walk. */
typedef hd_status hd_visit_fn(void *self, hd_ctx *ctx, int64_t sample, const void *elems, const int size[2]);

/* An unreadable sample ends the walk, unless it is skipped: the first in the split's order is reported. visit NULL: all
 * samples are only read, for their labels. */
hd_status hd__split_walk(hd_ctx *ctx, const hd_split *split, hd_visit_fn *visit, void *self);

/* Some labels of the windows of a text, one after the other. */
typedef void hd_labels_fn(void *self, const int32_t *label, int32_t count);

/* Visits the tokens that follow others in windows side by side; the last one of training is read on to the end of its
 * text, which is less than two windows away. */
void hd__split_walk_labels(const hd_split *split, hd_labels_fn *visit, void *self);
