/* The windows over an image of convolutions and pooling operations; others have one window of one pixel. */
#pragma once

#include <stdint.h>

typedef struct hd_window_geom {
  int32_t kh, kw;      /* height and width */
  int32_t sh, sw;      /* strides */
  int32_t ph, pw;      /* zero padding, each side (max_pool2d: -inf) */
  int32_t dilation[2]; /* convolutions: pixels from one tap to the next, down and across; else 1 */
  int32_t ceil_mode;   /* pools: 1: the last window may reach beyond the padding */
  int32_t transposed;  /* 1: conv_transpose2d, whose windows lie over the output */
} hd_window_geom;
