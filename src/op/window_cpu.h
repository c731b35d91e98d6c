/* The windows of pooling, with channels in vector lanes. */
#pragma once

#include "kernel/cpu/argmax16.h"

/* The positions of a window that lie inside of the image: [y0, y1) by [x0, x1), counted inside the window. */
typedef struct window16 {
  int top, left, y0, y1, x0, x1;
} window16;

static inline window16 window16_at(const hd_geom *g, int oy, int ox) {
  window16 w = {.top = oy * g->window.sh - g->window.ph, .left = ox * g->window.sw - g->window.pw};
  w.y0 = w.top < 0 ? -w.top : 0;
  w.x0 = w.left < 0 ? -w.left : 0;
  w.y1 = w.top + g->window.kh > g->hi ? g->hi - w.top : g->window.kh;
  w.x1 = w.left + g->window.kw > g->wi ? g->wi - w.left : g->window.kw;
  return w;
}
