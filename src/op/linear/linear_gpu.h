/* Linear layers by blocks; the chains are those of linear.h. Rows of a are contiguous in the result. */
#pragma once

#include "kernel/cuda/cuda_product.h"
#include "kernel/cuda/cuda_chains.h"
#include "op/linear/linear.h"

/* ---- Forward: outputs by samples, 16 chains ---- */

HD_BOTH hd_cuda_cut linear_sums_matrix(const hd_geom *g, int64_t rows) {
  return cuda_matrix(g->co, rows, cuda_ceil(g->ci, 16), 1, HD_NO_SHARDS);
}
HD_BOTH int32_t linear_sums_steps(const cuda_part *p, int chain) { return (p->c->g.ci - chain + 15) / 16; }

/* A step is 16 numbers of a row. The threads of a side load lines of 512 / T numbers, or segments of HD_SIDE of a
 * line: */
HD_BOTH int cuda_segment(int T) { return 512 / T < HD_SIDE ? 512 / T : HD_SIDE; }
HD_BOTH int cuda_segments(int T) { return 512 / T / cuda_segment(T); }
HD_BOTH int cuda_segment_row(int T, int i, int e) { return e * HD_SIDE / (512 / T) + i / cuda_segment(T); }
HD_BOTH int cuda_segment_column(int T, int i, int e) {
  return e % cuda_segments(T) * cuda_segment(T) + i % cuda_segment(T);
}

HD_BOTH cuda_line linear_sums_line(const cuda_part *p, int T, int side, int i, int taps) {
  const int64_t stride = side ? p->c->in_stride[0] : p->c->g.ci;
  const float *first = side ? op_in(p->c, 0, p->b0) : op_param(p->c, 1) + p->a0 * stride;
  return cuda_line_at(first + i / cuda_segment(T) * stride + i % cuda_segment(T));
}
HD_BOTH void linear_sums_take(float raw[16], const cuda_part *p, const cuda_line *line, int T, int side, int i,
                              int32_t step, int taps) {
  const int64_t stride = side ? p->c->in_stride[0] : p->c->g.ci;
  const float *from = line->from + (int64_t)step * 16;
  const int rows = side ? p->b_rows - p->b0 : p->a_rows - p->a0, columns = p->c->g.ci - step * 16;
  HD_UNROLL
  for (int e = 0; e < 16; e++) {
    raw[e] = 0;
    if (cuda_segment_row(T, i, e) < rows && cuda_segment_column(T, i, e) < columns)
      raw[e] = from[e % cuda_segments(T) * cuda_segment(T)];
    if ((e + 1) % cuda_segments(T) == 0)
      from += cuda_segment_row(T, 0, cuda_segments(T)) * stride;
  }
}
HD_BOTH void linear_sums_put(float *factors, const float raw[16], int T, int side, int i, int taps) {
  HD_UNROLL
  for (int e = 0; e < 16; e++) {
    const int column = cuda_segment_column(T, i, e), first = e % cuda_segments(T) * cuda_segment(T) / 16;
    factors[cuda_factor(16, T, cuda_segment_row(T, i, e), first + i % cuda_segment(T) / 16, column % 16)] = raw[e];
  }
}
HD_BOTH void linear_sums_store(const cuda_part *p, float chain[16], int32_t j, int32_t n, int taps) {
  const float sum = op_tree16(chain), y = p->c->in[2] ? sum + op_param(p->c, 2)[j] : sum;
  op_out(p->c, 0, n)[j] = p->c->g.relu && y < 0 ? 0 : y;
}
HD_TILED(linear, linear_sums_8, linear_sums, 32, 32) { HD_CHAINS(linear_sums, 16, 8, 0); }
HD_TILED(linear, linear_sums_4, linear_sums, 16, 16) { HD_CHAINS(linear_sums, 16, 4, 0); }
HD_TILED(linear, linear_sums_2, linear_sums, 8, 8) { HD_CHAINS(linear_sums, 16, 2, 0); }

/* ---- Gradient of the input: inputs by samples ---- */

