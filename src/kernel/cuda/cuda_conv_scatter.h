/* The gradient of the input of a convolution behind a pool. Most of dy is zero at the resolution of the convolution:
 * a block lists, for each position of each window of a sample, the output channels with their maximum there and dy
 * other than zero, ascending. Then a thread runs through the lists of the positions that reach its element.
 *
 * HD_SCATTER(NAME, WHAT, ELEMENTS) makes the kernel NAME, whose blocks have so many elements of a sample. */
#pragma once

#include "kernel/cuda/cuda_conv_tiles.h"

/* An entry: dy, and where the output channel's kernel begins. */
typedef struct cuda_entry {
  float dy;
  int32_t kernel;
} cuda_entry;

/* Lists the channels of position `list` % positions of window `list` / positions; the lists of a window follow each
 * other, in as many entries as it has channels. start: the first entry and the end of a list. */
HD_BOTH void cuda_list_channels(cuda_entry *entry, int32_t *start, const float *dy, const uint8_t *argmax, int list,
                                int positions, int channels, int kernel) {
  const int first = list / positions * channels, position = list % positions;
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
  const int ci = i % g->ci, y = i / g->ci / g->wi + g->ph, x = i / g->ci % g->wi + g->pw;
  const int oy1 = window_last(y, g->sh, g->hp * g->pool), ox1 = window_last(x, g->sw, g->wp * g->pool);
  float acc = 0;
  for (int oy = window_first(y, g->kh, g->sh); oy <= oy1; oy++)
    for (int ox = window_first(x, g->kw, g->sw); ox <= ox1; ox++) {
      const int window = oy / g->pool * g->wp + ox / g->pool;
      const int list = window * g->pool * g->pool + oy % g->pool * g->pool + ox % g->pool, end = start[2 * list + 1];
      const float *w = op_param(c, 1) + ((y - oy * g->sh) * g->kw + x - ox * g->sw) * g->ci + ci;
      HD_UNROLL_BY_8
      for (int e = start[2 * list]; e < end; e++)
        acc = fmaf(entry[e].dy, w[entry[e].kernel], acc);
    }
  return acc + 0;
}

#define HD_SCATTER(NAME, WHAT, ELEMENTS)                                                                               \
  HD_BLOCK_KERNEL(NAME, hd_cuda_call) {                                                                                \
    const hd_geom *g = &c->g;                                                                                          \
    cuda_part p = WHAT##_matrix(g, c->step->rows);                                                                     \
    if (!cuda_place(&p, c, HD_BLOCK, ELEMENTS, 1))                                                                     \
      return;                                                                                                          \
    const int windows = g->hp * g->wp, positions = g->pool * g->pool;                                                  \
    HD_SHARED(float, dy, [HD_SCATTER_ENTRIES]);                                                                        \
    HD_SHARED(uint8_t, argmax, [HD_SCATTER_ENTRIES]);                                                                  \
    HD_SHARED(cuda_entry, entry, [HD_SCATTER_ENTRIES]);                                                                \
    HD_SHARED(int32_t, start, [2 * HD_SCATTER_LISTS]);                                                                 \
    HD_PHASE {                                                                                                         \
      for (int i = t; i < windows * g->co; i += HD_CUDA_BLOCK) {                                                       \
        dy[i] = op_in(c, 0, p.b0)[i];                                                                                  \
        argmax[i] = c->in[2] ? op_bytes_in(c, 2, p.b0)[i] : 0;                                                         \
      }                                                                                                                \
    }                                                                                                                  \
    HD_PHASE {                                                                                                         \
      for (int list = t; list < windows * positions; list += HD_CUDA_BLOCK)                                            \
        cuda_list_channels(entry, start, dy, argmax, list, positions, g->co, g->kh * g->kw * g->ci);                   \
    }                                                                                                                  \
    HD_PHASE {                                                                                                         \
      const int end = p.a0 + ELEMENTS < p.a_rows ? p.a0 + ELEMENTS : p.a_rows;                                         \
      for (int i = p.a0 + t; i < end; i += HD_CUDA_BLOCK)                                                              \
        op_out(c, 0, p.b0)[i] = cuda_scattered(c, entry, start, i);                                                    \
    }                                                                                                                  \
  }
