/* Winograd's F(4 x 4, 3 x 3) and F(2 x 2, 5 x 5), the tiles of wide convolutions.
 *
 * A tile is 4 x 4 neighbouring outputs of a 3 x 3 kernel or 2 x 2 of a 5 x 5 one, the first at coordinates that its
 * side divides; its patch is the 6 x 6 inputs that they read, zeros where the padding or what lies behind it is.
 * Patch, kernel and tile are transformed along y first, then along x, so that a tile takes 36 products a pair of
 * channels instead of 144 or 100; after Lavin and Gray, "Fast algorithms for convolutional neural networks", 2015.
 * The points are those of winograd_points.h. */
#pragma once

#include "op/conv2d/winograd_points.h"
#include "op/conv2d/winograd_rule.h"
#include "op/window.h"

/* One axis of the transforms, values `step` apart. a, b, na, nb, n0: WINOGRAD_A and so on. */

/* patch d: fma(a^2 b^2, d0, fma(-(a^2 + b^2), d2, d4));
 * p, -p: even + p odd, even - p odd, with even = fma(-q^2, d2, d4), odd = fma(-q^2, d1, d3), q the other of a and b;
 * fma(a^2 b^2, d1, fma(-(a^2 + b^2), d3, d5)) */
HD_BOTH void winograd_patch_line(real *v, int step, int size) {
  (void)size;
  const real d0 = v[0], d1 = v[step], d2 = v[2 * step], d3 = v[3 * step], d4 = v[4 * step], d5 = v[5 * step];
  const real even_a = REAL_FMA((real)-WINOGRAD_B2, d2, d4), odd_a = REAL_FMA((real)-WINOGRAD_B2, d1, d3);
  const real even_b = REAL_FMA((real)-WINOGRAD_A2, d2, d4), odd_b = REAL_FMA((real)-WINOGRAD_A2, d1, d3);
  v[0] = REAL_FMA((real)WINOGRAD_PRODUCT, d0, REAL_FMA((real)-WINOGRAD_SUM, d2, d4));
  v[step] = REAL_FMA((real)WINOGRAD_A, odd_a, even_a);
  v[2 * step] = REAL_FMA((real)-WINOGRAD_A, odd_a, even_a);
  v[3 * step] = REAL_FMA((real)WINOGRAD_B, odd_b, even_b);
  v[4 * step] = REAL_FMA((real)-WINOGRAD_B, odd_b, even_b);
  v[5 * step] = REAL_FMA((real)WINOGRAD_PRODUCT, d1, REAL_FMA((real)-WINOGRAD_SUM, d3, d5));
}

/* kernel k: n0 k0; p, -p: np fma(p, odd, even), np fma(-p, odd, even) with even = fma(p^2, k2, k0) and odd = k1, or
 * of 5 taps fma(p^2, fma(p^2, k4, k2), k0) and fma(p^2, k3, k1); the last */
HD_BOTH void winograd_kernel_line(real *v, int step, int taps) {
  const real k0 = v[0], k1 = v[step], k2 = v[2 * step];
  real top_a = k2, top_b = k2, odd_a = k1, odd_b = k1;
  if (taps == 5) {
    top_a = REAL_FMA((real)WINOGRAD_A2, v[4 * step], k2);
    top_b = REAL_FMA((real)WINOGRAD_B2, v[4 * step], k2);
    odd_a = REAL_FMA((real)WINOGRAD_A2, v[3 * step], k1);
    odd_b = REAL_FMA((real)WINOGRAD_B2, v[3 * step], k1);
  }
  const real even_a = REAL_FMA((real)WINOGRAD_A2, top_a, k0), even_b = REAL_FMA((real)WINOGRAD_B2, top_b, k0);
  v[5 * step] = v[(taps - 1) * step];
  v[0] = k0 * (real)WINOGRAD_N0;
  v[step] = REAL_FMA((real)WINOGRAD_A, odd_a, even_a) * (real)WINOGRAD_NA;
  v[2 * step] = REAL_FMA((real)-WINOGRAD_A, odd_a, even_a) * (real)WINOGRAD_NA;
  v[3 * step] = REAL_FMA((real)WINOGRAD_B, odd_b, even_b) * (real)WINOGRAD_NB;
  v[4 * step] = REAL_FMA((real)-WINOGRAD_B, odd_b, even_b) * (real)WINOGRAD_NB;
}

/* back to a tile, with s = m1 + m2, d = m1 - m2, t = m3 + m4, e = m3 - m4. Side 4: (m0 + s) + t; fma(b, e, a d);
 * fma(b^2, t, a^2 s); fma(b^3, e, fma(a^3, d, m5)). Side 2: (m0 + s) + t; fma(b, e, fma(a, d, m5)) */
