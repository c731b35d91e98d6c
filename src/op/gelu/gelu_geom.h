/* The setting of gelu. */
#pragma once

#include <stdint.h>

typedef struct hd_gelu_geom {
  int32_t approximate; /* 1: the tanh form, 0: the erf form */
} hd_gelu_geom;
