/* The setting of prelu. */
#pragma once

#include <stdint.h>

typedef struct hd_prelu_geom {
  int32_t num_parameters; /* weights: 1, or one for each channel */
} hd_prelu_geom;
