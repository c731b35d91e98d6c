/* The gradient of a convolution's weight and bias, by one of seven methods, chosen by the shape alone. All except tiles
 * have the same bits:
 *
 *   tiles   wide 3 x 3 and 5 x 5 kernels without a pool, see winograd_dw_cpu.c
 *   wide    taps in vector lanes: without a pool, see conv2d_dw_wide_cpu.c.
 *   copied  the same from copies: without a pool, with strides or many channels, see conv2d_dw_copied_cpu.c.
 *   dense   output channels in vector lanes, for few input channels; a block of taps in registers for all windows,
 *           the positions of a pool one after the other.
 *   picked  as dense, but each channel picks its tap at the position of its maximum: behind a pool of side 2, see
 *           conv2d_dw_pick_cpu.c.
 *   live    over nonzero dy alone: behind a pool with many input channels, see conv2d_live_dw_cpu.c.
 *   depth   channels in vector lanes, where each is a group, see conv2d_depth_cpu.c.
 *
 * Groups of channels are computed one after the other. Order of the dense method: per weight, over samples ascending,
 * windows row-major: acc = fma(dy, x, acc), finally acc + 0; of the bias, in every method: acc = acc + dy. */
#include "op/conv2d/conv2d_live_cpu.h"
#include "op/conv2d/winograd_cpu.h"

enum { TAPS = ACC_GROUPS / BLOCK_GROUPS };

/* The geometry of one call of the dense method. */
typedef struct dw_shape {
  conv_frame frame;
  int64_t line;  /* elements of a frame's line */
  int run, taps; /* contiguous taps in a row of the kernel; all taps */
  int co16, framed;
  int64_t group, slot; /* samples at once, elements of one in scratch */
  int64_t sums;        /* elements of the sums in scratch */
  int64_t dy_pixel;    /* elements of dy from a window to the next */
} dw_shape;

typedef enum dw_way { LIVE, DENSE, PICKED, WIDE, COPIED } dw_way;

/* Copies of 1 x 1 kernels pay from this number of input channels on, or where the ways without copies are slower: at a
 * distance, and for a short last group, whose idle lanes cost less than sums that are transposed. Where blocks have
 * several groups, they pay if a sample's x and dy leave the nearest cache. */
enum { MANY_INPUTS = 96, WIDE_POINT_INPUTS = 256, MANY_WINDOWS = 128 };
static const double MOST_IDLE = 1.2;

static int is_copied_point(const hd_geom *g, double idle) {
  const int strided = g->window.sh > 1 || g->window.sw > 1, whole = g->ci % 16 == 0;
  if (COPY_GROUPS > 1)
    return idle <= MOST_IDLE && g->ci >= WIDE_POINT_INPUTS && g->hp * g->wp >= MANY_WINDOWS;
  return idle <= MOST_IDLE && (strided || !whole || g->ci >= MANY_INPUTS);
}

/* Copies of larger kernels pay where dense blocks, whose operands are one float each, would not be much fewer; or where
 * rows of x or dy lie this far apart, channels are many, and a sample's x and dy leave the nearest cache. */
enum { FEWEST_OUTPUTS = 16, WIDE_OUTPUTS = 32, FAR_PIXEL = 128, WIDE_INPUTS = 128, NEAR_ELEMS = 16 << 10 };
static const double MOST_TO_DENSE = 1.6;

/* Windows of all taps along an axis, to those of them whose tap lies inside the image: the others are not left out. */
static double padded(int windows, int kernel, int dilation, int stride, int padding, int size) {
  int inside = 0;
  for (int tap = 0; tap < kernel; tap++) {
    const int before = padding - tap * dilation, behind = before + size - 1;
    const int first = before > 0 ? (before + stride - 1) / stride : 0;
    const int end = behind < 0 ? 0 : least(windows, behind / stride + 1);
    inside += end > first ? end - first : 0;
  }
  return (double)windows * kernel / most(inside, 1);
}

