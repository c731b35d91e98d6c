/* The gradient of the weight of a convolution behind a pool: one position of each window counts, and differs between
 * output channels, so it is no product of matrices. A block has some chains of a shard. It loads the image of a
 * sample, with its padding, into shared memory, and for each window of its output channels the gradient and the
 * input offset of the maximum; then a thread runs through the windows for R taps of one input and one output
 * channel.
 *
 * A chain is (output channel, chains of it, input channel fastest); the threads of the bias follow those of the
 * weights. */
#pragma once

#include "kernel/cuda/cuda_conv_tiles.h"

/* A window of an output channel. */
typedef struct cuda_live {
  float dy;
  int32_t at; /* in the padded image */
} cuda_live;

/* Loads thread t's share of the sample at row n into shared memory, with zeros around it. */
HD_BOTH void cuda_live_image(float *image, const hd_cuda_call *c, int64_t n, int t) {
  const hd_geom *g = &c->g;
  const int width = (g->wi + 2 * g->pw) * g->ci, floats = (g->hi + 2 * g->ph) * width;
  const float *x = op_in(c, 0, n);
  for (int i = t; i < floats; i += HD_CUDA_BLOCK) {
    const int y = i / width - g->ph, column = i % width - g->pw * g->ci;
    image[i] = y >= 0 && y < g->hi && column >= 0 && column < g->wi * g->ci ? x[y * g->wi * g->ci + column] : 0;
  }
}

/* Windows [first, first + count) of `channels` output channels from co0 on. */
HD_BOTH void cuda_live_windows(cuda_live *live, const hd_cuda_call *c, int64_t n, int first, int count, int co0,
                               int channels, int t) {
  const hd_geom *g = &c->g;
  const uint8_t *argmax = c->in[2] ? op_bytes_in(c, 2, n) : 0;
  for (int i = t; i < count * channels; i += HD_CUDA_BLOCK) {
    const int window = first + i / channels, from = window * g->co + co0 + i % channels;
    const int position = argmax ? argmax[from] : 0;
    const int oy = window / g->wp * g->pool + position / g->pool, ox = window % g->wp * g->pool + position % g->pool;
    live[i].dy = op_in(c, 1, n)[from];
    live[i].at = (oy * g->sh * (g->wi + 2 * g->pw) + ox * g->sw) * g->ci;
  }
}

/* Tap r of chain q of an output channel, and the offset that it reads at, from that of the window. */
HD_BOTH int cuda_live_tap(const hd_geom *g, int q, int r, int R) { return q / g->ci * R + r; }
HD_BOTH int cuda_live_reach(const hd_geom *g, int q, int tap) {
  return (tap / g->kw * (g->wi + 2 * g->pw) + tap % g->kw) * g->ci + q % g->ci;
}

#define HD_LIVE(NAME, WHAT, R, CHAINS)                                                                                 \
  HD_BLOCK_KERNEL(NAME, hd_cuda_call) {                                                                                \
    const hd_geom *g = &c->g;                                                                                          \
    cuda_part p = WHAT##_matrix(g, c->step->rows);                                                                     \
    if (!cuda_place(&p, c, HD_BLOCK, CHAINS, 1))                                                                       \
      return;                                                                                                          \
    const int of_channel = cuda_live_chains(g, R), co0 = p.a0 / of_channel;                                            \
    const int last = p.a0 + CHAINS < p.a_rows ? p.a0 + CHAINS : p.a_rows,                                              \
              channels = (last - 1) / of_channel + 1 - co0;                                                            \
    const int windows = g->hp * g->wp, round = HD_LIVE_WINDOWS / channels;                                             \
    const int64_t row1 = op_row1(c, p.shard);                                                                          \
    HD_SHARED(float, image, [HD_LIVE_FLOATS]);                                                                         \
    HD_SHARED(cuda_live, live, [HD_LIVE_WINDOWS]);                                                                     \
    HD_PER_THREAD(float, acc, R);                                                                                      \
    HD_PER_THREAD(int, reach, R);                                                                                      \
    HD_PHASE {                                                                                                         \
      HD_UNROLL                                                                                                        \
      for (int r = 0; r < R; r++) {                                                                                    \
        const int q = (p.a0 + t) % of_channel, tap = cuda_live_tap(g, q, r, R);                                        \
        HD_THIS(acc)[r] = 0;                                                                                           \
        HD_THIS(reach)[r] = cuda_live_reach(g, q, tap < g->kh * g->kw ? tap : 0);                                      \
      }                                                                                                                \
    }                                                                                                                  \
    for (int64_t n = p.row0; n < row1; n++)                                                                            \
      for (int first = 0; first < windows; first += round) {                                                           \
        const int count = windows - first < round ? windows - first : round;                                           \
        HD_PHASE {                                                                                                     \
          if (first == 0)                                                                                              \
            cuda_live_image(image, c, n, t);                                                                           \
          cuda_live_windows(live, c, n, first, count, co0, channels, t);                                               \
        }                                                                                                              \
        HD_PHASE {                                                                                                     \
          if (t < last - p.a0) {                                                                                       \
            const cuda_live *entry = live + (p.a0 + t) / of_channel - co0;                                             \
            HD_UNROLL_BY_8                                                                                             \
            for (int w = 0; w < count; w++) {                                                                          \
              const float dy = entry[w * channels].dy, *x = image + entry[w * channels].at;                            \
              if (R > 1 && dy == 0)                                                                                    \
                continue;                                                                                              \
              HD_UNROLL                                                                                                \
              for (int r = 0; r < R; r++)                                                                              \
                HD_THIS(acc)[r] = fmaf(dy, x[HD_THIS(reach)[r]], HD_THIS(acc)[r]);                                     \
            }                                                                                                          \
          } else if (t >= CHAINS && t < CHAINS + channels) {                                                           \
            for (int w = 0; w < count; w++)                                                                            \
              HD_THIS(acc)[0] = HD_THIS(acc)[0] + live[w * channels + t - CHAINS].dy;                                  \
          }                                                                                                            \
        }                                                                                                              \
      }                                                                                                                \
    HD_PHASE {                                                                                                         \
      const int co = (p.a0 + t) / of_channel, q = (p.a0 + t) % of_channel, biased = co0 + t - CHAINS;                  \
      if (c->out[0] && t < last - p.a0)                                                                                \
        HD_UNROLL                                                                                                      \
      for (int r = 0; r < R; r++)                                                                                      \
        if (cuda_live_tap(g, q, r, R) < g->kh * g->kw)                                                                 \
          op_sums(c, 0, p.shard)[((int64_t)co * g->kh * g->kw + cuda_live_tap(g, q, r, R)) * g->ci + q % g->ci] =      \
              HD_THIS(acc)[r] + 0;                                                                                     \
      if (c->out[1] && t >= CHAINS && t < CHAINS + channels && biased * of_channel >= p.a0)                            \
        op_sums(c, 1, p.shard)[biased] = HD_THIS(acc)[0];                                                              \
    }                                                                                                                  \
  }
