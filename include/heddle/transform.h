/* Transforms, applied to samples before the model.
 *
 *     hd_pipeline *p;
 *     const hd_pipeline_input input = {.struct_bytes = sizeof input, .channels = 1, .height = 28, .width = 28,
 *                                      .bytes = 1, .classes = 10, .mean = &mean, .std = &std};
 *     hd_pipeline_create(&p, ctx, "[{random_crop: {size: 28, padding: 2}}, to_float, normalise]", &input,
 *                        HD_PIPELINE_TRAINING);
 *     void *scratch = aligned_alloc(64, hd_pipeline_shape_of(p)->scratch_bytes);       // one per thread
 *     hd_sample_key key = {.seed = 1, .epoch = 0, .position = 17};
 *     hd_pipeline_apply(image, NULL, p, &sample, NULL, &key, scratch);
 *     hd_pipeline_destroy(p);
 *
 * A list of transforms is YAML, `[to_float, {normalise: {mean: 0.1, std: 0.3}}]` or a line each; heddle(1) lists
 * them with their parameters. hd_pipeline_create checks everything and hd_pipeline_apply cannot fail.
 *
 * Random values depend on the key alone: on seed, epoch, the sample's position in the epoch's order (of
 * alternating_flip: its number in the data set), and the transform's place in the list. A stream of samples is
 * therefore independent of threads and of the order of calls. Results have the same bits with every compiler and
 * instruction set of one architecture.
 *
 * A transform of the program joins the list by a name of its own: hd_transform_add.
 *
 * A session takes its lists from the options `transforms` and `eval-transforms` (heddle/config.h). */
#ifndef HEDDLE_TRANSFORM_H
#define HEDDLE_TRANSFORM_H

#include <stddef.h>
#include <stdint.h>

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_pipeline hd_pipeline;

typedef enum hd_pipeline_mode {
  HD_PIPELINE_TRAINING,
  HD_PIPELINE_EVALUATION, /* without random transforms; a random crop takes the middle */
  HD_PIPELINE_FITTED      /* only to_float and normalise, for images of the model's size */
} hd_pipeline_mode;

/* The kind of samples. */
typedef struct hd_pipeline_input {
  size_t struct_bytes;      /* sizeof(hd_pipeline_input) */
  int32_t channels;         /* 1 to 64 */
  int32_t height, width;    /* 1 to 65535; both 0: images of any size, which the list has to resize or crop */
  int32_t bytes;            /* 1: uint8_t, 0 to 255; 0: floats, as they are */
  int32_t classes;          /* of labels; 0: samples have float targets */
  int32_t outputs;          /* floats of a target; 0 with labels */
  const double *mean, *std; /* per channel, of pixels in [0, 1]: defaults of `normalise`; may be NULL */
} hd_pipeline_input;

/* The kind of results. Images lie as height, width, channel; the channel varies fastest. */
typedef struct hd_pipeline_shape {
  int32_t channels, height, width;
  int32_t targets; /* floats of a target; 0: the label stays, and no target is written */
  int32_t partner; /* 1: samples are mixed with another one, given by hd_pipeline_partner */
  size_t scratch_bytes;
} hd_pipeline_shape;

/* One sample, as planes: channel, row, column. */
typedef struct hd_sample {
  const void *pixels;
  int32_t height, width; /* read if the pipeline takes any size */
  int32_t label;         /* read if there are classes */
  const float *target;   /* read if there are outputs */
  int64_t number;        /* in the data set; read by alternating_flip */
} hd_sample;

/* Identifies a sample for random values. */
typedef struct hd_sample_key {
  uint64_t seed;
  uint32_t epoch;
  int64_t position; /* in the epoch's order */
  int64_t count;    /* samples of that order; read if the pipeline mixes */
} hd_sample_key;

/* A sample on its way through a transform of the program. */
typedef struct hd_custom_transform_call {
  float *image; /* to be changed in place: planes, element (c, y, x) at (c * height + y) * width + x */
  int32_t channels, height, width;
  uint32_t random[4]; /* drawn for seed, epoch, position and place in the list */
  void *user;         /* the transform's */
} hd_custom_transform_call;

typedef struct hd_custom_transform {
  size_t struct_bytes; /* sizeof(hd_custom_transform) */
  const char *name;    /* its name in lists: 1 to 32 letters, digits and '_', not a built-in one */
  int32_t random;      /* 1: evaluation leaves it out */
  void (*apply)(const hd_custom_transform_call *call);
  void *user; /* passed on */
} hd_custom_transform;

enum { HD_CUSTOM_TRANSFORMS = 16 /* of one context */ };

/* Registers a transform for lists that are read with this context. It sees floats: pixels in [0, 1] behind to_float,
 * and normalised numbers behind normalise. What it does to a sample must depend on that sample and `random` alone.
 * HD_E_USAGE: a name that is taken or unfit, no `apply`, more than HD_CUSTOM_TRANSFORMS.
 *
 * Ownership: the struct is copied; what it points to must outlive the context. Thread safety: `apply` is called by
 * several threads at once, each for a different sample; it cannot fail. */
HD_API hd_status hd_transform_add(hd_ctx *ctx, const hd_custom_transform *transform);

/* Makes a pipeline from a list in YAML, for samples of this kind. HD_E_FORMAT for a list that is invalid or does not
 * fit them: "transforms:LINE: expected, found, remedy". The caller owns it. */
HD_API hd_status hd_pipeline_create(hd_pipeline **out, hd_ctx *ctx, const char *yaml, const hd_pipeline_input *input,
                                    hd_pipeline_mode mode);

/* NULL is allowed. */
HD_API void hd_pipeline_destroy(hd_pipeline *pipeline);

/* Valid as long as the pipeline. */
HD_API const hd_pipeline_shape *hd_pipeline_shape_of(const hd_pipeline *pipeline);

/* The position of the sample that the one at `position` is mixed with: the next, behind the last the first. */
HD_API int64_t hd_pipeline_partner(int64_t position, int64_t count);

/* Writes height * width * channels floats and, if the shape has targets, that many targets (else `target` may be
 * NULL). `partner` is the partner's sample, NULL unless the shape asks for one. `scratch` has the shape's
 * scratch_bytes, aligned to 64, and is not shared between concurrent calls.
 *
 * Thread safety: any number of threads may apply one pipeline at once. */
HD_API void hd_pipeline_apply(float *image, float *target, const hd_pipeline *pipeline, const hd_sample *sample,
                              const hd_sample *partner, const hd_sample_key *key, void *scratch);

#ifdef __cplusplus
}
#endif
#endif