/* Whether a group of the convolution `whole` is computed from copies. wide, dense: instructions of these ways. */
static int is_copied(const hd_geom *g, const hd_geom *whole, double wide, double dense) {
  const hd_window_geom *w = &g->window;
  const int apart = w->dilation[1] > 1 || whole->ci != g->ci;
  if (COPY_STEPS == 0 || g->conv.pool > 1)
    return 0;
  if (w->kh == 1 && w->kw == 1 && w->ph == 0 && w->pw == 0)
    return is_copied_point(g, wide / dense);
  if (COPY_GROUPS > 1)
    return 0;
  double copied = (double)g->co * w->kh * (apart ? w->kw : 1) * (up16(apart ? g->ci : w->kw * g->ci) / 16);
  copied *= padded(g->hp, w->kh, w->dilation[0], w->sh, w->ph, g->hi) *
            padded(g->wp, w->kw, w->dilation[1], w->sw, w->pw, g->wi);
  if (dense < wide)
    return g->co >= FEWEST_OUTPUTS && copied <= MOST_TO_DENSE * dense;
  const int64_t elems = (int64_t)g->hi * g->wi * g->ci + (int64_t)g->hp * g->wp * g->co;
  return g->co >= WIDE_OUTPUTS && copied <= MOST_IDLE * wide && most(w->sw * whole->ci, whole->co) >= FAR_PIXEL &&
         (g->ci >= WIDE_INPUTS || elems >= NEAR_ELEMS);
}

/* Chooses by the number of vector instructions; half of a pooled gradient is assumed to be zero. */
static dw_way way_of(const hd_geom *g, const hd_geom *whole) {
  double run16 = up16(g->window.kw * g->ci) / 16, wide = (double)g->co * g->window.kh * run16;
  double dense = (double)g->window.kh * g->window.kw * g->ci * (up16(g->co) / 16), live = 4 * g->co + 0.5 * wide;
  if (is_copied(g, whole, wide, dense))
    return COPIED;
  if (g->conv.pool == 1)
    return wide <= dense ? WIDE : DENSE;
  if (g->conv.pool == 2)
    return 1.5 * dense <= live ? PICKED : LIVE;
  return g->conv.pool * g->conv.pool * dense <= live ? DENSE : LIVE;
}

/* The geometry of one group of channels, g, of the convolution `whole`. */
static dw_shape shape_of(const hd_geom *g, const hd_geom *whole) {
  dw_shape s = {.frame = input_frame(g, whole->ci), .run = g->window.kw * g->ci, .co16 = up16(g->co)};
  s.dy_pixel = whole->co;
  s.line = (int64_t)s.frame.width * g->ci;
  s.taps = g->window.kh * s.run;
  s.slot = frame_slot(&s.frame);
  s.framed = !frame_is_image(&s.frame);
  s.group = frame_rows(&s.frame);
  s.sums = (int64_t)s.taps * s.co16;
  return s;
}

/* Scratch: frames, sums, then the offsets of the taps. */
static int64_t group_scratch_bytes(const hd_geom *g, const hd_geom *whole) {
  dw_shape s = shape_of(g, whole);
  const dw_way way = way_of(g, whole);
  if (way == PICKED)
    return HD_SYM(conv_dw_pick_scratch)(g);
  if (way == LIVE)
    return HD_SYM(conv_live_dw_scratch)(g);
  if (way == WIDE)
    return HD_SYM(conv_dw_wide_scratch)(g, whole->ci);
  if (way == COPIED)
    return 0;
  return (s.framed ? whole_bytes(s.group * s.slot) : 0) + whole_bytes(s.sums) + whole_bytes(s.taps);
}

/* One block of the dense method: channels c .. , taps t .. , over the windows of `rows` samples. */
typedef struct dense_block {
  const hd_geom *g;
  const float *x, *dy;
  const uint8_t *argmax;
  int64_t x_stride, dy_stride, argmax_stride, dy_pixel, rows, line;
  const int32_t *tap; /* the block's taps: elements from a patch's start */
  float *sum;         /* the block's first tap and channel */
  int co16, channels; /* channels from the block's first on */
} dense_block;

/* taps and groups are constants where this is inlined. */
G16 void add_position(g16 (*acc)[BLOCK_GROUPS], const g16 *dy, const float *x, const int32_t *tap, int taps,
                      int groups) {
  UNROLL_FOR (t, taps) {
    g16 xv = g16_all(x[tap[t]]);
    UNROLL_FOR (q, groups)
      acc[t][q] = g16_fma(dy[q], xv, acc[t][q]);
  }
}

