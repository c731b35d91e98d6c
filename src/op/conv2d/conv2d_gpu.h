/* Convolutions by blocks, of one group; the chains are those of conv2d.h. Rows of a are channels, which are contiguous
 * in the result, rows of b are tiles or pixels of the whole batch. The gradient of the bias is a separate kernel. */
#pragma once

#include "kernel/cuda/cuda_channels.h"
#include "kernel/cuda/cuda_product.h"
#include "kernel/cuda/cuda_chains.h"
#include "op/conv2d/conv2d_direct_gpu.h"
#include "op/conv2d/conv2d_pool_gpu.h"

/* ---- Winograd's tiles: a chain is one of the 36 places ----
 *
 * Functions take the side of the kernel, `taps`, which is a constant in each kernel: 3 or 5. */

#define CONV_TILES(what, taps)                                                                                         \
  HD_BOTH hd_cuda_cut what##_##taps##_matrix(const hd_geom *g, int64_t rows) {                                         \
    return g->window.kh == taps ? what##_matrix(g, rows) : cuda_no_matrix();                                           \
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

/* The image of tile `tile` of all samples from row0 on, and its first pixel; tiles are `step` apart. */
HD_BOTH cuda_line cuda_tile_line(const hd_cuda_call *c, int input, int64_t row0, winograd_map map, int32_t tile,
                                 hd_cuda_divisor across) {
  const int32_t of_sample = cuda_rest(tile, c->cut.sample);
  cuda_line line = cuda_line_at(op_in(c, input, row0 + cuda_over(tile, c->cut.sample)));
  line.y = map.y + map.side * cuda_over(of_sample, across);
  line.x = map.x + map.side * cuda_rest(of_sample, across);
  return line;
}

