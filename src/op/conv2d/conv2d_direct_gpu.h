/* Convolutions of few input channels, such as first layers, by blocks: a product of matrices would have few steps. A
 * block has some lines of a sample's windows, and the lines of the image that they read in shared memory. A thread has
 * an output channel, with its kernel in registers; of one window after the other it reads the patch into registers, for
 * all positions of the pool. */
#pragma once

#include "kernel/cuda/cuda_block.h"
#include "op/conv2d/conv2d.h"

/* Lines of windows of a block. */
enum { HD_DIRECT_LINES = 4, HD_DIRECT_FLOATS = 8192 };

HD_BOTH int cuda_is_direct(const hd_geom *g) {
  const int64_t floats =
      (int64_t)(HD_DIRECT_LINES * g->conv.pool + g->window.kh - 1) * (g->wi + 2 * g->window.pw) * g->ci;
  return ((g->window.kh == 3 && (g->ci == 1 || g->ci == 3)) || (g->window.kh == 5 && g->ci == 1)) &&
         g->window.kw == g->window.kh && g->conv.pool <= 2 && g->window.sh == 1 && g->window.sw == 1 &&
         g->conv.groups == 1 && !hd_geom_is_dilated(g) && g->co <= HD_CUDA_BLOCK && floats <= HD_DIRECT_FLOATS;
}

/* Loads thread t's share of lines y0 .. y0 + lines - 1 of the sample at row n into shared memory, with the padding. */
HD_BOTH void cuda_load_image(float *image, const hd_cuda_call *c, int64_t n, int y0, int lines, int t) {
  const hd_geom *g = &c->g;
  const int width = (int)c->over.padded.by;
  const float *x = op_in(c, 0, n);
  for (int i = t; i < lines * width; i += HD_CUDA_BLOCK) {
    const int y = y0 + cuda_over(i, c->over.padded), column = cuda_rest(i, c->over.padded) - g->window.pw * g->ci;
    image[i] = cuda_is_inside(y, column, g->hi, g->wi * g->ci) ? x[y * g->wi * g->ci + column] : 0;
  }
}

#define CONV_DIRECT_MATRIX(name, K, CI, POOL)                                                                          \
  HD_BOTH hd_cuda_cut name##_matrix(const hd_geom *g, int64_t rows) {                                                  \
    return cuda_is_direct(g) && g->window.kh == (K) && g->ci == (CI) && g->conv.pool == (POOL)                         \
               ? cuda_matrix(cuda_ceil(g->hp, HD_DIRECT_LINES), rows, (K) * (K) * (CI), 1, HD_NO_SHARDS)               \
               : cuda_no_matrix();                                                                                     \
  }

/* Window `window` of those whose image lines are loaded, for all positions of its pool. */
#define CONV_DIRECT(K, CI, POOL)                                                                                       \
  enum { side = (POOL) + (K)-1, line = side * (CI), taps = (K) * (K) * (CI) };                                         \
  cuda_part p;                                                                                                         \
  if (!cuda_place(&p, c, HD_BLOCK, 1))                                                                                 \
    return;                                                                                                            \
  const hd_geom *g = &c->g;                                                                                            \
  const int y0 = p.a0 * HD_DIRECT_LINES, y1 = y0 + HD_DIRECT_LINES < g->hp ? y0 + HD_DIRECT_LINES : g->hp;             \
  const int together = cuda_over(HD_CUDA_BLOCK, c->over.co), width = (int)c->over.padded.by;                           \
  HD_SHARED(float, image, [HD_DIRECT_FLOATS]);                                                                         \
  HD_PER_THREAD(float, w, taps);                                                                                       \
  HD_PHASE {                                                                                                           \
    cuda_load_image(image, c, p.b0, y0 *(POOL)-g->window.ph, (y1 - y0) * (POOL) + (K)-1, t);                           \
    HD_UNROLL                                                                                                          \
    for (int i = 0; i < taps; i++)                                                                                     \
      HD_THIS(w)[i] = op_param(c, 1)[cuda_rest(t, c->over.co) * taps + i];                                             \
  }                                                                                                                    \
  HD_PHASE {                                                                                                           \
    const int co = cuda_rest(t, c->over.co), first = cuda_over(t, c->over.co);                                         \
    const float bias = c->in[2] ? op_param(c, 2)[co] : 0;                                                              \
    for (int window = first; first < together && window < (y1 - y0) * g->wp; window += together) {                     \
      const int wy = cuda_over(window, c->over.wp), wx = cuda_rest(window, c->over.wp);                                \
      const float *const from = image + wy * (POOL)*width + wx * (POOL) * (CI);                                        \
      float patch[side * line], value[(POOL) * (POOL)];                                                                \
      HD_UNROLL                                                                                                        \
      for (int i = 0; i < side * line; i++)                                                                            \
        patch[i] = from[i / line * width + i % line];                                                                  \
      HD_UNROLL                                                                                                        \
      for (int o = 0; o < (POOL) * (POOL); o++)                                                                        \
        value[o] = bias;                                                                                               \
      HD_UNROLL                                                                                                        \
      for (int i = 0; i < taps * (POOL) * (POOL); i++) {                                                               \
        const int tap = i / ((POOL) * (POOL)), o = i % ((POOL) * (POOL));                                              \
        const int y = o / (POOL) + tap / ((K) * (CI)), x = o % (POOL) * (CI) + tap % ((K) * (CI));                     \
        value[o] = fmaf(patch[y * line + x], HD_THIS(w)[tap], value[o]);                                               \
      }                                                                                                                \
      int taken = 0;                                                                                                   \
      HD_UNROLL                                                                                                        \
      for (int o = 1; o < (POOL) * (POOL); o++)                                                                        \
        if (op_takes_over(value[o], value[0])) {                                                                       \
          value[0] = value[o];                                                                                         \
          taken = o;                                                                                                   \
        }                                                                                                              \
      conv2d_put(c, p.b0, y0 * g->wp + window, co, value[0], taken);                                                   \
    }                                                                                                                  \
  }
CONV_DIRECT_MATRIX(conv_direct_3_1_1, 3, 1, 1)
CONV_DIRECT_MATRIX(conv_direct_3_1_2, 3, 1, 2)
CONV_DIRECT_MATRIX(conv_direct_3_3_1, 3, 3, 1)
CONV_DIRECT_MATRIX(conv_direct_3_3_2, 3, 3, 2)
CONV_DIRECT_MATRIX(conv_direct_5_1_1, 5, 1, 1)
CONV_DIRECT_MATRIX(conv_direct_5_1_2, 5, 1, 2)
HD_TILED(conv2d, conv_direct_3_1_1, conv_direct_3_1_1, 1, 1) { CONV_DIRECT(3, 1, 1); }
HD_TILED(conv2d, conv_direct_3_1_2, conv_direct_3_1_2, 1, 1) { CONV_DIRECT(3, 1, 2); }
HD_TILED(conv2d, conv_direct_3_3_1, conv_direct_3_3_1, 1, 1) { CONV_DIRECT(3, 3, 1); }
HD_TILED(conv2d, conv_direct_3_3_2, conv_direct_3_3_2, 1, 1) { CONV_DIRECT(3, 3, 2); }
HD_TILED(conv2d, conv_direct_5_1_1, conv_direct_5_1_1, 1, 1) { CONV_DIRECT(5, 1, 1); }
HD_TILED(conv2d, conv_direct_5_1_2, conv_direct_5_1_2, 1, 1) { CONV_DIRECT(5, 1, 2); }
