/* The setting of dropout. */
#pragma once

typedef struct hd_dropout_geom {
  float p; /* the share of elements that become zero */
} hd_dropout_geom;
