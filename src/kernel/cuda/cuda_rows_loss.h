/* Softmax and losses by blocks; the chains are those of the headers in src/op. */
#pragma once

#include "kernel/cuda/cuda_rows.h"

/* The largest element of the row of a thread, and the sum of exp(x - largest), by two passes. */
HD_BY_BLOCK void cuda_rows_exp(const cuda_rows *r, float *v_shared, float *ends, HD_PER_THREAD_ARG(float, found, 2)) {
  HD_ROWS_PASS(r, v_shared, 0, ends, cuda_row_in(r, 0, row), 0, 0, a, 0, -INFINITY, s0 = op_takes_over(v, s0) ? v : s0);
  HD_PHASE { HD_THIS(found)[0] = cuda_row_largest(r, ends, t); }
  HD_ROWS_PASS(r, v_shared, 0, ends, cuda_row_in(r, 0, row), 0, 0, hd__expf(a - HD_THIS(found)[0]), 0, 0, s0 = s0 + v);
  HD_PHASE { HD_THIS(found)[1] = cuda_row_sum(r, ends, 0, t); }
}

HD_BY_BLOCK void softmax_rows(const hd_cuda_call *c, int T) {
  cuda_rows r;
  if (!cuda_rows_begin(&r, c, HD_BLOCK, softmax_rows_matrix(&c->g, c->step->rows), T, (int32_t)op_pixels(&c->g)))
    return;
  HD_SHARED(float, shared, [HD_ROW_SHARED]);
  HD_SHARED(float, ends, [2 * HD_CUDA_BLOCK]);
  HD_PER_THREAD(float, found, 2);
  cuda_rows_exp(&r, shared, ends, found);
  HD_ROWS_OUT(&r, cuda_row_in(&r, 0, row), 0, 0, hd__expf(a - HD_THIS(found)[0]) / HD_THIS(found)[1]);
}

HD_BY_BLOCK void softmax_dx_rows(const hd_cuda_call *c, int T) {
  cuda_rows r;
  if (!cuda_rows_begin(&r, c, HD_BLOCK, softmax_dx_rows_matrix(&c->g, c->step->rows), T, (int32_t)op_pixels(&c->g)))
    return;
  HD_SHARED(float, dy, [HD_ROW_SHARED]);
  HD_SHARED(float, y, [HD_ROW_SHARED]);
  HD_SHARED(float, ends, [2 * HD_CUDA_BLOCK]);
  HD_PER_THREAD(float, dot, 1);
  HD_ROWS_PASS(&r, dy, y, ends, cuda_row_in(&r, 0, row), cuda_row_in(&r, 1, row), 0, a, b, 0, s0 = fmaf(v, u, s0));
  HD_PHASE { HD_THIS(dot)[0] = cuda_row_sum(&r, ends, 0, t); }
  HD_ROWS_OUT(&r, cuda_row_in(&r, 0, row), cuda_row_in(&r, 1, row), 0, b * (a - HD_THIS(dot)[0]));
}

/* ---- Losses: in[2] may hold a weight for each class or output ---- */

HD_BOTH const float *cuda_row_targets(const cuda_rows *r, int row) {
  return r->c->g.soft_labels ? cuda_row_in(r, 1, row) : 0;
}
HD_BOTH float cuda_weight_read(const hd_cuda_call *c, float read) { return c->in[2] ? read : 1; }

