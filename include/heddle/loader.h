/* Batches of samples for custom training loops: read, transformed and normalised as in a session, by worker threads
 * that run ahead or by the caller.
 *
 *     hd_loader *loader;
 *     const hd_batch *batch;
 *     hd_config_set_text(config, ctx, HD_OPT_DATA, "mnist");
 *     hd_config_set_int(config, ctx, HD_OPT_WORKERS, 2);
 *     hd_loader_create(&loader, ctx, config, HD_LOADER_TRAINING, NULL);
 *     for (uint32_t epoch = 0; epoch < 3; epoch++) {
 *       hd_loader_begin(loader, ctx, epoch);
 *       while (hd_loader_next(&batch, loader, ctx) == HD_OK && batch->count > 0)
 *         learn(batch->x, batch->label, batch->count);
 *     }
 *     hd_loader_destroy(loader);
 *
 * It uses the configuration's data, data-dir, batch (or batch-size), seed, sampler, no-shuffle, drop-last,
 * transforms, eval-transforms, on-error, workers, prefetch-factor and pin-memory. The content of a batch depends on
 * these options except the last three, on the sampler and on the epoch: never on the number of workers or on what
 * was read before.
 *
 * Workers run as long as the loader exists, through all epochs; each holds at most prefetch-factor batches ready. A
 * loader may be destroyed in the middle of an epoch; that waits for the range of a batch, a sixteenth, that a worker
 * is filling.
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
  HD_LOADER_TRAINING, /* a new order in each epoch, or as the option sampler sets; with `transforms` */
  HD_LOADER_TEST      /* in the order of the file; with `eval-transforms` */
} hd_loader_part;

/* The shape of samples after their transforms. */
typedef struct hd_loader_shape {
  int32_t channels, height, width;
  int32_t classes; /* of labels; 0 where samples have targets */
  int32_t outputs; /* floats of a target; 0 with labels */
  int64_t samples; /* of an epoch, without those that drop-last leaves out */
  int64_t batches; /* of an epoch; the last may be short */
  int32_t workers; /* running */
} hd_loader_shape;

/* A batch is valid until the next call for its loader. Sample i lies at x + i * stride, as height, width, channel
 * (the channel varies fastest). Its class number is label[i * stride], or its target begins at target + i * stride.
 * x is aligned to 64 bytes, and so is every sample. */
typedef struct hd_batch {
  int64_t count; /* samples; 0: the epoch is over */
  int64_t first; /* position of the first in the epoch's order */
  int64_t stride;
  const float *x;
  const int32_t *label; /* NULL with targets */
  const float *target;  /* NULL with labels */
} hd_batch;

/* Opens the data and starts the workers. `sampler`: the order of samples; ownership passes to the loader, even on
 * failure; NULL: the order of `part`. Fails as hd_session_create does for data and transforms; HD_E_USAGE for a
 * sampler of more samples than there are, or if drop-last leaves no batch. */
HD_API hd_status hd_loader_create(hd_loader **out, hd_ctx *ctx, const hd_config *config, hd_loader_part part,
                                  hd_sampler *sampler);

/* Ends the workers. NULL is allowed. */
HD_API void hd_loader_destroy(hd_loader *loader);

/* The shape of its batches; valid as long as the loader. */
HD_API const hd_loader_shape *hd_loader_shape_of(const hd_loader *loader);

/* Goes to the start of an epoch, counted from 0. Going to the next epoch does not wait: workers have already begun
 * it. HD_E_USAGE in a child by fork of the process that created a loader with workers. */
HD_API hd_status hd_loader_begin(hd_loader *loader, hd_ctx *ctx, uint32_t epoch);

/* The next batch of the epoch, of epoch 0 without hd_loader_begin; owned by the loader. A failure names the sample's
 * file; the next call returns the batch after it. */
HD_API hd_status hd_loader_next(const hd_batch **out, hd_loader *loader, hd_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
