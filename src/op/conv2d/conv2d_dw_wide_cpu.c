/* The gradient of a convolution's weight without a pool, for rows of the kernel that fill vectors: the row's taps lie
 * in lanes, and a block of output channels by a block of taps stays in registers for all windows. Sums have the layout
 * of the weights, and are in the weight's place if its rows are whole groups.
 *
 * Order: per weight, over samples ascending, windows row-major: acc = fma(dy, x, acc), at last acc + 0. Without that
 * windows in the padding are not left out, which could change the sign of a zero. */
#include "op/conv2d/conv2d_cpu.h"

/* Groups of taps in a block: enough that few operands are loaded for each product. */
enum { WIDE_GROUPS = ACC_GROUPS >= 24 ? 3 : 1, WIDE_OUTPUTS = ACC_GROUPS >= 24 ? 12 : ACC_GROUPS };

/* Samples at once that are read in place: a group of taps of these windows stays in the nearest cache. */
enum { NEAR_WINDOWS = 192 };

/* The geometry of a call, worked out. */
typedef struct wide_shape {
  conv_frame frame;
  int framed;
  int64_t line;  /* elements of an image's line */
  int runs, run; /* contiguous taps of the kernel: in all, and in each */
  int run16;     /* whole groups */
  int in_place;  /* sums are in the weight's place */
  int64_t at_once, slot;
} wide_shape;

/* Groups are read whole, so where rows are not whole groups images need the frame's slack. */
static wide_shape shape_of(const hd_geom *g, int64_t pixel) {
  const int apart = g->window.dilation[1] > 1;
  wide_shape s = {.frame = input_frame(g, pixel)};
  s.runs = g->window.kh * (apart ? g->window.kw : 1);
  s.run = g->ci * (apart ? 1 : g->window.kw);
  s.run16 = up16(s.run);
  s.in_place = s.run16 == s.run;
  s.framed = !frame_is_image(&s.frame) || !s.in_place;
  s.line = (int64_t)s.frame.width * g->ci;
  s.at_once = s.framed ? frame_rows(&s.frame) : most(frame_rows(&s.frame), NEAR_WINDOWS / (g->hp * g->wp));
  s.slot = frame_slot(&s.frame);
  return s;
}

/* Scratch: sums of [co][runs][run16], unless they are in place, then the frames. */
static int64_t sums_elems(const hd_geom *g, const wide_shape *s) {
  return s->in_place ? 0 : (int64_t)g->co * s->runs * s->run16;
}

int64_t HD_SYM(conv_dw_wide_scratch)(const hd_geom *g, int64_t pixel) {
  wide_shape s = shape_of(g, pixel);
  return whole_bytes(sums_elems(g, &s)) + (s.framed ? whole_bytes(s.at_once * s.slot) : 0);
}

/* Windows from .. to - 1 along one axis. */
typedef struct wide_span {
  int from, to;
} wide_span;

/* Some output channels by some taps of one row of the kernel, over the windows of some samples, or over those that
 * overlap the image through one of these taps: a window whose taps lie in the padding adds zeros. */
typedef struct wide_block {
  const hd_geom *g;
  const float *x, *dy; /* the first window's first tap, first output channel */
  int64_t x_stride, x_line, dy_stride, dy_pixel, rows;
  float *sum;
  int64_t sum_step; /* from an output channel to the next */
  int begins, ends; /* whether the samples are the first, the last; then + 0 ends the chains */
  wide_span wy, wx;
} wide_block;

/* The lines that it will write are fetched meanwhile; outputs and groups are constants where this is inlined. */
G16 void add_windows(const wide_block *b, int outputs, int groups) {
  const hd_geom *g = b->g;
  int64_t step = (int64_t)g->window.sw * g->ci;
  g16 acc[WIDE_OUTPUTS][WIDE_GROUPS];
  UNROLL_FOR (o, outputs)
    UNROLL_FOR (q, groups)
      __builtin_prefetch(b->sum + o * b->sum_step + 16 * q, 1);
  UNROLL_FOR (o, outputs)
    UNROLL_FOR (q, groups)
      acc[o][q] = b->begins ? g16_zero() : g16_load(b->sum + o * b->sum_step + 16 * q);
  const int across = b->wx.to - b->wx.from;
  const int64_t dy_line = g->wo * b->dy_pixel, dy_first = b->wy.from * dy_line + b->wx.from * b->dy_pixel;
  const int64_t x_line = g->window.sh * b->x_line, x_first = b->wy.from * x_line + b->wx.from * step;
  for (int64_t r = 0; r < b->rows; r++) {
    const float *dy_row = b->dy + r * b->dy_stride + dy_first, *x_row = b->x + r * b->x_stride + x_first;
    for (int wy = b->wy.from; wy < b->wy.to; wy++, dy_row += dy_line, x_row += x_line) {
      const float *dy = dy_row, *x = x_row;
      for (int wx = across; wx > 0; wx--, x += step, dy += b->dy_pixel)
        ADD_OUTER(acc, dy, outputs, groups, WIDE_GROUPS, g16_load(x + 16 * q));
    }
  }
  UNROLL_FOR (o, outputs)
    UNROLL_FOR (q, groups)
      g16_store(b->sum + o * b->sum_step + 16 * q, b->ends ? g16_add(acc[o][q], g16_zero()) : acc[o][q]);
}

