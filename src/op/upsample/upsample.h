/* upsample: an image of another size, of the nearest pixels or between them. Places are fractions of whole numbers, so
 * that no rounding decides which pixel is read. */
#pragma once

#include "op/resample.h"

HD_BOTH resample_tap upsample_tap(const hd_geom *g, int axis, int o) {
  const int64_t in = axis ? g->wi : g->hi, out = axis ? g->wo : g->ho;
  int64_t den = out, num = o * in;
  resample_tap tap = {(int)(num / den), 0};
  if (!g->upsample.bilinear)
    return tap;
  den = g->upsample.align_corners ? (out > 1 ? out - 1 : 1) : 2 * out;
  num = g->upsample.align_corners ? o * (in - 1) : (2 * o + 1) * in - out;
  num = num < 0 ? 0 : num > (in - 1) * den ? (in - 1) * den : num;
  tap.at = (int)(num / den);
  tap.more = (real)(num % den) / (real)den;
  return tap;
}

/* y: of place o of `out` along an axis of `in`: nearest: `floor(o * in / out)`. bilinear: place p = `((2 * o + 1) * in
 * - out) / (2 * out)` or with align_corners `o * (in - 1) / (out - 1)`, within the image; m = its fraction; between
 * neighbours a and b: `m > 0 ? fma(m, b, (1 - m) * a) : a`, across first, then down */
/* dx: `acc = +0`; pixels of the output ascending: `acc = fma(down * across, dy, acc)`, the shares being `m` or `1 - m`,
 * or 1 */
OP_RESAMPLE(upsample)
