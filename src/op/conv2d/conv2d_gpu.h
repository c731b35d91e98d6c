/* Convolutions by blocks, of one group; the chains are those of conv2d.h. Rows of a are channels, which are contiguous
 * in the result, rows of b are tiles or pixels of the whole batch. The gradient of the bias is a separate kernel. */
#pragma once

#include "kernel/cuda/cuda_channels.h"
#include "kernel/cuda/cuda_product.h"
#include "kernel/cuda/cuda_chains.h"
#include "op/conv2d/conv2d_pool_gpu.h"

/* ---- Winograd's tiles: a chain is one of the 36 places ----
 *
 * Functions take the side of the kernel, `taps`, which is a constant in each kernel: 3 or 5. */

#define CONV_TILES(what, taps)                                                                                         \
  HD_BOTH cuda_part what##_##taps##_matrix(const hd_geom *g, int64_t rows) {                                           \
    return g->kh == taps ? what##_matrix(g, rows) : cuda_no_matrix();                                                  \
  }                                                                                                                    \
  HD_BOTH int32_t what##_##taps##_steps(const cuda_part *p, int chain) { return p->steps; }                            \
  HD_BOTH void what##_##taps##_take(float raw[WINOGRAD_PLACES], const cuda_part *p, int T, int side, int i,            \
                                    int32_t first) {                                                                   \
    what##_take(raw, p, T, side, i, first, taps);                                                                      \
  }                                                                                                                    \
  HD_BOTH void what##_##taps##_put(float *factors, float raw[WINOGRAD_PLACES], int T, int side, int i) {               \
    what##_put(factors, raw, T, side, i, taps);                                                                        \
  }                                                                                                                    \
  HD_BOTH void what##_##taps##_store(const cuda_part *p, float chain[WINOGRAD_PLACES], int32_t a, int32_t b) {         \
    what##_store(p, chain, a, b, taps);                                                                                \
  }

/* Puts a transformed square: the places of one row and step. */
HD_BOTH void cuda_put_square(float *factors, const float square[WINOGRAD_PLACES], int T, int row, int step) {
  HD_UNROLL
  for (int i = 0; i < WINOGRAD_PLACES; i++)
    factors[cuda_factor(WINOGRAD_PLACES, T, row, step, i)] = square[i];
}

HD_BOTH void cuda_take_zeros(float raw[WINOGRAD_PLACES]) {
  HD_UNROLL
  for (int i = 0; i < WINOGRAD_PLACES; i++)
    raw[i] = 0;
}

/* Tile `tile` of all samples, where an image has down x across: its sample and its pixels, `side` along an axis, not yet
 * transformed; tiles are `step` apart. */
HD_BOTH void cuda_take_square(float raw[WINOGRAD_PLACES], const hd_cuda_call *c, int input, winograd_map map,
                              int64_t first_row, int32_t tile, int down, int across, int side, int step, int channel) {
  const int of_sample = tile % (down * across);
  map.image = op_in(c, input, first_row + tile / (down * across));
  HD_UNROLL
  for (int i = 0; i < WINOGRAD_PLACES; i++)
    if (i / WINOGRAD_LINE < side && i % WINOGRAD_LINE < side)
      raw[i] = window_pixel(map.image, map.height, map.width, map.channels,
                            map.y + step * (of_sample / across) + i / WINOGRAD_LINE,
                            map.x + step * (of_sample % across) + i % WINOGRAD_LINE, channel);
}

/* Side a puts kernels, side b patches; `deep`: which numbers of a are steps. */
HD_BOTH void cuda_put_tiles(float *factors, float raw[WINOGRAD_PLACES], int T, int side, int i, int deep, int taps) {
  if (side)
    winograd_patch_in(raw);
  else
    winograd_kernel_in(raw, taps);
  cuda_put_square(factors, raw, T, cuda_side_row(WINOGRAD_PLACES, T, i, side || deep),
                  cuda_side_step(WINOGRAD_PLACES, T, i, side || deep));
}

