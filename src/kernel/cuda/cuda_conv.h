/* Convolutions on the GPU: a thread computes one element of an output, or one of Winograd's tiles. The chains are
 * those of ref_conv.c and ref_winograd.c; gradients of the input gather what the reference scatters, in the same
 * order. */
#ifndef HD_KERNEL_CUDA_CONV_H
#define HD_KERNEL_CUDA_CONV_H

#include "kernel/cuda/cuda_call.h"

HD_BOTH float cuda_pixel(const float *image, int height, int width, int channels, int y, int x, int c) {
  if (y < 0 || y >= height || x < 0 || x >= width)
    return 0;
  return image[((int64_t)y * width + x) * channels + c];
}

HD_BOTH int cuda_group_channels(const hd_geom *g) { return g->ci / g->groups; }

/* ---- Winograd's tiles ---- */

/* One axis of the transforms, values `step` apart. */
HD_BOTH void cuda_patch_line(float *v, int step) {
  const float d0 = v[0], d1 = v[step], d2 = v[2 * step], d3 = v[3 * step];
  v[0] = d0 - d2;
  v[step] = d1 + d2;
  v[2 * step] = d2 - d1;
  v[3 * step] = d1 - d3;
}

HD_BOTH void cuda_kernel_line(float *v, int step) {
  const float k0 = v[0], k1 = v[step], k2 = v[2 * step], outer = k0 + k2;
  v[step] = (outer + k1) * 0.5f;
  v[2 * step] = (outer - k1) * 0.5f;
  v[3 * step] = k2;
}

HD_BOTH void cuda_tile_line(float *v, int step) {
  const float m0 = v[0], m1 = v[step], m2 = v[2 * step], m3 = v[3 * step];
  v[0] = (m0 + m1) + m2;
  v[step] = (m1 - m2) - m3;
}

HD_BOTH void cuda_tile_gradient_line(float *v, int step) {
  const float z0 = v[0], z1 = v[step];
  v[step] = z0 + z1;
  v[2 * step] = z0 - z1;
  v[3 * step] = 0 - z1;
}

HD_BOTH void cuda_kernel_gradient_line(float *v, int step) {
  const float s0 = v[0], s1 = v[step], s2 = v[2 * step], s3 = v[3 * step], half = (s1 + s2) * 0.5f;
  v[0] = s0 + half;
  v[step] = (s1 - s2) * 0.5f;
  v[2 * step] = half + s3;
}

/* Both axes of a square in lines of 4: n lines along y first, then `out` along x. */
#define HD_TRANSFORM(square, line, n, out)                                                                             \
  do {                                                                                                                 \
    HD_UNROLL                                                                                                          \
    for (int x_ = 0; x_ < (n); x_++)                                                                                   \
      line((square) + x_, 4);                                                                                          \
    HD_UNROLL                                                                                                          \
    for (int y_ = 0; y_ < (out); y_++)                                                                                 \
      line((square) + 4 * y_, 1);                                                                                      \
  } while (0)

/* An image, and where the patch of tile (0, 0) begins. */
typedef struct cuda_map {
  const float *image;
  int height, width, channels, y, x;
} cuda_map;

HD_BOTH void cuda_take_patch(float *d, const cuda_map *map, int ty, int tx, int c) {
  HD_UNROLL
  for (int i = 0; i < 16; i++)
    d[i] = cuda_pixel(map->image, map->height, map->width, map->channels, map->y + 2 * ty + i / 4,
                      map->x + 2 * tx + i % 4, c);
  HD_TRANSFORM(d, cuda_patch_line, 4, 4);
}

HD_BOTH void cuda_tile_back(float out[4], float m[16], float bias) {
  HD_TRANSFORM(m, cuda_tile_line, 4, 2);
  HD_UNROLL
  for (int i = 0; i < 4; i++)
    out[i] = m[i / 2 * 4 + i % 2] + bias;
}

/* The four outputs of a tile; w: a channel's first tap, floats to the next tap and to the next channel. */
HD_BOTH void cuda_tile(float out[4], const cuda_map *map, int ty, int tx, const float *w, int64_t tap, int64_t channel,
                       float bias) {
  float m[16] = {0}, d[16], k[16];
  for (int c = 0; c < map->channels; c++) {
    cuda_take_patch(d, map, ty, tx, c);
    HD_UNROLL
    for (int i = 0; i < 9; i++)
      k[i / 3 * 4 + i % 3] = w[i * tap + c * channel];
    HD_TRANSFORM(k, cuda_kernel_line, 3, 4);
    HD_UNROLL
    for (int i = 0; i < 16; i++)
      m[i] = fmaf(d[i], k[i], m[i]);
  }
  cuda_tile_back(out, m, bias);
}

