/* The windows of adaptive pools: of output o along axis 0 down or 1 across the places first to end - 1; they may
 * overlap. */
#pragma once

#include "kernel/unit.h"

HD_BOTH int adaptive_first(const hd_geom *g, int axis, int o) {
  return (int)((int64_t)o * (axis ? g->wi : g->hi) / (axis ? g->wo : g->ho));
}
HD_BOTH int adaptive_end(const hd_geom *g, int axis, int o) {
  const int64_t in = axis ? g->wi : g->hi, out = axis ? g->wo : g->ho;
  return (int)(((o + 1) * in + out - 1) / out);
}

/* The first output whose window holds a place. */
HD_BOTH int adaptive_output(const hd_geom *g, int axis, int at) {
  int o = (int)((int64_t)at * (axis ? g->wo : g->ho) / (axis ? g->wi : g->hi));
  while (o > 0 && adaptive_end(g, axis, o - 1) > at)
    o--;
  return o;
}

/* The element of a sample at a pixel. */
HD_BOTH int64_t adaptive_at(const hd_geom *g, int y, int x, int channel) {
  return ((int64_t)y * g->wi + x) * g->ci + channel;
}

/* Calls the statement for the outputs (oy, ox) whose windows hold pixel (y, x), ascending. */
#define OP_ADAPTIVE_OUTPUTS(g, y, x, statement)                                                                        \
  for (int oy = adaptive_output(g, 0, y); oy < (g)->ho && adaptive_first(g, 0, oy) <= (y); oy++)                       \
    for (int ox = adaptive_output(g, 1, x); ox < (g)->wo && adaptive_first(g, 1, ox) <= (x); ox++)                     \
  statement
