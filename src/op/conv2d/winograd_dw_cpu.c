/* The gradient of a convolution's weight by Winograd's tiles: patches and tiles of dy transformed, for each place a
 * product of matrices over the tiles, and at the end of the shard back to kernels.
 *
 * Order: as op/conv2d/winograd.h says; tiles are added ascending: fma(gradient, patch, sum). As many tiles as are
 * transformed at once are added; only between those are the sums of all channels in memory. */
#include "op/conv2d/winograd_cpu.h"

/* A panel of output channels by groups of input channels, whose sums stay in the second-level cache, in blocks whose
 * sums stay in registers: ROWS output channels by GROUPS groups, or more rows by fewer groups. */
enum { PANEL_OUTPUTS = 24, PANEL_GROUPS = 4, PANEL = PANEL_OUTPUTS * PANEL_GROUPS * 16 };
enum { GROUPS = ACC_GROUPS >= 24 ? 4 : 1, ROWS = ACC_GROUPS >= 24 ? 12 : ACC_GROUPS };

G16 void tile_gradient_line(g16 *z, int side) {
  g16 even_a = z[0], even_b = z[0], odd_a = times(WINOGRAD_A, z[1]), odd_b = times(WINOGRAD_B, z[1]);
  z[5] = z[side - 1];
  if (side == 4) {
    even_a = plus(even_a, WINOGRAD_A2, z[2]);
    even_b = plus(even_b, WINOGRAD_B2, z[2]);
    odd_a = plus(odd_a, WINOGRAD_A3, z[3]);
    odd_b = plus(odd_b, WINOGRAD_B3, z[3]);
  }
  z[1] = g16_add(even_a, odd_a);
  z[2] = g16_sub(even_a, odd_a);
  z[3] = g16_add(even_b, odd_b);
  z[4] = g16_sub(even_b, odd_b);
}

G16 void kernel_gradient_line(g16 *v, int taps) {
  g16 s = times(WINOGRAD_NA, g16_add(v[1], v[2])), d = times(WINOGRAD_NA, g16_sub(v[1], v[2]));
  g16 t = times(WINOGRAD_NB, g16_add(v[3], v[4])), e = times(WINOGRAD_NB, g16_sub(v[3], v[4]));
  v[0] = plus(g16_add(s, t), WINOGRAD_N0, v[0]);
  v[1] = plus(times(WINOGRAD_A, d), WINOGRAD_B, e);
  if (taps == 3) {
    v[2] = plus(plus(v[5], WINOGRAD_A2, s), WINOGRAD_B2, t);
    return;
  }
  v[2] = plus(times(WINOGRAD_A2, s), WINOGRAD_B2, t);
  v[3] = plus(times(WINOGRAD_A3, d), WINOGRAD_B3, e);
  v[4] = plus(plus(v[5], WINOGRAD_A4, s), WINOGRAD_B4, t);
}

/* `some` channels of a tile of dy from c on, 16 at most; `side` is a constant where this is inlined. */
G16 void put_gradient(float *out, int64_t stride, const winograd_square *square, int c, int some, int side) {
#define TAKE(y, x) g16_load_some(square->first + (y)*square->line + (x)*square->pixel + c, some)
#define PUT(y, x, of) g16_store(out + (LINE * (y) + (x)) * stride, of)
  WINOGRAD_TRANSFORM(tile_gradient_line, side, side, LINE, TAKE, PUT);
#undef TAKE
#undef PUT
}

