/* Linear layers on the GPU: a thread computes one element. Chains as in ref_linear.c. */
#ifndef HD_KERNEL_CUDA_LINEAR_H
#define HD_KERNEL_CUDA_LINEAR_H

#include "kernel/cuda/cuda_call.h"

HD_BOTH int64_t linear_count(const hd_geom *g) { return g->co; }

HD_BOTH void linear_at(const hd_cuda_call *c, int64_t n, int64_t j) {
  const float *x = cuda_in(c, 0, n), *w = cuda_param(c, 1) + j * c->g.ci;
  HD_CHAINS16(sum, c->g.ci, fmaf(x[i], w[i], s));
  const float y = c->in[2] ? sum + cuda_param(c, 2)[j] : sum;
  cuda_out(c, 0, n)[j] = c->g.relu && y < 0 ? 0 : y;
}

HD_BOTH int64_t linear_dx_count(const hd_geom *g) { return g->ci; }

HD_BOTH void linear_dx_at(const hd_cuda_call *c, int64_t n, int64_t k) {
  const float *dy = cuda_in(c, 0, n), *w = cuda_param(c, 1) + k;
  float acc = 0;
  for (int j = 0; j < c->g.co; j++)
    acc = fmaf(dy[j], w[(int64_t)j * c->g.ci], acc);
  cuda_out(c, 0, n)[k] = acc;
}

/* Weights first, then the bias. */
HD_BOTH int64_t linear_dw_count(const hd_geom *g) { return (int64_t)g->co * g->ci + g->co; }

HD_BOTH void linear_dw_at(const hd_cuda_call *c, int64_t k, int64_t i) {
  const int64_t weights = (int64_t)c->g.co * c->g.ci, j = i < weights ? i / c->g.ci : i - weights;
  const int output = i >= weights;
  if (!c->out[output])
    return;
  float acc = 0;
  for (int64_t n = cuda_row0(c, k); n < cuda_row1(c, k); n++)
    acc = output ? acc + cuda_in(c, 1, n)[j] : fmaf(cuda_in(c, 1, n)[j], cuda_in(c, 0, n)[i % c->g.ci], acc);
  cuda_sums(c, output, k)[output ? j : i] = acc;
}

#endif
