/* The setting of elu. */
#pragma once

typedef struct hd_elu_geom {
  float alpha; /* -alpha is the limit of negative values */
} hd_elu_geom;
