/* shifted_linear by blocks, as a product of outputs by samples; the chains are those of shifted_linear.h. */
#pragma once

#include "kernel/cuda/cuda_product.h"
#include "op/shifted_linear/shifted_linear.h"

enum { shifted_linear_product_A_DEEP = 1, shifted_linear_product_B_DEEP = 1, shifted_linear_product_A_SUMMED = 1 };
HD_BOTH hd_cuda_cut shifted_linear_product_matrix(const hd_geom *g, int64_t rows) {
  return cuda_matrix(g->co, rows, g->ci, 1, HD_NO_SHARDS);
}
HD_BOTH cuda_line shifted_linear_product_a_line(const cuda_part *p, int32_t j) {
  return cuda_line_at(op_param(p->c, 1) + (int64_t)j * p->c->g.ci);
}
HD_BOTH cuda_line shifted_linear_product_b_line(const cuda_part *p, int32_t n) {
  return cuda_line_at(op_in(p->c, 0, n));
}
HD_BOTH float shifted_linear_product_a(const cuda_part *p, const cuda_line *line, int32_t k) { return line->from[k]; }
HD_BOTH float shifted_linear_product_b(const cuda_part *p, const cuda_line *line, int32_t k) { return line->from[k]; }
HD_BOTH float shifted_linear_product_first(const cuda_part *p, int32_t j, float sum) {
  return shifted_linear_start(p->c->g.shifted_linear.shift, sum, p->c->in[2] ? op_param(p->c, 2)[j] : 0);
}
HD_BOTH void shifted_linear_product_store(const cuda_part *p, const float *outputs, int line, int a_side, int b_side,
                                          int t) {
  HD_EACH_OUTPUT(p, a_side, b_side, t, j, n)
  op_out(p->c, 0, p->b0 + n)[p->a0 + j] = shifted_linear_last(&p->c->g, outputs[n * line + j]);
}
HD_TILED(shifted_linear, shifted_linear_product_4_4, shifted_linear_product, 64, 64) {
  HD_PRODUCT(shifted_linear_product, 4, 4);
}
HD_TILED(shifted_linear, shifted_linear_product_2_2, shifted_linear_product, 32, 32) {
  HD_PRODUCT(shifted_linear_product, 2, 2);
}
