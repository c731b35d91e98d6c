/* Dropout and its gradient: the mask of sixteen elements is drawn, then applied. */
#include "base/philox.h"
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

/* The random numbers of elements i .. i + 15 of one sample. */
G16 g16 draw_group(const hd_draw *draw, uint32_t position, int64_t i) {
  float u[16];
  for (int b = 0; b < 4; b++) {
    uint32_t word[4];
    hd__rng_block(word, draw->seed, HD_RNG_DROPOUT, draw->epoch, position, draw->node, (uint32_t)(i / 4 + b));
    for (int k = 0; k < 4; k++)
      u[4 * b + k] = hd__rng_uniform(word[k]);
  }
  return g16_load(u);
}

static void dropout(const hd_call *call) {
  const hd_geom *g = call->g;
  const int64_t count = elems_of(g);
  const g16 p = g16_all(g->dropout.p), kept = g16_all(1 / (1 - g->dropout.p));
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n);
    float *y = out_row(call, 0, n);
    for (int64_t i = 0; i < count; i += 16) {
      g16 u = draw_group(&call->draw, call->draw.position + (uint32_t)n, i);
      g16 factor = g16_choose(g16_less(u, p), g16_zero(), kept);
      g16_store_some(y + i, g16_mul(g16_load_some(x + i, count - i), factor), count - i);
    }
  }
}

void HD_SYM(dropout_fill)(hd_kernels *table) {
  table->run[HD_OP_dropout] = dropout;
  table->run[HD_OP_dropout_dx] = dropout;
}