/* ---- Forward ---- */

/* A window's position, (oy, ox) of the convolution. */
HD_BOTH float cuda_conv_value(const hd_cuda_call *c, const float *x, int oy, int ox, int co) {
  const hd_geom *g = &c->g;
  const int channels = cuda_group_channels(g), first = co / (g->co / g->groups) * channels;
  const float *w = cuda_param(c, 1) + (int64_t)co * g->kh * g->kw * channels;
  float acc = c->in[2] ? cuda_param(c, 2)[co] : 0;
  for (int ky = 0; ky < g->kh; ky++)
    for (int kx = 0; kx < g->kw; kx++)
      for (int ci = 0; ci < channels; ci++)
        acc = fmaf(cuda_pixel(x, g->hi, g->wi, g->ci, oy * g->sh + ky - g->ph, ox * g->sw + kx - g->pw, first + ci),
                   w[(ky * g->kw + kx) * channels + ci], acc);
  return acc;
}

HD_BOTH void cuda_put_window(const hd_cuda_call *c, int64_t n, int64_t window, int co, float value, int at) {
  const int64_t out = window * c->g.co + co;
  cuda_out(c, 0, n)[out] = c->g.relu && value < 0 ? 0 : value;
  if (c->out[1])
    ((uint8_t *)c->out[1])[n * c->out_stride[1] + out] = (uint8_t)at;
}

/* Windows along an axis that a tile has: one of a pool of side 2, or two. */
HD_BOTH int cuda_tile_side(const hd_geom *g) { return 2 / g->pool; }
HD_BOTH int cuda_tiles(int windows, int side) { return (windows + side - 1) / side; }

/* A tile's outputs: the maximum of a window of side 2, or those of four windows that exist. */
HD_BOTH void cuda_put_tile(const hd_cuda_call *c, int64_t n, int tile, int co, const float value[4]) {
  const hd_geom *g = &c->g;
  const int across = cuda_tiles(g->wp, cuda_tile_side(g)), ty = tile / across, tx = tile % across;
  if (cuda_tile_side(g) == 1) {
    float best = value[0];
    int at = 0;
    HD_UNROLL
    for (int p = 1; p < 4; p++)
      if (cuda_takes_over(value[p], best)) {
        best = value[p];
        at = p;
      }
    cuda_put_window(c, n, tile, co, best, at);
    return;
  }
  HD_UNROLL
  for (int p = 0; p < 4; p++) {
    const int wy = 2 * ty + p / 2, wx = 2 * tx + p % 2;
    if (wy < g->hp && wx < g->wp)
      cuda_put_window(c, n, (int64_t)wy * g->wp + wx, co, value[p], 0);
  }
}

HD_BOTH void cuda_conv_tile(const hd_cuda_call *c, int64_t n, int64_t i) {
  const hd_geom *g = &c->g;
  const int across = cuda_tiles(g->wp, cuda_tile_side(g)), co = (int)(i % g->co), tile = (int)(i / g->co);
  const cuda_map map = {cuda_in(c, 0, n), g->hi, g->wi, g->ci, -g->ph, -g->pw};
  float value[4];
  cuda_tile(value, &map, tile / across, tile % across, cuda_param(c, 1) + (int64_t)co * 9 * g->ci, g->ci, 1,
            c->in[2] ? cuda_param(c, 2)[co] : 0);
  cuda_put_tile(c, n, tile, co, value);
}

HD_BOTH int64_t conv2d_count(const hd_geom *g) {
  if (!hd_geom_is_winograd(g))
    return (int64_t)g->hp * g->wp * g->co;
  return (int64_t)cuda_tiles(g->hp, cuda_tile_side(g)) * cuda_tiles(g->wp, cuda_tile_side(g)) * g->co;
}

