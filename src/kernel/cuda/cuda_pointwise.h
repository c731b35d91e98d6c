/* Elementwise operations on the GPU and those that copy elements: the formulas of ref_pointwise.c, of the files of
 * ELEMENTWISE operations, of ref_dropout.c and ref_concat.c. */
#ifndef HD_KERNEL_CUDA_POINTWISE_H
#define HD_KERNEL_CUDA_POINTWISE_H

#include "base/philox.h"
#include "kernel/cuda/cuda_call.h"
#include "kernel/ref/gelu_constants.h"

/* ---- Formulas ---- */

HD_BOTH float relu_of(const hd_geom *g, float x) { return x < 0 ? 0 : x; }
HD_BOTH float relu_dx_of(const hd_geom *g, float dy, float y) { return y > 0 ? dy : 0; }

HD_BOTH float leaky_relu_of(const hd_geom *g, float x) { return x < 0 ? g->negative_slope * x : x; }
HD_BOTH float leaky_relu_dx_of(const hd_geom *g, float dy, float y) { return y > 0 ? dy : g->negative_slope * dy; }

HD_BOTH float tanh_of(const hd_geom *g, float x) { return hd__ref_tanhf(x); }
HD_BOTH float tanh_dx_of(const hd_geom *g, float dy, float y) { return dy * fmaf(-y, y, 1); }

HD_BOTH float sigmoid_of(const hd_geom *g, float x) {
  const float e = hd__ref_expf(x < 0 ? x : 0 - x);
  return (x < 0 ? e : 1) / (1 + e);
}
HD_BOTH float sigmoid_dx_of(const hd_geom *g, float dy, float y) { return dy * (y * (1 - y)); }

HD_BOTH float swish_of(const hd_geom *g, float x) { return x * sigmoid_of(g, x); }
HD_BOTH float swish_dx_of(const hd_geom *g, float dy, float x) {
  const float s = sigmoid_of(g, x);
  return dy * (s * fmaf(x, 1 - s, 1));
}

HD_BOTH float cuda_share_below(float x) { return (1 + hd__ref_erff(x * (float)HD_SQRT_HALF)) * 0.5f; }
HD_BOTH float cuda_tanh_inner(float x) { return (float)HD_SQRT_2_BY_PI * x * fmaf((float)HD_GELU_CUBIC, x * x, 1); }

HD_BOTH float gelu_of(const hd_geom *g, float x) {
  if (g->approximate)
    return 0.5f * x * (1 + hd__ref_tanhf(cuda_tanh_inner(x)));
  return x * cuda_share_below(x);
}
HD_BOTH float gelu_dx_of(const hd_geom *g, float dy, float x) {
  if (!g->approximate) {
    const float density = hd__ref_expf(x * x * -0.5f) * (float)HD_ONE_BY_SQRT_2PI;
    return dy * fmaf(x, density, cuda_share_below(x));
  }
  const float t = hd__ref_tanhf(cuda_tanh_inner(x));
  const float slope = (float)HD_SQRT_2_BY_PI * fmaf((float)(3 * HD_GELU_CUBIC), x * x, 1);
  return dy * fmaf(0.5f * x * fmaf(-t, t, 1), slope, 0.5f * (1 + t));
}

#define HD_EACH(name)                                                                                                  \
  HD_BOTH int64_t name##_count(const hd_geom *g) { return cuda_elems(g); }                                             \
  HD_BOTH int64_t name##_dx_count(const hd_geom *g) { return cuda_elems(g); }                                          \
  HD_BOTH void name##_at(const hd_cuda_call *c, int64_t n, int64_t i) {                                                \
    cuda_out(c, 0, n)[i] = name##_of(&c->g, cuda_in(c, 0, n)[i]);                                                      \
  }                                                                                                                    \
  HD_BOTH void name##_dx_at(const hd_cuda_call *c, int64_t n, int64_t i) {                                             \
    cuda_out(c, 0, n)[i] = name##_dx_of(&c->g, cuda_in(c, 0, n)[i], cuda_in(c, 1, n)[i]);                              \
  }
