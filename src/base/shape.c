/* Shapes: counting, comparing, printing. */
#include "base/shape.h"

#include <stdbool.h>
#include <stdio.h>

int64_t hd__shape_elems(const hd_shape *shape) {
  int64_t n = 1;
  for (int i = 0; i < shape->rank; i++)
    n *= shape->dim[i];
  return n;
}

int hd__shape_equal(const hd_shape *a, const hd_shape *b) {
  if (a->rank != b->rank)
    return 0;
  for (int i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[i])
      return 0;
  return 1;
}

hd_shape hd__shape_image(const hd_shape *sample) {
  return sample->rank == 1 ? (hd_shape){3, {1, 1, sample->dim[0]}} : *sample;
}

hd_shape hd__shape_sample(const hd_shape *image) {
  const bool row = image->rank == 3 && image->dim[0] == 1 && image->dim[1] == 1;
  return row ? (hd_shape){1, {image->dim[2]}} : *image;
}

const char *hd__shape_text(char *text, size_t bytes, const hd_shape *shape) {
  size_t at = 0;
  if (shape->rank == 0)
    snprintf(text, bytes, "scalar");
  for (int i = 0; i < shape->rank && at < bytes; i++)
    at += (size_t)snprintf(text + at, bytes - at, "%s%d", i ? "x" : "", shape->dim[i]);
  return text;
}
