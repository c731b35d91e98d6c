/* Depthwise convolution and its gradients: every channel reads itself alone, so channels lie in vector lanes.
 *
 * All three work on sixteen channels of one sample at a time, in a frame (in scratch, surrounded by the padding's
 * zeros): pixels lie sixteen floats apart there, whatever the number of channels, and windows over the padding
 * read memory like any other. Lanes without a channel hold zeros and are never stored.
 *
 * Order: forward, acc = bias or +0; (ky, kx) ascending: acc = fma(x, w, acc). Input: acc = +0; output pixels
 * row-major: acc = fma(dy, w, acc); at last acc + 0. Weight: acc = +0; samples ascending, windows row-major: acc =
 * fma(dy, x, acc); at last acc + 0. */
#include "op/conv2d/conv2d_cpu.h"

enum { LANES = 16, MOST_PIXELS = ACC_GROUPS > 16 ? 16 : ACC_GROUPS };

static int64_t depth_frame_elems(const conv_frame *f) { return (int64_t)f->height * f->width * LANES; }

/* Channels of the group that starts at c. */
static int channels_at(const hd_geom *g, int c) { return least(LANES, g->ci - c); }

/* Windows over one frame, a chain for each: forward, or one phase of the input's gradient. */
typedef struct depth_walk {
  const float *x;             /* the first window's first pixel */
  int64_t x_step_y, x_step_x; /* to the window below, to the right */
  int64_t x_line;
  int taps_y, taps_x;
  const float *w; /* [taps_y * taps_x][LANES] */
  g16 start;
  float *y;
  int64_t y_step_y, y_step_x;
  int height, width, channels;
  int relu, plus_zero;
} depth_walk;

/* Neighbouring windows of one line, `step` floats apart from x on; pixels, and most often step, are constants where
 * this is inlined. */
G16 void run_pixels(const depth_walk *walk, const float *x, float *y, int pixels, int64_t step) {
  g16 acc[MOST_PIXELS];
  const float *w = walk->w;
  UNROLL_FOR (p, pixels)
    acc[p] = walk->start;
  for (int ky = 0; ky < walk->taps_y; ky++, x += walk->x_line)
    for (int kx = 0; kx < walk->taps_x; kx++, w += LANES) {
      g16 wv = g16_load(w);
      UNROLL_FOR (p, pixels)
        acc[p] = g16_fma(g16_load(x + kx * LANES + p * step), wv, acc[p]);
    }
  if (walk->plus_zero)
    UNROLL_FOR (p, pixels)
      acc[p] = g16_add(acc[p], g16_zero());
  if (walk->relu)
    UNROLL_FOR (p, pixels)
      acc[p] = g16_relu(acc[p]);
  int64_t next = walk->y_step_x;
  if (walk->channels >= LANES)
    UNROLL_FOR (p, pixels) {
      g16_store(y, acc[p]);
      y += next;
    }
  else
    UNROLL_FOR (p, pixels) {
      g16_store_some(y, acc[p], walk->channels);
      y += next;
    }
}

/* All lines of a column of windows. */
typedef void column_fn(const depth_walk *walk, int wx);

G16 void run_column(const depth_walk *walk, int wx, int pixels, int64_t step) {
  const float *x = walk->x + wx * step;
  float *y = walk->y + wx * walk->y_step_x;
  for (int wy = 0; wy < walk->height; wy++, x += walk->x_step_y, y += walk->y_step_y)
    run_pixels(walk, x, y, pixels, step);
}

#define COLUMN(pixels, unused)                                                                                         \
  static void column_##pixels(const depth_walk *walk, int wx) {                                                        \
    if (pixels <= MOST_PIXELS && walk->x_step_x == LANES)                                                              \
      run_column(walk, wx, pixels, LANES);                                                                             \
    else if (pixels <= MOST_PIXELS)                                                                                    \
      run_column(walk, wx, pixels, walk->x_step_x);                                                                    \
  }
#define COLUMN_ENTRY(pixels, unused) pixels <= MOST_PIXELS ? column_##pixels : NULL,
EACH_A(COLUMN, )
static column_fn *const columns[BLOCK_A] = {EACH_A(COLUMN_ENTRY, )};

static void run_walk(const depth_walk *walk) {
  int most_pixels = even_part(walk->width, MOST_PIXELS);
  for (int wx = 0; wx < walk->width; wx += most_pixels)
    columns[least(most_pixels, walk->width - wx) - 1](walk, wx);
}

/* The walk over the channels from c on of row n, which lie framed in scratch. */
static depth_walk forward_walk(const hd_call *call, const conv_frame *frame, int64_t n, int c) {
  const hd_geom *g = call->g;
  const float *bias = call->in[2];
  return (depth_walk){.x = call->scratch,
                      .x_step_y = (int64_t)g->window.sh * frame->width * LANES,
                      .x_step_x = (int64_t)g->window.sw * LANES,
                      .x_line = (int64_t)frame->width * LANES,
                      .taps_y = g->window.kh,
                      .taps_x = g->window.kw,
                      .w = call->packed + (int64_t)c * g->window.kh * g->window.kw,
                      .start = bias ? g16_load_some(bias + c, channels_at(g, c)) : g16_zero(),
                      .y = out_row(call, 0, n) + c,
                      .y_step_y = (int64_t)g->wo * g->co,
                      .y_step_x = g->co,
                      .height = g->ho,
                      .width = g->wo,
                      .channels = channels_at(g, c),
                      .relu = g->relu};
}