/* Outputs: channels by tiles, over input channels. */
HD_BOTH int64_t cuda_conv_tiles(const hd_geom *g) { return (int64_t)conv2d_tiles_down(g) * conv2d_tiles_across(g); }
HD_BOTH cuda_part conv_tiles_matrix(const hd_geom *g, int64_t rows) {
  return hd_geom_is_winograd(g) ? cuda_matrix(g->co, rows * cuda_conv_tiles(g), g->ci, 1, HD_NO_SHARDS)
                                : cuda_no_matrix();
}
HD_BOTH void conv_tiles_take(float raw[WINOGRAD_PLACES], const cuda_part *p, int T, int side, int i, int32_t first,
                             int taps) {
  const hd_geom *g = &p->c->g;
  const int32_t row = (side ? p->b0 : p->a0) + cuda_side_row(WINOGRAD_PLACES, T, i, 1),
                ci = first + cuda_side_step(WINOGRAD_PLACES, T, i, 1);
  if (ci >= p->steps || row >= (side ? p->b_rows : p->a_rows))
    cuda_take_zeros(raw);
  else if (side)
    cuda_take_square(raw, p->c, 0, conv2d_map(g, 0), 0, row, conv2d_tiles_down(g), conv2d_tiles_across(g),
                     WINOGRAD_LINE, WINOGRAD_LINE + 1 - taps, ci);
  else
    winograd_take_kernel(raw, op_param(p->c, 1) + (int64_t)row * taps * taps * g->ci + ci, g->ci, taps);
}
HD_BOTH void conv_tiles_put(float *factors, float raw[WINOGRAD_PLACES], int T, int side, int i, int taps) {
  cuda_put_tiles(factors, raw, T, side, i, 1, taps);
}
HD_BOTH void conv_tiles_store(const cuda_part *p, float m[WINOGRAD_PLACES], int32_t co, int32_t tile, int taps) {
  const int tiles = (int)cuda_conv_tiles(&p->c->g);
  float value[WINOGRAD_OUTPUTS];
  winograd_tile_back(value, m, WINOGRAD_LINE + 1 - taps, p->c->in[2] ? op_param(p->c, 2)[co] : 0);
  conv2d_put_tile(p->c, tile / tiles, tile % tiles, co, value);
}
CONV_TILES(conv_tiles, 3)
CONV_TILES(conv_tiles, 5)
HD_TILED(conv2d, conv_tiles_3_2, conv_tiles_3, 16, 16) { HD_CHAINS(conv_tiles_3, WINOGRAD_PLACES, 2); }
HD_TILED(conv2d, conv_tiles_5_2, conv_tiles_5, 16, 16) { HD_CHAINS(conv_tiles_5, WINOGRAD_PLACES, 2); }
HD_TILED(conv2d, conv_tiles_3_1, conv_tiles_3, 8, 8) { HD_CHAINS(conv_tiles_3, WINOGRAD_PLACES, 1); }
HD_TILED(conv2d, conv_tiles_5_1, conv_tiles_5, 8, 8) { HD_CHAINS(conv_tiles_5, WINOGRAD_PLACES, 1); }

