/* cross_entropy by blocks of rows; the chains are those of cross_entropy.h. */
#pragma once

#include "op/cross_entropy/cross_entropy.h"
#include "op/loss_gpu.h"
#include "op/softmax/softmax_gpu.h"

HD_BOTH const float *cuda_row_targets(const cuda_rows *r, int row) {
  return r->c->g.cross_entropy.soft_labels ? cuda_row_in(r, 1, row) : 0;
}

/* The loss to output `loss`, the gradient to output `dx`; below 0: not asked for. */
HD_BY_BLOCK void cuda_rows_entropy(const cuda_rows *r, int loss, int dx) {
  const hd_cuda_call *c = r->c;
  HD_SHARED(float, weighs, [HD_ROW_SHARED]);
  HD_SHARED(float, terms, [HD_ROW_SHARED]);
  HD_SHARED(float, ends, [2 * HD_CUDA_BLOCK]);
  HD_PER_THREAD(float, found, 2);
  HD_PER_THREAD(float, log_sum, 1);
  HD_PER_THREAD(float, all, 2); /* of terms and of weights, over all classes */
  HD_PER_THREAD(cross_entropy_target, target, 1);
  cuda_rows_exp(r, terms, ends, found);
  HD_PHASE { HD_THIS(log_sum)[0] = hd__logf(HD_THIS(found)[1]); }
  if (cross_entropy_needs_all(&c->g))
    HD_ROWS_PASS(r, weighs, terms, ends, cuda_row_in(r, 0, row), cuda_row_targets(r, row), op_param(c, 2),
                 cross_entropy_share(&c->g, cuda_weight_read(c, d), b), HD_THIS(log_sum)[0] - (a - HD_THIS(found)[0]),
                 0, (s0 = fmaf(v, u, s0), s1 = s1 + v));
  HD_PHASE {
    for (int k = 0; k < 2; k++)
      HD_THIS(all)[k] = cross_entropy_needs_all(&c->g) ? cuda_row_sum(r, ends, k, t) : 0;
    if (loss >= 0 && cuda_row_leads(r, t))
      cuda_row_out(r, loss, cuda_row(r, t))[0] =
          cross_entropy_loss(c, r->first + cuda_row(r, t), 0, HD_THIS(found)[0], HD_THIS(log_sum)[0], HD_THIS(all)[0]);
    if (dx >= 0 && cuda_row(r, t) < r->count)
      HD_THIS(target)[0] = cross_entropy_target_of(c, r->first + cuda_row(r, t), 0);
  }
  if (dx >= 0)
    HD_ROWS_OUT(r, dx, cuda_row_in(r, 0, row), cuda_row_targets(r, row), op_param(c, 2),
                cross_entropy_slope(c, &HD_THIS(target)[0], i, hd__expf(a - HD_THIS(found)[0]) / HD_THIS(found)[1],
                                    cross_entropy_share(&c->g, cuda_weight_read(c, d), b), HD_THIS(all)[1]));
}
HD_BY_BLOCK void cross_entropy_of_rows(const cuda_rows *r) { cuda_rows_entropy(r, 0, r->c->out[1] ? 1 : -1); }
HD_BY_BLOCK void cross_entropy_dx_of_rows(const cuda_rows *r) { cuda_rows_entropy(r, -1, 0); }

/* Samples with several places are left to the plain kernel: a row so long has no matrix. */
HD_BOTH int64_t cross_entropy_length(const hd_geom *g) { return op_pixels(g) > 1 ? INT32_MAX : g->ci; }
HD_ROWS(cross_entropy, cross_entropy_length(g), 1)
HD_ROWS(cross_entropy_dx, cross_entropy_length(g), 1)
