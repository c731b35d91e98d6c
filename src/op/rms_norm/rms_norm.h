/* rms_norm: each pixel's channels divided by the root of the mean of their squares. */
#pragma once

#include "op/line_norm.h"

/* y: over the C channels of a pixel, or over a flat value: square = 16 chains of `fma(x, x, s)` and the tree; `r = 1 /
 * sqrt(square / C + eps)`; `(x * r) * weight` */
/* dw: per shard and channel: `dw = +0`; samples ascending, pixels ascending: `dw = fma(dy, x * r, dw)` */
/* dx: `h = dy * weight`; b = 16 chains of `fma(h, x * r, s)` and the tree, `/ C`; `r * (h - fma(x * r, b, 0))` */
OP_LINE_NORM(rms_norm, 0)
