/* The gradient of a wide convolution's weight over few pixels, formed inside the reduction over shards: shard sums of
 * all weights would take longer to write and to read than to compute.
 *
 * By Winograd's tiles: winograd_form_cpu.c. Otherwise, from copies of a rectangle's channels, tap after tap: a block of
 * output channels by groups of input channels stays in registers while the windows of a shard that have the tap inside
 * the image pass, then it is merged with the entries below it on a small stack.
 *
 * Order: per shard, over samples ascending, windows row-major: acc = fma(dy, x, acc), at last acc + 0, so that zeros of
 * the padding may be left out; of the bias acc = acc + dy; above it the reduction's. */
#include "op/conv2d/winograd_cpu.h"

/* Of a block; output channels whose gradients are copied together. */
enum { FORM_WIDTH = ACC_GROUPS >= 24 ? 3 : 1, FORM_HEIGHT = ACC_GROUPS >= 24 ? 8 : ACC_GROUPS, STRIP = 48 };

/* What is worth forming: the more weights for the windows of a sample the better, and tiles that stay in a near
 * cache. The pixels of a whole batch are copied. */
enum {
  FEW_WINDOWS = 64,
  MOST_PIXELS = 16 * FEW_WINDOWS,
  FEW_TILES = 4,
  WIDE_CHANNELS = 16,
  MANY_WEIGHTS = 64 << 10,
  WEIGHTS_TO_SQUARE = 512
};

static int has_few_tiles(const hd_geom *g) {
  const int side = hd_winograd_side(g);
  return !hd_geom_is_winograd(g) || hd_winograd_tiles(g->hp, side) * hd_winograd_tiles(g->wp, side) <= FEW_TILES;
}

static int forms(const hd_geom *g) {
  const int64_t windows = (int64_t)g->hp * g->wp, weights = (int64_t)g->ci * g->co * g->window.kh * g->window.kw;
  return g->conv.pool == 1 && g->conv.groups == 1 && !hd_geom_is_dilated(g) && g->ci >= WIDE_CHANNELS &&
         windows <= FEW_WINDOWS && (int64_t)g->hi * g->wi <= MOST_PIXELS && weights >= MANY_WEIGHTS &&
         weights >= WEIGHTS_TO_SQUARE * windows * windows && 16 * g->window.kh * g->window.kw <= HD_FORM_ELEMS &&
         has_few_tiles(g);
}

/* Windows from .. to - 1 along an axis: those that have a tap inside the image. */
typedef struct form_span {
  int from, to;
} form_span;

static form_span span_of(int windows, int stride, int padding, int size, int tap) {
  const int before = padding - tap, behind = size - 1 + padding - tap;
  return (form_span){before > 0 ? (before + stride - 1) / stride : 0,
                     behind < 0 ? 0 : least(windows, behind / stride + 1)};
}

/* A rectangle's channels of all samples, and a strip's gradients, copied together: rows of a whole image lie far apart,
 * in few sets of a cache. */
typedef struct form_strip {
  const hd_form *form;
  float *x, *dy;  /* pixels HD_FORM_CHANNELS apart; windows STRIP apart */
  int j, outputs; /* of the strip: the first output channel, and their number */
} form_strip;

/* Some output channels by some input channels, of one tap. */
typedef struct form_block {
  const hd_form *form;
  const float *x, *dy; /* the first window's pixel and its gradient, in the first sample */
  int64_t x_row, x_line, x_pixel, dy_row, dy_line;
  int down, across; /* windows */
  float *out;
  int64_t out_step; /* to the next output channel */
  int left;         /* channels in the last group */
} form_block;

