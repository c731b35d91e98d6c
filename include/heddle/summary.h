/* Layers and costs of a network, without running a step and, unless there are transforms, without reading data.
 *
 *     hd_summary *summary;
 *     hd_summary_create(&summary, ctx, config, NULL);
 *     printf("%lld parameters\n", (long long)summary->params);
 *     hd_summary_destroy(summary);
 *
 * MACs (multiply-adds) and FLOPs are those of one sample, counted as dense libraries do: a convolution or a linear
 * layer has two FLOPs a multiply-add and none for its bias, other operations one for each addition, comparison,
 * exponential and so on. Memory is that of a training run with the configuration's batch, threads and optimizer.
 *
 * Thread safety: a summary is immutable; any thread may read it. */
#ifndef HEDDLE_SUMMARY_H
#define HEDDLE_SUMMARY_H

#include <stdint.h>

#include "heddle/config.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One layer of the model file, in order. */
typedef struct hd_summary_layer {
  const char *name, *op;
  int32_t rank, shape[4]; /* of its output, without the samples: channels, height, width; or the length */
  int64_t params, trainable;
  int64_t macs, flops_fwd, flops_bwd; /* per sample in training; backward: of the required gradients */
} hd_summary_layer;

/* What a session allocates for a training run, exact in bytes (hd_report.memory_bytes). Not included: the data set,
 * the program, its libraries, thread stacks; nor, without transforms, the buffers in which uncached pictures are
 * decoded. */
typedef struct hd_memory {
  int64_t weights_bytes;     /* two versions */
  int64_t optimizer_bytes;   /* two versions of its state */
  int64_t packed_bytes;      /* copies of weights in the kernels' layout */
  int64_t activations_bytes; /* of all threads, with their gradients */
  int64_t samples_bytes;     /* of all threads, if there are transforms */
  int64_t gradients_bytes;   /* partial sums of parameter gradients */
  int64_t evaluation_bytes;
  int64_t checkpoint_bytes; /* copies that are saved while training continues */
  int64_t other_bytes;      /* bookkeeping, and rounding to whole pages */
  int64_t total_bytes;
} hd_memory;

/* A stage of a network that is cut into several (the option stages). */
typedef struct hd_summary_stage {
  const char *first, *last; /* its layers */
  int64_t params, flops;    /* flops: of one sample, forward and backward */
  int32_t threads;
  int64_t weights_bytes;     /* two versions, with the optimizer's state */
  int64_t activations_bytes; /* of its threads alone; what another stage reads is in memory that all share */
} hd_summary_stage;

typedef struct hd_summary {
  const char *model, *isa;
  hd_optimizer_choice optimizer;
  int32_t input[3]; /* channels, height, width */
  int64_t batch, shards, accumulate;
  int32_t threads;
  int32_t layer_count;
  hd_summary_layer *layers;
  int64_t params, trainable, macs, flops_fwd, flops_bwd; /* of all layers */
  hd_memory memory;
  int32_t edge_count;
  const int32_t (*edges)[2]; /* a layer, and one that reads its output; -1: the network's input */
  int32_t stage_count;       /* 0: the network is not cut */
  hd_summary_stage *stages;
  /* What a step and an evaluation do, as lines of text for people: the graph's nodes, the kernel calls of each phase
   * with the places of their outputs, the parameters, and the bytes of a sample. The form may change. */
  char *plan, *evaluation_plan;
} hd_summary;

/* It uses the configuration's model, recipe, batch, shards, accumulate, threads, optimizer, momentum, centered,
 * clip-grad-norm, precision and stages; transforms and eval-transforms, and with them data, data-dir, cache, on-error
 * and val-split: the memory of transforms depends on the samples' shape, so the data is opened then, as by a session.
 * It is opened too if it is given and the model leaves its input or outputs to it; without both these are 1x28x28 and
 * 10. `input` (channels, height, width), unless NULL, replaces the model's input. The caller owns the summary with
 * everything it points to, and destroys it with hd_summary_destroy (NULL allowed). Errors are those of a session:
 * HD_E_FORMAT and HD_E_SHAPE name the model's file and line. */
HD_API hd_status hd_summary_create(hd_summary **out, hd_ctx *ctx, const hd_config *config, const int32_t input[3]);
HD_API void hd_summary_destroy(hd_summary *summary);

#ifdef __cplusplus
}
#endif
#endif
