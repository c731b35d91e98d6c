/* The settings of softplus. */
#pragma once

typedef struct hd_softplus_geom {
  float beta, threshold; /* above the threshold beta * x is taken for its softplus */
} hd_softplus_geom;
