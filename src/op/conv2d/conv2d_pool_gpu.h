/* Gradients of a convolution behind a pool, by blocks: one position of each window counts. */
#pragma once

#include "op/conv2d/conv2d_direct_gpu.h"

/* ---- Of the weight. The position differs between output channels, so it is no product of matrices. A block has some
 * chains of a shard. It loads the image of a sample, with its padding, into shared memory, and for each window of its
 * output channels the gradient and the input offset of the maximum; then a thread runs through the windows for R taps
 * of one input and one output channel.
 *
 * A chain is (output channel, chains of it, input channel fastest); the threads of the bias follow those of the
 * weights. ---- */

enum { HD_LIVE_FLOATS = 8192, HD_LIVE_WINDOWS = 2048 };

/* A thread has R taps, nine of them if there are enough channels. */
HD_BOTH int cuda_live_chains(const hd_geom *g, int R) { return (g->window.kh * g->window.kw + R - 1) / R * g->ci; }
HD_BOTH hd_cuda_cut cuda_live_matrix(const hd_geom *g, int64_t rows, int R) {
  const int64_t floats = (int64_t)(g->hi + 2 * g->window.ph) * (g->wi + 2 * g->window.pw) * g->ci;
  if (g->conv.groups > 1 || hd_geom_is_dilated(g) || g->conv.pool == 1 || floats > HD_LIVE_FLOATS)
    return cuda_no_matrix();
  hd_cuda_cut cut = cuda_matrix((int64_t)g->co * cuda_live_chains(g, R), 1, 1, 1, rows);
  cut.biased = 1;
  return cut;
}
HD_BOTH hd_cuda_cut conv_dw_live_matrix(const hd_geom *g, int64_t rows) {
  return g->ci >= 8 ? cuda_live_matrix(g, rows, 9) : cuda_no_matrix();
}
HD_BOTH hd_cuda_cut conv_dw_thin_matrix(const hd_geom *g, int64_t rows) {
  return g->ci < 8 ? cuda_live_matrix(g, rows, 1) : cuda_no_matrix();
}

/* A window of an output channel. */
typedef struct cuda_live {
  float dy;
  int32_t at; /* in the padded image */
} cuda_live;

/* Windows [first, first + count) of `channels` output channels from co0 on, thread t's share of them. */
HD_BOTH void cuda_live_windows(cuda_live *live, const hd_cuda_call *c, int64_t n, int first, int count, int co0,
                               int channels, int t) {
  const hd_geom *g = &c->g;
  const hd_cuda_divisors *o = &c->over;
  const uint8_t *argmax = c->in[2] ? op_bytes_in(c, 2, n) : 0;
  const int windows = HD_CUDA_BLOCK / channels, rest = HD_CUDA_BLOCK % channels; /* to the thread's next entry */
  for (int i = t, w = t / channels, k = t % channels; i < count * channels;
       i += HD_CUDA_BLOCK, w += windows, k += rest) {
    if (k >= channels) {
      k -= channels;
      w++;
    }
    const int window = first + w, from = window * g->co + co0 + k, position = argmax ? argmax[from] : 0;
    const int oy = cuda_over(window, o->wp) * g->conv.pool + cuda_over(position, o->pool);
    const int ox = cuda_rest(window, o->wp) * g->conv.pool + cuda_rest(position, o->pool);
    live[i].dy = op_in(c, 1, n)[from];
    live[i].at = (oy * g->window.sh * (g->wi + 2 * g->window.pw) + ox * g->window.sw) * g->ci;
  }
}

/* Tap r of chain q of an output channel, and the offset that it reads at, from that of the window. */
HD_BOTH int cuda_live_tap(const hd_geom *g, int q, int r, int R) { return q / g->ci * R + r; }
HD_BOTH int cuda_live_reach(const hd_geom *g, int q, int tap) {
  return (tap / g->window.kw * (g->wi + 2 * g->window.pw) + tap % g->window.kw) * g->ci + q % g->ci;
}

