/* log_softmax over the channels of each pixel, and its gradient: as softmax_cpu.c. */
#include "op/softmax/softmax_cpu.h"

static void log_softmax_of(const float *x, float *y, int channels) {
  const float most = largest(x, channels);
  const g16 m = g16_all(most), sum = g16_all(hd__logf(sum_of_exp(x, channels, most)));
  for (int c = 0; c < channels; c += 16)
    g16_store_some(y + c, g16_sub(g16_sub(g16_load_some(x + c, channels - c), m), sum), channels - c);
}

static void log_softmax(const hd_call *call) { each_pixel(call, log_softmax_of); }

static void log_softmax_back(const float *dy, const float *y, float *dx, int channels) {
  g16 chains = g16_zero();
  for (int c = 0; c < channels; c += 16)
    chains = g16_keep_tail(chains, g16_add(chains, g16_load_some(dy + c, channels - c)), channels - c);
  const g16 sum = g16_all(g16_tree(chains));
  for (int c = 0; c < channels; c += 16) {
    const g16 minus = g16_sub(g16_zero(), g16_exp(g16_load_some(y + c, channels - c)));
    g16_store_some(dx + c, g16_fma(minus, sum, g16_load_some(dy + c, channels - c)), channels - c);
  }
}

static void log_softmax_dx(const hd_call *call) { each_pixel_dx(call, log_softmax_back); }

void HD_SYM(log_softmax_fill)(hd_kernels *table) {
  table->run[HD_OP_log_softmax] = log_softmax;
  table->run[HD_OP_log_softmax_dx] = log_softmax_dx;
}
