/* The gradient of a convolution's weight by Winograd's tiles: patches and tiles of dy transformed, for each place a
 * product of matrices over the tiles, and at the end of the shard back to kernels.
 *
 * Order: as op/conv2d/winograd.h says; tiles are added ascending: fma(gradient, patch, sum). A block of channels
 * adds as many tiles as are transformed at once; only between those are the sums of all channels in memory. */
#include "op/conv2d/winograd_cpu.h"

/* A block: ROWS output channels by GROUPS groups of input channels, or more rows by fewer groups. */
enum { GROUPS = ACC_GROUPS >= 24 ? 4 : ACC_GROUPS >= 6 ? 2 : 1, ROWS = ACC_GROUPS >= 24 ? 12 : ACC_GROUPS };

G16 void tile_gradient_line(g16 *z, int step) {
  g16 z0 = z[0], z1 = z[step], z2 = z[2 * step], z3 = z[3 * step];
  g16 even_a = plus(z0, WINOGRAD_A2, z2), odd_a = plus(times(WINOGRAD_A, z1), WINOGRAD_A3, z3);
  g16 even_b = plus(z0, WINOGRAD_B2, z2), odd_b = plus(times(WINOGRAD_B, z1), WINOGRAD_B3, z3);
  z[step] = g16_add(even_a, odd_a);
  z[2 * step] = g16_sub(even_a, odd_a);
  z[3 * step] = g16_add(even_b, odd_b);
  z[4 * step] = g16_sub(even_b, odd_b);
  z[5 * step] = z3;
}

G16 void kernel_gradient_line(g16 *v, int step) {
  g16 s = times(WINOGRAD_NA, g16_add(v[step], v[2 * step])), d = times(WINOGRAD_NA, g16_sub(v[step], v[2 * step]));
  g16 t = times(WINOGRAD_NB, g16_add(v[3 * step], v[4 * step])),
      e = times(WINOGRAD_NB, g16_sub(v[3 * step], v[4 * step]));
  v[0] = plus(g16_add(s, t), WINOGRAD_N0, v[0]);
  v[step] = plus(times(WINOGRAD_A, d), WINOGRAD_B, e);
  v[2 * step] = plus(plus(v[5 * step], WINOGRAD_A2, s), WINOGRAD_B2, t);
}

/* The tiles of dy, transformed, in the layout of patches. */
static void take_gradients(float *out, int64_t stride, const winograd_map *dy, winograd_cursor *at, int count) {
  int64_t line = (int64_t)dy->width * dy->channels;
  for (int t = 0; t < count; t++, out += tile_elems(dy->channels), next_tile(at, dy)) {
    int y = SIDE * at->ty, x = SIDE * at->tx;
    const float *first = dy->x + at->row * dy->stride + y * line + (int64_t)x * dy->channels;
    for (int c = 0; c < dy->channels; c += 16) {
      g16 z[PLACES];
      UNROLL_FOR (i, OUTPUTS)
        z[place_of(i, SIDE)] =
            y + i / SIDE < dy->height && x + i % SIDE < dy->width
                ? g16_load_some(first + i / SIDE * line + i % SIDE * dy->channels + c, dy->channels - c)
                : g16_zero();
      WINOGRAD_TRANSFORM(z, tile_gradient_line, SIDE, LINE);
      UNROLL_FOR (i, PLACES)
        g16_store(out + i * stride + c, z[i]);
    }
  }
}

/* The operands of the products for some tiles, and where their sums are. */
typedef struct dw_tiles {
  const float *patch, *grad; /* [place][tile][input16], [place][tile][output16] */
  int64_t patch_place, grad_place;
  int patch_tile, grad_tile; /* elements to the next tile */
  int input16, output16, tiles;
  int more;     /* sums are there from tiles before */
  float *sums;  /* of all channels, [place][output channel][input16] */
  float *block; /* of one block, [place][output channel][groups * 16] */
} dw_tiles;

/* Sums of `outputs` channels from j on and `groups` groups from c on; constants where this is inlined. They go to `to`:
 * elements to the next output channel and to the next place. */
