/* The norm of clipping: a block for each chunk sums its squares in 16 chains and their tree, then one block adds the
 * sums of the chunks in a tree. */
#pragma once

#include "kernel/cuda/cuda_block.h"
#include "kernel/cuda/cuda_params.h"

enum { HD_SQUARES = 1024 };

/* All threads load gradients into shared memory, 16 sum their squares. */
HD_BLOCK_KERNEL(squares, hd_cuda_chunks) {
  const hd_cuda_chunk *chunk = &c->chunk[HD_BLOCK];
  HD_SHARED(float, grad, [HD_SQUARES]);
  HD_SHARED(double, chain, [16]);
  HD_PER_THREAD(double, sum, 1);
  HD_PHASE { HD_THIS(sum)[0] = 0; }
  for (int32_t first = 0; first < chunk->count; first += HD_SQUARES) {
    const int count = chunk->count - first < HD_SQUARES ? chunk->count - first : HD_SQUARES;
    HD_PHASE {
      for (int i = t; i < count; i += HD_CUDA_BLOCK)
        grad[i] = c->grad[chunk->first + first + i];
    }
    HD_PHASE {
      HD_UNROLL_BY_8
      for (int i = t; t < 16 && i < count; i += 16)
        HD_THIS(sum)[0] = fma((double)grad[i], (double)grad[i], HD_THIS(sum)[0]);
    }
  }
  HD_PHASE {
    if (t < 16)
      chain[t] = HD_THIS(sum)[0];
  }
  HD_PHASE {
    if (t > 0)
      continue;
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; i++)
        chain[i] = chain[i] + chain[i + half];
    c->squares[HD_BLOCK] = chain[0];
  }
}

/* Two sums `apart` chunks from each other become one, in the place of the first. */
HD_BLOCK_KERNEL(clip_norm, hd_cuda_chunks) {
  double *sum = c->squares;
  for (int64_t apart = 1; apart < c->chunks; apart *= 2)
    HD_PHASE {
      for (int64_t left = 2 * apart * t; left + apart < c->chunks; left += 2 * apart * HD_CUDA_BLOCK)
        sum[left] = sum[left] + sum[left + apart];
    }
  HD_PHASE {
    if (t > 0)
      continue;
    const double factor = c->clip_norm / (sqrt(sum[0]) + 1e-6);
    c->state->grad_scale = sum[0] - sum[0] == 0 ? (float)(factor < 1 ? factor : 1) : NAN;
    if (!update_finite(c->state->grad_scale))
      c->state->lost = c->result[c->step->result].failed = 1;
  }
}