HD_BOTH void winograd_tile_line(real *v, int step, int side) {
  const real m0 = v[0], s = v[step] + v[2 * step], d = v[step] - v[2 * step];
  const real t = v[3 * step] + v[4 * step], e = v[3 * step] - v[4 * step], m5 = v[5 * step];
  v[0] = (m0 + s) + t;
  if (side == 2) {
    v[step] = REAL_FMA((real)WINOGRAD_B, e, REAL_FMA((real)WINOGRAD_A, d, m5));
    return;
  }
  v[step] = REAL_FMA((real)WINOGRAD_B, e, (real)WINOGRAD_A * d);
  v[2 * step] = REAL_FMA((real)WINOGRAD_B2, t, (real)WINOGRAD_A2 * s);
  v[3 * step] = REAL_FMA((real)WINOGRAD_B3, e, REAL_FMA((real)WINOGRAD_A3, d, m5));
}

/* the gradient z of a tile: z0; p, -p: even + odd, even - odd with even = fma(p^2, z2, z0) and odd = fma(p^3, z3, p
 * z1), of side 2 z0 and p z1; the last */
HD_BOTH void winograd_tile_gradient_line(real *v, int step, int side) {
  const real z1 = v[step], last = v[(side - 1) * step];
  real even_a = v[0], even_b = v[0], odd_a = (real)WINOGRAD_A * z1, odd_b = (real)WINOGRAD_B * z1;
  if (side == 4) {
    even_a = REAL_FMA((real)WINOGRAD_A2, v[2 * step], even_a);
    even_b = REAL_FMA((real)WINOGRAD_B2, v[2 * step], even_b);
    odd_a = REAL_FMA((real)WINOGRAD_A3, last, odd_a);
    odd_b = REAL_FMA((real)WINOGRAD_B3, last, odd_b);
  }
  v[5 * step] = last;
  v[step] = even_a + odd_a;
  v[2 * step] = even_a - odd_a;
  v[3 * step] = even_b + odd_b;
  v[4 * step] = even_b - odd_b;
}

/* back to a kernel, with s = na (s1 + s2), d = na (s1 - s2), t = nb (s3 + s4), e = nb (s3 - s4): fma(n0, s0, s + t);
 * fma(b, e, a d); fma(b^2, t, fma(a^2, s, s5)), or of 5 taps fma(b^2, t, a^2 s); fma(b^3, e, a^3 d);
 * fma(b^4, t, fma(a^4, s, s5)) */
HD_BOTH void winograd_kernel_gradient_line(real *v, int step, int taps) {
  const real s0 = v[0], s5 = v[5 * step];
  const real s = (v[step] + v[2 * step]) * (real)WINOGRAD_NA, d = (v[step] - v[2 * step]) * (real)WINOGRAD_NA;
  const real t = (v[3 * step] + v[4 * step]) * (real)WINOGRAD_NB, e = (v[3 * step] - v[4 * step]) * (real)WINOGRAD_NB;
  v[0] = REAL_FMA((real)WINOGRAD_N0, s0, s + t);
  v[step] = REAL_FMA((real)WINOGRAD_B, e, (real)WINOGRAD_A * d);
  if (taps == 3) {
    v[2 * step] = REAL_FMA((real)WINOGRAD_B2, t, REAL_FMA((real)WINOGRAD_A2, s, s5));
    return;
  }
  v[2 * step] = REAL_FMA((real)WINOGRAD_B2, t, (real)WINOGRAD_A2 * s);
  v[3 * step] = REAL_FMA((real)WINOGRAD_B3, e, (real)WINOGRAD_A3 * d);
  v[4 * step] = REAL_FMA((real)WINOGRAD_B4, t, REAL_FMA((real)WINOGRAD_A4, s, s5));
}

/* Both axes of a square in lines of 6: n lines along y first, then `out` along x. `size`, the side of the tile or of
 * the kernel, is a constant. */
#define WINOGRAD_TRANSFORM(square, line, n, out, size)                                                                 \
  do {                                                                                                                 \
    HD_UNROLL                                                                                                          \
    for (int x_ = 0; x_ < (n); x_++)                                                                                   \
      line((square) + x_, WINOGRAD_LINE, size);                                                                        \
    HD_UNROLL                                                                                                          \
    for (int y_ = 0; y_ < (out); y_++)                                                                                 \
      line((square) + WINOGRAD_LINE * y_, 1, size);                                                                    \
  } while (0)