void HD_SYM(conv_depth_forward)(const hd_call *call) {
  const hd_geom *g = call->g;
  conv_frame frame = input_frame(g, g->ci);
  for (int64_t n = 0; n < call->rows; n++)
    for (int c = 0; c < g->ci; c += LANES) {
      const float *x = in_row(call, 0, n) + c;
      HD_SYM(conv_slice_fill)(call->scratch, &frame, x, channels_at(g, c));
      depth_walk walk = forward_walk(call, &frame, n, c);
      run_walk(&walk);
    }
}

/* All phases of the stride for the channels from c on of row n; the framed gradient lies in scratch. */
static void run_phases(const hd_call *call, const conv_frame *frame, int64_t n, int c) {
  const hd_geom *g = call->g;
  const float *w = call->packed + (int64_t)c * g->window.kh * g->window.kw;
  for (int i = 0; i < g->window.sh * g->window.sw; i++) {
    conv_phase y, x;
    phases_of(&y, &x, g, i);
    float *dx = out_row(call, 0, n) + ((int64_t)y.first * g->wi + x.first) * g->ci + c;
    depth_walk walk = {.x = (const float *)call->scratch +
                            ((int64_t)(y.start + frame->top) * frame->width + x.start + frame->left) * LANES,
                       .x_step_y = (int64_t)frame->width * LANES,
                       .x_step_x = LANES,
                       .x_line = (int64_t)frame->width * LANES,
                       .taps_y = x.taps ? y.taps : 0,
                       .taps_x = x.taps,
                       .w = w,
                       .start = g16_zero(),
                       .y = dx,
                       .y_step_y = (int64_t)g->window.sh * g->wi * g->ci,
                       .y_step_x = (int64_t)g->window.sw * g->ci,
                       .height = y.count,
                       .width = x.count,
                       .channels = channels_at(g, c),
                       .plus_zero = 1};
    if (walk.height > 0 && walk.width > 0)
      run_walk(&walk);
    w += (int64_t)y.taps * x.taps * LANES;
  }
}

void HD_SYM(conv_depth_dx)(const hd_call *call) {
  const hd_geom *g = call->g;
  conv_frame frame = gradient_frame(g, g->co);
  for (int64_t n = 0; n < call->rows; n++)
    for (int c = 0; c < g->ci; c += LANES) {
      const float *dy = in_row(call, 0, n) + c;
      HD_SYM(conv_slice_fill)(call->scratch, &frame, dy, channels_at(g, c));
      run_phases(call, &frame, n, c);
    }
}

/* A block of the weight's gradient: the sums of some taps stay in registers for all windows of one sample. */
typedef struct depth_taps {
  const float *x, *dy;        /* the first window's patch at the block's first tap, its gradient */
  int64_t x_step_y, x_step_x; /* to the window below, to the right */
  int64_t x_line, dy_pixel;
  float *sum; /* [taps_y][sum_line] */
  int64_t sum_line;
  int height, width, channels;
} depth_taps;

enum { TAPS_DOWN = 5, TAPS_ACROSS = 8, WINDOWS = DEPTH_WINDOWS };

/* `windows` neighbours; what lies side by side is loaded once for all of them if `step` is one pixel. All but the
 * block are constants where this is inlined. */
G16 void add_neighbours(g16 (*acc)[TAPS_ACROSS], const depth_taps *b, const float *x, const float *dy, int windows,
                        int down, int across) {
  g16 d[WINDOWS];
  UNROLL_FOR (i, windows)
    d[i] = g16_load_some(dy + i * b->dy_pixel, b->channels);
  UNROLL_FOR (r, down)
    UNROLL_FOR (i, windows + across - 1) {
      g16 xv = g16_load(x + r * b->x_line + i * LANES);
      UNROLL_FOR (k, windows)
        if (i - k >= 0 && i - k < across)
          acc[r][i - k] = g16_fma(d[k], xv, acc[r][i - k]);
    }
}

/* down and across are constants where this is inlined. */
G16 void add_windows(const depth_taps *b, int down, int across) {
  g16 acc[TAPS_DOWN][TAPS_ACROSS];
  const float *dy = b->dy;
  UNROLL_FOR (r, down)
    UNROLL_FOR (q, across)
      acc[r][q] = g16_load(b->sum + r * b->sum_line + q * LANES);
  for (int wy = 0; wy < b->height; wy++) {
    const float *x = b->x + wy * b->x_step_y;
    int wx = 0;
    if (WINDOWS > 1 && b->x_step_x == LANES)
      for (; wx + WINDOWS <= b->width; wx += WINDOWS, x += WINDOWS * LANES, dy += WINDOWS * b->dy_pixel)
        add_neighbours(acc, b, x, dy, WINDOWS, down, across);
    for (; wx < b->width; wx++, x += b->x_step_x, dy += b->dy_pixel)
      add_neighbours(acc, b, x, dy, 1, down, across);
  }
  UNROLL_FOR (r, down)
    UNROLL_FOR (q, across)
      g16_store(b->sum + r * b->sum_line + q * LANES, acc[r][q]);
}

