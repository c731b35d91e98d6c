/* weigh by groups of sixteen elements of a sample. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

static void weigh(const hd_call *call) {
  const int64_t count = elems_of(call->g);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n);
    const g16 w = g16_all(in_row(call, 1, n)[call->g->weigh.at]);
    float *y = out_row(call, 0, n);
    for (int64_t i = 0; i < count; i += 16)
      g16_store_some(y + i, g16_mul(g16_load_some(x + i, count - i), w), count - i);
  }
}

void HD_SYM(weigh_fill)(hd_kernels *table) { table->run[HD_OP_weigh] = weigh; }