G16 void add_window(g16 (*acc)[BLOCK_GROUPS], const dense_block *b, const float *dy, const uint8_t *argmax,
                    const float *x, int taps, int groups) {
  g16 all[BLOCK_GROUPS], here[BLOCK_GROUPS], taken[BLOCK_GROUPS];
  UNROLL_FOR (q, groups) {
    all[q] = g16_load_some(dy + 16 * q, b->channels - 16 * q);
    taken[q] = argmax ? g16_from_bytes(argmax + 16 * q, b->channels - 16 * q) : g16_zero();
  }
  if (!argmax) {
    add_position(acc, all, x, b->tap, taps, groups);
    return;
  }
  for (int p = 0; p < b->g->conv.pool * b->g->conv.pool; p++) {
    int64_t at =
        p / b->g->conv.pool * b->g->window.sh * b->line + (int64_t)(p % b->g->conv.pool) * b->g->window.sw * b->g->ci;
    UNROLL_FOR (q, groups)
      here[q] = g16_keep(all[q], g16_equal(taken[q], g16_all((float)p)));
    add_position(acc, here, x + at, b->tap, taps, groups);
  }
}

G16 void run_block(const dense_block *b, int taps, int groups) {
  const hd_geom *g = b->g;
  int64_t step_y = g->conv.pool * g->window.sh * b->line, step_x = (int64_t)g->conv.pool * g->window.sw * g->ci;
  g16 acc[TAPS][BLOCK_GROUPS];
  UNROLL_FOR (t, taps)
    UNROLL_FOR (q, groups)
      acc[t][q] = g16_load(b->sum + t * b->co16 + 16 * q);
  for (int64_t r = 0; r < b->rows; r++) {
    const float *x = b->x + r * b->x_stride, *dy = b->dy + r * b->dy_stride;
    const uint8_t *argmax = b->argmax ? b->argmax + r * b->argmax_stride : NULL;
    for (int wy = 0; wy < g->hp; wy++, x += step_y)
      for (int wx = 0; wx < g->wp; wx++, dy += b->dy_pixel) {
        add_window(acc, b, dy, argmax, x + wx * step_x, taps, groups);
        argmax = argmax ? argmax + g->co : NULL;
      }
  }
  UNROLL_FOR (t, taps)
    UNROLL_FOR (q, groups)
      g16_store(b->sum + t * b->co16 + 16 * q, acc[t][q]);
}

typedef void block_fn(const dense_block *block);

#define FITS(taps, groups) ((taps) <= TAPS && (groups) <= BLOCK_GROUPS)
#define BLOCK(taps, groups)                                                                                            \
  static void block_##taps##x##groups(const dense_block *block) {                                                      \
    if (FITS(taps, groups))                                                                                            \
      run_block(block, taps, groups);                                                                                  \
  }
BLOCK_TABLE(block_fn)

/* All blocks over the windows of some rows. */
static void add_rows(const dense_block *whole, const int32_t *tap, int taps) {
  int parts = (taps + TAPS - 1) / TAPS, groups = whole->co16 / 16;
  for (int group = 0; group < groups; group += BLOCK_GROUPS)
    for (int part = 0; part < parts; part++) {
      int first = (int)((int64_t)taps * part / parts), size = (int)((int64_t)taps * (part + 1) / parts) - first;
      dense_block block = *whole;
      block.dy += 16 * group;
      block.argmax = block.argmax ? block.argmax + 16 * group : NULL;
      block.channels -= 16 * group;
      block.tap = tap + first;
      block.sum += (int64_t)first * whole->co16 + 16 * group;
      blocks[least(BLOCK_GROUPS, groups - group) - 1][size - 1](&block);
    }
}

static void dense_sums(const hd_call *call, const dw_shape *s, int plus_zero) {
  const hd_geom *g = call->g;
  float *sums = (float *)call->scratch + (s->framed ? s->group * s->slot : 0), *dw = call->out[0];
  int32_t *tap = (int32_t *)(void *)(sums + whole_bytes(s->sums) / (int64_t)sizeof(float));
  for (int t = 0; t < s->taps; t++)
    tap[t] = (int32_t)(t / s->run * g->window.dilation[0] * s->line +
                       t % s->run / g->ci * g->window.dilation[1] * g->ci + t % g->ci);
  memset(sums, 0, (size_t)s->sums * sizeof *sums);
  for (int64_t n = 0; n < call->rows; n += s->group) {
    int64_t rows = call->rows - n < s->group ? call->rows - n : s->group;
    conv_images images =
        frame_images(call->scratch, &s->frame, s->framed, in_row(call, 0, n), call->in_stride[0], rows);
    dense_block whole = {.g = g,
                         .x = images.first,
                         .dy = in_row(call, 1, n),
                         .argmax = call->in[2] ? (const uint8_t *)call->in[2] + n * call->in_stride[2] : NULL,
                         .x_stride = images.stride,
                         .dy_stride = call->in_stride[1],
                         .argmax_stride = call->in_stride[2],
                         .dy_pixel = s->dy_pixel,
                         .rows = rows,
                         .line = s->line,
                         .sum = sums,
                         .co16 = s->co16,
                         .channels = g->co};
    add_rows(&whole, tap, s->taps);
  }
  for (int co = 0; co < g->co; co++)
    for (int t = 0; t < s->taps; t++)
      dw[(int64_t)co * s->taps + t] =
          plus_zero ? sums[(int64_t)t * s->co16 + co] + 0.0f : sums[(int64_t)t * s->co16 + co];
}

