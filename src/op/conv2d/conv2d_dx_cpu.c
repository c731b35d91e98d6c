/* The gradient of a convolution's input, by one of five methods, chosen by the shape alone; slices and taps have the
 * same bits:
 *
 *   slices   behind a pool, over the nonzero dy only: conv2d_pool_dx_cpu.c.
 *   taps     the same for many input channels: conv2d_tap_dx_cpu.c.
 *   depth    depthwise, channels in vector lanes: conv2d_depth_cpu.c.
 *   tiles    wide 3 x 3 and 5 x 5 kernels: winograd_cpu.c.
 *   walks    over the gradient with the kernel reversed: conv2d_dx_walk_cpu.c.
 *
 * Order of the sum of an input element: the output's pixels row-major, for each pixel channels ascending: acc =
 * fma(dy, w, acc), finally acc + 0. */
#include "op/conv2d/conv2d_live_cpu.h"
#include "op/conv2d/winograd_cpu.h"

/* From this number of input channels on, a block of one tap has enough sums to hide their latency. */
enum { TAPS_CHANNELS = 48 };

typedef enum dx_way { SLICES, TAPS, DEPTH, TILES, WALKS } dx_way;

static dx_way way_of(const hd_geom *g) {
  if (is_depthwise(g))
    return DEPTH;
  if (g->conv.pool > 1)
    return g->ci >= TAPS_CHANNELS ? TAPS : SLICES;
  return hd_geom_is_winograd(g) ? TILES : WALKS;
}

static void conv2d_dx(const hd_call *call) {
  switch (way_of(call->g)) {
  case SLICES: HD_SYM(conv_pool_dx)(call); break;
  case TAPS: HD_SYM(conv_tap_dx)(call); break;
  case DEPTH: HD_SYM(conv_depth_dx)(call); break;
  case TILES: HD_SYM(winograd_dx)(call); break;
  default: HD_SYM(conv_dx_walk)(call, NULL, 1);
  }
}

static int64_t scratch_bytes(const hd_geom *g) {
  switch (way_of(g)) {
  case SLICES: return HD_SYM(conv_pool_dx_scratch)(g);
  case TAPS: return HD_SYM(conv_tap_dx_scratch)(g);
  case DEPTH: return HD_SYM(conv_depth_dx_scratch)(g);
  case TILES: return HD_SYM(winograd_scratch)(g->co, g->ci);
  default: return HD_SYM(conv_dx_walk_scratch)(g);
  }
}

static int64_t packed_elems(const hd_geom *g) {
  switch (way_of(g)) {
  case SLICES: return HD_SYM(conv_pool_dx_packed)(g);
  case TAPS: return HD_SYM(conv_tap_dx_packed)(g);
  case DEPTH: return HD_SYM(conv_depth_packed)(g);
  case TILES: return HD_SYM(winograd_dx_packed)(g);
  default: return HD_SYM(conv_dx_walk_packed)(g);
  }
}

static void pack(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  switch (way_of(g)) {
  case SLICES: HD_SYM(conv_pool_dx_pack)(g, w, packed, j0, j1); break;
  case TAPS: HD_SYM(conv_tap_dx_pack)(g, w, packed, j0, j1); break;
  case DEPTH: HD_SYM(conv_depth_dx_pack)(g, w, packed, j0, j1); break;
  case TILES: HD_SYM(winograd_dx_pack)(g, w, packed, j0, j1); break;
  default: HD_SYM(conv_dx_walk_pack)(g, w, packed, j0, j1);
  }
}

void HD_SYM(conv_dx_fill)(hd_kernels *table) {
  table->supports[HD_OP_conv2d_dx] = takes_dilation_back;
  table->run[HD_OP_conv2d_dx] = conv2d_dx;
  table->scratch_bytes[HD_OP_conv2d_dx] = scratch_bytes;
  table->packed_elems[HD_OP_conv2d_dx] = packed_elems;
  table->pack[HD_OP_conv2d_dx] = pack;
}
