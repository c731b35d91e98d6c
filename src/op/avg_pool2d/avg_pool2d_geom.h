/* What avg_pool2d and global_avg_pool2d have besides windows. */
#pragma once

#include <stdint.h>

typedef struct hd_avg_pool2d_geom {
  int32_t count_include_pad; /* 1 divides by the whole window, padding included */
} hd_avg_pool2d_geom;
