/* The setting of slice that kernels read. */
#pragma once

#include <stdint.h>

typedef struct hd_slice_geom {
  int32_t start; /* the first channel */
} hd_slice_geom;
