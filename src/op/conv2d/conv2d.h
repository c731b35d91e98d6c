/* conv2d: a convolution over images, with groups of channels, and with a max pool and a ReLU if they are fused; and
 * its gradients.
 *
 * A window's taps lie `dilation` pixels apart. Positions of the padding are zeros that take part in every sum. Wide
 * 3 x 3 and 5 x 5 convolutions are computed by tiles (winograd.h); behind a pool their gradients are not, since most
 * of dy is zero there. */
#pragma once

#include "op/conv2d/winograd.h"

/* ---- Forward ---- */

HD_BOTH int conv2d_channels(const hd_geom *g) { return g->ci / g->conv.groups; }

/* y: `acc = bias`, or +0 without one; (ky, kx, ci) ascending: `acc = fma(x, w, acc)`. Pixels of the padding are
 * zeros and are included. In groups, ci runs over the channels of the output's group. With a dilation, taps lie that
 * many pixels apart. Wide 3 x 3 and 5 x 5 kernels: by tiles, below. With a pool: the maximum over the window's
 * positions. With a ReLU: of that. */
HD_BOTH real conv2d_value(const op_call *c, const real *x, int oy, int ox, int co) {
  const hd_geom *g = op_geom(c);
  const int channels = conv2d_channels(g), first = co / (g->co / g->conv.groups) * channels;
  const real *w = op_param(c, 1) + (int64_t)co * g->window.kh * g->window.kw * channels;
  real acc = c->in[2] ? op_param(c, 2)[co] : 0;
  for (int ky = 0; ky < g->window.kh; ky++)
    for (int kx = 0; kx < g->window.kw; kx++)
      for (int ci = 0; ci < channels; ci++)
        acc = REAL_FMA(
            window_pixel(x, g->hi, g->wi, g->ci, window_tap(g, 0, oy, ky), window_tap(g, 1, ox, kx), first + ci),
            w[(ky * g->window.kw + kx) * channels + ci], acc);
  return acc;
}

/* Writes a window's maximum, and where it was taken; then the ReLU: y < 0 ? 0 : y. */
HD_BOTH void conv2d_put(const op_call *c, int64_t n, int64_t window, int co, real value, int at) {
  const hd_geom *g = op_geom(c);
  const int64_t out = window * g->co + co;
  op_out(c, 0, n)[out] = g->relu && value < 0 ? 0 : value;
  if (c->out[1])
    op_bytes_out(c, 1, n)[out] = (uint8_t)at;
}

/* Windows along an axis that a tile has, and tiles along the axes: of windows, and of pixels of the input. */
HD_BOTH int conv2d_tile_side(const hd_geom *g) { return hd_winograd_side(g) / g->conv.pool; }
HD_BOTH int conv2d_tiles_down(const hd_geom *g) { return hd_winograd_tiles(g->hp, conv2d_tile_side(g)); }
HD_BOTH int conv2d_tiles_across(const hd_geom *g) { return hd_winograd_tiles(g->wp, conv2d_tile_side(g)); }
HD_BOTH int conv2d_dx_tiles_down(const hd_geom *g) { return hd_winograd_tiles(g->hi, hd_winograd_side(g)); }
HD_BOTH int conv2d_dx_tiles_across(const hd_geom *g) { return hd_winograd_tiles(g->wi, hd_winograd_side(g)); }

/* The maps of patches: of the input, of dy for its gradient, and of dy itself. */
HD_BOTH winograd_map conv2d_map(const hd_geom *g, const real *x) {
  const winograd_map map = {x, g->hi, g->wi, g->ci, -g->window.ph, -g->window.pw, hd_winograd_side(g)};
  return map;
}
HD_BOTH winograd_map conv2d_dx_map(const hd_geom *g, const real *dy) {
  const winograd_map map = {
      dy, g->hp, g->wp, g->co, g->window.ph + 1 - g->window.kh, g->window.pw + 1 - g->window.kw, hd_winograd_side(g)};
  return map;
}
HD_BOTH winograd_map conv2d_dy_map(const hd_geom *g, const real *dy) {
  const winograd_map map = {dy, g->hp, g->wp, g->co, 0, 0, hd_winograd_side(g)};
  return map;
}

