/* Interface of ref_winograd.c for ref_conv.c: tiles of a convolution, in both directions, and the gradient of a
 * weight. */
#ifndef HD_KERNEL_REF_REF_WINOGRAD_H
#define HD_KERNEL_REF_REF_WINOGRAD_H

#include "kernel/ref/ref_real.h"

/* An image, and how far its first patch begins outside of it (inside, if negative). */
typedef struct winograd_map {
  int height, width, channels, top, left;
} winograd_map;

/* The 3 x 3 kernels of one output channel: elements from a tap to the next, and to the next input channel. */
typedef struct winograd_weight {
  const real *first;
  int64_t tap, channel;
} winograd_weight;

/* The 2 x 2 outputs of tile (ty, tx), row-major. */
void REF(winograd_tile)(real *out, const winograd_map *map, const real *image, int ty, int tx, const winograd_weight *w,
                        real bias);

/* One output channel of the weight's gradient, over the call's rows; no pool. dw: 3 x 3 x ci. */
void REF(winograd_dw)(const hd_call *call, int co, real *dw);

#endif
