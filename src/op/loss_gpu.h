/* What losses by blocks of rows share: output 1 is the gradient, if it is asked for with the loss.
 * HD_LOSS_OF_TERMS(NAME, ADD) makes what HD_ROWS(NAME, g->ci, 1) needs of a loss that is a sum of terms, as
 * OP_LOSS_OF_TERMS in loss.h. */
#pragma once

#include "kernel/cuda/cuda_rows.h"
#include "op/loss.h"

HD_BOTH float cuda_weight_read(const hd_cuda_call *c, float read) { return c->in[2] ? read : 1; }

#define HD_LOSS_OF_TERMS(name, ADD)                                                                                    \
  HD_BY_BLOCK void name##_of_rows(const cuda_rows *r) {                                                                \
    const hd_cuda_call *c = r->c;                                                                                      \
    HD_SHARED(float, term, [HD_ROW_SHARED]);                                                                           \
    HD_SHARED(float, ends, [2 * HD_CUDA_BLOCK]);                                                                       \
    HD_ROWS_PASS(r, term, 0, ends, cuda_row_in(r, 0, row), cuda_row_in(r, 1, row), op_param(c, 2),                     \
                 name##_term(&c->g, cuda_weight_read(c, d), a, b), 0, 0, s0 = ADD(s0, v));                             \
    HD_PHASE {                                                                                                         \
      if (cuda_row_leads(r, t))                                                                                        \
        cuda_row_out(r, 0, cuda_row(r, t))[0] = cuda_row_sum(r, ends, 0, t);                                           \
    }                                                                                                                  \
    if (c->out[1])                                                                                                     \
      HD_ROWS_OUT(r, 1, cuda_row_in(r, 0, row), cuda_row_in(r, 1, row), op_param(c, 2),                                \
                  name##_slope(&c->g, cuda_weight_read(c, d), a, b) / op_divisor(c));                                  \
  }
