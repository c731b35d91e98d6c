/* The settings of clip. */
#pragma once

typedef struct hd_clip_geom {
  float min, max;
} hd_clip_geom;