HD_BOTH void winograd_patch_in(real *d) {
  WINOGRAD_TRANSFORM(d, winograd_patch_line, WINOGRAD_LINE, WINOGRAD_LINE, WINOGRAD_LINE);
}

HD_BOTH void winograd_kernel_in(real *k, int taps) {
  if (taps == 3)
    WINOGRAD_TRANSFORM(k, winograd_kernel_line, 3, WINOGRAD_LINE, 3);
  else
    WINOGRAD_TRANSFORM(k, winograd_kernel_line, 5, WINOGRAD_LINE, 5);
}

HD_BOTH void winograd_tile_gradient_in(real *z, int side) {
  if (side == 4)
    WINOGRAD_TRANSFORM(z, winograd_tile_gradient_line, 4, WINOGRAD_LINE, 4);
  else
    WINOGRAD_TRANSFORM(z, winograd_tile_gradient_line, 2, WINOGRAD_LINE, 2);
}

/* Element (y, x) of a smaller square is at this place of one of 6 x 6; i: its number, of n along an axis. */
HD_BOTH int winograd_place(int i, int n) { return i / n * WINOGRAD_LINE + i % n; }

/* An image, where the patch of tile (0, 0) begins, and the side of a tile. */
typedef struct winograd_map {
  const real *image;
  int height, width, channels, y, x, side;
} winograd_map;

HD_BOTH void winograd_patch(real *d, const winograd_map *map, int ty, int tx, int c) {
  HD_UNROLL
  for (int i = 0; i < WINOGRAD_PLACES; i++)
    d[i] = window_pixel(map->image, map->height, map->width, map->channels, map->y + map->side * ty + i / WINOGRAD_LINE,
                        map->x + map->side * tx + i % WINOGRAD_LINE, c);
  winograd_patch_in(d);
}

/* Puts a kernel at the places of its taps; w: its first; elements to the next. */
HD_BOTH void winograd_take_kernel(real *k, const real *w, int64_t tap, int taps) {
  HD_UNROLL
  for (int i = 0; i < WINOGRAD_TAPS; i++)
    if (i / 5 < taps && i % 5 < taps)
      k[winograd_place(i, 5)] = w[(i / 5 * taps + i % 5) * tap];
}

/* Tiles of side 2 have the outputs 0, 1, 4 and 5 alone. */
HD_BOTH void winograd_tile_back(real out[WINOGRAD_OUTPUTS], real m[WINOGRAD_PLACES], int side, real bias) {
  if (side == 4)
    WINOGRAD_TRANSFORM(m, winograd_tile_line, WINOGRAD_LINE, 4, 4);
  else
    WINOGRAD_TRANSFORM(m, winograd_tile_line, WINOGRAD_LINE, 2, 2);
  HD_UNROLL
  for (int i = 0; i < WINOGRAD_OUTPUTS; i++)
    out[i] = m[winograd_place(i, WINOGRAD_SIDE)] + bias;
}

/* The outputs of a tile. m = +0; channels ascending: m = fma(patch, kernel, m), for each of 36
 * places; then back, and + bias or + 0. w: a channel's first tap; elements to the next tap and to the next channel. */
HD_BOTH void winograd_tile(real out[WINOGRAD_OUTPUTS], const winograd_map *map, int ty, int tx, const real *w,
                           int64_t tap, int64_t channel, real bias) {
  const int taps = WINOGRAD_LINE + 1 - map->side;
  real m[WINOGRAD_PLACES] = {0}, d[WINOGRAD_PLACES], k[WINOGRAD_PLACES];
  for (int c = 0; c < map->channels; c++) {
    winograd_patch(d, map, ty, tx, c);
    winograd_take_kernel(k, w + c * channel, tap, taps);
    winograd_kernel_in(k, taps);
    HD_UNROLL
    for (int i = 0; i < WINOGRAD_PLACES; i++)
      m[i] = REAL_FMA(d[i], k[i], m[i]);
  }
  winograd_tile_back(out, m, map->side, bias);
}

HD_BOTH void winograd_kernel_back(real *dw, real s[WINOGRAD_PLACES], int64_t tap, int taps) {
  if (taps == 3)
    WINOGRAD_TRANSFORM(s, winograd_kernel_gradient_line, WINOGRAD_LINE, 3, 3);
  else
    WINOGRAD_TRANSFORM(s, winograd_kernel_gradient_line, WINOGRAD_LINE, 5, 5);
  HD_UNROLL
  for (int i = 0; i < WINOGRAD_TAPS; i++)
    if (i / 5 < taps && i % 5 < taps)
      dw[(i / 5 * taps + i % 5) * tap] = s[winograd_place(i, 5)] + 0;
}
