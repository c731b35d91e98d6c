/* The setting of leaky_relu. */
#pragma once

typedef struct hd_leaky_relu_geom {
  float negative_slope;
} hd_leaky_relu_geom;
