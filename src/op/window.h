/* Windows over images: what convolutions and pooling share. */
#pragma once

#include "kernel/unit.h"

/* Element (y, x, c) of a padded image; y and x may lie outside, where it is zero. */
HD_BOTH real window_pixel(const real *image, int height, int width, int channels, int y, int x, int c) {
  if (y < 0 || y >= height || x < 0 || x >= width)
    return 0;
  return image[((int64_t)y * width + x) * channels + c];
}

/* The first output along an axis whose window reaches `at` (padding counted), and the last; s: the stride. */
HD_BOTH int window_first(int at, int kernel, int s) { return at < kernel ? 0 : (at - kernel) / s + 1; }
HD_BOTH int window_last(int at, int s, int outputs) { return at / s < outputs ? at / s : outputs - 1; }
