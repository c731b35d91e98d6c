/* A feed: samples of a split in the order of an epoch, as a network reads them.
 *
 * It holds all samples of the split or, if some are held out for validation, the others, in file order; a sampler draws
 * a new order of them for each epoch. The orders of two neighbouring epochs are kept, since loader workers run ahead of
 * the threads, by less than an epoch. Pixels are divided by 255, floats are not, and both are normalised with the
 * training set's mean and standard deviation, as one FMA each; or samples go through a list of transforms, which draw
 * by seed, epoch and position. Samples in memory are read there; others are decoded by the thread that reads them. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/tools_api.h"
#include "base/status.h"
#include "data/dataset/dataset.h"
#include "data/loader/sampler.h"
#include "data/transforms/transform.h"
#include "exec/executor.h"
#include "kernel/kernel.h"
#include "data/feed/sample_views.h"
#include "data/feed/target_scale.h"

/* What a network's first layers make of each sample, kept by the caller: `elems` numbers for each sample of the feed in
 * file order, with views one view after the other. NULL: samples are read. */
typedef struct hd_kept_values {
  const float *memory;
  int64_t elems;
} hd_kept_values;

typedef struct hd_feed {
  const hd_split *split;
  const double *mean, *std; /* per channel, of pixels in [0, 1] or of floats; the caller's */
  const hd_kernels *kernels;
  float scale[HD_DATA_MAX_CHANNELS], shift[HD_DATA_MAX_CHANNELS];
  float left;        /* the shift that samples come without */
  int64_t offset[2]; /* of a text's windows: in the two epochs whose orders are kept */
  int64_t count;     /* positions of an epoch */
  int64_t batch;     /* of training: the distance in the order to a thread's next sample */
  uint32_t *members; /* sample numbers, ascending; NULL: all of the split */

  hd_pipeline *pipeline; /* of transforms; NULL: the FMA alone */
  void *mask_room;       /* with both masks and transforms: scratch of the thread that asks for masks alone */
  const hd_view *view;   /* the view that is read; NULL: samples as they are, and no room for views */
  uint64_t seed;         /* of their draws */
  int64_t views;         /* fixed ones of each sample: an epoch has the next one of each; 0: new draws in every epoch */
  hd_kept_values features;        /* in place of samples */
  const hd_target_scale *targets; /* the scale of numbers to predict; NULL: as they are */

  hd_sampler *sampler; /* NULL: file order */
  uint32_t *order[2];  /* of an even and of an odd epoch */
  int64_t epoch[2];    /* the epochs of these orders, -1: none */
  uint64_t *scratch;
  pthread_mutex_t lock; /* held while an order is made */
} hd_feed;

/* Initialises a feed of one split, in file order. mean and std, per channel, must outlive it. */
hd_status hd__feed_init(hd_feed *feed, hd_ctx *ctx, const hd_split *split, const hd_kernels *kernels,
                        const double *mean, const double *std);
void hd__feed_fini(hd_feed *feed);

/* A feed that ends with its scope. */
#define HD_FEED_OWNED HD_RELEASED(hd__feed_fini) hd_feed

/* Moves the last `share` (rounded to whole samples) of a permutation of a feed's samples by the seed to `validation`,
 * which has them in file order. HD_E_USAGE if one of the two would be left without samples. */
hd_status hd__feed_hold_out(hd_feed *validation, hd_feed *feed, hd_ctx *ctx, double share, uint64_t seed);

/* Moves the validation set that came with the data, the last samples of the split, to a feed. */
hd_status hd__feed_take_validation(hd_feed *validation, hd_feed *feed, hd_ctx *ctx);

/* From now on the sampler, which the feed takes over, draws from the feed's samples. There is no order before
 * hd__feed_shuffle. */
hd_status hd__feed_sample_by(hd_feed *feed, hd_ctx *ctx, hd_sampler *sampler);

/* The shift that the last pass adds to each element, after the transforms; false if samples have several channels, or
 * if it is so large that a plan that adds it would lose digits of a sum. */
bool hd__feed_shift(float *shift, hd_feed *feed);

/* The last pass over a sample: x = fma(element, scale, shift), of each channel. `left` is what a plan adds to x. */
typedef struct hd_affine {
  const float *scale, *shift; /* owned by the feed */
  float left;
} hd_affine;

void hd__feed_affine(hd_affine *out, hd_feed *feed);

/* Whether samples come without it from now on, for a plan that adds it. */
void hd__feed_leave_shift(hd_feed *feed, bool leaves);

/* The samples in the form that a device gathers by itself; false where threads must gather: samples are decoded,
 * transformed, have weights, or other targets than class numbers. The feed must outlive *out. */
bool hd__feed_table(hd_sample_table *out, const hd_feed *feed);

/* The size of the scratch in hd_slots that a thread needs to read. */
int64_t hd__feed_scratch_bytes(const hd_feed *feed);

/* The split as a model reads it after the transforms: its shape, and whether targets are labels or numbers. Pixels
 * stay those before the transforms. */
hd_split hd__feed_seen(const hd_feed *feed);

/* Makes an epoch's order unless it exists, and returns whether it did; the order of the epoch two before is dropped.
 * Any thread may call it. */
HD_TOOLS_API bool hd__feed_shuffle(hd_feed *feed, uint64_t seed, uint32_t epoch);

/* The sample at a position of an epoch. */
int64_t hd__feed_sample(const hd_feed *feed, uint32_t epoch, int64_t position);

/* The labels of some places of the window at a position of an epoch; -1: none. */
void hd__feed_labels(int32_t *label, const hd_feed *feed, uint32_t epoch, int64_t position, int32_t first,
                     int32_t count);

/* Where pixels have classes: those of the sample at a position of an epoch, height x width of hd__feed_seen. They are
 * the split's, or in `room`, of hd__feed_scratch_bytes, after transforms. */
const uint8_t *hd__feed_mask(const hd_feed *feed, uint32_t epoch, int64_t position, void *room);

/* Whether a sample is another one each time it is read. */
bool hd__feed_draws(const hd_feed *feed);

/* Copies samples at positions [first, first + rows) of an epoch and their targets, unless to->target is NULL; class
 * labels become numbers where floats are expected. Or, if to->sample is set, writes their indices. Fails as reading a
 * sample does. */
hd_status hd__feed_read(const hd_feed *feed, hd_ctx *ctx, uint32_t epoch, int64_t first, int64_t rows,
                        const hd_slots *to);

/* The target of the sample at a position of an evaluation, as hd__feed_read writes it; reads no pixels. */
void hd__feed_target(void *target, const hd_feed *feed, int64_t position, int32_t outputs);

/* The steps of an evaluation of all its samples. */
hd_step_source hd__feed_source(hd_feed *feed);
