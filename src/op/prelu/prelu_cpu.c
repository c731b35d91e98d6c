/* prelu by groups of sixteen. With one weight a sample is seen as one pixel that has all elements as channels. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

static int64_t channels_of(const hd_geom *g) { return g->prelu.num_parameters > 1 ? g->ci : elems_of(g); }

G16 g16 weights_at(const hd_call *call, int64_t channel, int64_t left) {
  const float *w = call->in[1];
  return call->g->prelu.num_parameters > 1 ? g16_load_some(w + channel, left) : g16_all(*w);
}

/* Sixteen elements of sample n from i on, `left` at most, the channels from c on. */
typedef g16 group_of(const hd_call *call, int64_t n, int64_t i, int64_t c, int64_t left);

G16 void each(const hd_call *call, group_of *f) {
  const int64_t channels = channels_of(call->g), elems = elems_of(call->g);
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t pixel = 0; pixel < elems; pixel += channels)
      for (int64_t c = 0; c < channels; c += 16)
        g16_store_some(out_row(call, 0, n) + pixel + c, f(call, n, pixel + c, c, channels - c), channels - c);
}

G16 g16 forward_of(const hd_call *call, int64_t n, int64_t i, int64_t c, int64_t left) {
  const g16 x = g16_load_some(in_row(call, 0, n) + i, left);
  return g16_choose(g16_less(x, g16_zero()), g16_mul(weights_at(call, c, left), x), x);
}

G16 g16 slope_of(const hd_call *call, int64_t n, int64_t i, int64_t c, int64_t left) {
  const g16 dy = g16_load_some(in_row(call, 0, n) + i, left), x = g16_load_some(in_row(call, 2, n) + i, left);
  return g16_choose(g16_less(g16_zero(), x), dy, g16_mul(weights_at(call, c, left), dy));
}

static void prelu(const hd_call *call) { each(call, forward_of); }
static void prelu_dx(const hd_call *call) { each(call, slope_of); }

G16 g16 add_term(const hd_call *call, int64_t n, int64_t i, int64_t left, g16 sum) {
  const g16 x = g16_load_some(in_row(call, 0, n) + i, left), dy = g16_load_some(in_row(call, 1, n) + i, left);
  return g16_keep_tail(sum, g16_fma(dy, g16_choose(g16_less(g16_zero(), x), g16_zero(), x), sum), left);
}

static void prelu_dw(const hd_call *call) {
  const int64_t channels = channels_of(call->g), elems = elems_of(call->g);
  float *dw = call->out[0], one = 0;
  for (int64_t c = 0; call->g->prelu.num_parameters > 1 && c < channels; c += 16) {
    g16 sum = g16_zero();
    for (int64_t n = 0; n < call->rows; n++)
      for (int64_t pixel = 0; pixel < elems; pixel += channels)
        sum = add_term(call, n, pixel + c, channels - c, sum);
    g16_store_some(dw + c, sum, channels - c);
  }
  if (call->g->prelu.num_parameters > 1)
    return;
  for (int64_t n = 0; n < call->rows; n++) {
    g16 chains = g16_zero();
    for (int64_t i = 0; i < elems; i += 16)
      chains = add_term(call, n, i, elems - i, chains);
    one = one + g16_tree(chains);
  }
  *dw = one;
}

void HD_SYM(prelu_fill)(hd_kernels *table) {
  table->run[HD_OP_prelu] = prelu;
  table->run[HD_OP_prelu_dx] = prelu_dx;
  table->run[HD_OP_prelu_dw] = prelu_dw;
}
