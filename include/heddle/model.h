/* Building a network from C, layer by layer.
 *
 *     hd_model *model;
 *     hd_model_create(&model, ctx, "tiny", 1, 28, 28);
 *     hd_model_add(model, ctx, "conv1", "op: conv2d, out: %d, kernel: 3", width);
 *     hd_model_add(model, ctx, "relu1", "op: relu");
 *     hd_model_add(model, ctx, "flat", "op: flatten");
 *     hd_model_add(model, ctx, "fc", "op: linear, out: 10");
 *     hd_config_set_text(config, ctx, HD_OPT_MODEL, hd_model_text(model));
 *
 * A layer is described as in a model file, so every operation and setting of files is available, and a checkpoint
 * contains the description of its network. A layer reads the previous one unless `from: NAME` or `from: [A, B]` is
 * given; `input` is the network's input. The last layer computes the scores.
 *
 * Thread safety: a model may be used by one thread at a time. */
#ifndef HEDDLE_MODEL_H
#define HEDDLE_MODEL_H

#include <stdint.h>

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HD_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define HD_PRINTF(text, first)
#endif

typedef struct hd_model hd_model;

/* A model without layers for samples of channels x height x width; a layer may have `out: classes`, as many outputs as
 * the data of the run ask for (docs/model-files.md), which hd_model_check counts as 10. `name` goes into reports and
 * names run folders: letters, digits, '-' and '_' (else HD_E_USAGE). The caller owns it and ends it with
 * hd_model_destroy (NULL allowed). */
HD_API hd_status hd_model_create(hd_model **out, hd_ctx *ctx, const char *name, int32_t channels, int32_t height,
                                 int32_t width);
HD_API void hd_model_destroy(hd_model *model);

/* Adds a layer; `description` is a printf format. It is checked with the whole model, by hd_model_check or when the
 * model is used. HD_E_USAGE: the name is taken or has other characters than letters, digits, '-' and '_'. */
HD_API hd_status hd_model_add(hd_model *model, hd_ctx *ctx, const char *name, const char *description, ...)
    HD_PRINTF(4, 5);

/* Checks the whole network: HD_E_FORMAT or HD_E_SHAPE, "model:LINE: ...", where line 3 + n is layer n. *parameters (may
 * be NULL) gets the number of its parameters. */
HD_API hd_status hd_model_check(int64_t *parameters, const hd_model *model, hd_ctx *ctx);

/* The description as YAML, in the format of a model file. Owned by the model, valid until it changes. */
HD_API const char *hd_model_text(const hd_model *model);

/* A built-in model, which is a model file inside the library (the option `model` takes its name). */
typedef struct hd_built_in_model {
  char name[32];
  const char *text; /* the file: valid for ever */
} hd_built_in_model;

/* Fills in the built-in model of this index, from 0 on, in the order of their names. Returns 1; or 0 behind the last,
 * where *out stays as it was. Any thread may call it. */
HD_API int hd_built_in_model_at(hd_built_in_model *out, int32_t index);

#ifdef __cplusplus
}
#endif
#endif
