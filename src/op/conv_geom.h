/* What convolutions have besides windows. */
#pragma once

#include <stdint.h>

typedef struct hd_conv_geom {
  int32_t groups; /* each group of co / groups outputs reads ci / groups inputs; 1 for none, as in other operations */
  int32_t pool;   /* conv2d: side and stride of the max pool fused behind it; 1 for none, as in other operations */
} hd_conv_geom;
