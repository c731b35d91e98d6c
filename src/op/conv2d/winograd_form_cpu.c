/* The gradient of a convolution's weight by Winograd's tiles, formed inside the reduction over shards.
 *
 * The patches of a rectangle's input channels are transformed once for all samples and rectangles of these channels,
 * and the tiles of dy of a strip of output channels. A block of a few output channels by groups of input channels then
 * goes through the shards: for each, the sums of all places, back to kernels, and the reduction's additions, on a stack
 * of kernels in a near cache. So no shard's sums of all channels are ever in memory.
 *
 * Order: of a shard as in winograd_dw_cpu.c; above it the reduction's. */
#include "op/conv2d/winograd_cpu.h"

/* A block, and output channels whose gradients are transformed at a time. With few tiles in a shard a block has fewer
 * rows, so that its sums stay in the first-level cache. */
enum { ROWS = ACC_GROUPS >= 24 ? 12 : ACC_GROUPS, GROUPS = ACC_GROUPS >= 24 ? 2 : 1, STRIP = 48 };
enum { FEW_TILES = 8, ROWS_OF_FEW = ROWS < 6 ? ROWS : 6 };
enum { BLOCK_PLACE = 16 * (ROWS * GROUPS + 1), KERNEL = WINOGRAD_TAPS * 16 };

/* The transformed values of a strip by a rectangle's input channels. */
typedef struct form_strip {
  const hd_form *form;
  winograd_planes patch, grad;
  winograd_counts tiles; /* of a sample */
  int j, outputs;        /* of the strip: the first output channel, and their number */
  float *sums, *stack;   /* of a block */
} form_strip;

/* A block: outputs from `j` of the strip on, input groups from q on. */
typedef struct form_block {
  int j, q, outputs, groups;
} form_block;

/* The tiles of a shard at a place. */
typedef struct form_tiles {
  const float *patch, *grad;
  int64_t patch_group;
  int tiles;
} form_tiles;

/* outputs and groups are constants where this is inlined. */
G16 void sum_tiles(float *sums, const form_tiles *of, int outputs, int groups) {
  const float *patch = of->patch, *grad = of->grad;
  g16 acc[ROWS][GROUPS];
  UNROLL_FOR (o, outputs)
    UNROLL_FOR (q, groups)
      acc[o][q] = g16_zero();
  for (int t = of->tiles; t > 0; t--, patch += 16, grad += STRIP)
    ADD_OUTER(acc, grad, outputs, groups, GROUPS, g16_load(patch + q * of->patch_group));
  UNROLL_FOR (o, outputs)
    UNROLL_FOR (q, groups)
      g16_store(sums + 16 * (o * groups + q), acc[o][q]);
}

/* All places of a block, for the samples from `row` on, `rows` of them. */
G16 void sum_shard(float *sums, const form_strip *s, const form_block *b, int64_t row, int rows, int outputs,
                   int groups) {
  for (int kind = 0, place = 0; kind < KINDS; kind++) {
    const int64_t first = row * s->tiles.of[kind];
    form_tiles of = {.patch = s->patch.first + place * s->patch.place + b->q * s->patch.group + 16 * first,
                     .grad = s->grad.first + place * s->grad.place + STRIP * first + b->j,
                     .patch_group = s->patch.group,
                     .tiles = rows * s->tiles.of[kind]};
    for (; place < kind_end[kind]; place++, of.patch += s->patch.place, of.grad += s->grad.place)
      sum_tiles(sums + place * BLOCK_PLACE, &of, outputs, groups);
  }
}

typedef void block_fn(float *sums, const form_strip *s, const form_block *b, int64_t row, int rows);

#define FITS(outputs, groups) ((outputs) <= ROWS && (groups) <= GROUPS)
#define BLOCK(outputs, groups)                                                                                         \
  static void block_##outputs##x##groups(float *sums, const form_strip *s, const form_block *b, int64_t row,           \
                                         int rows) {                                                                   \
    if (FITS(outputs, groups))                                                                                         \
      sum_shard(sums, s, b, row, rows, outputs, groups);                                                               \
  }
BLOCK_TABLE(block_fn)

/* One kernel of sixteen from its sums at all places, with `merges` kernels below `to` on the stack added to it, each
 * BELOW elements below the one before; stores it in place of the lowest. `taps` is a constant where this is inlined. */
enum { BELOW = ROWS * GROUPS * KERNEL };
G16 void put_kernel(float *to, const float *sums, int merges, int taps) {
#define TAKE(y, x) g16_load(sums + place_of(y, x) * BLOCK_PLACE)
#define PUT(y, x, of)                                                                                                  \
  do {                                                                                                                 \
    float *at_ = to + 16 * (taps * (y) + (x));                                                                         \
    g16 sum_ = g16_add(of, g16_zero());                                                                                \
    for (int m_ = 0; m_ < merges; m_++)                                                                                \
      sum_ = g16_add(g16_load(at_ -= BELOW), sum_);                                                                    \
    g16_store(at_, sum_);                                                                                              \
  } while (0)
  WINOGRAD_TRANSFORM(kernel_gradient_line, taps, LINE, taps, TAKE, PUT);
#undef TAKE
#undef PUT
}

