/* What normalisations have: layer_norm, group_norm and batch_norm. */
#pragma once

#include <stdint.h>

typedef struct hd_norm_geom {
  int32_t groups; /* group_norm: groups of channels; else 1 */
  float eps;      /* added to the variance */
} hd_norm_geom;
