/* The end of a step: one block adds the losses in order and records whether the version that was written counts. All
 * its threads load losses into shared memory, one adds them. */
#pragma once

#include "kernel/cuda/cuda_block.h"
#include "kernel/cuda/cuda_params.h"

enum { HD_CLOSE_LOSSES = 2048 };

HD_BOTH void cuda_write_result(const hd_cuda_chunks *p, double loss_sum) {
  hd_cuda_result *result = &p->result[p->step->result];
  int32_t bad_param = -1;
  HD_UNROLL_BY_8
  for (int32_t i = p->params - 1; i >= 0; i--)
    bad_param = p->bad[i] ? i : bad_param;
  result->loss_sum = loss_sum;
  result->bad_param = bad_param;
  if (result->bad_param >= 0 || loss_sum - loss_sum != 0 || (p->grad && !update_finite(p->state->grad_scale)))
    p->state->failed = 1;
  result->failed = p->state->failed;
}

HD_BLOCK_KERNEL(close, hd_cuda_chunks) {
  HD_SHARED(float, loss, [HD_CLOSE_LOSSES]);
  HD_PER_THREAD(double, sum, 1);
  HD_PHASE { HD_THIS(sum)[0] = 0; }
  for (int64_t first = 0; first < c->step->rows; first += HD_CLOSE_LOSSES) {
    const int count = (int)(c->step->rows - first < HD_CLOSE_LOSSES ? c->step->rows - first : HD_CLOSE_LOSSES);
    HD_PHASE {
      for (int i = t; i < count; i += HD_CUDA_BLOCK)
        loss[i] = c->losses[first + i];
    }
    HD_PHASE {
      HD_UNROLL_BY_8
      for (int i = 0; t == 0 && i < count; i++)
        HD_THIS(sum)[0] = HD_THIS(sum)[0] + (double)loss[i];
    }
  }
  HD_PHASE {
    if (t == 0)
      cuda_write_result(c, HD_THIS(sum)[0]);
  }
}
