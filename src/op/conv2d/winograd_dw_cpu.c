/* The gradient of a convolution's weight by Winograd's tiles: patches and tiles of dy transformed, for each place a
 * product of matrices over the tiles, and at the end of the shard back to kernels.
 *
 * Tiles are transformed DW_TILES at a time. All but the last of a shard are added place after place, so that each value
 * comes from memory once; the last ones panel after panel, whose sums stay in a near cache and go straight back to
 * kernels. In between, the sums of all channels are in memory, in the order in which they are read.
 *
 * Order: as op/conv2d/winograd.h says; tiles are added ascending: fma(gradient, patch, sum). */
#include "op/conv2d/winograd_cpu.h"

/* A panel of output channels by groups of input channels, in blocks whose sums stay in registers: ROWS output channels
 * by GROUPS groups, or more rows by fewer groups. */
enum { PANEL_OUTPUTS = 32, PANEL_GROUPS = 4, PANEL = PANEL_OUTPUTS * PANEL_GROUPS * 16 + 16 };
enum { GROUPS = ACC_GROUPS >= 24 ? 4 : 1, ROWS = ACC_GROUPS >= 24 ? 12 : ACC_GROUPS };
enum { NEAR_TILES = 80 };

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

/* `some` channels of a tile of dy from c on, 16 at most; `side` is a constant where this is inlined. */
G16 void put_gradient(const winograd_target *to, int64_t place, const winograd_square *square, int c, int some,
                      int side) {
#define TAKE(y, x) g16_load_some(square->first + (y)*square->line + (x)*square->pixel + c, some)
#define PUT(y, x, of) g16_store(value_at(to, place, y, x), of)
  WINOGRAD_TRANSFORM(tile_gradient_line, side, side, LINE, TAKE, PUT);
#undef TAKE
#undef PUT
}

void HD_SYM(winograd_gradients)(const winograd_planes *out, float *copy, const winograd_map *dy, winograd_cursor *at,
                                int count) {
  int side = dy->side;
  for (int t = 0; t < count; t++, next_tile(at, dy)) {
    winograd_square square = HD_SYM(winograd_square)(copy, dy, at->row, side * at->ty, side * at->tx, side);
    winograd_target to = target_of(out, at);
    for (int c = 0; c < dy->channels; c += 16, next_group(&to, out))
      if (side == 4)
        put_gradient(&to, out->place, &square, c, least(16, dy->channels - c), 4);
      else
        put_gradient(&to, out->place, &square, c, least(16, dy->channels - c), 2);
  }
}

/* The operands of the products for some tiles, and their sums. */
typedef struct dw_tiles {
  winograd_planes patch, grad;
  int inputs, outputs;   /* groups of channels */
  winograd_counts tiles; /* at once, */
  int near;              /* and of these as many as stay in the first-level cache */
  int more;              /* sums are there from tiles before */
  float *sums;           /* [place], of a place [panel of inputs][output channel][groups of the panel * 16] */
  float *panel;          /* of a panel, [place][output channel][groups * 16] */
} dw_tiles;

/* A panel: input groups from q on, output channels from j on; blocks of `across` groups by `down` outputs. */
typedef struct dw_panel {
  int q, j, groups, outputs;
  int across, down;
} dw_panel;

static dw_panel panel_of(int q, int j, int groups, int outputs) {
  int across = even_part(groups, GROUPS), down = even_part(least(16, outputs), least(ROWS, ACC_GROUPS / across));
  return (dw_panel){q, j, groups, outputs, across, down};
}

/* Elements from a place to the next in a panel by itself; not a power of 2, or all would be in one set of a cache. */
static int64_t panel_place(const dw_panel *p) { return 16 * ((int64_t)p->outputs * p->groups + 1); }

/* Where a panel's sums of a place are among all sums. */
static float *sums_at(const dw_tiles *d, int place, const dw_panel *p) {
  int64_t outputs = 16 * (int64_t)d->outputs;
  return d->sums + 16 * (((int64_t)place * d->inputs + p->q) * outputs + (int64_t)p->j * p->groups);
}