HD_EACH(relu)
HD_EACH(leaky_relu)
HD_EACH(tanh)
HD_EACH(sigmoid)
HD_EACH(swish)
HD_EACH(gelu)
#undef HD_EACH

/* ---- Others ---- */

HD_BOTH int64_t add_count(const hd_geom *g) { return cuda_elems(g); }
HD_BOTH void add_at(const hd_cuda_call *c, int64_t n, int64_t i) {
  cuda_out(c, 0, n)[i] = cuda_in(c, 0, n)[i] + cuda_in(c, 1, n)[i];
}

/* i counts the elements as images lie in memory: pixel by pixel. */
HD_BOTH int64_t cuda_by_channel(const hd_geom *g, int64_t i) {
  return i % g->ci * ((int64_t)g->hi * g->wi) + i / g->ci;
}

HD_BOTH int64_t flatten_count(const hd_geom *g) { return cuda_elems(g); }
HD_BOTH void flatten_at(const hd_cuda_call *c, int64_t n, int64_t i) {
  cuda_out(c, 0, n)[cuda_by_channel(&c->g, i)] = cuda_in(c, 0, n)[i];
}

HD_BOTH int64_t flatten_dx_count(const hd_geom *g) { return cuda_elems(g); }
HD_BOTH void flatten_dx_at(const hd_cuda_call *c, int64_t n, int64_t i) {
  cuda_out(c, 0, n)[i] = cuda_in(c, 0, n)[cuda_by_channel(&c->g, i)];
}

/* Elements of the output, each from the input whose channels hold it. */
HD_BOTH int64_t concat_count(const hd_geom *g) { return (int64_t)g->co * g->hi * g->wi; }
HD_BOTH void concat_at(const hd_cuda_call *c, int64_t n, int64_t i) {
  int channel = (int)(i % c->g.co), k = 0;
  while (channel >= c->g.part[k])
    channel -= c->g.part[k++];
  cuda_out(c, 0, n)[i] = cuda_in(c, k, n)[i / c->g.co * c->g.part[k] + channel];
}

HD_BOTH int64_t concat_dx_count(const hd_geom *g) { return cuda_elems(g); }
HD_BOTH void concat_dx_at(const hd_cuda_call *c, int64_t n, int64_t i) {
  cuda_out(c, 0, n)[i] = cuda_in(c, 0, n)[i / c->g.ci * c->g.co + c->g.first + i % c->g.ci];
}

/* Four neighbouring elements share a block of random words. */
HD_BOTH int64_t dropout_count(const hd_geom *g) { return (cuda_elems(g) + 3) / 4; }
HD_BOTH void dropout_at(const hd_cuda_call *c, int64_t n, int64_t block) {
  const hd_cuda_step *step = c->step;
  const uint32_t counter[4] = {(uint32_t)HD_RNG_DROPOUT << 24 | c->node, step->epoch, step->position + (uint32_t)n,
                               (uint32_t)block};
  const float kept = 1 / (1 - c->g.p);
  uint32_t word[4];
  hd__philox_rounds(word, step->seed, counter);
  HD_UNROLL
  for (int k = 0; k < 4; k++) {
    const int64_t i = block * 4 + k;
    if (i < cuda_elems(&c->g))
      cuda_out(c, 0, n)[i] = cuda_in(c, 0, n)[i] * (hd__rng_uniform(word[k]) < c->g.p ? 0 : kept);
  }
}

HD_BOTH int64_t dropout_dx_count(const hd_geom *g) { return dropout_count(g); }
HD_BOTH void dropout_dx_at(const hd_cuda_call *c, int64_t n, int64_t block) { dropout_at(c, n, block); }

/* Custom operations run on the CPU alone. */
HD_BOTH int64_t custom_count(const hd_geom *g) { return 0; }
HD_BOTH void custom_at(const hd_cuda_call *c, int64_t n, int64_t i) {}
HD_BOTH int64_t custom_dx_count(const hd_geom *g) { return 0; }
HD_BOTH void custom_dx_at(const hd_cuda_call *c, int64_t n, int64_t i) {}

#endif
