/* Softmax by blocks of rows; the chains are those of softmax.h. */
#pragma once

#include "kernel/cuda/cuda_rows.h"
#include "op/softmax/softmax.h"

/* The largest element of the row of a thread, and the sum of exp(x - largest), by two passes. */
HD_BY_BLOCK void cuda_rows_exp(const cuda_rows *r, float *v_shared, float *ends, HD_PER_THREAD_ARG(float, found, 2)) {
  HD_ROWS_PASS(r, v_shared, 0, ends, cuda_row_in(r, 0, row), 0, 0, a, 0, -INFINITY, s0 = op_takes_over(v, s0) ? v : s0);
  HD_PHASE { HD_THIS(found)[0] = cuda_row_largest(r, ends, t); }
  HD_ROWS_PASS(r, v_shared, 0, ends, cuda_row_in(r, 0, row), 0, 0, hd__expf(a - HD_THIS(found)[0]), 0, 0, s0 = s0 + v);
  HD_PHASE { HD_THIS(found)[1] = cuda_row_sum(r, ends, 0, t); }
}

HD_BY_BLOCK void softmax_of_rows(const cuda_rows *r) {
  HD_SHARED(float, shared, [HD_ROW_SHARED]);
  HD_SHARED(float, ends, [2 * HD_CUDA_BLOCK]);
  HD_PER_THREAD(float, found, 2);
  cuda_rows_exp(r, shared, ends, found);
  HD_ROWS_OUT(r, 0, cuda_row_in(r, 0, row), 0, 0, hd__expf(a - HD_THIS(found)[0]) / HD_THIS(found)[1]);
}
HD_ROWS(softmax, g->ci, op_pixels(g))

HD_BY_BLOCK void softmax_dx_of_rows(const cuda_rows *r) {
  HD_SHARED(float, dy, [HD_ROW_SHARED]);
  HD_SHARED(float, y, [HD_ROW_SHARED]);
  HD_SHARED(float, ends, [2 * HD_CUDA_BLOCK]);
  HD_PER_THREAD(float, dot, 1);
  HD_ROWS_PASS(r, dy, y, ends, cuda_row_in(r, 0, row), cuda_row_in(r, 1, row), 0, a, b, 0, s0 = fmaf(v, u, s0));
  HD_PHASE { HD_THIS(dot)[0] = cuda_row_sum(r, ends, 0, t); }
  HD_ROWS_OUT(r, 0, cuda_row_in(r, 0, row), cuda_row_in(r, 1, row), 0, b * (a - HD_THIS(dot)[0]));
}
HD_ROWS(softmax_dx, g->ci, op_pixels(g))