/* A block of a panel's sums at a place: where its operands and its sums are, the latter with `line` elements to the
 * next output channel. */
typedef struct dw_block {
  const float *patch, *grad;
  int64_t patch_group;
  int tiles;
  const float *from; /* NULL: zeros */
  float *to;
  int64_t line;
} dw_block;

/* outputs and groups are constants where this is inlined. */
G16 void add_tiles(const dw_block *b, int outputs, int groups) {
  const float *patch = b->patch, *grad = b->grad;
  g16 acc[ROWS][GROUPS];
  UNROLL_FOR (o, outputs)
    UNROLL_FOR (q, groups)
      acc[o][q] = b->from ? g16_load(b->from + o * b->line + 16 * q) : g16_zero();
  for (int t = 0; t < b->tiles; t++, patch += 16, grad += 16)
    ADD_OUTER(acc, grad, outputs, groups, GROUPS, g16_load(patch + q * b->patch_group));
  UNROLL_FOR (o, outputs)
    UNROLL_FOR (q, groups)
      g16_store(b->to + o * b->line + 16 * q, acc[o][q]);
}

typedef void block_fn(const dw_block *block);

#define FITS(outputs, groups) ((outputs) <= ROWS && (groups) <= GROUPS && (outputs) * (groups) <= ACC_GROUPS)
#define BLOCK(outputs, groups)                                                                                         \
  static void block_##outputs##x##groups(const dw_block *block) {                                                      \
    if (FITS(outputs, groups))                                                                                         \
      add_tiles(block, outputs, groups);                                                                               \
  }
BLOCK_TABLE(block_fn)

/* The kernels of a panel from its sums; dw: those of the first output channel. `taps` is a constant where this is
 * inlined. */
G16 void put_squares(float *dw, const float *panel, const hd_geom *g, const dw_panel *p, int taps) {
  int64_t place = panel_place(p);
  for (int o = 0; o < p->outputs; o++, dw += taps * taps * (int64_t)g->ci)
    for (int q = 0; q < p->groups; q++) {
      const float *sums = panel + 16 * (o * p->groups + q);
      float *to = dw + 16 * (p->q + q);
      int left = g->ci - 16 * (p->q + q);
#define TAKE(y, x) g16_load(sums + place_of(y, x) * place)
#define PUT(y, x, of) g16_store_some(to + (int64_t)(taps * (y) + (x)) * g->ci, g16_add(of, g16_zero()), left)
      WINOGRAD_TRANSFORM(kernel_gradient_line, taps, LINE, taps, TAKE, PUT);
#undef TAKE
#undef PUT
    }
}

/* Adds the tiles from `first` on, of `tiles`, to a panel's sums at a place, group after group of output channels, whose
 * gradients are then near, and at one block of inputs after the other. from: NULL for zeros. */
static void add_near_tiles(const dw_tiles *d, int place, int first, int tiles, const dw_panel *p, const float *from,
                           float *to) {
  dw_block b = {.patch_group = d->patch.group, .tiles = least(d->near, tiles - first), .line = 16 * (int64_t)p->groups};
  const float *patch = d->patch.first + place * d->patch.place + p->q * d->patch.group + 16 * (int64_t)first;
  const float *grad = d->grad.first + place * d->grad.place + 16 * (int64_t)first;
  for (int right = 0; right < p->groups; right += p->across)
    for (int j = 0, rows; j < p->outputs; j += rows) {
      int channel = p->j + j;
      int64_t at = j * b.line + 16 * right;
      rows = least(least(p->down, p->outputs - j), 16 - channel % 16);
      b.patch = patch + right * d->patch.group;
      b.grad = grad + channel / 16 * d->grad.group + channel % 16;
      b.from = from ? from + at : NULL;
      b.to = to + at;
      blocks[least(p->across, p->groups - right) - 1][rows - 1](&b);
    }
}

