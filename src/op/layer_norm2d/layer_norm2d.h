/* layer_norm2d: a layer norm of the channels of each pixel. */
#pragma once

#include "op/line_norm.h"

/* y: as `layer_norm`, over the channels of a pixel; weight and bias of the channel */
/* dw, db: per shard and channel: `dw = +0`, `db = +0`; samples ascending, pixels ascending: `dw = fma(dy, (x - mean) *
 * r, dw)`, `db = db + dy` */
/* dx: as `layer_norm`, over the channels of a pixel */
OP_LINE_NORM(layer_norm2d, 1)