HD_BOTH void conv2d_at(const hd_cuda_call *c, int64_t n, int64_t i) {
  const hd_geom *g = &c->g;
  if (hd_geom_is_winograd(g)) {
    cuda_conv_tile(c, n, i);
    return;
  }
  const int co = (int)(i % g->co), window = (int)(i / g->co);
  const int oy = window / g->wp * g->pool, ox = window % g->wp * g->pool;
  const float *x = cuda_in(c, 0, n);
  float best = cuda_conv_value(c, x, oy, ox, co);
  int at = 0;
  for (int p = 1; p < g->pool * g->pool; p++) {
    const float value = cuda_conv_value(c, x, oy + p / g->pool, ox + p % g->pool, co);
    if (cuda_takes_over(value, best)) {
      best = value;
      at = p;
    }
  }
  cuda_put_window(c, n, window, co, best, at);
}

/* ---- Gradient of the input ---- */

HD_BOTH int cuda_conv_tiled_gradients(const hd_geom *g) { return hd_geom_is_winograd(g) && g->pool == 1; }

/* The first output along an axis whose window reaches `at` (padding counted), and the last: outputs of stride s. */
HD_BOTH int cuda_first_reach(int at, int kernel, int s) { return at < kernel ? 0 : (at - kernel) / s + 1; }
HD_BOTH int cuda_last_reach(int at, int s, int outputs) { return at / s < outputs ? at / s : outputs - 1; }

HD_BOTH float cuda_conv_dx_value(const hd_cuda_call *c, int64_t n, int y, int x, int ci) {
  const hd_geom *g = &c->g;
  const int channels = cuda_group_channels(g), outputs = g->co / g->groups, group = ci / channels;
  const float *dy = cuda_in(c, 0, n), *w = cuda_param(c, 1);
  const uint8_t *argmax = c->in[2] ? cuda_bytes_in(c, 2, n) : 0;
  const int oy1 = cuda_last_reach(y + g->ph, g->sh, g->hp * g->pool);
  const int ox1 = cuda_last_reach(x + g->pw, g->sw, g->wp * g->pool);
  float acc = 0;
  for (int oy = cuda_first_reach(y + g->ph, g->kh, g->sh); oy <= oy1; oy++)
    for (int ox = cuda_first_reach(x + g->pw, g->kw, g->sw); ox <= ox1; ox++) {
      const int tap = (y + g->ph - oy * g->sh) * g->kw + x + g->pw - ox * g->sw;
      const int64_t window = ((int64_t)(oy / g->pool) * g->wp + ox / g->pool) * g->co;
      const int position = oy % g->pool * g->pool + ox % g->pool;
      for (int co = group * outputs; co < (group + 1) * outputs; co++)
        if (dy[window + co] != 0 && (argmax ? argmax[window + co] : 0) == position)
          acc = fmaf(dy[window + co], w[((int64_t)co * g->kh * g->kw + tap) * channels + ci % channels], acc);
    }
  return acc + 0;
}

HD_BOTH int64_t conv2d_dx_count(const hd_geom *g) {
  return cuda_conv_tiled_gradients(g) ? (int64_t)cuda_tiles(g->hi, 2) * cuda_tiles(g->wi, 2) * g->ci : cuda_elems(g);
}

HD_BOTH void cuda_put_dx_tile(const hd_cuda_call *c, int64_t n, int ty, int tx, int ci, const float value[4]) {
  HD_UNROLL
  for (int p = 0; p < 4; p++) {
    const int y = 2 * ty + p / 2, x = 2 * tx + p % 2;
    if (y < c->g.hi && x < c->g.wi)
      cuda_out(c, 0, n)[((int64_t)y * c->g.wi + x) * c->g.ci + ci] = value[p];
  }
}

HD_BOTH void conv2d_dx_at(const hd_cuda_call *c, int64_t n, int64_t i) {
  const hd_geom *g = &c->g;
  const int ci = (int)(i % g->ci), at = (int)(i / g->ci);
  float value[4];
  if (!cuda_conv_tiled_gradients(g)) {
    cuda_out(c, 0, n)[i] = cuda_conv_dx_value(c, n, at / g->wi, at % g->wi, ci);
    return;
  }
  const int ty = at / cuda_tiles(g->wi, 2), tx = at % cuda_tiles(g->wi, 2);
  const cuda_map map = {cuda_in(c, 0, n), g->hp, g->wp, g->co, g->ph - 2, g->pw - 2};
  cuda_tile(value, &map, ty, tx, cuda_param(c, 1) + 8 * g->ci + ci, -g->ci, 9 * (int64_t)g->ci, 0);
  cuda_put_dx_tile(c, n, ty, tx, ci, value);
}

/* ---- Gradients of weight and bias, per shard ---- */