/* The samples row0 .. row1 - 1, counted from the first; outputs and groups are constants where this is inlined. */
G16 void add_shard(g16 (*acc)[FORM_WIDTH], const form_block *b, int64_t row0, int64_t row1, int outputs, int groups) {
  const int64_t x_pixel = b->x_pixel;
  UNROLL_FOR (o, outputs)
    UNROLL_FOR (q, groups)
      acc[o][q] = g16_zero();
  for (int64_t n = row0; n < row1; n++)
    for (int wy = 0; wy < b->down; wy++) {
      const float *x = b->x + n * b->x_row + wy * b->x_line, *dy = b->dy + n * b->dy_row + wy * b->dy_line;
      for (int wx = b->across; wx > 0; wx--, x += x_pixel, dy += STRIP)
        ADD_OUTER(acc, dy, outputs, groups, FORM_WIDTH, g16_load(x + 16 * q));
    }
  UNROLL_FOR (o, outputs)
    UNROLL_FOR (q, groups)
      acc[o][q] = g16_add(acc[o][q], g16_zero());
}

G16 void form_windows(const form_block *b, int outputs, int groups) {
  _Alignas(64) float stack[HD_MAX_REDUCTION_DEPTH][FORM_HEIGHT * FORM_WIDTH][16];
  const int64_t row0 = b->form->reduction->step[0].row0;
  g16 acc[FORM_HEIGHT][FORM_WIDTH];
  hd_walk w = hd__reduction_walk(b->form->reduction);
  for (hd__walk_push(&w);; hd__walk_push(&w)) {
    add_shard(acc, b, w.step->row0 - row0, w.step->row1 - row0, outputs, groups);
    while (hd__walk_merge(&w))
      UNROLL_FOR (o, outputs)
        UNROLL_FOR (q, groups)
          acc[o][q] = g16_add(g16_load(stack[w.top][o * groups + q]), acc[o][q]);
    if (w.next == w.end)
      break;
    UNROLL_FOR (o, outputs)
      UNROLL_FOR (q, groups)
        g16_store(stack[w.top][o * groups + q], acc[o][q]);
  }
  UNROLL_FOR (o, outputs)
    UNROLL_FOR (q, groups)
      g16_store_some(b->out + o * b->out_step + 16 * q, acc[o][q], q < groups - 1 ? 16 : b->left);
}

typedef void block_fn(const form_block *block);

#define FITS(outputs, groups) ((outputs) <= FORM_HEIGHT && (groups) <= FORM_WIDTH)
#define BLOCK(outputs, groups)                                                                                         \
  static void block_##outputs##x##groups(const form_block *block) {                                                    \
    if (FITS(outputs, groups))                                                                                         \
      form_windows(block, outputs, groups);                                                                            \
  }
BLOCK_TABLE(block_fn)

/* A strip by some input channels, from group q of the rectangle's on, at a tap. */
static void form_tap(const form_strip *s, int q, int groups, int ky, int kx) {
  const hd_form *f = s->form;
  const hd_geom *g = f->g;
  const form_span wy = span_of(g->hp, g->window.sh, g->window.ph, g->hi, ky);
  const form_span wx = span_of(g->wp, g->window.sw, g->window.pw, g->wi, kx);
  const int y = wy.from * g->window.sh + ky - g->window.ph, x = wx.from * g->window.sw + kx - g->window.pw;
  const int taps = g->window.kh * g->window.kw, down = even_part(s->outputs, FORM_HEIGHT);
  const int64_t row = (int64_t)(s->j - f->j0) * taps + ky * g->window.kw + kx;
  form_block b = {.form = f,
                  .x = s->x + 16 * q,
                  .dy = s->dy,
                  .x_row = (int64_t)g->hi * g->wi * HD_FORM_CHANNELS,
                  .x_line = (int64_t)g->window.sh * g->wi * HD_FORM_CHANNELS,
                  .x_pixel = (int64_t)g->window.sw * HD_FORM_CHANNELS,
                  .dy_row = (int64_t)g->hp * g->wp * STRIP,
                  .dy_line = (int64_t)g->wp * STRIP,
                  .out = f->out + row * f->out_ld + 16 * q,
                  .out_step = taps * f->out_ld,
                  .left = least(16, f->k1 - f->k0 - 16 * (q + groups - 1))};
  if (wy.from < wy.to && wx.from < wx.to) {
    b.down = wy.to - wy.from, b.across = wx.to - wx.from;
    b.x += ((int64_t)y * g->wi + x) * HD_FORM_CHANNELS;
    b.dy += ((int64_t)wy.from * g->wp + wx.from) * STRIP;
  }
  for (int j = 0, rows; j < s->outputs; j += rows, b.dy += rows, b.out += rows * b.out_step) {
    rows = least(down, s->outputs - j);
    blocks[groups - 1][rows - 1](&b);
  }
}

