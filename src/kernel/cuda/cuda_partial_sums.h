/* With several GPUs each reduces the sums of its shards to partial sums, those of complete subtrees. The GPUs exchange
 * them, and the reduction of the whole batch continues from there. */
#ifndef HD_KERNEL_CUDA_PARTIAL_SUMS_H
#define HD_KERNEL_CUDA_PARTIAL_SUMS_H

#include "kernel/cuda/cuda_params.h"

enum { HD_CUDA_MAX_SUMS = 2 * HD_MAX_REDUCTION_DEPTH }; /* of a range of shards, at most */

HD_BOTH void partial_sums_at(const hd_cuda_reduce *p, int64_t i) {
  const hd_reduction *reduction = &p->step->reduction;
  float stack[HD_CUDA_MAX_SUMS];
  int top = 0;
  for (int k = 0; k < reduction->count; k++) {
    stack[top++] = p->sums[k * p->sums_stride + i];
    for (int m = 0; m < reduction->step[k].merges; m++, top--)
      stack[top - 2] = stack[top - 2] + stack[top - 1];
  }
  for (; p->as_one && top > 1; top--)
    stack[top - 2] = stack[top - 2] + stack[top - 1];
  if (p->as_one && top == 0) /* this GPU has no sample of the step, but the sum includes it */
    stack[top++] = 0;
  for (int k = 0; k < top; k++)
    p->out[k * p->out_stride + i] = stack[k];
}

HD_BOTH void partial_stats_at(const hd_cuda_reduce *p, int64_t i) {
  float mean[HD_CUDA_MAX_SUMS], m2[HD_CUDA_MAX_SUMS];
  int64_t rows[HD_CUDA_MAX_SUMS];
  const int top = cuda_merge_stats(p, i, mean, m2, rows);
  for (int k = 0; k < top; k++) {
    p->out[k * p->out_stride + i] = mean[k];
    p->out2[k * p->out_stride + i] = m2[k];
  }
}

#endif
