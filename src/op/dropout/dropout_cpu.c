/* Dropout and its gradient: the mask of 64 elements is drawn, then applied. */
#include "kernel/cpu/mask16.h"

static void dropout(const hd_call *call) {
  const int64_t count = elems_of(call->g);
  for (int64_t n = 0; n < call->rows; n++) {
    const mask16 mask = mask16_of(&call->draw, call->draw.position + (uint32_t)n, call->g->dropout.p);
    const float *x = in_row(call, 0, n);
    float *y = out_row(call, 0, n);
    for (int64_t i = 0; i < count; i += 64) {
      float factor[64];
      mask16_factors(factor, &mask, (uint32_t)(i / 4));
      for (int k = 0; k < 64 && i + k < count; k += 16)
        g16_store_some(y + i + k, g16_mul(g16_load_some(x + i + k, count - i - k), g16_load(factor + k)),
                       count - i - k);
    }
  }
}

void HD_SYM(dropout_fill)(hd_kernels *table) {
  table->run[HD_OP_dropout] = dropout;
  table->run[HD_OP_dropout_dx] = dropout;
}
