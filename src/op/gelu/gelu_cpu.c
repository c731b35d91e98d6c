/* gelu by groups of sixteen. */
#include "kernel/cpu/each16.h"
#include "op/gelu/gelu.h"

G16 g16 share_below(g16 x) {
  g16 erf_of = g16_erf(g16_mul(x, g16_all((float)HD_SQRT_HALF)));
  return g16_mul(g16_add(g16_all(1), erf_of), g16_all(0.5f));
}

G16 g16 tanh_inner(g16 x) {
  g16 factor = g16_fma(g16_all((float)HD_GELU_CUBIC), g16_mul(x, x), g16_all(1));
  return g16_mul(g16_mul(g16_all((float)HD_SQRT_2_BY_PI), x), factor);
}

G16 g16 gelu16(const hd_geom *g, g16 x) { return g16_mul(x, share_below(x)); }

G16 g16 gelu_tanh16(const hd_geom *g, g16 x) {
  return g16_mul(g16_mul(g16_all(0.5f), x), g16_add(g16_all(1), g16_tanh(tanh_inner(x))));
}

G16 g16 gelu_back(const hd_geom *g, g16 dy, g16 x) {
  g16 density = g16_mul(g16_exp_below(g16_mul(g16_mul(x, x), g16_all(-0.5f))), g16_all((float)HD_ONE_BY_SQRT_2PI));
  return g16_mul(dy, g16_fma(x, density, share_below(x)));
}

G16 g16 gelu_tanh_back(const hd_geom *g, g16 dy, g16 x) {
  g16 t = g16_tanh(tanh_inner(x)), half = g16_all(0.5f);
  g16 slope =
      g16_mul(g16_all((float)HD_SQRT_2_BY_PI), g16_fma(g16_all((float)(3 * HD_GELU_CUBIC)), g16_mul(x, x), g16_all(1)));
  g16 rise = g16_mul(g16_mul(half, x), g16_one_minus_square(t));
  return g16_mul(dy, g16_fma(rise, slope, g16_mul(half, g16_add(g16_all(1), t))));
}

static void gelu(const hd_call *call) {
  if (call->g->gelu.approximate)
    g16_each(call, gelu_tanh16);
  else
    g16_each(call, gelu16);
}

static void gelu_dx(const hd_call *call) {
  if (call->g->gelu.approximate)
    g16_each_dx(call, gelu_tanh_back);
  else
    g16_each_dx(call, gelu_back);
}

void HD_SYM(gelu_fill)(hd_kernels *table) {
  table->run[HD_OP_gelu] = gelu;
  table->run[HD_OP_gelu_dx] = gelu_dx;
}
