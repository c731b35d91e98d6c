/* A step of a pipeline: one transform of a list with its parameters, and helpers to read and fit them. For the files of
 * the transforms only.
 *
 * A kind of transform is a row of the table in transform_list.c: its names, its parameters, by which they are read and
 * written, and three functions: `check` reads what parameters say together, `fit` checks the shape that comes in (and
 * says what goes out), `apply` works on a sample. to_float and normalise are deferred, and applied in the next pass
 * over the pixels that permits it: usually the one that writes the result. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/yaml_bind.h"
#include "heddle/transform.h"
#include "kernel/kernel.h"

enum {
  HD_TRANSFORM_MAX_CHANNELS = 64,
  HD_TRANSFORM_MAX_PARAMS = 7,
  HD_TRANSFORM_MARGIN = 3 /* of planes to sample */,
  HD_TRANSFORM_MAX_NAME = 32 /* of a custom one */
};

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

/* What several transforms have: how pixels are sampled; what takes the place of a rectangle. */
typedef struct hd_warp {
  int nearest; /* 1: instead of bilinear */
  double fill;
} hd_warp;

typedef struct hd_patch {
  bool noise; /* instead of `fill` */
  double fill;
} hd_patch;

/* A step: what all have, then the parameters of its transform and what `check` and `fit` make of them. */
struct hd_transform_step {
  const struct hd_transform *row; /* tells which member of `is` it has */
  const hd_yaml_node *where;      /* while the pipeline is created */
  const hd_yaml_node *param;      /* likewise: the mapping of parameters, or the one value, or NULL */
  uint32_t place;                 /* index in the list: part of the key of random numbers */
  bool middle;                    /* a random crop in evaluation */
  double p;                       /* the probability that it is applied, of those that have one */
  void *memory;                   /* what `check` allocated, or NULL */
  hd_image_shape in, out;
  union {
    struct hd_scaling_step {
      float by[HD_TRANSFORM_MAX_CHANNELS], shift[HD_TRANSFORM_MAX_CHANNELS]; /* x * by + shift */
    } scaling;
    struct hd_normalise_step {
      bool computed; /* by the training set's statistics */
      double mean[HD_TRANSFORM_MAX_CHANNELS], std[HD_TRANSFORM_MAX_CHANNELS];
      int32_t means, stds; /* given numbers */
    } normalise;
    struct hd_resize_step {
      int32_t size[2];
      int nearest; /* 1: instead of bilinear */
      bool antialias;
      hd_range scale, ratio; /* random_resized_crop: of the area; height to width, or the other way round */
    } resize;
    struct hd_crop_step {
      int32_t size[2], padding[2]; /* pad has no size, centre_crop no padding */
      int border;                  /* hd_border */
      double fill;
    } crop;
    struct hd_rotation_step {
      hd_warp warp;
      hd_range degrees; /* counter-clockwise */
    } rotation;
    struct hd_affine_step {
      hd_warp warp;
      hd_range degrees, scale, shear[2];
      double translate[2]; /* at most, as a fraction of width and height */
    } affine;
    struct hd_elastic_step {
      hd_warp warp;
      double alpha, sigma;
      const float *weight; /* of the Gaussian, radius * 2 + 1 */
      int32_t radius;
    } elastic;
    struct hd_erase_step {
      hd_patch patch;
      hd_range scale, ratio;
    } erase;
    struct hd_cutout_step {
      hd_patch patch;
      int32_t size[2];
      int anywhere; /* 1: the square's middle is anywhere in the image, and the edges cut it */
    } cutout;
    struct hd_colour_jitter_step {
      hd_range brightness, contrast, saturation, hue;
    } colour_jitter;
    struct hd_one_hot_step {
      int32_t classes;
      double smoothing;
      float on, off;
    } one_hot;
    struct hd_mixup_step {
      double alpha;
    } mixup;
  } is;
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

/* A parameter of a kind, read into a field of the step. */
typedef struct hd_transform_param {
  const char *key;
  size_t offset; /* of the field */
  enum {
    HD_PARAM_NUMBER, /* double */
    HD_PARAM_WHOLE,  /* int32_t */
    HD_PARAM_RANGE,  /* hd_range: [low, high], or x for middle - x to middle + x */
    HD_PARAM_SIDES,  /* int32_t[2]: one number for both, or [height, width] */
    HD_PARAM_FLAG,   /* bool */
    HD_PARAM_WORD,   /* int: the index in `words` */
    HD_PARAM_OTHER   /* read by the kind's `check` */
  } type;
  hd_range bounds, without; /* without: the default value; else 0 */
  double middle;
  const char *const *words; /* ends with NULL */
} hd_transform_param;

typedef hd_status hd_step_check_fn(hd_transform_step *step, hd_ctx *ctx);
typedef hd_status hd_step_fit_fn(hd_transform_step *step, hd_transform_fit *fit);
typedef void hd_step_apply_fn(const hd_transform_step *step, hd_transform_run *run);

typedef struct hd_transform {
  const char *name, *torchvision; /* both are accepted, the first is written */
  int required;                   /* the first parameter must be given; a single value stands for it */
  enum {
    HD_TRANSFORM_FIXED,
    HD_TRANSFORM_RANDOM,
    HD_TRANSFORM_MIDDLE
  } kind; /* in evaluation: kept, left out, middle */
  hd_transform_touch touch;
  hd_step_check_fn *check;
  hd_step_fit_fn *fit;
  hd_step_apply_fn *apply;
  hd_transform_param params[HD_TRANSFORM_MAX_PARAMS]; /* ends with one without a key */
} hd_transform;

/* The functions of the kinds. */
hd_step_check_fn hd__check_normalise, hd__check_resize, hd__check_border, hd__check_affine, hd__check_elastic,
    hd__check_erase, hd__check_cutout;
hd_step_fit_fn hd__fit_to_float, hd__fit_normalise, hd__fit_resize, hd__fit_pad, hd__fit_crop, hd__fit_rotation,
    hd__fit_affine, hd__fit_elastic, hd__fit_erase, hd__fit_cutout, hd__fit_colour_jitter, hd__fit_one_hot,
    hd__fit_mixup, hd__fit_translate;
hd_step_apply_fn hd__apply_resize, hd__apply_pad, hd__apply_random_crop, hd__apply_random_resized_crop,
    hd__apply_centre_crop, hd__apply_horizontal_flip, hd__apply_vertical_flip, hd__apply_rotation, hd__apply_affine,
    hd__apply_elastic, hd__apply_erase, hd__apply_cutout, hd__apply_colour_jitter, hd__apply_one_hot, hd__apply_mixup,
    hd__apply_alternating_flip, hd__apply_scaling;

/* Transforms of the caller's program, which belong to the context (transform_custom.c). */
typedef struct hd_custom_row {
  hd_transform row; /* first: a step's row is this one */
  hd_custom_transform given;
  char name[HD_TRANSFORM_MAX_NAME + 1];
} hd_custom_row;

struct hd_custom_transforms {
  int count;
  hd_custom_row row[HD_CUSTOM_TRANSFORMS];
};

/* The row of a name, NULL if there is none. */
const hd_transform *hd__transform_find(const hd_ctx *ctx, const char *name);

/* Whether it is one of hd_transform_add. */
bool hd__transform_is_of_program(const hd_transform *row);

/* A parameter's node, NULL if it is not given. */
const hd_yaml_node *hd__step_param(const hd_transform_step *step, const char *key);

/* Reads all parameters, or sets their defaults; refuses unknown ones. */
hd_status hd__step_params(hd_transform_step *step, hd_ctx *ctx);

/* Reads a node as a range. */
hd_status hd__step_range(hd_range *out, const hd_transform_step *step, hd_ctx *ctx, const hd_transform_param *param,
                         const hd_yaml_node *node);

/* ---- Fitting ---- */

/* Checks that a fill value is valid in the pixels' unit. */
hd_status hd__fit_fill(const hd_transform_step *step, const hd_transform_fit *fit, double value, const char *key);

void hd__fit_work(hd_transform_fit *fit, size_t bytes);

/* A run of a pipeline: the sample that the steps work on.
 *
 * A run's image is a view: of the sample, or of one of two buffers that take turns. Moves (crops, flips) make a new
 * view; transforms that compute write to the next buffer. Bytes stay bytes until a transform computes with them. */

typedef struct hd_image {
  const void *at; /* uint8_t or float: channel 0, row 0, column 0 */
  bool bytes;
  int32_t channels, height, width;
  int64_t plane, row, column; /* elements from one channel, row, column to the next */
} hd_image;

struct hd_transform_run {
  const hd_kernels *kernels;
  hd_image image;
  char *buffer[2];
  int turn; /* the next buffer to write */
  void *work;
  hd_sample_key key;
  int64_t number;                        /* of the sample in the data set */
  const float *partner, *partner_target; /* the partner of a sample when mixing: planes, dense */
  int32_t label;
  float *target; /* NULL unless the pipeline makes targets */
  int32_t targets;
};

/* Four random words of a step. */
void hd__run_draw(uint32_t word[4], const hd_transform_run *run, const hd_transform_step *step, uint32_t block);

static inline double hd__drawn_between(uint32_t word, hd_range range) {
  return range.low + (range.high - range.low) * ((double)(word >> 8) * 0x1p-24);
}

/* True with probability p. */
static inline bool hd__drawn_chance(uint32_t word, double p) { return (double)(word >> 8) * 0x1p-24 < p; }

/* The next buffer. */
void *hd__run_buffer(hd_transform_run *run);

/* Makes the dense contents of a buffer the run's image. */
void hd__run_dense(hd_transform_run *run, void *at, bool bytes, int32_t height, int32_t width);

/* The image with contiguous rows and planes, copied only if it is not contiguous. */
void hd__run_settle(hd_transform_run *run);

/* The image in a buffer, dense and writable. */
void *hd__run_copy(hd_transform_run *run);

/* The same as floats. */
float *hd__run_floats(hd_transform_run *run);

/* Copies the image as floats to planes whose rows lie `row` apart. */
void hd__run_copy_floats(float *to, int64_t plane, int64_t row, const hd_transform_run *run);

static inline const uint8_t *hd__image_byte(const hd_image *image, int32_t c, int32_t y, int32_t x) {
  return (const uint8_t *)image->at + c * image->plane + y * image->row + x * image->column;
}

static inline const float *hd__image_float(const hd_image *image, int32_t c, int32_t y, int32_t x) {
  return (const float *)image->at + c * image->plane + y * image->row + x * image->column;
}

/* A view with another origin. */
static inline void hd__image_move(hd_image *image, int32_t y, int32_t x) {
  image->at =
      image->bytes ? (const void *)hd__image_byte(image, 0, y, x) : (const void *)hd__image_float(image, 0, y, x);
}

typedef struct hd_rectangle {
  int32_t top, left, height, width;
} hd_rectangle;

/* A random rectangle inside the image, by scale (of the area) and ratio (height to width, or the other way round),
 * drawn from blocks 1 to 10; false if none of ten attempts fits. */
bool hd__drawn_box(hd_rectangle *out, const hd_transform_step *step, const hd_transform_run *run, hd_range scale,
                   hd_range ratio, bool ratio_is_width);

/* ---- Masks, the classes of pixels (transform_mask.c) ---- */

/* HD_E_USAGE if the step has no meaning for them. */
hd_status hd__mask_check(hd_ctx *ctx, const hd_transform_step *step);

/* Whether the step leaves each pixel in its place, apart from a resize. */
bool hd__mask_keeps_frame(const hd_transform_step *step);

/* Applies what the step does to places of pixels; run->image is a mask. */
void hd__mask_apply(const hd_transform_step *step, hd_transform_run *run);

/* ---- Reading a list of transforms ---- */

/* Checks a sequence and its number of entries. */
hd_status hd__transforms_check(hd_ctx *ctx, const hd_yaml_node *list);

/* Reads an entry of a list: finds its row, checks its parameters. hd__step_free is called for it either way. */
hd_status hd__step_read(hd_transform_step *step, hd_ctx *ctx, const hd_yaml_node *entry);
void hd__step_free(hd_transform_step *step);
