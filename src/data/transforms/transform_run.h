/* A run of a pipeline: the sample that the steps work on.
 *
 * A run's image is a view: of the sample, or of one of two buffers that take turns. Moves (crops, flips) make a new
 * view; transforms that compute write to the next buffer. Bytes stay bytes until a transform computes with them. */
#pragma once

#include "data/transforms/transform_step.h"
#include "kernel/kernel.h"

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
  const float *partner, *partner_target; /* what a sample is mixed with: planes, dense */
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
