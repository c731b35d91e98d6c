/* Softmax over the channels of each pixel, and its gradient: groups along the channels, 16 chains and the fixed tree.
 * The output may overwrite the input: a pixel's sums are complete before its first channel is written. */
#include "op/softmax/softmax_cpu.h"

static void softmax_of(const float *x, float *y, int channels) {
  const float most = largest(x, channels);
  const g16 m = g16_all(most), sum = g16_all(sum_of_exp(x, channels, most));
  for (int c = 0; c < channels; c += 16) {
    g16 e = g16_exp(g16_sub(g16_load_some(x + c, channels - c), m));
    g16_store_some(y + c, g16_div(e, sum), channels - c);
  }
}

static void softmax(const hd_call *call) { each_pixel(call, softmax_of); }

static void softmax_back(const float *dy, const float *y, float *dx, int channels) {
  g16 chains = g16_zero();
  for (int c = 0; c < channels; c += 16) {
    g16 more = g16_fma(g16_load_some(dy + c, channels - c), g16_load_some(y + c, channels - c), chains);
    chains = g16_keep_tail(chains, more, channels - c);
  }
  const g16 dot = g16_all(g16_tree(chains));
  for (int c = 0; c < channels; c += 16) {
    g16 d = g16_sub(g16_load_some(dy + c, channels - c), dot);
    g16_store_some(dx + c, g16_mul(g16_load_some(y + c, channels - c), d), channels - c);
  }
}

static void softmax_dx(const hd_call *call) { each_pixel_dx(call, softmax_back); }

void HD_SYM(softmax_fill)(hd_kernels *table) {
  table->run[HD_OP_softmax] = softmax;
  table->run[HD_OP_softmax_dx] = softmax_dx;
}