/* Gradient of the input: input channels by tiles of the input, over output channels. */
HD_BOTH cuda_part conv_dx_tiles_matrix(const hd_geom *g, int64_t rows) {
  if (!conv2d_tiled_gradients(g))
    return cuda_no_matrix();
  return cuda_matrix(g->ci, rows * conv2d_dx_tiles_down(g) * conv2d_dx_tiles_across(g), g->co, 1, HD_NO_SHARDS);
}
HD_BOTH void conv_dx_tiles_take(float raw[WINOGRAD_PLACES], const cuda_part *p, int T, int side, int i, int32_t first,
                                int taps) {
  const hd_geom *g = &p->c->g;
  const int32_t row = (side ? p->b0 : p->a0) + cuda_side_row(WINOGRAD_PLACES, T, i, side),
                co = first + cuda_side_step(WINOGRAD_PLACES, T, i, side);
  if (co >= p->steps || row >= (side ? p->b_rows : p->a_rows))
    cuda_take_zeros(raw);
  else if (side)
    cuda_take_square(raw, p->c, 0, conv2d_dx_map(g, 0), 0, row, conv2d_dx_tiles_down(g), conv2d_dx_tiles_across(g),
                     WINOGRAD_LINE, WINOGRAD_LINE + 1 - taps, co);
  else
    winograd_take_kernel(raw, op_param(p->c, 1) + ((int64_t)co * taps * taps + taps * taps - 1) * g->ci + row, -g->ci,
                         taps);
}
HD_BOTH void conv_dx_tiles_put(float *factors, float raw[WINOGRAD_PLACES], int T, int side, int i, int taps) {
  cuda_put_tiles(factors, raw, T, side, i, 0, taps);
}
HD_BOTH void conv_dx_tiles_store(const cuda_part *p, float m[WINOGRAD_PLACES], int32_t ci, int32_t tile, int taps) {
  const hd_geom *g = &p->c->g;
  const int across = conv2d_dx_tiles_across(g), tiles = conv2d_dx_tiles_down(g) * across;
  float value[WINOGRAD_OUTPUTS];
  winograd_tile_back(value, m, WINOGRAD_LINE + 1 - taps, 0);
  conv2d_put_dx_tile(p->c, tile / tiles, tile % tiles / across, tile % tiles % across, ci, value);
}
CONV_TILES(conv_dx_tiles, 3)
CONV_TILES(conv_dx_tiles, 5)
HD_TILED(conv2d_dx, conv_dx_tiles_3_2, conv_dx_tiles_3, 16, 16) { HD_CHAINS(conv_dx_tiles_3, WINOGRAD_PLACES, 2); }
HD_TILED(conv2d_dx, conv_dx_tiles_5_2, conv_dx_tiles_5, 16, 16) { HD_CHAINS(conv_dx_tiles_5, WINOGRAD_PLACES, 2); }
HD_TILED(conv2d_dx, conv_dx_tiles_3_1, conv_dx_tiles_3, 8, 8) { HD_CHAINS(conv_dx_tiles_3, WINOGRAD_PLACES, 1); }
HD_TILED(conv2d_dx, conv_dx_tiles_5_1, conv_dx_tiles_5, 8, 8) { HD_CHAINS(conv_dx_tiles_5, WINOGRAD_PLACES, 1); }

