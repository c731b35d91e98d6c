/* The gradient of a convolution's weight by Winograd's tiles: patches and tiles of dy transformed, for each place a
 * product of matrices over the tiles, and at the end of the shard back to kernels.
 *
 * Order: as op/conv2d/winograd.h says; the sums of a place are in scratch, [output channel][input channel]; tiles
 * are added ascending: fma(gradient, patch, sum). */
#include "op/conv2d/winograd_cpu.h"

enum { OUTPUTS = ACC_GROUPS / BLOCK_GROUPS }; /* output channels whose sums are in registers */

G16 void tile_gradient_line(g16 *z, int step) {
  g16 z0 = z[0], z1 = z[step];
  z[step] = g16_add(z0, z1);
  z[2 * step] = g16_sub(z0, z1);
  z[3 * step] = g16_sub(g16_zero(), z1);
}

G16 void kernel_gradient_line(g16 *s, int step) {
  g16 s0 = s[0], s1 = s[step], s2 = s[2 * step], s3 = s[3 * step], by2 = g16_all(0.5f);
  g16 half = g16_mul(g16_add(s1, s2), by2);
  s[0] = g16_add(s0, half);
  s[step] = g16_mul(g16_sub(s1, s2), by2);
  s[2 * step] = g16_add(half, s3);
}

/* The tiles of dy, transformed, in the layout of patches. */
static void take_gradients(float *out, int64_t stride, const winograd_map *dy, winograd_cursor *at, int count) {
  int channels16 = up16(dy->channels);
  int64_t line = (int64_t)dy->width * dy->channels;
  for (int t = 0; t < count; t++, out += channels16, next_tile(at, dy)) {
    int y = 2 * at->ty, x = 2 * at->tx, below = y + 1 < dy->height, right = x + 1 < dy->width;
    const float *first = dy->x + at->row * dy->stride + y * line + (int64_t)x * dy->channels;
    for (int c = 0; c < dy->channels; c += 16) {
      int left = dy->channels - c;
      g16 z[PLACES];
      z[0] = g16_load_some(first + c, left);
      z[1] = right ? g16_load_some(first + dy->channels + c, left) : g16_zero();
      z[4] = below ? g16_load_some(first + line + c, left) : g16_zero();
      z[5] = below && right ? g16_load_some(first + line + dy->channels + c, left) : g16_zero();
      WINOGRAD_TRANSFORM(z, tile_gradient_line, 2, 4);
      UNROLL_FOR (i, PLACES)
        g16_store(out + i * stride + c, z[i]);
    }
  }
}

/* The operands of the product for some tiles of one place. */
typedef struct dw_product {
  float *sums;               /* [output channel][input16] */
  const float *patch, *grad; /* [tile][input16], [tile][output16] */
  int input16, output16, tiles;
} dw_product;

/* Sums of `outputs` channels from j on and `groups` groups from c on; constants where this is inlined. */
G16 void add_tiles(const dw_product *p, int j, int c, int outputs, int groups) {
  const float *patch = p->patch + c, *grad = p->grad + j;
  float *sums = p->sums + (int64_t)j * p->input16 + c;
  g16 acc[OUTPUTS][BLOCK_GROUPS];
  UNROLL_FOR (o, outputs)
    UNROLL_FOR (q, groups)
      acc[o][q] = g16_load(sums + o * p->input16 + 16 * q);
  for (int t = 0; t < p->tiles; t++, patch += p->input16, grad += p->output16) {
    g16 x[BLOCK_GROUPS];
    UNROLL_FOR (q, groups)
      x[q] = g16_load(patch + 16 * q);
    UNROLL_FOR (o, outputs) {
      g16 z = g16_all(grad[o]);
      UNROLL_FOR (q, groups)
        acc[o][q] = g16_fma(z, x[q], acc[o][q]);
    }
  }
  UNROLL_FOR (o, outputs)
    UNROLL_FOR (q, groups)
      g16_store(sums + o * p->input16 + 16 * q, acc[o][q]);
}

typedef void block_fn(const dw_product *p, int j, int c);

#define FITS(outputs, groups) ((outputs) <= OUTPUTS && (groups) <= BLOCK_GROUPS)
#define BLOCK(outputs, groups)                                                                                         \
  static void block_##outputs##x##groups(const dw_product *p, int j, int c) {                                          \
    if (FITS(outputs, groups))                                                                                         \
      add_tiles(p, j, c, outputs, groups);                                                                             \
  }
BLOCK_TABLE(block_fn)

static void multiply(const dw_product *p, int outputs) {
  int size = even_part(outputs, OUTPUTS), groups = p->input16 / 16;
  for (int q = 0; q < groups; q += BLOCK_GROUPS)
    for (int j = 0; j < outputs; j += size)
      blocks[least(BLOCK_GROUPS, groups - q) - 1][least(size, outputs - j) - 1](p, j, 16 * q);
}

static void put_kernels(float *dw, const float *sums, const hd_geom *g) {
  int64_t input16 = up16(g->ci), place = g->co * input16;
  for (int j = 0; j < g->co; j++, sums += input16, dw += 9 * (int64_t)g->ci)
    for (int c = 0; c < g->ci; c += 16) {
      g16 s[PLACES];
      UNROLL_FOR (i, PLACES)
        s[i] = g16_load(sums + i * place + c);
      WINOGRAD_TRANSFORM(s, kernel_gradient_line, 4, 3);
      UNROLL_FOR (i, 9)
        g16_store_some(dw + (int64_t)i * g->ci + c, g16_add(s[i / 3 * 4 + i % 3], g16_zero()), g->ci - c);
    }
}

void HD_SYM(winograd_dw)(const hd_call *call) {
  const hd_geom *g = call->g;
  int tiles_y = (g->hp + 1) / 2, tiles_x = (g->wp + 1) / 2, at_once = tiles_at_once(DW_BYTES, g->ci + g->co);
  winograd_map x = {call->in[0], call->in_stride[0], g->hi, g->wi, g->ci, g->ph, g->pw, tiles_y, tiles_x};
  winograd_map dy = {call->in[1], call->in_stride[1], g->hp, g->wp, g->co, 0, 0, tiles_y, tiles_x};
  int64_t in = place_elems(at_once, g->ci), out = place_elems(at_once, g->co), place = (int64_t)g->co * up16(g->ci);
  float *patches = call->scratch, *grads = patches + PLACES * in, *sums = grads + PLACES * out;
  winograd_cursor from = {0}, also = {0};
  memset(sums, 0, (size_t)(PLACES * place) * sizeof *sums);
  for (int64_t left = tiles_of(&x, call->rows); left > 0; left -= at_once) {
    int tiles = left < at_once ? (int)left : at_once;
    HD_SYM(winograd_patches)(patches, in, &x, &from, tiles);
    take_gradients(grads, out, &dy, &also, tiles);
    for (int i = 0; i < PLACES; i++) {
      dw_product p = {sums + i * place, patches + i * in, grads + i * out, up16(g->ci), up16(g->co), tiles};
      multiply(&p, g->co);
    }
  }
  put_kernels(call->out[0], sums, g);
}

int64_t HD_SYM(winograd_dw_scratch)(const hd_geom *g) {
  int at_once = tiles_at_once(DW_BYTES, g->ci + g->co);
  return whole_bytes(PLACES * (place_elems(at_once, g->ci) + place_elems(at_once, g->co) + g->co * up16(g->ci)));
}
