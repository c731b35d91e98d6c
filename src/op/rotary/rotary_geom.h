/* The settings of rotary; its heads are those of attention_geom.h. */
#pragma once

typedef struct hd_rotary_geom {
  float ratio, rest; /* their sum is that of the angles of neighbouring pairs, base^(-2 / d) */
} hd_rotary_geom;
