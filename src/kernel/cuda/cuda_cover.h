/* With several GPUs each adds its own shards' sums as far as the tree allows: what is left are its covers, which the GPUs
 * tell each other. The whole batch's fold goes on from there. */
#ifndef HD_KERNEL_CUDA_COVER_H
#define HD_KERNEL_CUDA_COVER_H

#include "kernel/cuda/cuda_params.h"

enum { HD_CUDA_COVERS = 2 * HD_MAX_FOLD_DEPTH }; /* of neighbouring shards, at most */

HD_BOTH void cover_at(const hd_cuda_meet *p, int64_t i) {
  const hd_fold *fold = &p->step->fold;
  float stack[HD_CUDA_COVERS];
  int top = 0;
  for (int k = 0; k < fold->count; k++) {
    stack[top++] = p->sums[k * p->sums_stride + i];
    for (int m = 0; m < fold->step[k].merges; m++, top--)
      stack[top - 2] = stack[top - 2] + stack[top - 1];
  }
  for (; p->as_one && top > 1; top--)
    stack[top - 2] = stack[top - 2] + stack[top - 1];
  if (p->as_one && top == 0) /* this GPU has no sample of the step, and takes part in the sum */
    stack[top++] = 0;
  for (int k = 0; k < top; k++)
    p->out[k * p->out_stride + i] = stack[k];
}

HD_BOTH void cover_stats_at(const hd_cuda_meet *p, int64_t i) {
  float mean[HD_CUDA_COVERS], m2[HD_CUDA_COVERS];
  int64_t rows[HD_CUDA_COVERS];
  const int top = cuda_fold_stats(p, i, mean, m2, rows);
  for (int k = 0; k < top; k++) {
    p->out[k * p->out_stride + i] = mean[k];
    p->out2[k * p->out_stride + i] = m2[k];
  }
}

#endif
