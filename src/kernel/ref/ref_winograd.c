/* Reference convolution by Winograd's F(2 x 2, 3 x 3) and its gradients: scalar loops that state the chains.
 *
 * A tile is 2 x 2 neighbouring outputs, the first at even coordinates; its patch is the 4 x 4 inputs that they read,
 * zeros where the padding or what lies behind it is. Patch, kernel and tile are transformed along y first, then along
 * x, so that a tile takes 16 products a pair of channels instead of 36; after Lavin and Gray, "Fast algorithms for
 * convolutional neural networks", 2015.
 *
 *   patch d    d0 - d2, d1 + d2, d2 - d1, d1 - d3
 *   kernel k   k0, ((k0 + k2) + k1) / 2, ((k0 + k2) - k1) / 2, k2
 *   back to a tile      (m0 + m1) + m2, (m1 - m2) - m3
 *   a tile's gradient   z0, z0 + z1, z0 - z1, 0 - z1
 *   back to a kernel    s0 + (s1 + s2) / 2, (s1 - s2) / 2, (s1 + s2) / 2 + s3 */
#include "kernel/ref/ref_winograd.h"

/* One axis of a transform: reads n values `step` apart, writes its outputs as far apart. */
typedef void line_fn(real *out, const real *in, int step);

static void patch_line(real *out, const real *in, int step) {
  real d0 = in[0], d1 = in[step], d2 = in[2 * step], d3 = in[3 * step];
  out[0] = d0 - d2;
  out[step] = d1 + d2;
  out[2 * step] = d2 - d1;
  out[3 * step] = d1 - d3;
}

static void kernel_line(real *out, const real *in, int step) {
  real k0 = in[0], k1 = in[step], k2 = in[2 * step], outer = k0 + k2;
  out[0] = k0;
  out[step] = (outer + k1) * (real)0.5;
  out[2 * step] = (outer - k1) * (real)0.5;
  out[3 * step] = k2;
}

static void tile_line(real *out, const real *in, int step) {
  real m0 = in[0], m1 = in[step], m2 = in[2 * step], m3 = in[3 * step];
  out[0] = (m0 + m1) + m2;
  out[step] = (m1 - m2) - m3;
}

static void tile_gradient_line(real *out, const real *in, int step) {
  real z0 = in[0], z1 = in[step];
  out[0] = z0;
  out[step] = z0 + z1;
  out[2 * step] = z0 - z1;
  out[3 * step] = 0 - z1;
}

static void kernel_gradient_line(real *out, const real *in, int step) {
  real s0 = in[0], s1 = in[step], s2 = in[2 * step], s3 = in[3 * step], half = (s1 + s2) * (real)0.5;
  out[0] = s0 + half;
  out[step] = (s1 - s2) * (real)0.5;
  out[2 * step] = half + s3;
}

/* Both axes of a square of n x n values in lines of 4, in place; `out` of them along each axis come of it. */
static void transform(real *square, line_fn *line, int n, int out) {
  for (int x = 0; x < n; x++)
    line(square + x, square + x, 4);
  for (int y = 0; y < out; y++)
    line(square + 4 * y, square + 4 * y, 1);
}

static real pixel(const winograd_map *map, const real *image, int y, int x, int c) {
  if (y < 0 || y >= map->height || x < 0 || x >= map->width)
    return 0;
  return image[((int64_t)y * map->width + x) * map->channels + c];
}

/* Four by four values of one channel from (y, x) on, transformed. */
static void take_patch(real *d, const winograd_map *map, const real *image, int y, int x, int c) {
  for (int i = 0; i < 16; i++)
    d[i] = pixel(map, image, y + i / 4, x + i % 4, c);
  transform(d, patch_line, 4, 4);
}

/* m = +0; channels ascending: m = fma(patch, kernel, m), for each of 16 places; then back, and + bias or + 0. */
void REF(winograd_tile)(real *out, const winograd_map *map, const real *image, int ty, int tx, const winograd_weight *w,
                        real bias) {
  real m[16] = {0}, d[16], k[16];
  for (int c = 0; c < map->channels; c++) {
    take_patch(d, map, image, 2 * ty - map->top, 2 * tx - map->left, c);
    for (int i = 0; i < 9; i++)
      k[i / 3 * 4 + i % 3] = w->first[i * w->tap + c * w->channel];
    transform(k, kernel_line, 3, 4);
    for (int i = 0; i < 16; i++)
      m[i] = REAL_FMA(d[i], k[i], m[i]);
  }
  transform(m, tile_line, 4, 2);
  for (int i = 0; i < 4; i++)
    out[i] = m[i / 2 * 4 + i % 2] + bias;
}

/* s = +0; samples ascending, tiles row-major: s = fma(gradient, patch, s), for each of 16 places; then back, and +
 * 0. */
void REF(winograd_dw)(const hd_call *call, int co, real *dw) {
  const hd_geom *g = call->g;
  winograd_map x_map = {g->hi, g->wi, g->ci, g->ph, g->pw}, dy_map = {g->hp, g->wp, g->co, 0, 0};
  for (int ci = 0; ci < g->ci; ci++) {
    real s[16] = {0}, z[16], d[16];
    for (int64_t n = 0; n < call->rows; n++)
      for (int tile = 0; tile < (g->hp + 1) / 2 * ((g->wp + 1) / 2); tile++) {
        const real *x = (const real *)call->in[0] + n * call->in_stride[0];
        const real *dy = (const real *)call->in[1] + n * call->in_stride[1];
        int ty = tile / ((g->wp + 1) / 2), tx = tile % ((g->wp + 1) / 2);
        take_patch(d, &x_map, x, 2 * ty - g->ph, 2 * tx - g->pw, ci);
        for (int i = 0; i < 4; i++)
          z[i / 2 * 4 + i % 2] = pixel(&dy_map, dy, 2 * ty + i / 2, 2 * tx + i % 2, co);
        transform(z, tile_gradient_line, 2, 4);
        for (int i = 0; i < 16; i++)
          s[i] = REAL_FMA(z[i], d[i], s[i]);
      }
    transform(s, kernel_gradient_line, 4, 3);
    for (int i = 0; i < 9; i++)
      dw[i * g->ci + ci] = s[i / 3 * 4 + i % 3] + 0;
  }
}
