/* The settings of upsample. */
#pragma once

#include <stdint.h>

typedef struct hd_upsample_geom {
  int32_t bilinear;      /* 1: between neighbours, 0: the nearest pixel */
  int32_t align_corners; /* bilinear: 1: the corners of both images are the same points */
} hd_upsample_geom;
