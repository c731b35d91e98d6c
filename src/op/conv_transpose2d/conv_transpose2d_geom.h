/* What conv_transpose2d has besides windows and groups. */
#pragma once

#include <stdint.h>

typedef struct hd_conv_transpose2d_geom {
  int32_t output_padding[2]; /* rows and columns that the output has besides those of windows */
} hd_conv_transpose2d_geom;