/* The tiles of dy, transformed, in the layout of patches. */
static void take_gradients(float *out, int64_t stride, float *copy, const winograd_map *dy, winograd_cursor *at,
                           int count) {
  int side = dy->side;
  for (int t = 0; t < count; t++, out += tile_elems(dy->channels), next_tile(at, dy)) {
    winograd_square square = HD_SYM(winograd_square)(copy, dy, at->row, side * at->ty, side * at->tx, side);
    for (int c = 0; c < dy->channels; c += 16)
      if (side == 4)
        put_gradient(out + c, stride, &square, c, least(16, dy->channels - c), 4);
      else
        put_gradient(out + c, stride, &square, c, least(16, dy->channels - c), 2);
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
  float *panel; /* of a panel, [place][output channel][groups * 16] */
} dw_tiles;

/* The sums at a place of `outputs` channels from j on and `groups` groups from c on; constants where this is inlined.
 * They go to `to`: elements to the next output channel. */
G16 void add_tiles(const dw_tiles *d, int place, int j, int c, float *to, int64_t to_output, int outputs, int groups) {
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

typedef void block_fn(const dw_tiles *d, int place, int j, int c, float *to, int64_t to_output);

#define FITS(outputs, groups) ((outputs) <= ROWS && (groups) <= GROUPS && (outputs) * (groups) <= ACC_GROUPS)
#define BLOCK(outputs, groups)                                                                                         \
  static void block_##outputs##x##groups(const dw_tiles *d, int place, int j, int c, float *to, int64_t to_output) {   \
    if (FITS(outputs, groups))                                                                                         \
      add_tiles(d, place, j, c, to, to_output, outputs, groups);                                                       \
  }
BLOCK_TABLE(block_fn)

/* The kernels of a panel from its sums; dw: those of the first output channel. `taps` is a constant where this is
 * inlined. */
G16 void put_squares(float *dw, const dw_tiles *d, const hd_geom *g, int c, int outputs, int groups, int taps) {
  int64_t place = 16 * (int64_t)outputs * groups;
  for (int o = 0; o < outputs; o++, dw += taps * taps * (int64_t)g->ci)
    for (int q = 0; q < groups; q++) {
      const float *sums = d->panel + 16 * (o * groups + q);
      float *to = dw + c + 16 * q;
      int left = g->ci - c - 16 * q;
#define TAKE(y, x) g16_load(sums + (LINE * (y) + (x)) * place)
#define PUT(y, x, of) g16_store_some(to + (int64_t)(taps * (y) + (x)) * g->ci, g16_add(of, g16_zero()), left)
      WINOGRAD_TRANSFORM(kernel_gradient_line, taps, LINE, taps, TAKE, PUT);
#undef TAKE
#undef PUT
    }
}

static void put_kernels(float *dw, const dw_tiles *d, const hd_geom *g, int c, int outputs, int groups) {
  if (g->kh == 3)
    put_squares(dw, d, g, c, outputs, groups, 3);
  else
    put_squares(dw, d, g, c, outputs, groups, 5);
}

/* Adds some tiles to the sums of a panel, place after place, whose operands stay in the nearest cache for all blocks;
 * the last tiles' go straight back to kernels. */
static void add_to_panel(const dw_tiles *d, const hd_geom *g, float *dw, int j, int q, int outputs, int groups,
                         int last) {
  int across = even_part(groups, GROUPS), size = even_part(outputs, least(ROWS, ACC_GROUPS / across));
  int64_t line = last ? 16 * groups : d->input16;
  for (int place = 0; place < PLACES; place++) {
    float *to =
        last ? d->panel + place * outputs * line : d->sums + ((int64_t)place * d->output16 + j) * d->input16 + 16 * q;
    for (int right = 0; right < groups; right += across)
      for (int down = 0; down < outputs; down += size)
        blocks[least(across, groups - right) - 1][least(size, outputs - down) - 1](d, place, j + down, 16 * (q + right),
                                                                                   to + down * line + 16 * right, line);
  }
  if (last)
    put_kernels(dw + (int64_t)j * g->kh * g->kw * g->ci, d, g, 16 * q, outputs, groups);
}

static void add_to_all(const dw_tiles *d, const hd_geom *g, float *dw, int last) {
  int all = d->input16 / 16, groups = even_part(all, PANEL_GROUPS), outputs = even_part(g->co, PANEL_OUTPUTS);
  for (int q = 0; q < all; q += groups)
    for (int j = 0; j < g->co; j += outputs)
      add_to_panel(d, g, dw, j, q, least(outputs, g->co - j), least(groups, all - q), last);
}

void HD_SYM(winograd_dw)(const hd_call *call) {
  const hd_geom *g = call->g;
  int side = hd_winograd_side(g), tiles_y = hd_winograd_tiles(g->hp, side), tiles_x = hd_winograd_tiles(g->wp, side);
  winograd_map x = {call->in[0], call->in_stride[0], g->hi, g->wi, g->ci, g->ph, g->pw, tiles_y, tiles_x, side};
  winograd_map dy = {call->in[1], call->in_stride[1], g->hp, g->wp, g->co, 0, 0, tiles_y, tiles_x, side};
  int64_t in = place_elems(DW_TILES, g->ci), out = place_elems(DW_TILES, g->co);
  float *patches = call->scratch, *grads = patches + PLACES * in, *panel = grads + PLACES * out;
  float *sums = panel + PLACES * PANEL, *copy = sums + (int64_t)PLACES * up16(g->co) * up16(g->ci);
  dw_tiles d = {.patch = patches,
                .grad = grads,
                .patch_place = in,
                .grad_place = out,
                .patch_tile = tile_elems(g->ci),
                .grad_tile = tile_elems(g->co),
                .input16 = up16(g->ci),
                .output16 = up16(g->co),
                .sums = sums,
                .panel = panel};
  winograd_cursor from = {0}, also = {0};
  int64_t left = tiles_of(&x, call->rows);
  for (int rounds = (int)((left + DW_TILES - 1) / DW_TILES); rounds > 0; left -= d.tiles, d.more = 1, rounds--) {
    d.tiles = (int)((left + rounds - 1) / rounds);
    HD_SYM(winograd_patches)(patches, in, copy, &x, &from, d.tiles);
    take_gradients(grads, out, copy, &dy, &also, d.tiles);
    add_to_all(&d, g, call->out[0], rounds == 1);
  }
}

int64_t HD_SYM(winograd_dw_scratch)(const hd_geom *g) {
  return whole_bytes(PLACES * (place_elems(DW_TILES, g->ci) + place_elems(DW_TILES, g->co) + PANEL +
                               (int64_t)up16(g->co) * up16(g->ci)) +
                     copy_elems(most(g->ci, g->co)));
}
