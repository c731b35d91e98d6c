/* Batches of samples for a program with a training loop of its own: read, transformed and normalised as a session's
 * are, by worker threads that run ahead, or by the caller.
 *
 *     hd_loader *loader;
 *     hd_batch batch;
 *     hd_config_set(config, ctx, "data", "mnist");
 *     hd_config_set(config, ctx, "workers", "2");
 *     hd_loader_create(&loader, ctx, config, HD_LOADER_TRAINING, NULL);
 *     for (uint32_t epoch = 0; epoch < 3; epoch++) {
 *       hd_loader_begin(loader, ctx, epoch);
 *       while (hd_loader_next(&batch, loader, ctx) == HD_OK && batch.count > 0)
 *         learn(batch.x, batch.label, batch.count);
 *     }
 *     hd_loader_destroy(loader);
 *
 * Of the configuration it takes data, data-dir, batch (or batch-size), seed, sampler, no-shuffle, drop-last,
 * transforms, eval-transforms, on-error, workers, prefetch-factor and pin-memory. What a batch holds follows from these
 * but for the last three, from the sampler and from the epoch: never from the number of workers or from what was read
 * before.
 *
 * Workers live as long as the loader, through all epochs; what they hold ready is prefetch-factor batches each, and
 * never more. Ending a loader in the middle of an epoch is no error, and takes as long as a worker's part of a batch, a
 * sixteenth.
 *
 * Thread safety: one thread at a time for each loader. */
#ifndef HEDDLE_LOADER_H
#define HEDDLE_LOADER_H

#include <stdint.h>

#include "heddle/config.h"
#include "heddle/sampler.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_loader hd_loader;

typedef enum hd_loader_part {
  HD_LOADER_TRAINING, /* in another order in each epoch, or as the option sampler says; with `transforms` */
  HD_LOADER_TEST      /* in the order of the file; with `eval-transforms` */
} hd_loader_part;

/* What samples are like behind their transforms. */
typedef struct hd_loader_shape {
  int32_t channels, height, width;
  int32_t classes; /* of labels; 0 where samples have targets */
  int32_t outputs; /* floats of a target; 0 with labels */
  int64_t samples; /* of an epoch */
  int64_t batches; /* of an epoch; the last may be short */
  int32_t workers; /* that run */
} hd_loader_shape;

/* Valid until the next call for its loader. Sample i lies at x + i * stride, as height, width, channel: the channel is
 * the fastest. Its class number is label[i * stride], or its target begins at target + i * stride. x is aligned to 64
 * bytes, and so is every sample. */
typedef struct hd_batch {
  int64_t count; /* samples; 0: the epoch is over */
  int64_t first; /* position of the first in the epoch's order */
  int64_t stride;
  const float *x;
  const int32_t *label; /* NULL with targets */
  const float *target;  /* NULL with labels */
} hd_batch;

/* Opens the data and starts the workers. `sampler`: in whose order samples come; the loader takes it over, even if it
 * fails; NULL: as `part` says. Fails as hd_session_create does over data and transforms; HD_E_USAGE for a sampler of
 * more samples than there are, or for a batch that drop-last leaves empty. */
HD_API hd_status hd_loader_create(hd_loader **out, hd_ctx *ctx, const hd_config *config, hd_loader_part part,
                                  hd_sampler *sampler);

/* Ends the workers. NULL is allowed. */
HD_API void hd_loader_destroy(hd_loader *loader);

/* What its batches look like. */
HD_API hd_loader_shape hd_loader_shape_of(const hd_loader *loader);

/* Goes to the start of an epoch, counted from 0. The one after the last needs no waiting: workers are there already. */
HD_API hd_status hd_loader_begin(hd_loader *loader, hd_ctx *ctx, uint32_t epoch);

/* The next batch of the epoch, of epoch 0 without hd_loader_begin. A failure names the sample's file; the call after
 * that goes on with the next batch. */
HD_API hd_status hd_loader_next(hd_batch *batch, hd_loader *loader, hd_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
