/* The windows of adaptive pools, with channels in vector lanes; see adaptive.h. */
#pragma once

#include "op/adaptive.h"
#include "op/window_cpu.h"

static inline window16 adaptive16_window(const hd_geom *g, int oy, int ox) {
  window16 w = {.top = adaptive_first(g, 0, oy), .left = adaptive_first(g, 1, ox)};
  w.y1 = adaptive_end(g, 0, oy) - w.top;
  w.x1 = w.width = adaptive_end(g, 1, ox) - w.left;
  return w;
}