/* Gradient of the weight: input channels by output channels, over the tiles of a shard. */
HD_BOTH cuda_part conv_dw_tiles_matrix(const hd_geom *g, int64_t rows) {
  if (!conv2d_tiled_gradients(g))
    return cuda_no_matrix();
  return cuda_matrix(g->ci, g->co, cuda_conv_tiles(g), 1, rows);
}
HD_BOTH void conv_dw_tiles_take(float raw[WINOGRAD_PLACES], const cuda_part *p, int T, int side, int i, int32_t first,
                                int taps) {
  const hd_geom *g = &p->c->g;
  const int32_t row = (side ? p->b0 : p->a0) + cuda_side_row(WINOGRAD_PLACES, T, i, 0),
                tile = first + cuda_side_step(WINOGRAD_PLACES, T, i, 0);
  const int down = conv2d_tiles_down(g), across = conv2d_tiles_across(g);
  if (tile >= p->steps || row >= (side ? p->b_rows : p->a_rows))
    cuda_take_zeros(raw);
  else if (side)
    cuda_take_square(raw, p->c, 1, conv2d_dy_map(g, 0), p->row0, tile, down, across, WINOGRAD_LINE + 1 - taps,
                     WINOGRAD_LINE + 1 - taps, row);
  else
    cuda_take_square(raw, p->c, 0, conv2d_map(g, 0), p->row0, tile, down, across, WINOGRAD_LINE,
                     WINOGRAD_LINE + 1 - taps, row);
}
HD_BOTH void conv_dw_tiles_put(float *factors, float raw[WINOGRAD_PLACES], int T, int side, int i, int taps) {
  if (side)
    winograd_tile_gradient_in(raw, WINOGRAD_LINE + 1 - taps);
  else
    winograd_patch_in(raw);
  cuda_put_square(factors, raw, T, cuda_side_row(WINOGRAD_PLACES, T, i, 0), cuda_side_step(WINOGRAD_PLACES, T, i, 0));
}
HD_BOTH void conv_dw_tiles_store(const cuda_part *p, float s[WINOGRAD_PLACES], int32_t ci, int32_t co, int taps) {
  if (p->c->out[0])
    winograd_kernel_back(op_sums(p->c, 0, p->shard) + (int64_t)co * taps * taps * p->c->g.ci + ci, s, p->c->g.ci, taps);
}
CONV_TILES(conv_dw_tiles, 3)
CONV_TILES(conv_dw_tiles, 5)
HD_TILED(conv2d_dw, conv_dw_tiles_3_2, conv_dw_tiles_3, 16, 16) { HD_CHAINS(conv_dw_tiles_3, WINOGRAD_PLACES, 2); }
HD_TILED(conv2d_dw, conv_dw_tiles_3_1, conv_dw_tiles_3, 8, 8) { HD_CHAINS(conv_dw_tiles_3, WINOGRAD_PLACES, 1); }
HD_TILED(conv2d_dw, conv_dw_tiles_5_1, conv_dw_tiles_5, 8, 8) { HD_CHAINS(conv_dw_tiles_5, WINOGRAD_PLACES, 1); }

/* ---- Outputs, other kernels: channels by positions of all windows, over (ky, kx, ci) ---- */

enum { conv_sums_A_DEEP = 1, conv_sums_B_DEEP = 1 };
HD_BOTH cuda_part conv_sums_matrix(const hd_geom *g, int64_t rows) {
  const int squared = g->pool * g->pool;
  if (g->groups > 1 || hd_geom_is_dilated(g) || hd_geom_is_winograd(g))
    return cuda_no_matrix();
  return cuda_matrix(g->co, rows * g->hp * g->wp * squared, (int64_t)g->kh * g->kw * g->ci, squared, HD_NO_SHARDS);
}
HD_BOTH float conv_sums_a(const cuda_part *p, int32_t co, int32_t step) {
  return op_param(p->c, 1)[(int64_t)co * p->steps + step];
}

/* The input of position `row`, of all windows of all samples, at (ky, kx, ci). */
HD_BOTH float cuda_conv_x(const hd_cuda_call *c, int32_t row, int32_t step) {
  const hd_geom *g = &c->g;
  const int squared = g->pool * g->pool, windows = g->hp * g->wp, of_sample = row % (windows * squared);
  const int window = of_sample / squared, position = of_sample % squared, tap = step / g->ci;
  const int oy = window / g->wp * g->pool + position / g->pool, ox = window % g->wp * g->pool + position % g->pool;
  return window_pixel(op_in(c, 0, row / (windows * squared)), g->hi, g->wi, g->ci, oy * g->sh + tap / g->kw - g->ph,
                      ox * g->sw + tap % g->kw - g->pw, step % g->ci);
}
HD_BOTH float conv_sums_b(const cuda_part *p, int32_t row, int32_t step) { return cuda_conv_x(p->c, row, step); }
HD_BOTH float conv_sums_first(const cuda_part *p, int32_t co) { return p->c->in[2] ? op_param(p->c, 2)[co] : 0; }
HD_BOTH void conv_sums_store(const cuda_part *p, const float *outputs, int line, int a_side, int b_side, int t) {
  const int squared = p->c->g.pool * p->c->g.pool, windows = p->c->g.hp * p->c->g.wp;
  HD_EACH_OUTPUT(p, a_side, b_side / squared, t, co, at) {
    const int32_t window = p->b0 / squared + at;
    if (p->b0 + at * squared >= p->b_rows)
      continue;
    float best = outputs[at * squared * line + co];
    int taken = 0;
    for (int i = 1; i < squared; i++) {
      const float value = outputs[(at * squared + i) * line + co];
      if (op_takes_over(value, best)) {
        best = value;
        taken = i;
      }
    }
    conv2d_put(p->c, window / windows, window % windows, (int)(p->a0 + co), best, taken);
  }
}
HD_TILED(conv2d, conv_sums_2_4, conv_sums, 32, 64) { HD_PRODUCT(conv_sums, 2, 4); }
HD_TILED(conv2d, conv_sums_2_2, conv_sums, 32, 32) { HD_PRODUCT(conv_sums, 2, 2); }

