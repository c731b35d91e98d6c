/* The loss of a step, and whether the steps before it were finite. It runs beside the gradients: one block adds the
 * samples' losses in order; all its threads load them into shared memory, one adds them. A step that is not finite is
 * marked in its result and in the table of parameters; the next step finds the mark here, and updates nothing. */
#pragma once

#include "kernel/cuda/cuda_block.h"

enum { HD_LOSSES = 2048 };

HD_BOTH void cuda_write_result(const hd_cuda_chunks *p, double loss_sum) {
  hd_cuda_state *state = p->state;
  int32_t failed = state->failed | state->lost;
  HD_UNROLL_BY_8
  for (int32_t i = 0; i < p->params; i++)
    failed |= p->bad[i] != 0;
  state->failed = failed;
  state->lost = loss_sum - loss_sum != 0;
  p->result[p->step->result].loss_sum = loss_sum;
  p->result[p->step->result].failed = failed | state->lost;
}

HD_BLOCK_KERNEL(losses, hd_cuda_chunks) {
  HD_SHARED(float, loss, [HD_LOSSES]);
  HD_PER_THREAD(double, sum, 1);
  HD_PHASE { HD_THIS(sum)[0] = 0; }
  for (int64_t first = 0; first < c->step->rows; first += HD_LOSSES) {
    const int count = (int)(c->step->rows - first < HD_LOSSES ? c->step->rows - first : HD_LOSSES);
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
