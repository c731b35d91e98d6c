/* The setting of shifted_linear. */
#pragma once

typedef struct hd_shifted_linear_geom {
  float shift; /* added to each input */
} hd_shifted_linear_geom;
