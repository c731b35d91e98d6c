/* A step of a pipeline: one transform of a list with its parameters, and what its kind needs to read and fit them. For
 * the files of the transforms only.
 *
 * A kind of transform is a row of the table in transform_list.c: its names, the keys of its parameters, and three
 * functions (transform_kinds.h). `read` checks the parameters, `fit` the shape that comes in (and says what goes out),
 * `apply` works on a sample. to_float and normalise are deferred, and applied in the next pass over the pixels that
 * permits it: usually the one that writes the result. */
#pragma once

#include <stdbool.h>

#include "base/yaml_bind.h"
#include "heddle/transform.h"

enum { HD_TRANSFORM_MAX_CHANNELS = 64, HD_TRANSFORM_MAX_KEYS = 8, HD_TRANSFORM_MARGIN = 3 /* of planes to sample */ };

/* The unit of pixels. */
typedef enum hd_pixel_unit { HD_PIXEL_255, HD_PIXEL_1, HD_PIXEL_FREE /* normalised */ } hd_pixel_unit;

/* An image at a place in the list, as far as it is known when fitting. */
typedef struct hd_image_shape {
  int32_t channels, height, width; /* 0 x 0: any size */
  bool bytes;
  hd_pixel_unit unit;
} hd_image_shape;

/* x / divisor, minus mean, / std. */
typedef struct hd_pixel_scale {
  bool given;
  double divisor;
  double mean[HD_TRANSFORM_MAX_CHANNELS], std[HD_TRANSFORM_MAX_CHANNELS];
} hd_pixel_scale;

typedef enum hd_border { HD_BORDER_CONSTANT, HD_BORDER_REFLECT, HD_BORDER_EDGE } hd_border;

typedef struct hd_transform_step hd_transform_step;
typedef struct hd_transform_run hd_transform_run;

typedef struct hd_range {
  double low, high;
} hd_range;

/* Parameters of all kinds. */
struct hd_transform_step {
  const struct hd_transform *row;
  const hd_yaml_node *where; /* while the pipeline is created */
  const hd_yaml_node *param; /* likewise: the mapping of parameters, or the one value, or NULL */
  uint32_t place;            /* index in the list: part of the key of random numbers */
  bool middle;               /* a random crop in evaluation */
  bool nearest, antialias;
  int32_t size[2], padding[2];
  hd_border border;
  double fill, p;
  hd_range degrees, scale, shear[2], ratio; /* degrees counter-clockwise */
  double translate[2];                      /* at most, as a fraction of width and height */
  hd_range brightness, contrast, saturation, hue;
  double alpha, sigma;
  float *weight; /* of the Gaussian, radius * 2 + 1; owned */
  int32_t radius;
  bool noise;    /* erase */
  bool computed; /* normalise: by the training set's statistics */
  double mean[HD_TRANSFORM_MAX_CHANNELS], std[HD_TRANSFORM_MAX_CHANNELS];
  int32_t means, stds; /* given numbers */
  int32_t classes;
  float on, off;                                                         /* one_hot */
  float by[HD_TRANSFORM_MAX_CHANNELS], shift[HD_TRANSFORM_MAX_CHANNELS]; /* scaling: x * by + shift */
  hd_image_shape in, out;
};

/* Input and output of `fit`. */
typedef struct hd_transform_fit {
  hd_ctx *ctx;
  const hd_pipeline_input *input;
  hd_image_shape shape; /* the input's; `fit` sets the output's */
  hd_pixel_scale scale; /* deferred */
  int32_t targets, classes;
  bool mixes;
  size_t work_bytes; /* the most that a step needs */
} hd_transform_fit;

/* Effect of a transform on pixels. Deferred scaling is applied before one that computes or fills. */
typedef enum hd_transform_touch {
  HD_TOUCH_NOTHING,
  HD_TOUCH_MOVES,  /* each pixel is a copy of an input pixel */
  HD_TOUCH_CROPS,  /* likewise, unless it pads */
  HD_TOUCH_SCALES, /* is deferred */
  HD_TOUCH_COMPUTES,
  HD_TOUCH_RESIZES /* computes, and accepts images of any size */
} hd_transform_touch;

typedef struct hd_transform {
  const char *name, *torchvision;          /* both are accepted, the first is written */
  const char *keys[HD_TRANSFORM_MAX_KEYS]; /* a single value stands for the first */
  int required;                            /* the first must be given */
  enum {
    HD_TRANSFORM_FIXED,
    HD_TRANSFORM_RANDOM,
    HD_TRANSFORM_MIDDLE
  } kind; /* in evaluation: kept, left out, middle */
  hd_transform_touch touch;
  hd_status (*read)(hd_transform_step *step, hd_ctx *ctx);
  hd_status (*fit)(hd_transform_step *step, hd_transform_fit *fit);
  void (*apply)(const hd_transform_step *step, hd_transform_run *run);
} hd_transform;

/* ---- Reading ---- */

/* A parameter's node, NULL if it is not given. */
const hd_yaml_node *hd__step_param(const hd_transform_step *step, const char *key);

/* Whole or real numbers; a missing one leaves the value unchanged. */
hd_status hd__step_number(double *out, const hd_transform_step *step, hd_ctx *ctx, const char *key, double min,
                          double max);
hd_status hd__step_flag(bool *out, const hd_transform_step *step, hd_ctx *ctx, const char *key);

/* One number for both sides, or [height, width]. */
hd_status hd__step_sides(int32_t out[2], const hd_transform_step *step, hd_ctx *ctx, const char *key, int64_t min,
                         int64_t max);

/* [low, high], or one number x for [middle - x, middle + x], clamped to min. */
hd_status hd__step_range(hd_range *out, const hd_transform_step *step, hd_ctx *ctx, const char *key, double middle,
                         double min, double max);

/* The border of padding_mode and fill. */
hd_status hd__step_border(hd_transform_step *step, hd_ctx *ctx);

/* bilinear or nearest. */
hd_status hd__step_interpolation(hd_transform_step *step, hd_ctx *ctx);

/* ---- Fitting ---- */

/* Checks that a fill value is valid in the pixels' unit. */
hd_status hd__fit_fill(const hd_transform_step *step, const hd_transform_fit *fit, double value, const char *key);

void hd__fit_work(hd_transform_fit *fit, size_t bytes);
