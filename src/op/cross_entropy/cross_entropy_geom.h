/* The settings of cross_entropy. */
#pragma once

#include <stdint.h>

typedef struct hd_cross_entropy_geom {
  int32_t ignore_index; /* samples with this label are ignored */
  int32_t soft_labels;  /* the target holds a probability per class */
  float label_smoothing;
} hd_cross_entropy_geom;