static void put_kernels(float *to, const float *sums, int count, int merges, int taps) {
  for (int i = 0; i < count; i++, to += KERNEL, sums += 16)
    if (taps == 3)
      put_kernel(to, sums, merges, 3);
    else
      put_kernel(to, sums, merges, 5);
}

static void form_block_of(const form_strip *s, const form_block *b) {
  const hd_form *f = s->form;
  float *const stack = s->stack;
  const int side = f->g->window.kh, taps = side * side;
  const int64_t row0 = f->reduction->step[0].row0;
  for (hd_walk w = hd__reduction_walk(f->reduction); hd__walk_push(&w);) {
    blocks[b->groups - 1][b->outputs - 1](s->sums, s, b, w.step->row0 - row0, w.step->row1 - w.step->row0);
    put_kernels(stack + w.top * BELOW, s->sums, b->outputs * b->groups, w.merges, side);
    w.top -= w.merges;
  }
  for (int o = 0; o < b->outputs; o++)
    for (int q = 0; q < b->groups; q++)
      for (int t = 0; t < taps; t++) {
        const int64_t row = (int64_t)(s->j - f->j0 + b->j + o) * taps + t, column = 16 * (b->q + q);
        g16_store_some(f->out + row * f->out_ld + column, g16_load(stack + (o * b->groups + q) * KERNEL + 16 * t),
                       f->k1 - f->k0 - column);
      }
}

static void form_strip_of(const form_strip *s) {
  const int groups = up16(s->form->k1 - s->form->k0) / 16;
  const hd_reduction_step *first = s->form->reduction->step;
  const int few = (first->row1 - first->row0) * s->tiles.of[EVERY] < FEW_TILES;
  const int across = even_part(groups, GROUPS), down = even_part(s->outputs, few ? ROWS_OF_FEW : ROWS);
  for (int q = 0; q < groups; q += across)
    for (int j = 0; j < s->outputs; j += down)
      form_block_of(s, &(form_block){j, q, least(down, s->outputs - j), least(across, groups - q)});
}

/* Samples of the reduction; its first is row0. */
static int64_t rows_of(const hd_reduction *reduction) {
  return reduction->step[reduction->count - 1].row1 - reduction->step[0].row0;
}

static int64_t tiles_in(const hd_geom *g, int64_t rows) {
  const int side = hd_winograd_side(g);
  return rows * hd_winograd_tiles(g->hp, side) * hd_winograd_tiles(g->wp, side);
}

/* Planes of `tiles` tiles at `first`: of patches with groups apart, of gradients with a strip's channels together. */
static winograd_planes patches_at(float *first, int64_t tiles) {
  return (winograd_planes){first, tiles * HD_FORM_CHANNELS + 16, 16 * tiles, 16};
}
static winograd_planes gradients_at(float *first, int64_t tiles) {
  return (winograd_planes){first, tiles * STRIP + 16, 16, STRIP};
}

void HD_SYM(winograd_form)(const hd_form *f) {
  const hd_geom *g = f->g;
  const int side = hd_winograd_side(g);
  const int64_t rows = rows_of(f->reduction), tiles = tiles_in(g, rows), row0 = f->reduction->step[0].row0;
  form_strip s = {.form = f, .patch = patches_at(f->scratch, tiles)};
  s.grad = gradients_at(s.patch.first + PLACES * s.patch.place, tiles);
  s.sums = s.grad.first + PLACES * s.grad.place;
  s.stack = s.sums + PLACES * BLOCK_PLACE;
  float *copy = s.stack + HD_MAX_REDUCTION_DEPTH * BELOW;
  winograd_map x = {.x = f->x + row0 * f->x_stride + f->k0,
                    .stride = f->x_stride,
                    .height = g->hi,
                    .width = g->wi,
                    .channels = f->k1 - f->k0,
                    .pixel = g->ci,
                    .top = g->window.ph,
                    .left = g->window.pw,
                    .down = g->hp,
                    .across = g->wp,
                    .side = side};
  winograd_cursor one = {0}, at = {0};
  for (int64_t t = tiles_in(g, 1); t > 0; t--)
    next_tile(&one, &x);
  s.tiles = one.kept;
  if (!f->again)
    HD_SYM(winograd_patches)(&s.patch, copy, &x, &at, (int)tiles);
  for (s.j = f->j0; s.j < f->j1; s.j += s.outputs) {
    s.outputs = least(STRIP, f->j1 - s.j);
    winograd_map dy = {.x = f->dy + row0 * f->dy_stride + s.j,
                       .stride = f->dy_stride,
                       .height = g->hp,
                       .width = g->wp,
                       .channels = s.outputs,
                       .pixel = g->co,
                       .down = g->hp,
                       .across = g->wp,
                       .side = side};
    at = (winograd_cursor){0};
    HD_SYM(winograd_gradients)(&s.grad, copy, &dy, &at, (int)tiles);
    form_strip_of(&s);
  }
}

int64_t HD_SYM(winograd_form_scratch)(const hd_geom *g, int64_t rows) {
  const int64_t tiles = tiles_in(g, rows);
  return whole_bytes(PLACES * (patches_at(NULL, tiles).place + gradients_at(NULL, tiles).place + BLOCK_PLACE) +
                     HD_MAX_REDUCTION_DEPTH * BELOW + copy_elems(HD_FORM_CHANNELS));
}