typedef void taps_fn(const depth_taps *block);

#define FITS(across, down) ((across) <= TAPS_ACROSS && (down) <= TAPS_DOWN && (across) * (down) <= ACC_GROUPS)
#define BLOCK(across, down)                                                                                            \
  static void block_##across##x##down(const depth_taps *block) {                                                       \
    if (FITS(across, down))                                                                                            \
      add_windows(block, down, across);                                                                                \
  }
BLOCK_TABLE(taps_fn)

/* Adds one sample, whose image lies framed in scratch, to all taps' sums. */
static void add_sample(const hd_geom *g, const conv_frame *frame, const float *x, const float *dy, float *sums,
                       int channels) {
  int across = even_part(g->window.kw, least(TAPS_ACROSS, ACC_GROUPS));
  int down = even_part(g->window.kh, most(1, least(TAPS_DOWN, ACC_GROUPS / across)));
  int64_t line = (int64_t)frame->width * LANES;
  for (int ky = 0; ky < g->window.kh; ky += down)
    for (int kx = 0; kx < g->window.kw; kx += across) {
      depth_taps block = {.x = x + ky * line + kx * LANES,
                          .dy = dy,
                          .x_step_y = g->window.sh * line,
                          .x_step_x = (int64_t)g->window.sw * LANES,
                          .x_line = line,
                          .dy_pixel = g->co,
                          .sum = sums + ((int64_t)ky * g->window.kw + kx) * LANES,
                          .sum_line = (int64_t)g->window.kw * LANES,
                          .height = g->ho,
                          .width = g->wo,
                          .channels = channels};
      blocks[least(down, g->window.kh - ky) - 1][least(across, g->window.kw - kx) - 1](&block);
    }
}

void HD_SYM(conv_depth_dw)(const hd_call *call) {
  const hd_geom *g = call->g;
  conv_frame frame = input_frame(g, g->ci);
  int taps = g->window.kh * g->window.kw;
  float *x = call->scratch, *sums = x + depth_frame_elems(&frame), *dw = call->out[0];
  for (int c = 0; c < g->ci; c += LANES) {
    int channels = channels_at(g, c);
    memset(sums, 0, (size_t)taps * LANES * sizeof *sums);
    for (int64_t n = 0; n < call->rows; n++) {
      HD_SYM(conv_slice_fill)(x, &frame, in_row(call, 0, n) + c, channels);
      add_sample(g, &frame, x, in_row(call, 1, n) + c, sums, channels);
    }
    for (int i = 0; i < channels; i++)
      for (int t = 0; t < taps; t++)
        dw[(int64_t)(c + i) * taps + t] = sums[t * LANES + i] + 0.0f;
  }
}

int64_t HD_SYM(conv_depth_forward_scratch)(const hd_geom *g) {
  conv_frame frame = input_frame(g, g->ci);
  return whole_bytes(depth_frame_elems(&frame));
}

int64_t HD_SYM(conv_depth_dx_scratch)(const hd_geom *g) {
  conv_frame frame = gradient_frame(g, g->co);
  return whole_bytes(depth_frame_elems(&frame));
}

int64_t HD_SYM(conv_depth_dw_scratch)(const hd_geom *g) {
  return HD_SYM(conv_depth_forward_scratch)(g) + whole_bytes((int64_t)g->window.kh * g->window.kw * LANES);
}

/* [channels / LANES][taps][LANES] */
int64_t HD_SYM(conv_depth_packed)(const hd_geom *g) { return (int64_t)up16(g->co) * g->window.kh * g->window.kw; }

static float *packed_at(const hd_geom *g, float *packed, int32_t channel) {
  return packed + (int64_t)(channel / LANES) * LANES * g->window.kh * g->window.kw + channel % LANES;
}

void HD_SYM(conv_depth_forward_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  int taps = g->window.kh * g->window.kw;
  for (int32_t j = j0; j < j1; j++)
    for (int t = 0; t < taps; t++)
      packed_at(g, packed, j)[t * LANES] = w[(int64_t)j * taps + t];
}

/* The kernel reversed, phase after phase: the taps of a phase in the order of its walk. */
void HD_SYM(conv_depth_dx_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  for (int32_t j = j0; j < j1; j++) {
    float *to = packed_at(g, packed, j);
    for (int i = 0; i < g->window.sh * g->window.sw; i++) {
      conv_phase y, x;
      phases_of(&y, &x, g, i);
      for (int t = 0; t < y.taps * x.taps; t++, to += LANES) {
        int ky = y.last - t / x.taps * g->window.sh, kx = x.last - t % x.taps * g->window.sw;
        *to = w[((int64_t)j * g->window.kh + ky) * g->window.kw + kx];
      }
    }
  }
}
