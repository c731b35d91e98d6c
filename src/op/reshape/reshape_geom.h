/* The settings of reshape that kernels read. */
#pragma once

#include <stdint.h>

typedef struct hd_reshape_geom {
  int32_t swap[2], inner; /* sizes of the two parts that change places, and of what lies behind both */
} hd_reshape_geom;
