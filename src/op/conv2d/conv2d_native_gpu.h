/* Around the products of NVIDIA's libraries: after one bias, ReLU and max pool; a pooled gradient becomes that of the
 * convolution. A thread computes an element. */
#pragma once

#include "op/conv2d/conv2d.h"

/* in[0]: the product; in[2]: the bias. A linear layer's columns, or a convolution's windows. */
HD_BOTH int64_t finish_count(const hd_geom *g) { return (int64_t)g->hp * g->wp * g->co; }

HD_BOTH float finish_value(const hd_cuda_call *c, const float *product, int64_t at, int co) {
  return c->in[2] ? product[at] + op_param(c, 2)[co] : product[at];
}

HD_BOTH void finish_at(const hd_cuda_call *c, int64_t n, int64_t i) {
  const hd_geom *g = &c->g;
  const int co = (int)(i % g->co), window = (int)(i / g->co);
  const int oy = window / g->wp * g->conv.pool, ox = window % g->wp * g->conv.pool;
  const float *product = op_in(c, 0, n);
  float best = finish_value(c, product, ((int64_t)oy * g->wo + ox) * g->co + co, co);
  int at = 0;
  for (int p = 1; p < g->conv.pool * g->conv.pool; p++) {
    const int64_t place = ((int64_t)(oy + p / g->conv.pool) * g->wo + ox + p % g->conv.pool) * g->co + co;
    const float value = finish_value(c, product, place, co);
    if (op_takes_over(value, best)) {
      best = value;
      at = p;
    }
  }
  conv2d_put(c, n, window, co, best, at);
}

/* in[0]: the pooled gradient, in[2]: where its maxima were; out[0]: that of all positions, zero elsewhere. */
HD_BOTH int64_t spread_count(const hd_geom *g) { return (int64_t)g->ho * g->wo * g->co; }

HD_BOTH void spread_at(const hd_cuda_call *c, int64_t n, int64_t i) {
  const hd_geom *g = &c->g;
  const int co = (int)(i % g->co), oy = (int)(i / g->co) / g->wo, ox = (int)(i / g->co) % g->wo;
  const int64_t window = ((int64_t)(oy / g->conv.pool) * g->wp + ox / g->conv.pool) * g->co + co;
  const int there = oy / g->conv.pool < g->hp && ox / g->conv.pool < g->wp &&
                    op_bytes_in(c, 2, n)[window] == oy % g->conv.pool * g->conv.pool + ox % g->conv.pool;
  op_out(c, 0, n)[i] = there ? op_in(c, 0, n)[window] : 0;
}