/* Outputs of tile (ty, tx), of `side` x `side` windows: the maxima of those that exist. */
HD_BOTH void conv2d_put_tile(const op_call *c, int64_t n, int ty, int tx, int side, int co,
                             const real value[WINOGRAD_OUTPUTS]) {
  const hd_geom *g = op_geom(c);
  for (int y = 0; y < side && ty * side + y < g->hp; y++)
    for (int x = 0; x < side && tx * side + x < g->wp; x++) {
      const real *first = value + (y * WINOGRAD_SIDE + x) * g->conv.pool;
      real best = first[0];
      int at = 0;
      for (int py = 0; py < g->conv.pool; py++)
        for (int px = 0; px < g->conv.pool; px++)
          if (op_takes_over(first[py * WINOGRAD_SIDE + px], best)) {
            best = first[py * WINOGRAD_SIDE + px];
            at = py * g->conv.pool + px;
          }
      conv2d_put(c, n, (int64_t)(ty * side + y) * g->wp + tx * side + x, co, best, at);
    }
}

HD_BOTH void conv2d_tile_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int across = conv2d_tiles_across(g), co = (int)(i % g->co), ty = (int)(i / g->co) / across;
  const int tx = (int)(i / g->co) % across;
  const winograd_map map = conv2d_map(g, op_in(c, 0, n));
  real value[WINOGRAD_OUTPUTS];
  winograd_tile(value, &map, ty, tx, op_param(c, 1) + (int64_t)co * g->window.kh * g->window.kw * g->ci, g->ci, 1,
                c->in[2] ? op_param(c, 2)[co] : 0);
  conv2d_put_tile(c, n, ty, tx, conv2d_tile_side(g), co, value);
}

HD_BOTH int64_t conv2d_count(const hd_geom *g) {
  if (!hd_geom_is_winograd(g))
    return (int64_t)g->hp * g->wp * g->co;
  return (int64_t)conv2d_tiles_down(g) * conv2d_tiles_across(g) * g->co;
}

/* A window: the maximum over its positions, row-major, by op_takes_over. */
HD_BOTH void conv2d_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  if (hd_geom_is_winograd(g)) {
    conv2d_tile_at(c, n, i);
    return;
  }
  const int co = (int)(i % g->co), window = (int)(i / g->co);
  const int oy = window / g->wp * g->conv.pool, ox = window % g->wp * g->conv.pool;
  const real *x = op_in(c, 0, n);
  real best = conv2d_value(c, x, oy, ox, co);
  int at = 0;
  for (int p = 1; p < g->conv.pool * g->conv.pool; p++) {
    const real value = conv2d_value(c, x, oy + p / g->conv.pool, ox + p % g->conv.pool, co);
    if (op_takes_over(value, best)) {
      best = value;
      at = p;
    }
  }
  conv2d_put(c, n, window, co, best, at);
}

/* ---- Gradient of the input ---- */

HD_BOTH int conv2d_tiled_gradients(const hd_geom *g) { return hd_geom_is_winograd(g) && g->conv.pool == 1; }

/* dx: `acc = +0`; pixels of the output (oy, ox) ascending, inside output channels (of its group) ascending: `acc =
 * fma(dy, w, acc)`; at last `acc + 0`. Behind a pool, `dy` is the window's at the position whose maximum was taken and
 * zero at the others. Without a pool, wide 3 x 3 and 5 x 5 kernels: by tiles. */
/* After `+ 0` it makes no difference whether zero dy are left out; without it a flushed sum could keep the sign of its
 * zero. */