enum { linear_dx_product_A_DEEP = 0, linear_dx_product_B_DEEP = 1, linear_dx_product_A_SUMMED = 0 };
HD_BOTH hd_cuda_cut linear_dx_product_matrix(const hd_geom *g, int64_t rows) {
  return cuda_matrix(g->ci, rows, g->co, 1, HD_NO_SHARDS);
}
HD_BOTH cuda_line linear_dx_product_a_line(const cuda_part *p, int32_t k) {
  return cuda_line_at(op_param(p->c, 1) + k);
}
HD_BOTH cuda_line linear_dx_product_b_line(const cuda_part *p, int32_t n) { return cuda_line_at(op_in(p->c, 0, n)); }
HD_BOTH float linear_dx_product_a(const cuda_part *p, const cuda_line *line, int32_t j) {
  return line->from[(int64_t)j * p->c->g.ci];
}
HD_BOTH float linear_dx_product_b(const cuda_part *p, const cuda_line *line, int32_t j) { return line->from[j]; }
HD_BOTH float linear_dx_product_first(const cuda_part *p, int32_t k, float sum) { return 0; }
HD_BOTH void linear_dx_product_store(const cuda_part *p, const float *outputs, int line, int a_side, int b_side,
                                     int t) {
  HD_EACH_OUTPUT(p, a_side, b_side, t, k, n)
  op_put_dx(p->c, p->b0 + n, p->a0 + k, outputs[n * line + k]);
}
HD_TILED(linear_dx, linear_dx_product_4_4, linear_dx_product, 64, 64) { HD_PRODUCT(linear_dx_product, 4, 4); }
HD_TILED(linear_dx, linear_dx_product_2_2, linear_dx_product, 32, 32) { HD_PRODUCT(linear_dx_product, 2, 2); }

/* ---- Gradient of the weight: inputs, and behind them ones for the bias, by outputs, for each shard ---- */

enum { linear_dw_product_A_DEEP = 0, linear_dw_product_B_DEEP = 0, linear_dw_product_A_SUMMED = 0 };
HD_BOTH hd_cuda_cut linear_dw_product_matrix(const hd_geom *g, int64_t rows) {
  return cuda_matrix((int64_t)g->ci + 1, g->co, 1, 1, rows);
}
HD_BOTH cuda_line linear_dw_product_a_line(const cuda_part *p, int32_t k) {
  cuda_line line = cuda_line_at(op_in(p->c, 0, p->row0) + k);
  line.x = k;
  return line;
}
HD_BOTH cuda_line linear_dw_product_b_line(const cuda_part *p, int32_t j) {
  return cuda_line_at(op_in(p->c, 1, p->row0) + j);
}
HD_BOTH float linear_dw_product_a(const cuda_part *p, const cuda_line *line, int32_t n) {
  return line->x < p->c->g.ci ? line->from[n * p->c->in_stride[0]] : 1;
}
HD_BOTH float linear_dw_product_b(const cuda_part *p, const cuda_line *line, int32_t n) {
  return line->from[n * p->c->in_stride[1]];
}
HD_BOTH float linear_dw_product_first(const cuda_part *p, int32_t k, float sum) { return 0; }

/* Column `columns` of a row of weights is the bias. */
HD_BOTH void cuda_store_weights(const cuda_part *p, int64_t columns, int32_t column, int32_t j, float value) {
  if (column < columns && p->c->out[0])
    op_sums(p->c, 0, p->shard)[j * columns + column] = value;
  if (column == columns && p->c->out[1])
    op_sums(p->c, 1, p->shard)[j] = value;
}
HD_BOTH void linear_dw_product_store(const cuda_part *p, const float *outputs, int line, int a_side, int b_side,
                                     int t) {
  HD_EACH_OUTPUT(p, a_side, b_side, t, k, j)
  cuda_store_weights(p, p->c->g.ci, p->a0 + k, p->b0 + j, outputs[j * line + k]);
}
HD_TILED(linear_dw, linear_dw_product_4_4, linear_dw_product, 64, 64) { HD_PRODUCT(linear_dw_product, 4, 4); }
HD_TILED(linear_dw, linear_dw_product_2_2, linear_dw_product, 32, 32) { HD_PRODUCT(linear_dw_product, 2, 2); }
