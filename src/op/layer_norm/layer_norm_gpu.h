/* Layer norms by blocks; the chains are those of norm.h. The gradients of weight and bias are chains over the
 * samples, one for each element: a block has a shard, computes the moments of up to 16 samples at a time, and then a
 * thread for each element adds the terms of these samples. */
#pragma once

#include "kernel/cuda/cuda_rows.h"
#include "op/layer_norm/layer_norm.h"

/* Mean and rate of the row of a thread, of input `slot`, by two passes. */
HD_BY_BLOCK void cuda_rows_moments(const cuda_rows *r, int slot, float *v_shared, float *ends,
                                   HD_PER_THREAD_ARG(float, moments, 2)) {
  HD_ROWS_PASS(r, v_shared, 0, ends, cuda_row_in(r, slot, row), 0, 0, a, 0, 0, s0 = s0 + v);
  HD_PHASE { HD_THIS(moments)[0] = cuda_row_sum(r, ends, 0, t) / (float)r->length; }
  HD_ROWS_PASS(r, v_shared, 0, ends, cuda_row_in(r, slot, row), 0, 0, a - HD_THIS(moments)[0], 0, 0,
               s0 = fmaf(v, v, s0));
  HD_PHASE { HD_THIS(moments)[1] = norm_rate(&r->c->g, cuda_row_sum(r, ends, 0, t) / (float)r->length); }
}

HD_BY_BLOCK void layer_norm_of_rows(const cuda_rows *r) {
  const hd_cuda_call *c = r->c;
  HD_SHARED(float, shared, [HD_ROW_SHARED]);
  HD_SHARED(float, ends, [2 * HD_CUDA_BLOCK]);
  HD_PER_THREAD(float, moments, 2);
  cuda_rows_moments(r, 0, shared, ends, moments);
  HD_ROWS_OUT(r, 0, cuda_row_in(r, 0, row), op_param(c, 1), op_param(c, 2),
              fmaf((a - HD_THIS(moments)[0]) * HD_THIS(moments)[1], b, d));
}
HD_ROWS(layer_norm, op_elems(g), 1)

HD_BY_BLOCK void layer_norm_dx_of_rows(const cuda_rows *r) {
  const hd_cuda_call *c = r->c;
  HD_SHARED(float, h, [HD_ROW_SHARED]);
  HD_SHARED(float, xhat, [HD_ROW_SHARED]);
  HD_SHARED(float, ends, [2 * HD_CUDA_BLOCK]);
  HD_PER_THREAD(float, moments, 2);
  HD_PER_THREAD(float, mean, 2); /* of h, of h * xhat */
  cuda_rows_moments(r, 2, h, ends, moments);
  HD_ROWS_PASS(r, h, xhat, ends, cuda_row_in(r, 0, row), cuda_row_in(r, 2, row), op_param(c, 1), a * d,
               (b - HD_THIS(moments)[0]) * HD_THIS(moments)[1], 0, (s0 = s0 + v, s1 = fmaf(v, u, s1)));
  HD_PHASE {
    HD_THIS(mean)[0] = cuda_row_sum(r, ends, 0, t) / (float)r->length;
    HD_THIS(mean)[1] = cuda_row_sum(r, ends, 1, t) / (float)r->length;
  }
  HD_ROWS_OUT(r, 0, cuda_row_in(r, 0, row), cuda_row_in(r, 2, row), op_param(c, 1),
              norm_slope(a * d, b - HD_THIS(moments)[0], HD_THIS(moments)[1], HD_THIS(mean)[0], HD_THIS(mean)[1]));
}
HD_ROWS(layer_norm_dx, op_elems(g), 1)

/* ---- Gradients of weight and bias ---- */

/* Elements whose sums a thread adds at a time. */
enum { HD_ROW_COLUMNS = 2 };

/* Adds the terms of the rows to the sums of the elements of thread t. */
HD_BOTH void cuda_rows_add_gradients(const cuda_rows *r, int64_t shard, int is_first, const float *mean,
                                     const float *rate, int t) {
  float *dw = r->c->out[0] ? op_sums(r->c, 0, shard) : 0, *db = r->c->out[1] ? op_sums(r->c, 1, shard) : 0;
  for (int32_t from = t; from < r->length; from += HD_ROW_COLUMNS * HD_CUDA_BLOCK) {
    float w[HD_ROW_COLUMNS], b[HD_ROW_COLUMNS];
    HD_UNROLL
    for (int e = 0; e < HD_ROW_COLUMNS; e++) {
      const int32_t i = from + e * HD_CUDA_BLOCK;
      w[e] = dw && !is_first && i < r->length ? dw[i] : 0;
      b[e] = db && !is_first && i < r->length ? db[i] : 0;
    }
    HD_UNROLL_BY_8
    for (int row = 0; row < r->count; row++) {
      const float *x = cuda_row_in(r, 0, row), *dy = cuda_row_in(r, 1, row);
      HD_UNROLL
      for (int e = 0; e < HD_ROW_COLUMNS; e++) {
        const int32_t i = from + e * HD_CUDA_BLOCK < r->length ? from + e * HD_CUDA_BLOCK : from;
        w[e] = fmaf(dy[i], (x[i] - mean[row]) * rate[row], w[e]);
        b[e] = b[e] + dy[i];
      }
    }
    HD_UNROLL
    for (int e = 0; e < HD_ROW_COLUMNS; e++) {
      const int32_t i = from + e * HD_CUDA_BLOCK;
      if (dw && i < r->length)
        dw[i] = w[e];
      if (db && i < r->length)
        db[i] = b[e];
    }
  }
}

/* Rows of a block for so many samples: with few samples each has more threads. */
HD_BOTH int cuda_rows_side_by_side(int32_t samples) {
  int T = HD_ROW_MOST;
  while (T > 1 && T / 2 >= samples)
    T /= 2;
  return T;
}

/* A block for each shard; its steps are samples. */
HD_BOTH hd_cuda_cut layer_norm_dw_rows_matrix(const hd_geom *g, int64_t rows) {
  return op_elems(g) > INT32_MAX / 2 ? cuda_no_matrix() : cuda_matrix(1, 1, 1, 1, rows);
}
HD_TILED(layer_norm_dw, layer_norm_dw_rows, layer_norm_dw_rows, 1, 1) {
  cuda_part p;
  if (!cuda_place(&p, c, HD_BLOCK, 1))
    return;
  HD_SHARED(float, shared, [HD_ROW_SHARED]);
  HD_SHARED(float, ends, [2 * HD_CUDA_BLOCK]);
  HD_SHARED(float, mean, [HD_ROW_MOST]);
  HD_SHARED(float, rate, [HD_ROW_MOST]);
  HD_PER_THREAD(float, moments, 2);
  const int T = cuda_rows_side_by_side(p.steps);
  for (int32_t first = 0; first < p.steps; first += T) {
    const cuda_rows r = {c, T, p.steps - first < T ? p.steps - first : T, (int32_t)op_elems(&c->g),
                         (int32_t)p.row0 + first};
    cuda_rows_moments(&r, 0, shared, ends, moments);
    HD_PHASE {
      if (!cuda_row_leads(&r, t))
        continue;
      mean[cuda_row(&r, t)] = HD_THIS(moments)[0];
      rate[cuda_row(&r, t)] = HD_THIS(moments)[1];
    }
    HD_PHASE { cuda_rows_add_gradients(&r, p.shard, first == 0, mean, rate, t); }
  }
}
