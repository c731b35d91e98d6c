/* Activations beside ReLU, and their gradients: sixteen elements at a time, each lane the reference's chain. Inputs
 * may be the output where the table says in place: every element is read before it is written. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"
#include "op/gelu/gelu.h"

typedef g16 unary(const hd_geom *g, g16 x);
typedef g16 binary(const hd_geom *g, g16 dy, g16 other);

static int64_t elems(const hd_geom *g) { return (int64_t)g->ci * g->hi * g->wi; }

G16 void each(const hd_call *call, unary *f) {
  const int64_t count = elems(call->g);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = (const float *)call->in[0] + n * call->in_stride[0];
    float *y = (float *)call->out[0] + n * call->out_stride[0];
    for (int64_t i = 0; i < count; i += 16)
      g16_store_some(y + i, f(call->g, g16_load_some(x + i, count - i)), count - i);
  }
}

G16 void each_dx(const hd_call *call, binary *f) {
  const int64_t count = elems(call->g);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = (const float *)call->in[0] + n * call->in_stride[0];
    const float *other = (const float *)call->in[1] + n * call->in_stride[1];
    float *dx = (float *)call->out[0] + n * call->out_stride[0];
    for (int64_t i = 0; i < count; i += 16) {
      g16 d = f(call->g, g16_load_some(dy + i, count - i), g16_load_some(other + i, count - i));
      g16_store_some(dx + i, d, count - i);
    }
  }
}

G16 g16 negative(g16 x) { return g16_sub(g16_zero(), x); }

/* fma(-a, a, 1); the sign of a zero does not show in it. */
G16 g16 one_minus_square(g16 a) { return g16_fma(negative(a), a, g16_all(1)); }

G16 g16 sigmoid16(const hd_geom *g, g16 x) {
  (void)g;
  g16_mask below = g16_less(x, g16_zero());
  g16 e = g16_exp(g16_choose(below, x, negative(x)));
  return g16_div(g16_choose(below, e, g16_all(1)), g16_add(g16_all(1), e));
}

G16 g16 sigmoid_back(const hd_geom *g, g16 dy, g16 y) {
  (void)g;
  return g16_mul(dy, g16_mul(y, g16_sub(g16_all(1), y)));
}

G16 g16 tanh16(const hd_geom *g, g16 x) {
  (void)g;
  return g16_tanh(x);
}

G16 g16 tanh_back(const hd_geom *g, g16 dy, g16 y) {
  (void)g;
  return g16_mul(dy, one_minus_square(y));
}

G16 g16 leaky16(const hd_geom *g, g16 x) {
  return g16_choose(g16_less(x, g16_zero()), g16_mul(g16_all(g->negative_slope), x), x);
}

G16 g16 leaky_back(const hd_geom *g, g16 dy, g16 y) {
  return g16_choose(g16_less(g16_zero(), y), dy, g16_mul(g16_all(g->negative_slope), dy));
}

G16 g16 share_below(g16 x) {
  g16 erf_of = g16_erf(g16_mul(x, g16_all((float)HD_SQRT_HALF)));
  return g16_mul(g16_add(g16_all(1), erf_of), g16_all(0.5f));
}

G16 g16 tanh_inner(g16 x) {
  g16 factor = g16_fma(g16_all((float)HD_GELU_CUBIC), g16_mul(x, x), g16_all(1));
  return g16_mul(g16_mul(g16_all((float)HD_SQRT_2_BY_PI), x), factor);
}

G16 g16 gelu16(const hd_geom *g, g16 x) {
  (void)g;
  return g16_mul(x, share_below(x));
}

G16 g16 gelu_tanh16(const hd_geom *g, g16 x) {
  (void)g;
  return g16_mul(g16_mul(g16_all(0.5f), x), g16_add(g16_all(1), g16_tanh(tanh_inner(x))));
}

G16 g16 gelu_back(const hd_geom *g, g16 dy, g16 x) {
  (void)g;
  g16 density = g16_mul(g16_exp(g16_mul(g16_mul(x, x), g16_all(-0.5f))), g16_all((float)HD_ONE_BY_SQRT_2PI));
  return g16_mul(dy, g16_fma(x, density, share_below(x)));
}

G16 g16 gelu_tanh_back(const hd_geom *g, g16 dy, g16 x) {
  (void)g;
  g16 t = g16_tanh(tanh_inner(x)), half = g16_all(0.5f);
  g16 slope =
      g16_mul(g16_all((float)HD_SQRT_2_BY_PI), g16_fma(g16_all((float)(3 * HD_GELU_CUBIC)), g16_mul(x, x), g16_all(1)));
  g16 rise = g16_mul(g16_mul(half, x), one_minus_square(t));
  return g16_mul(dy, g16_fma(rise, slope, g16_mul(half, g16_add(g16_all(1), t))));
}

static void sigmoid(const hd_call *call) { each(call, sigmoid16); }
static void sigmoid_dx(const hd_call *call) { each_dx(call, sigmoid_back); }
static void tanh_forward(const hd_call *call) { each(call, tanh16); }
static void tanh_dx(const hd_call *call) { each_dx(call, tanh_back); }
static void leaky_relu(const hd_call *call) { each(call, leaky16); }
static void leaky_relu_dx(const hd_call *call) { each_dx(call, leaky_back); }

static void gelu(const hd_call *call) {
  if (call->g->approximate)
    each(call, gelu_tanh16);
  else
    each(call, gelu16);
}

static void gelu_dx(const hd_call *call) {
  if (call->g->approximate)
    each_dx(call, gelu_tanh_back);
  else
    each_dx(call, gelu_back);
}

void HD_SYM(activation_fill)(hd_kernels *table) {
  table->run[HD_OP_sigmoid] = sigmoid;
  table->run[HD_OP_sigmoid_dx] = sigmoid_dx;
  table->run[HD_OP_tanh] = tanh_forward;
  table->run[HD_OP_tanh_dx] = tanh_dx;
  table->run[HD_OP_leaky_relu] = leaky_relu;
  table->run[HD_OP_leaky_relu_dx] = leaky_relu_dx;
  table->run[HD_OP_gelu] = gelu;
  table->run[HD_OP_gelu_dx] = gelu_dx;
}