HD_BOTH float cuda_conv_dw_value(const hd_cuda_call *c, int64_t k, int co, int column) {
  const hd_geom *g = &c->g;
  const int channels = cuda_group_channels(g), tap = column / channels;
  const int ci = co / (g->co / g->groups) * channels + column % channels;
  float acc = 0;
  for (int64_t n = cuda_row0(c, k); n < cuda_row1(c, k); n++) {
    const float *x = cuda_in(c, 0, n), *dy = cuda_in(c, 1, n);
    const uint8_t *argmax = c->in[2] ? cuda_bytes_in(c, 2, n) : 0;
    for (int window = 0; window < g->hp * g->wp; window++) {
      const int64_t at = (int64_t)window * g->co + co;
      const int p = argmax ? argmax[at] : 0;
      const int oy = window / g->wp * g->pool + p / g->pool, ox = window % g->wp * g->pool + p % g->pool;
      if (dy[at] != 0)
        acc = fmaf(
            dy[at],
            cuda_pixel(x, g->hi, g->wi, g->ci, oy * g->sh + tap / g->kw - g->ph, ox * g->sw + tap % g->kw - g->pw, ci),
            acc);
    }
  }
  return acc + 0;
}

HD_BOTH void cuda_kernel_back(float *dw, float s[16], int64_t tap) {
  HD_TRANSFORM(s, cuda_kernel_gradient_line, 4, 3);
  HD_UNROLL
  for (int i = 0; i < 9; i++)
    dw[i * tap] = s[i / 3 * 4 + i % 3] + 0;
}

HD_BOTH void cuda_conv_dw_tiled(const hd_cuda_call *c, int64_t k, int co, int ci) {
  const hd_geom *g = &c->g;
  const int down = cuda_tiles(g->hp, 2), across = cuda_tiles(g->wp, 2);
  float s[16] = {0}, z[16], d[16];
  for (int64_t n = cuda_row0(c, k); n < cuda_row1(c, k); n++) {
    const cuda_map map = {cuda_in(c, 0, n), g->hi, g->wi, g->ci, -g->ph, -g->pw};
    for (int tile = 0; tile < down * across; tile++) {
      const int ty = tile / across, tx = tile % across;
      cuda_take_patch(d, &map, ty, tx, ci);
      HD_UNROLL
      for (int i = 0; i < 4; i++)
        z[i / 2 * 4 + i % 2] = cuda_pixel(cuda_in(c, 1, n), g->hp, g->wp, g->co, 2 * ty + i / 2, 2 * tx + i % 2, co);
      HD_TRANSFORM(z, cuda_tile_gradient_line, 2, 4);
      HD_UNROLL
      for (int i = 0; i < 16; i++)
        s[i] = fmaf(z[i], d[i], s[i]);
    }
  }
  cuda_kernel_back(cuda_sums(c, 0, k) + (int64_t)co * 9 * g->ci + ci, s, g->ci);
}

HD_BOTH float cuda_conv_db_value(const hd_cuda_call *c, int64_t k, int co) {
  float acc = 0;
  for (int64_t n = cuda_row0(c, k); n < cuda_row1(c, k); n++)
    for (int window = 0; window < c->g.hp * c->g.wp; window++)
      acc = acc + cuda_in(c, 1, n)[(int64_t)window * c->g.co + co];
  return acc;
}

/* The threads for the weights of an output channel. */
HD_BOTH int cuda_conv_dw_columns(const hd_geom *g) {
  return cuda_conv_tiled_gradients(g) ? g->ci : g->kh * g->kw * cuda_group_channels(g);
}

HD_BOTH int64_t conv2d_dw_count(const hd_geom *g) { return (int64_t)g->co * (cuda_conv_dw_columns(g) + 1); }

HD_BOTH void conv2d_dw_at(const hd_cuda_call *c, int64_t k, int64_t i) {
  const hd_geom *g = &c->g;
  const int columns = cuda_conv_dw_columns(g);
  const int64_t weights = (int64_t)g->co * columns;
  if (i >= weights) {
    if (c->out[1])
      cuda_sums(c, 1, k)[i - weights] = cuda_conv_db_value(c, k, (int)(i - weights));
    return;
  }
  const int co = (int)(i / columns), column = (int)(i % columns);
  if (!c->out[0])
    return;
  if (cuda_conv_tiled_gradients(g))
    cuda_conv_dw_tiled(c, k, co, column);
  else
    cuda_sums(c, 0, k)[i] = cuda_conv_dw_value(c, k, co, column);
}

#endif