/* The pixels of a tile, `side` along an axis, not yet transformed. */
HD_BOTH void cuda_take_square(float raw[WINOGRAD_PLACES], const cuda_line *line, winograd_map map, int side,
                              int channel) {
  const float *at = line->from + ((int64_t)line->y * map.width + line->x) * map.channels + channel;
  HD_UNROLL
  for (int i = 0; i < WINOGRAD_PLACES; i++) {
    const int y = i / WINOGRAD_LINE, x = i % WINOGRAD_LINE;
    if (y < side && x < side)
      raw[i] = cuda_is_inside(line->y + y, line->x + x, map.height, map.width) ? *at : 0;
    at += x < WINOGRAD_LINE - 1 ? map.channels : (map.width - x) * map.channels;
  }
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
HD_BOTH hd_cuda_cut conv_tiles_matrix(const hd_geom *g, int64_t rows) {
  return hd_geom_is_winograd(g) ? cuda_matrix(g->co, rows * cuda_conv_tiles(g), g->ci, 1, HD_NO_SHARDS)
                                : cuda_no_matrix();
}
HD_BOTH int32_t conv_tiles_steps(const cuda_part *p, int chain) { return p->steps; }
HD_BOTH cuda_line conv_tiles_line(const cuda_part *p, int T, int side, int i, int taps) {
  const hd_geom *g = &p->c->g;
  const int32_t row = (side ? p->b0 : p->a0) + cuda_side_row(WINOGRAD_PLACES, T, i, 1);
  if (row >= (side ? p->b_rows : p->a_rows))
    return cuda_line_at(0);
  return side ? cuda_tile_line(p->c, 0, 0, conv2d_map(g, 0), row, p->c->over.across)
              : cuda_line_at(op_param(p->c, 1) + (int64_t)row * taps * taps * g->ci);
}
HD_BOTH void conv_tiles_take(float raw[WINOGRAD_PLACES], const cuda_part *p, const cuda_line *line, int T, int side,
                             int i, int32_t first, int taps) {
  const int32_t ci = first + cuda_side_step(WINOGRAD_PLACES, T, i, 1);
  if (ci >= p->steps || !line->from)
    cuda_take_zeros(raw);
  else if (side)
    cuda_take_square(raw, line, conv2d_map(&p->c->g, 0), WINOGRAD_LINE, ci);
  else
    winograd_take_kernel(raw, line->from + ci, p->c->g.ci, taps);
}
HD_BOTH void conv_tiles_put(float *factors, float raw[WINOGRAD_PLACES], int T, int side, int i, int taps) {
  cuda_put_tiles(factors, raw, T, side, i, 1, taps);
}
HD_BOTH void conv_tiles_store(const cuda_part *p, float m[WINOGRAD_PLACES], int32_t co, int32_t tile, int taps) {
  const hd_cuda_call *c = p->c;
  const int32_t of_sample = cuda_rest(tile, c->cut.sample);
  float value[WINOGRAD_OUTPUTS];
  winograd_tile_back(value, m, WINOGRAD_LINE + 1 - taps, c->in[2] ? op_param(c, 2)[co] : 0);
  conv2d_put_tile(c, cuda_over(tile, c->cut.sample), cuda_over(of_sample, c->over.across),
                  cuda_rest(of_sample, c->over.across), cuda_over(WINOGRAD_LINE + 1 - taps, c->over.pool), co, value);
}
CONV_TILES(conv_tiles, 3)
CONV_TILES(conv_tiles, 5)
HD_TILED(conv2d, conv_tiles_3_2, conv_tiles_3, 16, 16) { HD_CHAINS(conv_tiles, WINOGRAD_PLACES, 2, 3); }
HD_TILED(conv2d, conv_tiles_5_2, conv_tiles_5, 16, 16) { HD_CHAINS(conv_tiles, WINOGRAD_PLACES, 2, 5); }
HD_TILED(conv2d, conv_tiles_3_1, conv_tiles_3, 8, 8) { HD_CHAINS(conv_tiles, WINOGRAD_PLACES, 1, 3); }
HD_TILED(conv2d, conv_tiles_5_1, conv_tiles_5, 8, 8) { HD_CHAINS(conv_tiles, WINOGRAD_PLACES, 1, 5); }

/* Gradient of the input: input channels by tiles of the input, over output channels. */
HD_BOTH hd_cuda_cut conv_dx_tiles_matrix(const hd_geom *g, int64_t rows) {
  if (!conv2d_tiled_gradients(g))
    return cuda_no_matrix();
  return cuda_matrix(g->ci, rows * conv2d_dx_tiles_down(g) * conv2d_dx_tiles_across(g), g->co, 1, HD_NO_SHARDS);
}
HD_BOTH int32_t conv_dx_tiles_steps(const cuda_part *p, int chain) { return p->steps; }
HD_BOTH cuda_line conv_dx_tiles_line(const cuda_part *p, int T, int side, int i, int taps) {
  const hd_geom *g = &p->c->g;
  const int32_t row = (side ? p->b0 : p->a0) + cuda_side_row(WINOGRAD_PLACES, T, i, side);
  if (row >= (side ? p->b_rows : p->a_rows))
    return cuda_line_at(0);
  return side ? cuda_tile_line(p->c, 0, 0, conv2d_dx_map(g, 0), row, p->c->over.dx_across)
              : cuda_line_at(op_param(p->c, 1) + (int64_t)(taps * taps - 1) * g->ci + row);
}
HD_BOTH void conv_dx_tiles_take(float raw[WINOGRAD_PLACES], const cuda_part *p, const cuda_line *line, int T, int side,
                                int i, int32_t first, int taps) {
  const hd_geom *g = &p->c->g;
  const int32_t co = first + cuda_side_step(WINOGRAD_PLACES, T, i, side);
  if (co >= p->steps || !line->from)
    cuda_take_zeros(raw);
  else if (side)
    cuda_take_square(raw, line, conv2d_dx_map(g, 0), WINOGRAD_LINE, co);
  else
    winograd_take_kernel(raw, line->from + (int64_t)co * taps * taps * g->ci, -g->ci, taps);
}
HD_BOTH void conv_dx_tiles_put(float *factors, float raw[WINOGRAD_PLACES], int T, int side, int i, int taps) {
  cuda_put_tiles(factors, raw, T, side, i, 0, taps);
}
HD_BOTH void conv_dx_tiles_store(const cuda_part *p, float m[WINOGRAD_PLACES], int32_t ci, int32_t tile, int taps) {
  const hd_cuda_call *c = p->c;
  const int32_t of_sample = cuda_rest(tile, c->cut.sample);
  float value[WINOGRAD_OUTPUTS];
  winograd_tile_back(value, m, WINOGRAD_LINE + 1 - taps, 0);
  conv2d_put_dx_tile(c, cuda_over(tile, c->cut.sample), cuda_over(of_sample, c->over.dx_across),
                     cuda_rest(of_sample, c->over.dx_across), ci, value);
}
CONV_TILES(conv_dx_tiles, 3)
CONV_TILES(conv_dx_tiles, 5)
HD_TILED(conv2d_dx, conv_dx_tiles_3_2, conv_dx_tiles_3, 16, 16) { HD_CHAINS(conv_dx_tiles, WINOGRAD_PLACES, 2, 3); }
HD_TILED(conv2d_dx, conv_dx_tiles_5_2, conv_dx_tiles_5, 16, 16) { HD_CHAINS(conv_dx_tiles, WINOGRAD_PLACES, 2, 5); }
HD_TILED(conv2d_dx, conv_dx_tiles_3_1, conv_dx_tiles_3, 8, 8) { HD_CHAINS(conv_dx_tiles, WINOGRAD_PLACES, 1, 3); }
HD_TILED(conv2d_dx, conv_dx_tiles_5_1, conv_dx_tiles_5, 8, 8) { HD_CHAINS(conv_dx_tiles, WINOGRAD_PLACES, 1, 5); }

/* Gradient of the weight: input channels by output channels, over the tiles of a shard. */
HD_BOTH hd_cuda_cut conv_dw_tiles_matrix(const hd_geom *g, int64_t rows) {
  if (!conv2d_tiled_gradients(g))
    return cuda_no_matrix();
  return cuda_matrix(g->ci, g->co, cuda_conv_tiles(g), 1, rows);
}
HD_BOTH int32_t conv_dw_tiles_steps(const cuda_part *p, int chain) { return p->steps; }
HD_BOTH cuda_line conv_dw_tiles_line(const cuda_part *p, int T, int side, int i, int taps) {
  cuda_line line = cuda_line_at(0);
  line.x = (side ? p->b0 : p->a0) + cuda_side_row(WINOGRAD_PLACES, T, i, 0);
  return line;
}
HD_BOTH void conv_dw_tiles_take(float raw[WINOGRAD_PLACES], const cuda_part *p, const cuda_line *line, int T, int side,
                                int i, int32_t first, int taps) {
  const hd_cuda_call *c = p->c;
  const int32_t tile = first + cuda_side_step(WINOGRAD_PLACES, T, i, 0);
  const winograd_map map = side ? conv2d_dy_map(&c->g, 0) : conv2d_map(&c->g, 0);
  if (tile >= p->steps || line->x >= (side ? p->b_rows : p->a_rows)) {
    cuda_take_zeros(raw);
    return;
  }
  const cuda_line square = cuda_tile_line(c, side, p->row0, map, tile, c->over.across);
  cuda_take_square(raw, &square, map, side ? WINOGRAD_LINE + 1 - taps : WINOGRAD_LINE, line->x);
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
HD_TILED(conv2d_dw, conv_dw_tiles_3_2, conv_dw_tiles_3, 16, 16) { HD_CHAINS(conv_dw_tiles, WINOGRAD_PLACES, 2, 3); }
HD_TILED(conv2d_dw, conv_dw_tiles_3_1, conv_dw_tiles_3, 8, 8) { HD_CHAINS(conv_dw_tiles, WINOGRAD_PLACES, 1, 3); }
HD_TILED(conv2d_dw, conv_dw_tiles_5_1, conv_dw_tiles_5, 8, 8) { HD_CHAINS(conv_dw_tiles, WINOGRAD_PLACES, 1, 5); }

/* ---- Outputs, other kernels: channels by positions of all windows, over (ky, kx, ci) ---- */

enum { conv_sums_A_DEEP = 1, conv_sums_B_DEEP = 1, conv_sums_A_SUMMED = 0 };
HD_BOTH hd_cuda_cut conv_sums_matrix(const hd_geom *g, int64_t rows) {
  const int squared = g->conv.pool * g->conv.pool;
  if (g->conv.groups > 1 || hd_geom_is_dilated(g) || hd_geom_is_winograd(g) || cuda_is_direct(g))
    return cuda_no_matrix();
  return cuda_matrix(g->co, rows * g->hp * g->wp * squared, (int64_t)g->window.kh * g->window.kw * g->ci, squared,
                     HD_NO_SHARDS);
}
HD_BOTH cuda_line conv_sums_a_line(const cuda_part *p, int32_t co) {
  return cuda_line_at(op_param(p->c, 1) + (int64_t)co * p->steps);
}
HD_BOTH float conv_sums_a(const cuda_part *p, const cuda_line *line, int32_t step) { return line->from[step]; }

/* The output of a position of a sample's windows, as (y, x) of an image. */
HD_BOTH cuda_line cuda_conv_output(const hd_cuda_call *c, int32_t position) {
  const hd_cuda_divisors *o = &c->over;
  const int32_t window = cuda_over(position, o->squared), inside = cuda_rest(position, o->squared);
  cuda_line at = cuda_line_at(0);
  at.y = cuda_over(window, o->wp) * c->g.conv.pool + cuda_over(inside, o->pool);
  at.x = cuda_rest(window, o->wp) * c->g.conv.pool + cuda_rest(inside, o->pool);
  return at;
}

/* Pixel (y, x) of an image that begins at `from`, zero outside. */
HD_BOTH float cuda_pixel(const hd_geom *g, const float *from, int y, int x) {
  return cuda_is_inside(y, x, g->hi, g->wi) ? from[((int64_t)y * g->wi + x) * g->ci] : 0;
}

/* The image, and the pixel under the first tap. */
HD_BOTH cuda_line conv_sums_b_line(const cuda_part *p, int32_t row) {
  const hd_geom *g = &p->c->g;
  cuda_line line = cuda_conv_output(p->c, cuda_rest(row, p->c->cut.sample));
  line.from = op_in(p->c, 0, cuda_over(row, p->c->cut.sample));
  line.y = line.y * g->window.sh - g->window.ph;
  line.x = line.x * g->window.sw - g->window.pw;
  return line;
}
HD_BOTH float conv_sums_b(const cuda_part *p, const cuda_line *line, int32_t step) {
  const hd_cuda_divisors *o = &p->c->over;
  const int32_t tap = cuda_over(step, o->ci);
  return cuda_pixel(&p->c->g, line->from + cuda_rest(step, o->ci), line->y + cuda_over(tap, o->kw),
                    line->x + cuda_rest(tap, o->kw));
}
HD_BOTH float conv_sums_first(const cuda_part *p, int32_t co, float sum) {
  return p->c->in[2] ? op_param(p->c, 2)[co] : 0;
}
HD_BOTH void conv_sums_store(const cuda_part *p, const float *outputs, int line, int a_side, int b_side, int t) {
  const hd_cuda_divisors *o = &p->c->over;
  const int squared = p->c->g.conv.pool * p->c->g.conv.pool;
  HD_EACH_OUTPUT(p, a_side, cuda_over(b_side, o->squared), t, co, at) {
    const int32_t window = cuda_over(p->b0, o->squared) + at;
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
    conv2d_put(p->c, cuda_over(window, o->windows), cuda_rest(window, o->windows), (int)(p->a0 + co), best, taken);
  }
}
HD_TILED(conv2d, conv_sums_2_4, conv_sums, 32, 64) { HD_PRODUCT(conv_sums, 2, 4); }
HD_TILED(conv2d, conv_sums_2_2, conv_sums, 32, 32) { HD_PRODUCT(conv_sums, 2, 2); }

/* ---- Gradient of the input, other kernels: channels by pixels, over taps from the last on and output channels.
 * Outputs ascend as taps descend; one that does not reach the pixel, or was not the maximum, is an added zero. ---- */

enum { conv_dx_sums_A_DEEP = 0, conv_dx_sums_B_DEEP = 1, conv_dx_sums_A_SUMMED = 0 };
HD_BOTH hd_cuda_cut conv_dx_sums_matrix(const hd_geom *g, int64_t rows) {
  if (g->conv.groups > 1 || hd_geom_is_dilated(g) || conv2d_tiled_gradients(g) ||
      conv_dx_scatter_matrix(g, rows).a_rows > 0)
    return cuda_no_matrix();
  return cuda_matrix(g->ci, rows * g->hi * g->wi, (int64_t)g->window.kh * g->window.kw * g->co, 1, HD_NO_SHARDS);
}
HD_BOTH cuda_line conv_dx_sums_a_line(const cuda_part *p, int32_t ci) { return cuda_line_at(op_param(p->c, 1) + ci); }
HD_BOTH float conv_dx_sums_a(const cuda_part *p, const cuda_line *line, int32_t step) {
  const hd_geom *g = &p->c->g;
  const int taps = g->window.kh * g->window.kw, tap = taps - 1 - cuda_over(step, p->c->over.co);
  return line->from[((int64_t)cuda_rest(step, p->c->over.co) * taps + tap) * g->ci];
}
HD_BOTH cuda_line conv_dx_sums_b_line(const cuda_part *p, int32_t row) {
  const hd_cuda_call *c = p->c;
  const int64_t n = cuda_over(row, c->cut.sample);
  const int32_t pixel = cuda_rest(row, c->cut.sample);
  cuda_line line = cuda_line_at(op_in(c, 0, n));
  line.bytes = c->in[2] ? op_bytes_in(c, 2, n) : 0;
  line.y = cuda_over(pixel, c->over.wi) + c->g.window.ph;
  line.x = cuda_rest(pixel, c->over.wi) + c->g.window.pw;
  return line;
}
HD_BOTH float conv_dx_sums_b(const cuda_part *p, const cuda_line *line, int32_t step) {
  const hd_geom *g = &p->c->g;
  const hd_cuda_divisors *o = &p->c->over;
  const int tap = g->window.kh * g->window.kw - 1 - cuda_over(step, o->co);
  const int y = line->y - cuda_over(tap, o->kw), x = line->x - cuda_rest(tap, o->kw);
  if (y < 0 || x < 0)
    return 0;
  const int oy = cuda_over(y, o->sh), ox = cuda_over(x, o->sw);
  if (oy * g->window.sh != y || ox * g->window.sw != x || oy >= g->hp * g->conv.pool || ox >= g->wp * g->conv.pool)
    return 0;
  const int at = (cuda_over(oy, o->pool) * g->wp + cuda_over(ox, o->pool)) * g->co + cuda_rest(step, o->co);
  const int position = line->bytes ? line->bytes[at] : 0;
  return position == cuda_rest(oy, o->pool) * g->conv.pool + cuda_rest(ox, o->pool) ? line->from[at] : 0;
}
HD_BOTH float conv_dx_sums_first(const cuda_part *p, int32_t ci, float sum) { return 0; }
HD_BOTH void conv_dx_sums_store(const cuda_part *p, const float *outputs, int line, int a_side, int b_side, int t) {
  HD_EACH_OUTPUT(p, a_side, b_side, t, ci, at) {
    const int32_t row = p->b0 + at;
    op_put_dx(p->c, cuda_over(row, p->c->cut.sample),
              (int64_t)cuda_rest(row, p->c->cut.sample) * p->c->g.ci + p->a0 + ci, outputs[at * line + ci] + 0);
  }
}
HD_TILED(conv2d_dx, conv_dx_sums_2_4, conv_dx_sums, 32, 64) { HD_PRODUCT(conv_dx_sums, 2, 4); }
HD_TILED(conv2d_dx, conv_dx_sums_2_2, conv_dx_sums, 32, 32) { HD_PRODUCT(conv_dx_sums, 2, 2); }

/* ---- Gradient of the weight, other kernels: (ky, kx, ci) by output channels, over the windows' positions of a
 * shard ---- */

enum { conv_dw_sums_A_DEEP = 0, conv_dw_sums_B_DEEP = 0, conv_dw_sums_A_SUMMED = 0 };
HD_BOTH hd_cuda_cut conv_dw_sums_matrix(const hd_geom *g, int64_t rows) {
  if (g->conv.groups > 1 || hd_geom_is_dilated(g) || conv2d_tiled_gradients(g) ||
      cuda_live_matrix(g, rows, 1).a_rows > 0)
    return cuda_no_matrix();
  return cuda_matrix((int64_t)g->window.kh * g->window.kw * g->ci, g->co,
                     (int64_t)g->hp * g->wp * g->conv.pool * g->conv.pool, 1, rows);
}
/* The tap of a column, from the image of the shard's first sample. */
HD_BOTH cuda_line conv_dw_sums_a_line(const cuda_part *p, int32_t column) {
  const hd_cuda_divisors *o = &p->c->over;
  const int32_t tap = cuda_over(column, o->ci);
  cuda_line line = cuda_line_at(op_in(p->c, 0, p->row0) + cuda_rest(column, o->ci));
  line.y = cuda_over(tap, o->kw) - p->c->g.window.ph;
  line.x = cuda_rest(tap, o->kw) - p->c->g.window.pw;
  return line;
}
HD_BOTH float conv_dw_sums_a(const cuda_part *p, const cuda_line *line, int32_t step) {
  const hd_cuda_call *c = p->c;
  const cuda_line at = cuda_conv_output(c, cuda_rest(step, c->cut.sample));
  return cuda_pixel(&c->g, line->from + cuda_over(step, c->cut.sample) * c->in_stride[0],
                    at.y * c->g.window.sh + line->y, at.x * c->g.window.sw + line->x);
}
HD_BOTH cuda_line conv_dw_sums_b_line(const cuda_part *p, int32_t co) {
  cuda_line line = cuda_line_at(op_in(p->c, 1, p->row0) + co);
  line.bytes = p->c->in[2] ? op_bytes_in(p->c, 2, p->row0) + co : 0;
  return line;
}
HD_BOTH float conv_dw_sums_b(const cuda_part *p, const cuda_line *line, int32_t step) {
  const hd_cuda_call *c = p->c;
  const int32_t n = cuda_over(step, c->cut.sample), inside = cuda_rest(step, c->cut.sample);
  const int64_t at = (int64_t)cuda_over(inside, c->over.squared) * c->g.co;
  const int position = line->bytes ? line->bytes[n * c->in_stride[2] + at] : 0;
  return position == cuda_rest(inside, c->over.squared) ? line->from[n * c->in_stride[1] + at] : 0;
}
HD_BOTH float conv_dw_sums_first(const cuda_part *p, int32_t column, float sum) { return 0; }
HD_BOTH void conv_dw_sums_store(const cuda_part *p, const float *outputs, int line, int a_side, int b_side, int t) {
  if (p->c->out[0])
    HD_EACH_OUTPUT(p, a_side, b_side, t, column, co)
  op_sums(p->c, 0, p->shard)[(int64_t)(p->b0 + co) * p->a_rows + p->a0 + column] = outputs[co * line + column] + 0;
}
HD_TILED(conv2d_dw, conv_dw_sums_4_2, conv_dw_sums, 64, 32) { HD_PRODUCT(conv_dw_sums, 4, 2); }
HD_TILED(conv2d_dw, conv_dw_sums_2_2, conv_dw_sums, 32, 32) { HD_PRODUCT(conv_dw_sums, 2, 2); }

/* ---- Gradient of the bias ---- */

HD_BOTH hd_cuda_cut conv_db_matrix(const hd_geom *g, int64_t rows) {
  return cuda_matrix(g->co, 1, (int64_t)g->hp * g->wp, 1, rows);
}
HD_BLOCK_KERNEL(conv_db, hd_cuda_call) {
  cuda_channels w;
  if (!cuda_channels_begin(&w, c, HD_BLOCK))
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
