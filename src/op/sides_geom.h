/* The output's sides where no window decides them: upsample, pad, adaptive pools, mean and max. */
#pragma once

#include <stdint.h>

typedef struct hd_sides_geom {
  int32_t out[2]; /* height, width; 0: a window decides it */
} hd_sides_geom;
