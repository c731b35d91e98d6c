/* Feeds samples to the executor: the order of an epoch, gathering and normalising.
 *
 * A feed draws from all samples of a data set or, after a split, from some of them. The order of an epoch depends on
 * the seed and the epoch alone: positions in the feed sorted by (Philox key, position). Pixels are divided by 255 and
 * normalised with the training set's mean and standard deviation, as one FMA per pixel. */
#ifndef HD_TRAIN_FEED_H
#define HD_TRAIN_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "data/dataset.h"
#include "exec/exec.h"
#include "kernel/kernel.h"

enum { HD_FEED_MAX_CHANNELS = 4 };

typedef struct hd_feed {
  const hd_dataset *data;
  const hd_kernels *kernels;
  float scale[HD_FEED_MAX_CHANNELS], shift[HD_FEED_MAX_CHANNELS];
  int64_t count;     /* samples */
  int64_t batch;     /* of training: where in the order a lane comes next */
  uint32_t *members; /* which ones, ascending; NULL: all of the data set */
  uint32_t *order;   /* the current epoch's samples, NULL: file order */
  uint64_t *scratch; /* for sorting */
} hd_feed;

/* Prepares for one split. `shuffle` makes room for an order. mean and std are per channel, of pixels in [0, 1]. */
hd_status hd__feed_init(hd_feed *feed, hd_ctx *ctx, const hd_dataset *data, const hd_kernels *kernels,
                        const double *mean, const double *std, bool shuffle);
void hd__feed_fini(hd_feed *feed);

/* Moves the last `share` (rounded to whole samples) of a permutation of a feed's samples by the seed to `held_out`,
 * which gives them in file order. HD_E_USAGE if one of the two would be left without samples. */
hd_status hd__feed_split(hd_feed *held_out, hd_feed *feed, hd_ctx *ctx, double share, uint64_t seed);

/* Orders the samples for an epoch. */
void hd__feed_shuffle(hd_feed *feed, uint64_t seed, uint32_t epoch);

/* Copies samples at positions [first, first + rows) of the order and their targets; class labels become numbers where
 * floats are wanted. */
void hd__feed_fetch(const hd_feed *feed, int64_t first, int64_t rows, const hd_slots *to);

/* The sample at a position of the order. */
int64_t hd__feed_sample(const hd_feed *feed, int64_t position);

#endif
