/* adaptive_avg_pool2d by groups of sixteen channels. */
#include "op/adaptive_avg_pool2d/adaptive_avg_pool2d.h"
#include "op/adaptive_cpu.h"

static void adaptive_avg_pool2d(const hd_call *call) {
  windows16_mean(call, adaptive16_window, adaptive_avg_pool2d_size);
}

static void adaptive_avg_pool2d_dx(const hd_call *call) {
  windows16_share(call, adaptive16_window, adaptive_avg_pool2d_size);
}

void HD_SYM(adaptive_avg_pool2d_fill)(hd_kernels *table) {
  table->run[HD_OP_adaptive_avg_pool2d] = adaptive_avg_pool2d;
  table->run[HD_OP_adaptive_avg_pool2d_dx] = adaptive_avg_pool2d_dx;
}