static void add_to_panel(const dw_tiles *d, int place, const dw_panel *p, float *to) {
  const int tiles = count_at(&d->tiles, place);
  add_near_tiles(d, place, 0, tiles, p, d->more ? sums_at(d, place, p) : NULL, to);
  for (int first = d->near; first < tiles; first += d->near)
    add_near_tiles(d, place, first, tiles, p, to, to);
}

/* Place after place, all panels. */
static void add_to_sums(const dw_tiles *d, const hd_geom *g) {
  int groups = even_part(d->inputs, PANEL_GROUPS);
  for (int place = 0; place < PLACES; place++)
    for (int q = 0; q < d->inputs; q += groups) {
      dw_panel p = panel_of(q, 0, least(groups, d->inputs - q), g->co);
      add_to_panel(d, place, &p, sums_at(d, place, &p));
    }
}

/* The last tiles: panel after panel, all places and back to kernels. */
static void add_last(const dw_tiles *d, const hd_geom *g, float *dw) {
  int groups = even_part(d->inputs, PANEL_GROUPS), outputs = 16 * even_part(d->outputs, PANEL_OUTPUTS / 16);
  for (int q = 0; q < d->inputs; q += groups)
    for (int j = 0; j < g->co; j += outputs) {
      dw_panel p = panel_of(q, j, least(groups, d->inputs - q), least(outputs, g->co - j));
      for (int place = 0; place < PLACES; place++)
        add_to_panel(d, place, &p, d->panel + place * panel_place(&p));
      float *kernels = dw + (int64_t)j * g->window.kh * g->window.kw * g->ci;
      if (g->window.kh == 3)
        put_squares(kernels, d->panel, g, &p, 3);
      else
        put_squares(kernels, d->panel, g, &p, 5);
    }
}

/* Planes of at most this many tiles, which begin at `first`. */
static winograd_planes planes_of(float *first, int channels) {
  return (winograd_planes){.first = first, .place = DW_TILES * up16(channels) + 16, .group = 16 * DW_TILES, .tile = 16};
}

void HD_SYM(winograd_dw)(const hd_call *call) {
  const hd_geom *g = call->g;
  const int side = hd_winograd_side(g);
  winograd_map x = {call->in[0],  call->in_stride[0], g->hi, g->wi, g->ci, g->ci,
                    g->window.ph, g->window.pw,       g->hp, g->wp, side};
  winograd_map dy = {call->in[1], call->in_stride[1], g->hp, g->wp, g->co, g->co, 0, 0, g->hp, g->wp, side};
  dw_tiles d = {.patch = planes_of(call->scratch, g->ci), .inputs = up16(g->ci) / 16, .outputs = up16(g->co) / 16};
  d.grad = planes_of(d.patch.first + PLACES * d.patch.place, g->co);
  d.panel = d.grad.first + PLACES * d.grad.place;
  d.sums = d.panel + PLACES * PANEL;
  float *copy = d.sums + (int64_t)PLACES * up16(g->co) * up16(g->ci);
  winograd_cursor from = {0}, also = {0};
  int64_t left = tiles_of(&x, call->rows);
  for (int rounds = (int)((left + DW_TILES - 1) / DW_TILES), tiles; rounds > 0; left -= tiles, d.more = 1, rounds--) {
    tiles = (int)((left + rounds - 1) / rounds);
    from = also = from_here(from);
    HD_SYM(winograd_patches)(&d.patch, copy, &x, &from, tiles);
    HD_SYM(winograd_gradients)(&d.grad, copy, &dy, &also, tiles);
    d.tiles = from.kept;
    d.near = even_part(tiles, NEAR_TILES);
    if (rounds > 1)
      add_to_sums(&d, g);
    else
      add_last(&d, g, call->out[0]);
  }
}

int64_t HD_SYM(winograd_dw_scratch)(const hd_geom *g) {
  return whole_bytes(PLACES * (planes_of(NULL, g->ci).place + planes_of(NULL, g->co).place + PANEL +
                               (int64_t)up16(g->co) * up16(g->ci)) +
                     copy_elems(most(g->ci, g->co)));
}
