/* dropout2d and its gradient: the factors of all channels are drawn, then each pixel is multiplied by them. */
#include "kernel/cpu/mask16.h"

static void dropout2d(const hd_call *call) {
  const hd_geom *g = call->g;
  float *factor = call->scratch;
  for (int64_t n = 0; n < call->rows; n++) {
    const mask16 mask = mask16_of(&call->draw, call->draw.position + (uint32_t)n, g->dropout.p);
    const float *x = in_row(call, 0, n);
    float *y = out_row(call, 0, n);
    for (int c = 0; c < g->ci; c += 64)
      mask16_factors(factor + c, &mask, (uint32_t)(c / 4));
    for (int64_t p = 0; p < pixels_of(g); p++, x += g->ci, y += g->ci)
      for (int c = 0; c < g->ci; c += 16)
        g16_store_some(y + c, g16_mul(g16_load_some(x + c, g->ci - c), g16_load(factor + c)), g->ci - c);
  }
}

static int64_t scratch_bytes(const hd_geom *g) { return ((int64_t)g->ci + 63) / 64 * 64 * (int64_t)sizeof(float); }

void HD_SYM(dropout2d_fill)(hd_kernels *table) {
  table->run[HD_OP_dropout2d] = dropout2d;
  table->run[HD_OP_dropout2d_dx] = dropout2d;
  table->scratch_bytes[HD_OP_dropout2d] = scratch_bytes;
  table->scratch_bytes[HD_OP_dropout2d_dx] = scratch_bytes;
}
