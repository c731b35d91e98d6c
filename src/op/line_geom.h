/* The setting of mean and max. */
#pragma once

#include <stdint.h>

typedef struct hd_line_geom {
  int32_t channels; /* 1: of the channels of each pixel, 0: of all pixels of each channel */
} hd_line_geom;
