/* pad: an image with more pixels at its edges. */
#pragma once

#include "op/resample.h"

HD_BOTH resample_tap pad_tap(const hd_geom *g, int axis, int o) {
  const int in = axis ? g->wi : g->hi, at = o - g->pad.before[axis];
  resample_tap tap = {at, 0};
  if (at >= 0 && at < in)
    return tap;
  if (g->pad.mode == HD_PAD_REFLECT)
    tap.at = at < 0 ? -at : 2 * (in - 1) - at;
  else
    tap.at = g->pad.mode == HD_PAD_ZERO ? -1 : at < 0 ? 0 : in - 1;
  return tap;
}

/* y: moved, not computed; 0 outside with `mode: zero` */
/* dx: `acc = +0`; pixels of the output that show this one ascending: `acc = acc + dy` */
OP_RESAMPLE(pad)
