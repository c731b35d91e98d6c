/* Reference activations beside ReLU, and their gradients: one chain per element, listed in docs/determinism.md. */
#include "kernel/ref/ref_activation.h"
#include "kernel/ref/ref_real.h"

typedef real unary(const hd_geom *g, real x);
typedef real binary(const hd_geom *g, real dy, real other);

static int64_t elems(const hd_geom *g) { return (int64_t)g->ci * g->hi * g->wi; }

static void each(const hd_call *call, unary *f) {
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < elems(call->g); i++)
      ((real *)call->out[0])[n * call->out_stride[0] + i] =
          f(call->g, ((const real *)call->in[0])[n * call->in_stride[0] + i]);
}

static void each_dx(const hd_call *call, binary *f) {
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < elems(call->g); i++)
      ((real *)call->out[0])[n * call->out_stride[0] + i] =
          f(call->g, ((const real *)call->in[0])[n * call->in_stride[0] + i],
            ((const real *)call->in[1])[n * call->in_stride[1] + i]);
}

/* e = exp(-|x|); y = (x < 0 ? e : 1) / (1 + e): no exponential overflows. */
static real sigmoid_of(const hd_geom *g, real x) {
  (void)g;
  real e = REAL_EXP(x < 0 ? x : 0 - x);
  return (x < 0 ? e : 1) / (1 + e);
}

/* dx = dy * (y * (1 - y)) */
static real sigmoid_back(const hd_geom *g, real dy, real y) {
  (void)g;
  return dy * (y * (1 - y));
}

static real tanh_of(const hd_geom *g, real x) {
  (void)g;
  return REAL_TANH(x);
}

/* dx = dy * (1 - y * y), the bracket one fma */
static real tanh_back(const hd_geom *g, real dy, real y) {
  (void)g;
  return dy * REAL_FMA(-y, y, 1);
}

/* y = x < 0 ? slope * x : x, so a NaN gets through. */
static real leaky_of(const hd_geom *g, real x) { return x < 0 ? (real)g->negative_slope * x : x; }

/* dx = y > 0 ? dy : slope * dy */
static real leaky_back(const hd_geom *g, real dy, real y) { return y > 0 ? dy : (real)g->negative_slope * dy; }

/* The normal distribution's share below x: (1 + erf(x * sqrt(1/2))) * 0.5. */
static real share_below(real x) { return (1 + REAL_ERF(x * (real)HD_SQRT_HALF)) * (real)0.5; }

/* What the tanh form takes the tanh of: (sqrt(2/pi) * x) * fma(c, x * x, 1). */
static real tanh_inner(real x) { return (real)HD_SQRT_2_BY_PI * x * REAL_FMA((real)HD_GELU_CUBIC, x * x, 1); }

/* y = x * share; tanh form: y = (0.5 * x) * (1 + tanh(inner)). */
static real gelu_of(const hd_geom *g, real x) {
  if (g->approximate)
    return (real)0.5 * x * (1 + REAL_TANH(tanh_inner(x)));
  return x * share_below(x);
}

/* dx = dy * fma(x, density, share), density = exp((x * x) * -0.5) * (1 / sqrt(2 pi)).
 * tanh form: t = tanh(inner); dx = dy * fma((0.5 * x) * fma(-t, t, 1), sqrt(2/pi) * fma(3 c, x * x, 1), 0.5 * (1 + t)). */
static real gelu_back(const hd_geom *g, real dy, real x) {
  if (!g->approximate) {
    real density = REAL_EXP(x * x * (real)-0.5) * (real)HD_ONE_BY_SQRT_2PI;
    return dy * REAL_FMA(x, density, share_below(x));
  }
  real t = REAL_TANH(tanh_inner(x));
  real slope = (real)HD_SQRT_2_BY_PI * REAL_FMA((real)(3 * HD_GELU_CUBIC), x * x, 1);
  return dy * REAL_FMA((real)0.5 * x * REAL_FMA(-t, t, 1), slope, (real)0.5 * (1 + t));
}

static void sigmoid(const hd_call *call) { each(call, sigmoid_of); }
static void sigmoid_dx(const hd_call *call) { each_dx(call, sigmoid_back); }
static void tanh_forward(const hd_call *call) { each(call, tanh_of); }
static void tanh_dx(const hd_call *call) { each_dx(call, tanh_back); }
static void leaky_relu(const hd_call *call) { each(call, leaky_of); }
static void leaky_relu_dx(const hd_call *call) { each_dx(call, leaky_back); }
static void gelu(const hd_call *call) { each(call, gelu_of); }
static void gelu_dx(const hd_call *call) { each_dx(call, gelu_back); }

void REF(activation_fill)(hd_kernels *table) {
  table->run[HD_OP_sigmoid] = sigmoid;
  table->run[HD_OP_sigmoid_dx] = sigmoid_dx;
  table->run[HD_OP_tanh] = tanh_forward;
  table->run[HD_OP_tanh_dx] = tanh_dx;
  table->run[HD_OP_leaky_relu] = leaky_relu;
  table->run[HD_OP_leaky_relu_dx] = leaky_relu_dx;
  table->run[HD_OP_gelu] = gelu;
  table->run[HD_OP_gelu_dx] = gelu_dx;
}