#define HD_LIVE(R, CHAINS)                                                                                             \
  const hd_geom *g = &c->g;                                                                                            \
  cuda_part p;                                                                                                         \
  if (!cuda_place(&p, c, HD_BLOCK, CHAINS))                                                                            \
    return;                                                                                                            \
  const int of_channel = cuda_live_chains(g, R), co0 = p.a0 / of_channel;                                              \
  const int last = p.a0 + CHAINS < p.a_rows ? p.a0 + CHAINS : p.a_rows, channels = (last - 1) / of_channel + 1 - co0;  \
  const int windows = g->hp * g->wp, round = HD_LIVE_WINDOWS / channels;                                               \
  const int64_t row1 = op_row1(c, p.shard);                                                                            \
  HD_SHARED(float, image, [HD_LIVE_FLOATS]);                                                                           \
  HD_SHARED(cuda_live, live, [HD_LIVE_WINDOWS]);                                                                       \
  HD_PER_THREAD(float, acc, R);                                                                                        \
  HD_PER_THREAD(int, reach, R);                                                                                        \
  HD_PHASE {                                                                                                           \
    HD_UNROLL                                                                                                          \
    for (int r = 0; r < R; r++) {                                                                                      \
      const int q = (p.a0 + t) % of_channel, tap = cuda_live_tap(g, q, r, R);                                          \
      HD_THIS(acc)[r] = 0;                                                                                             \
      HD_THIS(reach)[r] = cuda_live_reach(g, q, tap < g->window.kh * g->window.kw ? tap : 0);                          \
    }                                                                                                                  \
  }                                                                                                                    \
  for (int64_t n = p.row0; n < row1; n++)                                                                              \
    for (int first = 0; first < windows; first += round) {                                                             \
      const int count = windows - first < round ? windows - first : round;                                             \
      HD_PHASE {                                                                                                       \
        if (first == 0)                                                                                                \
          cuda_load_image(image, c, n, -g->window.ph, g->hi + 2 * g->window.ph, t);                                    \
        cuda_live_windows(live, c, n, first, count, co0, channels, t);                                                 \
      }                                                                                                                \
      HD_PHASE {                                                                                                       \
        if (t < last - p.a0) {                                                                                         \
          const cuda_live *entry = live + (p.a0 + t) / of_channel - co0;                                               \
          HD_UNROLL_BY_8                                                                                               \
          for (int w = 0; w < count; w++) {                                                                            \
            const float dy = entry[w * channels].dy, *x = image + entry[w * channels].at;                              \
            if (R > 1 && dy == 0)                                                                                      \
              continue;                                                                                                \
            HD_UNROLL                                                                                                  \
            for (int r = 0; r < R; r++)                                                                                \
              HD_THIS(acc)[r] = fmaf(dy, x[HD_THIS(reach)[r]], HD_THIS(acc)[r]);                                       \
          }                                                                                                            \
        } else if (t >= CHAINS && t < CHAINS + channels) {                                                             \
          for (int w = 0; w < count; w++)                                                                              \
            HD_THIS(acc)[0] = HD_THIS(acc)[0] + live[w * channels + t - CHAINS].dy;                                    \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
  HD_PHASE {                                                                                                           \
    const int co = (p.a0 + t) / of_channel, q = (p.a0 + t) % of_channel, biased = co0 + t - CHAINS;                    \
    if (c->out[0] && t < last - p.a0)                                                                                  \
      HD_UNROLL                                                                                                        \
    for (int r = 0; r < R; r++)                                                                                        \
      if (cuda_live_tap(g, q, r, R) < g->window.kh * g->window.kw)                                                     \
        op_sums(                                                                                                       \
            c, 0,                                                                                                      \
            p.shard)[((int64_t)co * g->window.kh * g->window.kw + cuda_live_tap(g, q, r, R)) * g->ci + q % g->ci] =    \
            HD_THIS(acc)[r] + 0;                                                                                       \
    if (c->out[1] && t >= CHAINS && t < CHAINS + channels && biased * of_channel >= p.a0)                              \
      op_sums(c, 1, p.shard)[biased] = HD_THIS(acc)[0];                                                                \
  }
HD_TILED(conv2d_dw, conv_dw_live_9, conv_dw_live, 128, 1) { HD_LIVE(9, 128); }
HD_TILED(conv2d_dw, conv_dw_thin_1, conv_dw_thin, 64, 1) { HD_LIVE(1, 64); }

/* ---- Of the input. Most of dy is zero at the resolution of the convolution: a block lists, for each position of each
 * window of a sample, the output channels with their maximum there and dy other than zero, ascending. Then a thread
 * runs through the lists of the positions that reach its element. Elements of a sample by samples. ---- */

enum { HD_SCATTER_ENTRIES = 3072, HD_SCATTER_LISTS = 1024 };

HD_BOTH hd_cuda_cut conv_dx_scatter_matrix(const hd_geom *g, int64_t rows) {
  const int64_t windows = (int64_t)g->hp * g->wp;
  if (g->conv.groups > 1 || hd_geom_is_dilated(g) || g->conv.pool == 1 || windows * g->co > HD_SCATTER_ENTRIES ||
      windows * g->conv.pool * g->conv.pool > HD_SCATTER_LISTS)
    return cuda_no_matrix();
  return cuda_matrix(op_elems(g), rows, (int64_t)g->co * g->window.kh * g->window.kw * g->ci, 1, HD_NO_SHARDS);
}

/* An entry: dy, and where the output channel's kernel begins. */
typedef struct cuda_entry {
  float dy;
  int32_t kernel;
} cuda_entry;

/* Lists the channels of a position of a window, position fastest; the lists of a window follow each other, in as many
 * entries as it has channels. start: the first entry and the end of a list. */
HD_BOTH void cuda_list_channels(cuda_entry *entry, int32_t *start, const float *dy, const uint8_t *argmax, int list,
                                const hd_cuda_call *c) {
  const int channels = c->g.co, kernel = c->g.window.kh * c->g.window.kw * c->g.ci;
  const int first = cuda_over(list, c->over.squared) * channels, position = cuda_rest(list, c->over.squared);
  int before = 0, found = 0;
  for (int co = 0; co < channels; co++)
    before += argmax[first + co] < position && dy[first + co] != 0;
  for (int co = 0; co < channels; co++)
    if (argmax[first + co] == position && dy[first + co] != 0) {
      entry[first + before + found].dy = dy[first + co];
      entry[first + before + found].kernel = co * kernel;
      found++;
    }
  start[2 * list] = first + before;
  start[2 * list + 1] = first + before + found;
}

/* Element i of the sample, as images lie in memory. */
HD_BOTH float cuda_scattered(const hd_cuda_call *c, const cuda_entry *entry, const int32_t *start, int i) {
  const hd_geom *g = &c->g;
  const hd_cuda_divisors *o = &c->over;
  const int pixel = cuda_over(i, o->ci), ci = cuda_rest(i, o->ci);
  const int y = cuda_over(pixel, o->wi) + g->window.ph, x = cuda_rest(pixel, o->wi) + g->window.pw;
  const int oy0 = y < g->window.kh ? 0 : cuda_over(y - g->window.kh, o->sh) + 1,
            ox0 = x < g->window.kw ? 0 : cuda_over(x - g->window.kw, o->sw) + 1;
  float acc = 0;
  for (int oy = oy0; oy * g->window.sh <= y && oy < g->hp * g->conv.pool; oy++)
    for (int ox = ox0; ox * g->window.sw <= x && ox < g->wp * g->conv.pool; ox++) {
      const int wy = cuda_over(oy, o->pool), wx = cuda_over(ox, o->pool);
      const int position = (oy - wy * g->conv.pool) * g->conv.pool + ox - wx * g->conv.pool;
      const int list = (wy * g->wp + wx) * g->conv.pool * g->conv.pool + position, end = start[2 * list + 1];
      const float *w = op_param(c, 1) + ((y - oy * g->window.sh) * g->window.kw + x - ox * g->window.sw) * g->ci + ci;
      HD_UNROLL_BY_8
      for (int e = start[2 * list]; e < end; e++)
        acc = fmaf(entry[e].dy, w[entry[e].kernel], acc);
    }
  return acc + 0;
}

#define HD_SCATTER(ELEMENTS)                                                                                           \
  const hd_geom *g = &c->g;                                                                                            \
  cuda_part p;                                                                                                         \
  if (!cuda_place(&p, c, HD_BLOCK, ELEMENTS))                                                                          \
    return;                                                                                                            \
  const int windows = g->hp * g->wp, positions = g->conv.pool * g->conv.pool;                                          \
  HD_SHARED(float, dy, [HD_SCATTER_ENTRIES]);                                                                          \
  HD_SHARED(uint8_t, argmax, [HD_SCATTER_ENTRIES]);                                                                    \
  HD_SHARED(cuda_entry, entry, [HD_SCATTER_ENTRIES]);                                                                  \
  HD_SHARED(int32_t, start, [2 * HD_SCATTER_LISTS]);                                                                   \
  HD_PHASE {                                                                                                           \
    for (int i = t; i < windows * g->co; i += HD_CUDA_BLOCK) {                                                         \
      dy[i] = op_in(c, 0, p.b0)[i];                                                                                    \
      argmax[i] = c->in[2] ? op_bytes_in(c, 2, p.b0)[i] : 0;                                                           \
    }                                                                                                                  \
  }                                                                                                                    \
  HD_PHASE {                                                                                                           \
    for (int list = t; list < windows * positions; list += HD_CUDA_BLOCK)                                              \
      cuda_list_channels(entry, start, dy, argmax, list, c);                                                           \
  }                                                                                                                    \
  HD_PHASE {                                                                                                           \
    const int end = p.a0 + ELEMENTS < p.a_rows ? p.a0 + ELEMENTS : p.a_rows;                                           \
    for (int i = p.a0 + t; i < end; i += HD_CUDA_BLOCK)                                                                \
      op_put_dx(c, p.b0, i, cuda_scattered(c, entry, start, i));                                                       \
  }
HD_TILED(conv2d_dx, conv_dx_scatter_8192, conv_dx_scatter, 8192, 1) { HD_SCATTER(8192); }
HD_TILED(conv2d_dx, conv_dx_scatter_2048, conv_dx_scatter, 2048, 1) { HD_SCATTER(2048); }