HD_BY_BLOCK void cross_entropy_rows(const hd_cuda_call *c, int T) {
  cuda_rows r;
  if (!cuda_rows_begin(&r, c, HD_BLOCK, cross_entropy_rows_matrix(&c->g, c->step->rows), T, 1))
    return;
  HD_SHARED(float, weighs, [HD_ROW_SHARED]);
  HD_SHARED(float, loss, [HD_ROW_SHARED]);
  HD_SHARED(float, ends, [2 * HD_CUDA_BLOCK]);
  HD_PER_THREAD(float, found, 2);
  cuda_rows_exp(&r, loss, ends, found);
  HD_PHASE { HD_THIS(found)[1] = hd__logf(HD_THIS(found)[1]); }
  if (cross_entropy_needs_all(&c->g))
    HD_ROWS_PASS(&r, weighs, loss, ends, cuda_row_in(&r, 0, row), cuda_row_targets(&r, row), op_param(c, 2),
                 cross_entropy_share(&c->g, cuda_weight_read(c, d), b), HD_THIS(found)[1] - (a - HD_THIS(found)[0]), 0,
                 s0 = fmaf(v, u, s0));
  HD_PHASE {
    if (cuda_row_leads(&r, t))
      cuda_row_out(&r, cuda_row(&r, t))[0] =
          cross_entropy_loss(c, r.first + cuda_row(&r, t), HD_THIS(found)[0], HD_THIS(found)[1],
                             cross_entropy_needs_all(&c->g) ? cuda_row_sum(&r, ends, 0, t) : 0);
  }
}

HD_BY_BLOCK void cross_entropy_dx_rows(const hd_cuda_call *c, int T) {
  cuda_rows r;
  if (!cuda_rows_begin(&r, c, HD_BLOCK, cross_entropy_dx_rows_matrix(&c->g, c->step->rows), T, 1))
    return;
  HD_SHARED(float, shared, [HD_ROW_SHARED]);
  HD_SHARED(float, ends, [2 * HD_CUDA_BLOCK]);
  HD_PER_THREAD(float, found, 2);
  HD_PER_THREAD(float, all, 1);
  HD_PER_THREAD(cross_entropy_target, target, 1);
  cuda_rows_exp(&r, shared, ends, found);
  if (cross_entropy_needs_all(&c->g))
    HD_ROWS_PASS(&r, shared, 0, ends, 0, cuda_row_targets(&r, row), op_param(c, 2),
                 cross_entropy_share(&c->g, cuda_weight_read(c, d), b), 0, 0, s0 = s0 + v);
  HD_PHASE {
    HD_THIS(all)[0] = cross_entropy_needs_all(&c->g) ? cuda_row_sum(&r, ends, 0, t) : 0;
    if (cuda_row(&r, t) < r.count)
      HD_THIS(target)[0] = cross_entropy_target_of(c, r.first + cuda_row(&r, t));
  }
  HD_ROWS_OUT(&r, cuda_row_in(&r, 0, row), cuda_row_targets(&r, row), op_param(c, 2),
              cross_entropy_slope(c, &HD_THIS(target)[0], i, hd__expf(a - HD_THIS(found)[0]) / HD_THIS(found)[1],
                                  cross_entropy_share(&c->g, cuda_weight_read(c, d), b), HD_THIS(all)[0]));
}

#define HD_LOSS_ROWS(name, ADD)                                                                                        \
  HD_BY_BLOCK void name##_rows(const hd_cuda_call *c, int T) {                                                         \
    cuda_rows r;                                                                                                       \
    if (!cuda_rows_begin(&r, c, HD_BLOCK, name##_rows_matrix(&c->g, c->step->rows), T, 1))                             \
      return;                                                                                                          \
    HD_SHARED(float, term, [HD_ROW_SHARED]);                                                                           \
    HD_SHARED(float, ends, [2 * HD_CUDA_BLOCK]);                                                                       \
    HD_ROWS_PASS(&r, term, 0, ends, cuda_row_in(&r, 0, row), cuda_row_in(&r, 1, row), op_param(c, 2),                  \
                 name##_term(&c->g, cuda_weight_read(c, d), a, b), 0, 0, s0 = ADD(s0, v));                             \
    HD_PHASE {                                                                                                         \
      if (cuda_row_leads(&r, t))                                                                                       \
        cuda_row_out(&r, cuda_row(&r, t))[0] = cuda_row_sum(&r, ends, 0, t);                                           \
    }                                                                                                                  \
  }
HD_LOSS_ROWS(mse, loss_add_square)
HD_LOSS_ROWS(l1, loss_add)
HD_LOSS_ROWS(huber, loss_add)
HD_LOSS_ROWS(bce_with_logits, loss_add)
#undef HD_LOSS_ROWS
