/* With several GPUs each reduces the sums of its shards to partial sums, those of complete subtrees. The GPUs exchange
 * them, and the reduction of the whole batch continues from there. */
#pragma once

#include "kernel/cuda/cuda_params.h"

enum { HD_CUDA_MAX_SUMS = 2 * HD_MAX_REDUCTION_DEPTH }; /* of a range of shards, at most */

HD_BOTH void partial_sums_at(const hd_cuda_reduce *p, int64_t i) {
  float stack[HD_CUDA_MAX_SUMS];
  hd_walk w = hd__reduction_walk(&p->step->reduction);
  for (int k = 0; hd__walk_push(&w); k++)
    for (stack[w.top] = p->sums[k * p->sums_stride + i]; hd__walk_merge(&w);)
      stack[w.top] = stack[w.top] + stack[w.top + 1];
  for (; p->as_one && w.top > 0; w.top--)
    stack[w.top - 1] = stack[w.top - 1] + stack[w.top];
  if (p->as_one && w.top < 0) /* this GPU has no sample of the step, but the sum includes it */
    stack[++w.top] = 0;
  for (int k = 0; k <= w.top; k++)
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
