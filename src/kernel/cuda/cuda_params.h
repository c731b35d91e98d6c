/* Reductions of shard sums in the tree, those of batch_sums.c; running statistics; samples from the data set. */
#pragma once

#include "kernel/cuda/cuda_call.h"

/* Shards whose values are loaded at a time. */
enum { HD_REDUCE_AHEAD = 16 };

/* The walk of base/reduction.h through the shards' values of one float, written out: nvcc makes twice as many
 * instructions of the walk itself, inside the loop that it unrolls. */
HD_BOTH float cuda_reduce(const hd_reduction *reduction, const float *sums, int64_t stride) {
  float stack[HD_MAX_REDUCTION_DEPTH], value[HD_REDUCE_AHEAD];
  int top = 0;
  for (int first = 0; first < reduction->count; first += HD_REDUCE_AHEAD) {
    HD_UNROLL
    for (int i = 0; i < HD_REDUCE_AHEAD; i++)
      value[i] = first + i < reduction->count ? sums[(first + i) * stride] : 0;
    HD_UNROLL
    for (int i = 0; i < HD_REDUCE_AHEAD; i++) {
      const int k = first + i;
      if (k >= reduction->count)
        break;
      float sum = value[i];
      for (int m = 0; m < reduction->step[k].merges; m++)
        sum = stack[--top] + sum;
      stack[top++] = sum;
    }
  }
  return stack[0];
}

/* ---- Sums that later kernels read ---- */

HD_BOTH void reduce_at(const hd_cuda_reduce *p, int64_t i) {
  p->out[i] = cuda_reduce(&p->step->reduction, p->sums + i, p->sums_stride);
}

/* Chan's formula in the tree; returns how many entries are left on the stack. */
HD_BOTH int cuda_merge_stats(const hd_cuda_reduce *p, int64_t i, float *mean, float *m2, int64_t *rows) {
  const hd_reduction *reduction = &p->step->reduction;
  float next_mean[HD_REDUCE_AHEAD], next_m2[HD_REDUCE_AHEAD];
  hd_walk w = hd__reduction_walk(reduction);
  for (int k = 0; hd__walk_push(&w); k++) {
    if (k % HD_REDUCE_AHEAD == 0)
      HD_UNROLL
    for (int a = 0; a < HD_REDUCE_AHEAD; a++) {
      next_mean[a] = k + a < reduction->count ? p->sums[(k + a) * p->sums_stride + i] : 0;
      next_m2[a] = k + a < reduction->count ? p->sums2[(k + a) * p->sums_stride + i] : 0;
    }
    mean[w.top] = next_mean[k % HD_REDUCE_AHEAD];
    m2[w.top] = next_m2[k % HD_REDUCE_AHEAD];
    rows[w.top] = w.step->row1 - w.step->row0;
    while (hd__walk_merge(&w)) {
      const int left = w.top, right = w.top + 1;
      const hd_chan chan = hd__chan(rows[left] * p->pixels, rows[right] * p->pixels);
      const float d = mean[right] - mean[left];
      mean[left] = fmaf(d, chan.share, mean[left]);
      m2[left] = fmaf(d * d, chan.both, m2[left] + m2[right]);
      rows[left] += rows[right];
    }
  }
  return w.top + 1;
}

/* Also the variance of the batch. */
HD_BOTH void reduce_stats_at(const hd_cuda_reduce *p, int64_t i) {
  float mean[HD_MAX_REDUCTION_DEPTH], m2[HD_MAX_REDUCTION_DEPTH];
  int64_t rows[HD_MAX_REDUCTION_DEPTH];
  cuda_merge_stats(p, i, mean, m2, rows);
  p->out[i] = mean[0];
  p->out2[i] = m2[0] / (float)(p->step->samples * p->pixels);
}

HD_BOTH void running_at(const hd_cuda_running *p, int64_t i) {
  const int64_t count = p->step->samples * p->pixels;
  const float unbias = p->unbias && count > 1 ? (float)((double)count / (double)(count - 1)) : 1;
  if (!p->state->failed)
    p->now[i] = fmaf(p->momentum, p->batch[i] * unbias - p->old[i], p->old[i]);
}

/* ---- Samples ---- */

/* Element i of a sample, as images lie in memory. */
HD_BOTH void gather_at(const hd_cuda_gather *p, int64_t n, int64_t i) {
  const int32_t channel = cuda_rest((int32_t)i, p->channels);
  const int64_t from = p->sample[n] * p->elems + channel * p->plane + cuda_over((int32_t)i, p->channels);
  const float pixel = p->bytes ? (float)((const uint8_t *)p->data)[from] : ((const float *)p->data)[from];
  p->x[n * p->x_stride + i] = fmaf(pixel, p->scale[channel], p->shift[channel]);
  if (i == 0)
    p->label[n * p->label_stride] = p->labels[p->sample[n]];
}
