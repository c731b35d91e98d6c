/* The setting of huber. */
#pragma once

typedef struct hd_huber_geom {
  float delta; /* where the square becomes a line */
} hd_huber_geom;
