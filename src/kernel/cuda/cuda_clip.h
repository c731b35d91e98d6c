/* The factor of clipping, by one block: the trees over the 16 chains of squares of each chunk, then the tree over chunks. */
#ifndef HD_KERNEL_CUDA_CLIP_H
#define HD_KERNEL_CUDA_CLIP_H

#include "kernel/cuda/cuda_block.h"
#include "kernel/cuda/cuda_params.h"

/* A chunk's sum stands where its chain 0 did, `apart` chunks from the next; the lower of two takes both. */
HD_BLOCK_KERNEL(clip, hd_cuda_chunks) {
  double *squares = c->squares;
  HD_PHASE {
    for (int32_t chunk = t; chunk < c->chunks; chunk += HD_CUDA_BLOCK) {
      double *chain = squares + (int64_t)chunk * 16;
      for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
          chain[i] = chain[i] + chain[i + half];
    }
  }
  for (int64_t apart = 1; apart < c->chunks; apart *= 2)
    HD_PHASE {
      for (int64_t left = 2 * apart * t; left + apart < c->chunks; left += 2 * apart * HD_CUDA_BLOCK)
        squares[left * 16] = squares[left * 16] + squares[(left + apart) * 16];
    }
  HD_PHASE {
    if (t > 0)
      continue;
    const double factor = c->clip_norm / (sqrt(squares[0]) + 1e-6);
    c->state->grad_scale = squares[0] - squares[0] == 0 ? (float)(factor < 1 ? factor : 1) : NAN;
  }
}

#endif