/* Up to four groups of channels at once, so that their chains overlap in time; `groups` is a constant where this is
 * inlined. */
G16 void sum_bias(const hd_call *call, int c, int groups) {
  const hd_geom *g = call->g;
  g16 acc[4] = {g16_zero(), g16_zero(), g16_zero(), g16_zero()};
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = in_row(call, 1, n) + c;
    for (int window = 0; window < g->hp * g->wp; window++, dy += g->co)
      UNROLL_FOR (q, groups)
        acc[q] = g16_add(acc[q], g16_load_some(dy + 16 * q, g->co - c - 16 * q));
  }
  UNROLL_FOR (q, groups)
    g16_store_some((float *)call->out[1] + c + 16 * q, acc[q], g->co - c - 16 * q);
}

void HD_SYM(conv_bias_sums)(const hd_call *call) {
  for (int c = 0; c < call->g->co; c += 64)
    switch (least(4, (call->g->co - c + 15) / 16)) {
    case 1: sum_bias(call, c, 1); break;
    case 2: sum_bias(call, c, 2); break;
    case 3: sum_bias(call, c, 3); break;
    default: sum_bias(call, c, 4);
    }
}

/* The weight's gradient of one group: the call again, on the group's channels. */
static void run_group(const hd_call *whole, const hd_geom *g, int group, int plus_zero) {
  dw_shape s = shape_of(g, whole->g);
  hd_call call = *whole;
  call.g = g;
  call.in[0] = (const float *)whole->in[0] + group * g->ci;
  call.in[1] = (const float *)whole->in[1] + group * g->co;
  call.out[0] = (float *)whole->out[0] + (int64_t)group * g->co * s.taps;
  switch (way_of(g, whole->g)) {
  case PICKED: HD_SYM(conv_dw_pick)(&call, whole->g->co, whole->g->ci); break;
  case LIVE: HD_SYM(conv_live_dw)(&call, whole->g->co, whole->g->ci); break;
  case WIDE: HD_SYM(conv_dw_wide)(&call, whole->g->co, whole->g->ci, plus_zero); break;
  case COPIED: HD_SYM(conv_dw_copied)(&call, whole->g->co, whole->g->ci, plus_zero); break;
  default: dense_sums(&call, &s, plus_zero);
  }
}

static int is_tiled(const hd_geom *g) { return hd_geom_is_winograd(g) && g->conv.pool == 1; }

int64_t HD_SYM(conv_direct_dw_scratch)(const hd_geom *g) {
  hd_geom part = group_geom(g);
  return group_scratch_bytes(&part, g);
}

void HD_SYM(conv_direct_dw)(const hd_call *call, int plus_zero) {
  hd_geom part = group_geom(call->g);
  for (int group = 0; group < call->g->conv.groups; group++)
    run_group(call, &part, group, plus_zero);
}

static int64_t scratch_bytes(const hd_geom *g) {
  if (is_tiled(g))
    return HD_SYM(winograd_dw_scratch)(g);
  return is_depthwise(g) ? HD_SYM(conv_depth_dw_scratch)(g) : HD_SYM(conv_direct_dw_scratch)(g);
}

static void weight_sums(const hd_call *call) {
  if (is_depthwise(call->g))
    HD_SYM(conv_depth_dw)(call);
  else if (is_tiled(call->g))
    HD_SYM(winograd_dw)(call);
  else
    HD_SYM(conv_direct_dw)(call, 1);
}

static void conv2d_dw(const hd_call *call) {
  if (call->out[0])
    weight_sums(call);
  if (call->out[1])
    HD_SYM(conv_bias_sums)(call);
}

void HD_SYM(conv_dw_fill)(hd_kernels *table) {
  table->supports[HD_OP_conv2d_dw] = takes_dilation;
  table->run[HD_OP_conv2d_dw] = conv2d_dw;
  table->scratch_bytes[HD_OP_conv2d_dw] = scratch_bytes;
}