HD_BOTH real conv2d_dx_value(const op_call *c, int64_t n, int y, int x, int ci) {
  const hd_geom *g = op_geom(c);
  const int channels = conv2d_channels(g), outputs = g->co / g->conv.groups, group = ci / channels;
  const real *dy = op_in(c, 0, n), *w = op_param(c, 1);
  const uint8_t *argmax = c->in[2] ? op_bytes_in(c, 2, n) : 0;
  const int oy1 = window_last(y + g->window.ph, g->window.sh, g->hp * g->conv.pool);
  const int ox1 = window_last(x + g->window.pw, g->window.sw, g->wp * g->conv.pool);
  real acc = 0;
  for (int oy = window_first(y + g->window.ph, window_reach(g, 0), g->window.sh); oy <= oy1; oy++)
    for (int ox = window_first(x + g->window.pw, window_reach(g, 1), g->window.sw); ox <= ox1; ox++) {
      const int tap = window_tap_at(g, y + g->window.ph - oy * g->window.sh, x + g->window.pw - ox * g->window.sw);
      const int64_t window = ((int64_t)(oy / g->conv.pool) * g->wp + ox / g->conv.pool) * g->co;
      const int position = oy % g->conv.pool * g->conv.pool + ox % g->conv.pool;
      for (int co = group * outputs; co < (group + 1) * outputs && tap >= 0; co++)
        if (dy[window + co] != 0 && (argmax ? argmax[window + co] : 0) == position)
          acc = REAL_FMA(dy[window + co],
                         w[((int64_t)co * g->window.kh * g->window.kw + tap) * channels + ci % channels], acc);
    }
  return acc + 0;
}

HD_BOTH int64_t conv2d_dx_count(const hd_geom *g) {
  return conv2d_tiled_gradients(g) ? (int64_t)conv2d_dx_tiles_down(g) * conv2d_dx_tiles_across(g) * g->ci : op_elems(g);
}

HD_BOTH void conv2d_put_dx_tile(const op_call *c, int64_t n, int ty, int tx, int ci,
                                const real value[WINOGRAD_OUTPUTS]) {
  const hd_geom *g = op_geom(c);
  const int side = hd_winograd_side(g);
  HD_UNROLL
  for (int p = 0; p < WINOGRAD_OUTPUTS; p++) {
    const int py = p / WINOGRAD_SIDE, px = p % WINOGRAD_SIDE, y = side * ty + py, x = side * tx + px;
    if (py < side && px < side && y < g->hi && x < g->wi)
      op_put_dx(c, n, ((int64_t)y * g->wi + x) * g->ci + ci, value[p]);
  }
}

/* By tiles of the input: a convolution of dy, every kernel turned around, with as much padding as it then takes. */
HD_BOTH void conv2d_dx_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int ci = (int)(i % g->ci), at = (int)(i / g->ci);
  real value[WINOGRAD_OUTPUTS];
  if (!conv2d_tiled_gradients(g)) {
    op_put_dx(c, n, i, conv2d_dx_value(c, n, at / g->wi, at % g->wi, ci));
    return;
  }
  const int across = conv2d_dx_tiles_across(g), ty = at / across, tx = at % across, taps = g->window.kh * g->window.kw;
  const winograd_map map = conv2d_dx_map(g, op_in(c, 0, n));
  winograd_tile(value, &map, ty, tx, op_param(c, 1) + (taps - 1) * g->ci + ci, -g->ci, taps * (int64_t)g->ci, 0);
  conv2d_put_dx_tile(c, n, ty, tx, ci, value);
}

/* ---- Gradients of weight and bias, per shard ---- */

/* dw: per shard: `acc = +0`; samples ascending, windows ascending: `acc = fma(dy, x, acc)`, x being the pixel under
 * this tap at the position whose maximum was taken; at last `acc + 0`. Pixels of the padding are zeros and are
 * included. Without a pool, wide 3 x 3 and 5 x 5 kernels: by tiles. */
