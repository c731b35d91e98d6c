/* Which convolutions are computed by Winograd's tiles: a rule of the operation, so every device follows it. */
#pragma once

#include "kernel/call.h"

/* Whether a convolution is computed by Winograd's tiles of 4 x 4 (3 x 3 kernels) or 2 x 2 outputs (5 x 5), which take
 * 36 products where 144 or 100 are summed. Narrow ones would spend more on the transforms than they save, and tiles of
 * few outputs more products. Its gradients are by tiles too, except behind a pool: there most of dy is zero. */
enum { HD_WINOGRAD_CHANNELS = 16, HD_WINOGRAD_LINE = 6 };

/* Outputs along an axis of a tile, of a patch of 6 x 6. */
HD_BOTH int hd_winograd_side(const hd_geom *g) { return HD_WINOGRAD_LINE + 1 - g->window.kh; }
HD_BOTH int hd_winograd_tiles(int outputs, int side) { return (outputs + side - 1) / side; }

HD_BOTH int hd_geom_is_winograd(const hd_geom *g) {
  const hd_window_geom *w = &g->window;
  const int height = g->hp * g->conv.pool, width = g->wp * g->conv.pool, side = hd_winograd_side(g);
  return (w->kh == 3 || w->kh == 5) && w->kw == w->kh && w->sh == 1 && w->sw == 1 && g->conv.groups == 1 &&
         g->conv.pool <= 2 && g->ci >= HD_WINOGRAD_CHANNELS && g->co >= HD_WINOGRAD_CHANNELS &&
         !hd_geom_is_dilated(g) &&
         36 * hd_winograd_tiles(height, side) * hd_winograd_tiles(width, side) < w->kh * w->kw * height * width;
}
