/* cross_entropy by blocks of rows; the chains are those of cross_entropy.h. */
#pragma once

#include "op/cross_entropy/cross_entropy.h"
#include "op/loss_gpu.h"
#include "op/softmax/softmax_gpu.h"

HD_BOTH const float *cuda_row_targets(const cuda_rows *r, int row) {
  return r->c->g.soft_labels ? cuda_row_in(r, 1, row) : 0;
}

HD_BY_BLOCK void cross_entropy_of_rows(const cuda_rows *r) {
  const hd_cuda_call *c = r->c;
  HD_SHARED(float, weighs, [HD_ROW_SHARED]);
  HD_SHARED(float, loss, [HD_ROW_SHARED]);
  HD_SHARED(float, ends, [2 * HD_CUDA_BLOCK]);
  HD_PER_THREAD(float, found, 2);
  cuda_rows_exp(r, loss, ends, found);
  HD_PHASE { HD_THIS(found)[1] = hd__logf(HD_THIS(found)[1]); }
  if (cross_entropy_needs_all(&c->g))
    HD_ROWS_PASS(r, weighs, loss, ends, cuda_row_in(r, 0, row), cuda_row_targets(r, row), op_param(c, 2),
                 cross_entropy_share(&c->g, cuda_weight_read(c, d), b), HD_THIS(found)[1] - (a - HD_THIS(found)[0]), 0,
                 s0 = fmaf(v, u, s0));
  HD_PHASE {
    if (cuda_row_leads(r, t))
      cuda_row_out(r, cuda_row(r, t))[0] =
          cross_entropy_loss(c, r->first + cuda_row(r, t), HD_THIS(found)[0], HD_THIS(found)[1],
                             cross_entropy_needs_all(&c->g) ? cuda_row_sum(r, ends, 0, t) : 0);
  }
}
HD_ROWS(cross_entropy, g->ci, 1)

HD_BY_BLOCK void cross_entropy_dx_of_rows(const cuda_rows *r) {
  const hd_cuda_call *c = r->c;
  HD_SHARED(float, shared, [HD_ROW_SHARED]);
  HD_SHARED(float, ends, [2 * HD_CUDA_BLOCK]);
  HD_PER_THREAD(float, found, 2);
  HD_PER_THREAD(float, all, 1);
  HD_PER_THREAD(cross_entropy_target, target, 1);
  cuda_rows_exp(r, shared, ends, found);
  if (cross_entropy_needs_all(&c->g))
    HD_ROWS_PASS(r, shared, 0, ends, 0, cuda_row_targets(r, row), op_param(c, 2),
                 cross_entropy_share(&c->g, cuda_weight_read(c, d), b), 0, 0, s0 = s0 + v);
  HD_PHASE {
    HD_THIS(all)[0] = cross_entropy_needs_all(&c->g) ? cuda_row_sum(r, ends, 0, t) : 0;
    if (cuda_row(r, t) < r->count)
      HD_THIS(target)[0] = cross_entropy_target_of(c, r->first + cuda_row(r, t));
  }
  HD_ROWS_OUT(r, cuda_row_in(r, 0, row), cuda_row_targets(r, row), op_param(c, 2),
              cross_entropy_slope(c, &HD_THIS(target)[0], i, hd__expf(a - HD_THIS(found)[0]) / HD_THIS(found)[1],
                                  cross_entropy_share(&c->g, cuda_weight_read(c, d), b), HD_THIS(all)[0]));
}
HD_ROWS(cross_entropy_dx, g->ci, 1)