G16 void add_tiles(const dw_tiles *d, int j, int c, float *to, int64_t to_output, int64_t to_place, int outputs,
                   int groups) {
  for (int place = 0; place < PLACES; place++, to += to_place) {
    const float *patch = d->patch + place * d->patch_place + c, *grad = d->grad + place * d->grad_place + j;
    const float *sums = d->sums + ((int64_t)place * d->output16 + j) * d->input16 + c;
    g16 acc[ROWS][GROUPS];
    UNROLL_FOR (o, outputs)
      UNROLL_FOR (q, groups)
        acc[o][q] = d->more ? g16_load(sums + o * d->input16 + 16 * q) : g16_zero();
    for (int t = 0; t < d->tiles; t++, patch += d->patch_tile, grad += d->grad_tile) {
      g16 x[GROUPS];
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
        g16_store(to + o * to_output + 16 * q, acc[o][q]);
  }
}

typedef void block_fn(const dw_tiles *d, int j, int c, float *to, int64_t to_output, int64_t to_place);

#define FITS(outputs, groups) ((outputs) <= ROWS && (groups) <= GROUPS && (outputs) * (groups) <= ACC_GROUPS)
#define BLOCK(outputs, groups)                                                                                         \
  static void block_##outputs##x##groups(const dw_tiles *d, int j, int c, float *to, int64_t to_output,                \
                                         int64_t to_place) {                                                           \
    if (FITS(outputs, groups))                                                                                         \
      add_tiles(d, j, c, to, to_output, to_place, outputs, groups);                                                    \
  }
BLOCK_TABLE(block_fn)

/* The kernels of a block from its sums; dw: those of the first output channel. */
static void put_kernels(float *dw, const dw_tiles *d, const hd_geom *g, int c, int outputs, int groups) {
  int64_t place = 16 * (int64_t)outputs * groups;
  for (int o = 0; o < outputs; o++, dw += 9 * (int64_t)g->ci)
    for (int q = 0; q < groups; q++) {
      g16 s[PLACES];
      UNROLL_FOR (i, PLACES)
        s[i] = g16_load(d->block + i * place + 16 * (o * groups + q));
      WINOGRAD_TRANSFORM(s, kernel_gradient_line, LINE, 3);
      UNROLL_FOR (i, 9)
        g16_store_some(dw + (int64_t)i * g->ci + c + 16 * q, g16_add(s[place_of(i, 3)], g16_zero()),
                       g->ci - c - 16 * q);
    }
}

/* Adds some tiles to all sums; the last tiles' go straight back to kernels. */
static void add_to_all(const dw_tiles *d, const hd_geom *g, float *dw, int last) {
  int all = d->input16 / 16, across = even_part(all, GROUPS), size = even_part(g->co, least(ROWS, ACC_GROUPS / across));
  for (int q = 0; q < all; q += across)
    for (int j = 0; j < g->co; j += size) {
      int groups = least(across, all - q), outputs = least(size, g->co - j);
      block_fn *block = blocks[groups - 1][outputs - 1];
      if (last) {
        block(d, j, 16 * q, d->block, 16 * groups, 16 * (int64_t)outputs * groups);
        put_kernels(dw + (int64_t)j * 9 * g->ci, d, g, 16 * q, outputs, groups);
      } else {
        block(d, j, 16 * q, d->sums + (int64_t)j * d->input16 + 16 * q, d->input16, (int64_t)d->output16 * d->input16);
      }
    }
}

void HD_SYM(winograd_dw)(const hd_call *call) {
  const hd_geom *g = call->g;
  int tiles_y = tiles_along(g->hp), tiles_x = tiles_along(g->wp);
  winograd_map x = {call->in[0], call->in_stride[0], g->hi, g->wi, g->ci, g->ph, g->pw, tiles_y, tiles_x};
  winograd_map dy = {call->in[1], call->in_stride[1], g->hp, g->wp, g->co, 0, 0, tiles_y, tiles_x};
  int64_t in = place_elems(DW_TILES, g->ci), out = place_elems(DW_TILES, g->co);
  float *patches = call->scratch, *grads = patches + PLACES * in, *block = grads + PLACES * out;
  dw_tiles d = {.patch = patches,
                .grad = grads,
                .patch_place = in,
                .grad_place = out,
                .patch_tile = tile_elems(g->ci),
                .grad_tile = tile_elems(g->co),
                .input16 = up16(g->ci),
                .output16 = up16(g->co),
                .sums = block + PLACES * 16 * ACC_GROUPS,
                .block = block};
  winograd_cursor from = {0}, also = {0};
  for (int64_t left = tiles_of(&x, call->rows); left > 0; left -= d.tiles, d.more = 1) {
    d.tiles = left < DW_TILES ? (int)left : DW_TILES;
    HD_SYM(winograd_patches)(patches, in, &x, &from, d.tiles);
    take_gradients(grads, out, &dy, &also, d.tiles);
    add_to_all(&d, g, call->out[0], left == d.tiles);
  }
}

int64_t HD_SYM(winograd_dw_scratch)(const hd_geom *g) {
  return whole_bytes(PLACES * (place_elems(DW_TILES, g->ci) + place_elems(DW_TILES, g->co) + 16 * ACC_GROUPS +
                               (int64_t)up16(g->co) * up16(g->ci)));
}
