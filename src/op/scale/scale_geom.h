/* The setting of scale. */
#pragma once

typedef struct hd_scale_geom {
  float factor;
} hd_scale_geom;