HD_BOTH real conv2d_dw_value(const op_call *c, int64_t k, int co, int column) {
  const hd_geom *g = op_geom(c);
  const int channels = conv2d_channels(g), tap = column / channels;
  const int ci = co / (g->co / g->conv.groups) * channels + column % channels;
  real acc = 0;
  for (int64_t n = op_row0(c, k); n < op_row1(c, k); n++) {
    const real *x = op_in(c, 0, n), *dy = op_in(c, 1, n);
    const uint8_t *argmax = c->in[2] ? op_bytes_in(c, 2, n) : 0;
    for (int window = 0; window < g->hp * g->wp; window++) {
      const int64_t at = (int64_t)window * g->co + co;
      const int p = argmax ? argmax[at] : 0;
      const int oy = window / g->wp * g->conv.pool + p / g->conv.pool,
                ox = window % g->wp * g->conv.pool + p % g->conv.pool;
      if (dy[at] != 0)
        acc = REAL_FMA(dy[at],
                       window_pixel(x, g->hi, g->wi, g->ci, window_tap(g, 0, oy, tap / g->window.kw),
                                    window_tap(g, 1, ox, tap % g->window.kw), ci),
                       acc);
    }
  }
  return acc + 0;
}

/* s = +0; samples ascending, tiles row-major: s = fma(gradient, patch, s), for each of 36 places; then back, and + 0.
 * */
HD_BOTH void conv2d_dw_tiled(const op_call *c, int64_t k, int co, int ci) {
  const hd_geom *g = op_geom(c);
  const int down = conv2d_tiles_down(g), across = conv2d_tiles_across(g), side = hd_winograd_side(g);
  real s[WINOGRAD_PLACES] = {0}, z[WINOGRAD_PLACES], d[WINOGRAD_PLACES];
  for (int64_t n = op_row0(c, k); n < op_row1(c, k); n++) {
    const winograd_map map = conv2d_map(g, op_in(c, 0, n));
    for (int tile = 0; tile < down * across; tile++) {
      const int ty = tile / across, tx = tile % across;
      winograd_patch(d, &map, ty, tx, ci);
      for (int i = 0; i < side * side; i++)
        z[winograd_place(i, side)] =
            window_pixel(op_in(c, 1, n), g->hp, g->wp, g->co, side * ty + i / side, side * tx + i % side, co);
      winograd_tile_gradient_in(z, side);
      HD_UNROLL
      for (int i = 0; i < WINOGRAD_PLACES; i++)
        s[i] = REAL_FMA(z[i], d[i], s[i]);
    }
  }
  winograd_kernel_back(op_sums(c, 0, k) + (int64_t)co * g->window.kh * g->window.kw * g->ci + ci, s, g->ci,
                       g->window.kh);
}

/* db: per shard: `acc = +0`; samples ascending, windows ascending: `acc = acc + dy` */
HD_BOTH real conv2d_db_value(const op_call *c, int64_t k, int co) {
  const hd_geom *g = op_geom(c);
  return window_bias_dw(c, k, g->hp * g->wp, co);
}

/* The units of the weights of an output channel. Those of the biases come last. */
HD_BOTH int conv2d_dw_columns(const hd_geom *g) {
  return conv2d_tiled_gradients(g) ? g->ci : g->window.kh * g->window.kw * conv2d_channels(g);
}

HD_BOTH int64_t conv2d_dw_count(const hd_geom *g) { return (int64_t)g->co * (conv2d_dw_columns(g) + 1); }
HD_BOTH void conv2d_dw_at(const op_call *c, int64_t k, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int columns = conv2d_dw_columns(g);
  const int64_t weights = (int64_t)g->co * columns;
  if (i >= weights) {
    if (c->out[1])
      op_sums(c, 1, k)[i - weights] = conv2d_db_value(c, k, (int)(i - weights));
    return;
  }
  const int co = (int)(i / columns), column = (int)(i % columns);
  if (!c->out[0])
    return;
  if (conv2d_tiled_gradients(g))
    conv2d_dw_tiled(c, k, co, column);
  else
    op_sums(c, 0, k)[i] = conv2d_dw_value(c, k, co, column);
}
