/* What operations of two values have: mul, sub, div. The output is co x ho x wo; in a gradient the input that it is of
 * is ci x hi x wi. */
#pragma once

#include <stdint.h>

enum { HD_SPREAD_PIXELS = 1, HD_SPREAD_CHANNELS = 2 };

typedef struct hd_binary_geom {
  int32_t spread[2]; /* of each input: whether it has one number for all pixels, for all channels, or both */
  int32_t part;      /* the input that a gradient is of */
} hd_binary_geom;