/* `count` times `some` channels, from places `step` apart to places `to_step` apart. */
static void copy_channels(float *to, int64_t to_step, const float *from, int64_t step, int64_t count, int some) {
  for (; count > 0; count--, to += to_step, from += step)
    for (int c = 0; c < some; c += 16)
      g16_store(to + c, g16_load_some(from + c, some - c));
}

/* Samples of the reduction. */
static int64_t rows_of(const hd_reduction *reduction) {
  return reduction->step[reduction->count - 1].row1 - reduction->step[0].row0;
}

static int64_t copied_elems(const hd_geom *g, int64_t rows) { return rows * g->hi * g->wi * HD_FORM_CHANNELS; }

static void form_weight(const hd_form *f) {
  const hd_geom *g = f->g;
  const int64_t rows = rows_of(f->reduction), row0 = f->reduction->step[0].row0;
  const int64_t pixels = (int64_t)g->hi * g->wi, windows = (int64_t)g->hp * g->wp;
  const int groups = up16(f->k1 - f->k0) / 16, across = even_part(groups, FORM_WIDTH);
  form_strip s = {.form = f, .x = f->scratch, .dy = (float *)f->scratch + copied_elems(g, rows)};
  for (int64_t n = 0; n < rows && !f->again; n++)
    copy_channels(s.x + n * pixels * HD_FORM_CHANNELS, HD_FORM_CHANNELS, f->x + (row0 + n) * f->x_stride + f->k0, g->ci,
                  pixels, f->k1 - f->k0);
  for (s.j = f->j0; s.j < f->j1; s.j += s.outputs) {
    s.outputs = least(STRIP, f->j1 - s.j);
    for (int64_t n = 0; n < rows; n++)
      copy_channels(s.dy + n * windows * STRIP, STRIP, f->dy + (row0 + n) * f->dy_stride + s.j, g->co, windows,
                    s.outputs);
    for (int q = 0; q < groups; q += across)
      for (int tap = 0; tap < g->window.kh * g->window.kw; tap++)
        form_tap(&s, q, least(across, groups - q), tap / g->window.kw, tap % g->window.kw);
  }
}

static void form_bias(const hd_form *f) {
  const int windows = f->g->hp * f->g->wp;
  for (int j = f->j0; j < f->j1; j += 16) {
    g16 stack[HD_MAX_REDUCTION_DEPTH], acc;
    const int left = least(16, f->j1 - j);
    for (hd_walk w = hd__reduction_walk(f->reduction); hd__walk_push(&w); stack[w.top] = acc) {
      acc = g16_zero();
      for (int64_t n = w.step->row0; n < w.step->row1; n++)
        for (int i = 0; i < windows; i++)
          acc = g16_add(acc, g16_load_some(f->dy + n * f->dy_stride + (int64_t)i * f->g->co + j, left));
      while (hd__walk_merge(&w))
        acc = g16_add(stack[w.top], acc);
    }
    g16_store_some(f->out + (j - f->j0), stack[0], left);
  }
}

static void form(const hd_form *f) {
  if (f->output == 1)
    form_bias(f);
  else if (hd_geom_is_winograd(f->g))
    HD_SYM(winograd_form)(f);
  else
    form_weight(f);
}

static int64_t scratch_bytes(const hd_geom *g, int64_t rows) {
  return hd_geom_is_winograd(g) ? HD_SYM(winograd_form_scratch)(g, rows)
                                : whole_bytes(copied_elems(g, rows) + rows * g->hp * g->wp * STRIP);
}

void HD_SYM(conv_form_fill)(hd_kernels *table) {
  table->form[HD_OP_conv2d_dw] = form;
  table->forms[HD_OP_conv2d_dw] = forms;
  table->form_columns[HD_OP_conv2d_dw] = HD_FORM_CHANNELS;
  table->form_scratch_bytes[HD_OP_conv2d_dw] = scratch_bytes;
}
