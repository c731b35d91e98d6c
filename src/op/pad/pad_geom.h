/* The settings of pad. */
#pragma once

#include <stdint.h>

enum { HD_PAD_ZERO, HD_PAD_REFLECT, HD_PAD_REPLICATE };

typedef struct hd_pad_geom {
  int32_t before[2]; /* pixels above and to the left */
  int32_t mode;
} hd_pad_geom;