/* ---- Gradient of the input, other kernels: channels by pixels, over taps from the last on and output channels.
 * Outputs ascend as taps descend; one that does not reach the pixel, or was not the maximum, is an added zero. ---- */

enum { conv_dx_sums_A_DEEP = 0, conv_dx_sums_B_DEEP = 1 };
HD_BOTH cuda_part conv_dx_sums_matrix(const hd_geom *g, int64_t rows) {
  if (g->groups > 1 || hd_geom_is_dilated(g) || conv2d_tiled_gradients(g) || conv_dx_scatter_matrix(g, rows).a_rows > 0)
    return cuda_no_matrix();
  return cuda_matrix(g->ci, rows * g->hi * g->wi, (int64_t)g->kh * g->kw * g->co, 1, HD_NO_SHARDS);
}
HD_BOTH float conv_dx_sums_a(const cuda_part *p, int32_t ci, int32_t step) {
  const hd_geom *g = &p->c->g;
  const int taps = g->kh * g->kw, tap = taps - 1 - step / g->co;
  return op_param(p->c, 1)[((int64_t)(step % g->co) * taps + tap) * g->ci + ci];
}
HD_BOTH float conv_dx_sums_b(const cuda_part *p, int32_t row, int32_t step) {
  const hd_geom *g = &p->c->g;
  const int64_t n = row / (g->hi * g->wi);
  const int pixel = row % (g->hi * g->wi), tap = g->kh * g->kw - 1 - step / g->co;
  const int y = pixel / g->wi + g->ph - tap / g->kw, x = pixel % g->wi + g->pw - tap % g->kw;
  const int oy = y / g->sh, ox = x / g->sw;
  if (y < 0 || x < 0 || oy * g->sh != y || ox * g->sw != x || oy >= g->hp * g->pool || ox >= g->wp * g->pool)
    return 0;
  const int at = (oy / g->pool * g->wp + ox / g->pool) * g->co + step % g->co;
  const int position = p->c->in[2] ? op_bytes_in(p->c, 2, n)[at] : 0;
  return position == oy % g->pool * g->pool + ox % g->pool ? op_in(p->c, 0, n)[at] : 0;
}
HD_BOTH float conv_dx_sums_first(const cuda_part *p, int32_t ci) { return 0; }
HD_BOTH void conv_dx_sums_store(const cuda_part *p, const float *outputs, int line, int a_side, int b_side, int t) {
  const int pixels = p->c->g.hi * p->c->g.wi;
  HD_EACH_OUTPUT(p, a_side, b_side, t, ci, at) {
    const int32_t row = p->b0 + at;
    op_out(p->c, 0, row / pixels)[row % pixels * p->c->g.ci + p->a0 + ci] = outputs[at * line + ci] + 0;
  }
}
HD_TILED(conv2d_dx, conv_dx_sums_2_4, conv_dx_sums, 32, 64) { HD_PRODUCT(conv_dx_sums, 2, 4); }
HD_TILED(conv2d_dx, conv_dx_sums_2_2, conv_dx_sums, 32, 32) { HD_PRODUCT(conv_dx_sums, 2, 2); }

