/* The update of parameters: gradients are reduced or formed, and the optimizer writes the next version; cuda_clip.h has
 * the norm of clipping. A block has a chunk, a thread some of its elements. */
#pragma once

#include "kernel/cuda/cuda_params.h"
#include "op/shifted_linear/shifted_linear.h"

/* Elements of a chunk that a thread computes, neighbours. */
enum { HD_ELEMENTS = 4 };
typedef struct cuda_four {
  HD_ALIGNED(16) float at[HD_ELEMENTS];
} cuda_four;

/* The chains of a layer's gradient over the samples [row0, row1) of a shard, as linear_dw and shifted_linear_dw have
 * them: of a bias, or of weights that are neighbours in x, four or one. All loads are issued before the first is
 * used. */
HD_BOTH void cuda_formed_shard(cuda_four *acc, const hd_cuda_use *use, const float *x, const float *dy, int count,
                               int32_t row0, int32_t row1) {
  const cuda_four zeros = {{0, 0, 0, 0}};
  const int shifted = use->op == HD_OP_shifted_linear_dw;
  cuda_four xs[HD_FORMED_ROWS];
  float dys[HD_FORMED_ROWS], sum = 0;
  HD_UNROLL
  for (int r = 0; r < HD_FORMED_ROWS; r++) {
    const float *from = x + (row0 + r) * use->x_stride;
    xs[r] = zeros;
    if (row0 + r < row1 && count == HD_ELEMENTS)
      xs[r] = *(const cuda_four *)(const void *)from;
    else if (row0 + r < row1 && !use->output)
      xs[r].at[0] = from[0];
    dys[r] = row0 + r < row1 ? dy[(row0 + r) * use->dy_stride] : 0;
  }
  HD_UNROLL
  for (int r = 0; r < HD_FORMED_ROWS; r++)
    if (row0 + r < row1 && (use->output || shifted))
      sum = sum + dys[r];
  HD_UNROLL
  for (int e = 0; e < HD_ELEMENTS; e++) {
    acc->at[e] = use->output ? sum : shifted ? shifted_linear_start(use->shift, sum, 0) : 0;
    HD_UNROLL
    for (int r = 0; r < HD_FORMED_ROWS; r++)
      if (row0 + r < row1 && !use->output)
        acc->at[e] = fmaf(dys[r], xs[r].at[e], acc->at[e]);
    acc->at[e] = shifted && !use->output ? acc->at[e] + 0 : acc->at[e];
  }
}

/* The gradient of `count` elements of a chunk from i on, formed over all shards. */
HD_BOTH void cuda_formed(cuda_four *g, const hd_cuda_chunks *p, const hd_cuda_use *use, const hd_cuda_chunk *chunk,
                         int32_t i, int count) {
  const float *x = (use->x ? use->x : p->input) + cuda_rest(i, chunk->columns);
  const float *dy = use->dy + chunk->row + cuda_over(i, chunk->columns);
  cuda_four stack[HD_MAX_REDUCTION_DEPTH], sum;
  for (hd_walk w = hd__reduction_walk(&p->step->reduction); hd__walk_push(&w); stack[w.top] = sum)
    for (cuda_formed_shard(&sum, use, x, dy, count, w.step->row0, w.step->row1); hd__walk_merge(&w);)
      HD_UNROLL
  for (int e = 0; e < HD_ELEMENTS; e++)
    sum.at[e] = stack[w.top].at[e] + sum.at[e];
  *g = stack[0];
}

/* The gradients of elements i to i + 3 of a chunk, those that exist: the reduction of each use, the sum from NVIDIA's
 * libraries, or what is formed here, added over the uses in reverse order of the nodes. */
HD_BOTH void cuda_gradients(cuda_four *g, const hd_cuda_chunks *p, const hd_cuda_chunk *chunk, int32_t i) {
  for (int u = 0; u < chunk->uses; u++) {
    const hd_cuda_use *use = &p->use[chunk->first_use + u];
    const int together = use->dy && chunk->columns.by % HD_ELEMENTS == 0;
    cuda_four one;
    if (together)
      cuda_formed(&one, p, use, chunk, i, HD_ELEMENTS);
    for (int e = 0; e < HD_ELEMENTS && !together && i + e < chunk->count; e++) {
      const float *sums = p->sums + use->at + chunk->inside + i + e;
      cuda_four alone;
      if (use->dy)
        cuda_formed(&alone, p, use, chunk, i + e, 1);
      else
        alone.at[0] = use->is_sum ? sums[0] : cuda_reduce(&p->step->reduction, sums, p->sums_stride);
      one.at[e] = alone.at[0];
    }
    HD_UNROLL
    for (int e = 0; e < HD_ELEMENTS; e++)
      g->at[e] = u == 0 ? one.at[e] : one.at[e] + g->at[e];
  }
}

/* ---- Optimizers ---- */

/* Keeps an element of a group that is no longer trained. */
HD_BOTH int cuda_keeps(const hd_cuda_chunks *p, const hd_hyper *h, int64_t e) {
  if (!h->idle)
    return 0;
  p->w1[e] = p->w[e];
  HD_UNROLL
  for (int s = 0; s < HD_MAX_STATES; s++)
    if (p->s[s])
      p->s1[s][e] = p->s[s][e];
  return 1;
}

/* Row y of the grid is a chunk, column x starts at its element 4 x. Without clipping the gradient is reduced here.
 * Chunks of other optimizers are left to the launches of theirs. */
#define HD_UPDATE(name)                                                                                                \
  HD_BOTH void name##_over(const hd_cuda_chunks *p, int64_t x, int64_t width, int64_t y) {                             \
    const hd_cuda_chunk *chunk = &p->chunk[y];                                                                         \
    const hd_hyper *h = &p->step->hyper[chunk->group];                                                                 \
    const float scale = p->grad && update_finite(p->state->grad_scale) ? p->state->grad_scale : 1;                     \
    if (p->state->failed || h->op != HD_OP_##name)                                                                     \
      return;                                                                                                          \
    for (int32_t i = (int32_t)x * HD_ELEMENTS; i < chunk->count; i += (int32_t)width * HD_ELEMENTS) {                  \
      cuda_four g = {{0, 0, 0, 0}};                                                                                    \
      if (!p->grad && !h->idle)                                                                                        \
        cuda_gradients(&g, p, chunk, i);                                                                               \
      for (int k = 0; k < HD_ELEMENTS && i + k < chunk->count; k++) {                                                  \
        const int64_t e = chunk->first + i + k;                                                                        \
        if (!cuda_keeps(p, h, e) && !name##_at(p, h, scale, e, p->grad ? p->grad[e] : g.at[k]))                        \
          p->bad[chunk->param] = 1 + p->step->result; /* all writers write the same */                                 \
      }                                                                                                                \
    }                                                                                                                  \
  }

/* ---- Before the norm of clipping ---- */

HD_BOTH void gradients_over(const hd_cuda_chunks *p, int64_t x, int64_t width, int64_t y) {
  const hd_cuda_chunk *chunk = &p->chunk[y];
  for (int32_t i = (int32_t)x * HD_ELEMENTS; i < chunk->count; i += (int32_t)width * HD_ELEMENTS) {
    cuda_four g = {{0, 0, 0, 0}};
    if (!p->step->hyper[chunk->group].idle)
      cuda_gradients(&g, p, chunk, i);
    for (int k = 0; k < HD_ELEMENTS && i + k < chunk->count; k++)
      p->grad[chunk->first + i + k] = g.at[k];
  }
}
