/* Winograd's F(2 x 2, 3 x 3), the tiles of wide convolutions.
 *
 * A tile is 2 x 2 neighbouring outputs, the first at even coordinates; its patch is the 4 x 4 inputs that they read,
 * zeros where the padding or what lies behind it is. Patch, kernel and tile are transformed along y first, then along
 * x, so that a tile takes 16 products a pair of channels instead of 36; after Lavin and Gray, "Fast algorithms for
 * convolutional neural networks", 2015. */
#pragma once

#include "op/window.h"

/* One axis of the transforms, values `step` apart. */

/* patch d: d0 - d2, d1 + d2, d2 - d1, d1 - d3 */
HD_BOTH void winograd_patch_line(real *v, int step) {
  const real d0 = v[0], d1 = v[step], d2 = v[2 * step], d3 = v[3 * step];
  v[0] = d0 - d2;
  v[step] = d1 + d2;
  v[2 * step] = d2 - d1;
  v[3 * step] = d1 - d3;
}

/* kernel k: k0, ((k0 + k2) + k1) / 2, ((k0 + k2) - k1) / 2, k2 */
HD_BOTH void winograd_kernel_line(real *v, int step) {
  const real k0 = v[0], k1 = v[step], k2 = v[2 * step], outer = k0 + k2, half = (real)0.5;
  v[step] = (outer + k1) * half;
  v[2 * step] = (outer - k1) * half;
  v[3 * step] = k2;
}

/* back to a tile: (m0 + m1) + m2, (m1 - m2) - m3 */
HD_BOTH void winograd_tile_line(real *v, int step) {
  const real m0 = v[0], m1 = v[step], m2 = v[2 * step], m3 = v[3 * step];
  v[0] = (m0 + m1) + m2;
  v[step] = (m1 - m2) - m3;
}

/* the gradient z of a tile: z0, z0 + z1, z0 - z1, 0 - z1 */
HD_BOTH void winograd_tile_gradient_line(real *v, int step) {
  const real z0 = v[0], z1 = v[step];
  v[step] = z0 + z1;
  v[2 * step] = z0 - z1;
  v[3 * step] = 0 - z1;
}

/* back to a kernel: s0 + (s1 + s2) / 2, (s1 - s2) / 2, (s1 + s2) / 2 + s3 */
HD_BOTH void winograd_kernel_gradient_line(real *v, int step) {
  const real s0 = v[0], s1 = v[step], s2 = v[2 * step], s3 = v[3 * step], half = (s1 + s2) * (real)0.5;
  v[0] = s0 + half;
  v[step] = (s1 - s2) * (real)0.5;
  v[2 * step] = half + s3;
}

/* Both axes of a square in lines of 4: n lines along y first, then `out` along x. */
#define WINOGRAD_TRANSFORM(square, line, n, out)                                                                       \
  do {                                                                                                                 \
    HD_UNROLL                                                                                                          \
    for (int x_ = 0; x_ < (n); x_++)                                                                                   \
      line((square) + x_, 4);                                                                                          \
    HD_UNROLL                                                                                                          \
    for (int y_ = 0; y_ < (out); y_++)                                                                                 \
      line((square) + 4 * y_, 1);                                                                                      \
  } while (0)

/* An image, and where the patch of tile (0, 0) begins. */
typedef struct winograd_map {
  const real *image;
  int height, width, channels, y, x;
} winograd_map;

HD_BOTH void winograd_patch(real *d, const winograd_map *map, int ty, int tx, int c) {
  HD_UNROLL
  for (int i = 0; i < 16; i++)
    d[i] = window_pixel(map->image, map->height, map->width, map->channels, map->y + 2 * ty + i / 4,
                        map->x + 2 * tx + i % 4, c);
  WINOGRAD_TRANSFORM(d, winograd_patch_line, 4, 4);
}

HD_BOTH void winograd_tile_back(real out[4], real m[16], real bias) {
  WINOGRAD_TRANSFORM(m, winograd_tile_line, 4, 2);
  HD_UNROLL
  for (int i = 0; i < 4; i++)
    out[i] = m[i / 2 * 4 + i % 2] + bias;
}

/* The four outputs of a tile. m = +0; channels ascending: m = fma(patch, kernel, m), for each of 16 places; then back,
 * and + bias or + 0. w: a channel's first tap; elements to the next tap and to the next channel. */
HD_BOTH void winograd_tile(real out[4], const winograd_map *map, int ty, int tx, const real *w, int64_t tap,
                           int64_t channel, real bias) {
  real m[16] = {0}, d[16], k[16];
  for (int c = 0; c < map->channels; c++) {
    winograd_patch(d, map, ty, tx, c);
    HD_UNROLL
    for (int i = 0; i < 9; i++)
      k[i / 3 * 4 + i % 3] = w[i * tap + c * channel];
    WINOGRAD_TRANSFORM(k, winograd_kernel_line, 3, 4);
    HD_UNROLL
    for (int i = 0; i < 16; i++)
      m[i] = REAL_FMA(d[i], k[i], m[i]);
  }
  winograd_tile_back(out, m, bias);
}

HD_BOTH void winograd_kernel_back(real *dw, real s[16], int64_t tap) {
  WINOGRAD_TRANSFORM(s, winograd_kernel_gradient_line, 4, 3);
  HD_UNROLL
  for (int i = 0; i < 9; i++)
    dw[i * tap] = s[i / 3 * 4 + i % 3] + 0;
}