/* ---- Gradient of the weight, other kernels: (ky, kx, ci) by output channels, over the windows' positions of a
 * shard ---- */

enum { conv_dw_sums_A_DEEP = 0, conv_dw_sums_B_DEEP = 0 };
HD_BOTH cuda_part conv_dw_sums_matrix(const hd_geom *g, int64_t rows) {
  if (g->groups > 1 || hd_geom_is_dilated(g) || conv2d_tiled_gradients(g) || cuda_live_matrix(g, rows, 1).a_rows > 0)
    return cuda_no_matrix();
  return cuda_matrix((int64_t)g->kh * g->kw * g->ci, g->co, (int64_t)g->hp * g->wp * g->pool * g->pool, 1, rows);
}
HD_BOTH float conv_dw_sums_a(const cuda_part *p, int32_t column, int32_t step) {
  const hd_geom *g = &p->c->g;
  return cuda_conv_x(p->c, step + (int)p->row0 * g->hp * g->wp * g->pool * g->pool, column);
}
HD_BOTH float conv_dw_sums_b(const cuda_part *p, int32_t co, int32_t step) {
  const hd_geom *g = &p->c->g;
  const int squared = g->pool * g->pool, of_sample = g->hp * g->wp * squared;
  const int64_t n = p->row0 + step / of_sample;
  const int at = step % of_sample / squared * g->co + co;
  const int position = p->c->in[2] ? op_bytes_in(p->c, 2, n)[at] : 0;
  return position == step % squared ? op_in(p->c, 1, n)[at] : 0;
}
HD_BOTH float conv_dw_sums_first(const cuda_part *p, int32_t column) { return 0; }
HD_BOTH void conv_dw_sums_store(const cuda_part *p, const float *outputs, int line, int a_side, int b_side, int t) {
  if (p->c->out[0])
    HD_EACH_OUTPUT(p, a_side, b_side, t, column, co)
  op_sums(p->c, 0, p->shard)[(int64_t)(p->b0 + co) * p->a_rows + p->a0 + column] = outputs[co * line + column] + 0;
}
HD_TILED(conv2d_dw, conv_dw_sums_4_2, conv_dw_sums, 64, 32) { HD_PRODUCT(conv_dw_sums, 4, 2); }
HD_TILED(conv2d_dw, conv_dw_sums_2_2, conv_dw_sums, 32, 32) { HD_PRODUCT(conv_dw_sums, 2, 2); }

/* ---- Gradient of the bias ---- */

HD_BOTH cuda_part conv_db_matrix(const hd_geom *g, int64_t rows) {
  return cuda_matrix(g->co, 1, (int64_t)g->hp * g->wp, 1, rows);
}
HD_BLOCK_KERNEL(conv_db, hd_cuda_call) {
  cuda_channels w;
  if (!cuda_channels_begin(&w, c, HD_BLOCK, conv_db_matrix(&c->g, c->step->rows)))
    return;
  HD_SHARED(float, dy, [HD_BLOCK_PIXELS][HD_BLOCK_CHANNELS]);
  HD_PER_THREAD(float, sum, 1);
  HD_PHASE { HD_THIS(sum)[0] = 0; }
  for (int first = 0; first < w.pixels; first += HD_BLOCK_PIXELS) {
    HD_PHASE { cuda_load_pixels(dy, &w, 1, first, t); }
    HD_PHASE {
      const int count = cuda_channels_count(&w, first, t);
      HD_UNROLL_BY_8
      for (int i = 0; i < count; i++)
        HD_THIS(sum)[0] = HD_THIS(sum)[0] + dy[i][t];
    }
  }
  HD_PHASE {
    if (cuda_channels_has(&w, t))
      op_sums(c, 1, w.part.shard)[w.part.a0 + t] = HD_THIS(sum)[0];
  }
}
