/* Shapes of values and parameters: up to four positive dimensions, without the sample dimension. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { HD_MAX_DIMS = 4 };

typedef struct hd_shape {
  int32_t rank;
  int32_t dim[HD_MAX_DIMS];
} hd_shape;

int64_t hd__shape_elems(const hd_shape *shape);
int hd__shape_equal(const hd_shape *a, const hd_shape *b);

/* Channels, height, width of a sample: a row of N numbers is 1x1xN. */
hd_shape hd__shape_image(const hd_shape *sample);

/* And back: 1x1xN as a row, other shapes as they are. */
hd_shape hd__shape_sample(const hd_shape *image);

/* "1x28x28"; "scalar" for rank 0. Returns text. */
const char *hd__shape_text(char *text, size_t bytes, const hd_shape *shape);

enum { HD_SHAPE_TEXT_BYTES = 64 };