typedef void block_fn(const wide_block *block);

#define FITS(outputs, groups)                                                                                          \
  ((outputs) <= WIDE_OUTPUTS && (groups) <= WIDE_GROUPS && (outputs) * (groups) <= ACC_GROUPS)
#define BLOCK(outputs, groups)                                                                                         \
  static void block_##outputs##x##groups(const wide_block *block) {                                                    \
    if (FITS(outputs, groups))                                                                                         \
      add_windows(block, outputs, groups);                                                                             \
  }
BLOCK_TABLE(block_fn)

/* Of `windows`, those that overlap an image of `size` pixels at one of the taps first .. last. */
static wide_span span_of(int windows, int stride, int padding, int size, int first, int last) {
  const int before = padding - last, behind = size - 1 + padding - first;
  return (wide_span){before > 0 ? (before + stride - 1) / stride : 0,
                     behind < 0 ? 0 : least(windows, behind / stride + 1)};
}

/* All blocks over the windows of some samples: one row of the kernel after the other, and all output channels for some
 * of its taps, so that the parts of images in use stay in the caches. */
static void add_rows(const wide_block *whole, const wide_shape *s, int plus_zero) {
  const hd_geom *g = whole->g;
  int groups = s->run16 / 16, across = even_part(groups, WIDE_GROUPS);
  int outputs = even_part(g->co, least(WIDE_OUTPUTS, ACC_GROUPS / across));
  const int in_row = s->runs / g->window.kh;
  for (int run = 0; run < s->runs; run++)
    for (int q = 0; q < groups; q += across) {
      const int down = run / in_row * g->window.dilation[0], right = run % in_row * g->window.dilation[1];
      const int first = right + 16 * q / g->ci, last = right + (least(16 * (q + across), s->run) - 1) / g->ci;
      wide_block block = *whole;
      block.wy = (wide_span){0, g->ho};
      block.wx = (wide_span){0, g->wo};
      if (plus_zero) {
        block.wy = span_of(g->ho, g->window.sh, g->window.ph, g->hi, down, down);
        block.wx = span_of(g->wo, g->window.sw, g->window.pw, g->wi, first, last);
      }
      block.x += down * s->line + right * (int64_t)g->ci + 16 * q;
      block.sum += run * s->run16 + 16 * q;
      for (int j = 0; j < g->co; j += outputs, block.dy += outputs, block.sum += outputs * block.sum_step)
        blocks[least(across, groups - q) - 1][least(outputs, g->co - j) - 1](&block);
    }
}

void HD_SYM(conv_dw_wide)(const hd_call *call, int64_t dy_pixel, int64_t pixel, int plus_zero) {
  const hd_geom *g = call->g;
  wide_shape s = shape_of(g, pixel);
  float *dw = call->out[0], *sums = s.in_place ? dw : call->scratch;
  float *frames = (float *)call->scratch + whole_bytes(sums_elems(g, &s)) / (int64_t)sizeof(float);
  for (int64_t n = 0; n < call->rows; n += s.at_once) {
    int64_t rows = call->rows - n < s.at_once ? call->rows - n : s.at_once;
    conv_images images = frame_images(frames, &s.frame, s.framed, in_row(call, 0, n), call->in_stride[0], rows);
    wide_block whole = {.g = g,
                        .x = images.first,
                        .dy = in_row(call, 1, n),
                        .x_stride = images.stride,
                        .x_line = s.line,
                        .dy_stride = call->in_stride[1],
                        .dy_pixel = dy_pixel,
                        .rows = rows,
                        .sum = sums,
                        .sum_step = (int64_t)s.runs * s.run16,
                        .begins = n == 0,
                        .ends = plus_zero && n + rows == call->rows};
    add_rows(&whole, &s, plus_zero);
  }
  for (int64_t i = 0; i < (int64_t)g->co * s.runs && !s.in_place; i++)
    memcpy(dw + i * s.run, sums + i * s.run16, (size_t)s.run * sizeof *dw);
}
