/* The gradient of a convolution's weight without a pool, from copies: rows of x and dy lie so far apart that the parts
 * of them which a block reads find few sets of the nearest cache. Both are copied together: dy of a strip of output
 * channels, in the order in which its blocks read it, and x of a panel of neighbouring taps, with zeros from the
 * padding. A block then stays in registers for all windows of a chunk; between two chunks its sums are in the weight's
 * place, so that there is no scratch for them.
 *
 * Order: per weight, over samples ascending, windows row-major: acc = fma(dy, x, acc), at last acc + 0. */
#include "op/conv2d/conv2d_cpu.h"

/* Windows of a chunk; groups of a panel, and its taps; output channels of a block and of a strip. */
enum { STEPS = COPY_STEPS > 0 ? COPY_STEPS : 1, GROUPS = COPY_GROUPS, PANEL = 16 * GROUPS };
enum { OUTPUTS = ACC_GROUPS / GROUPS < 12 ? ACC_GROUPS / GROUPS : 12, STRIP = 96 };

/* The geometry of a call. */
typedef struct copy_shape {
  int64_t dy_pixel, pixel; /* elements of dy from a window to the next; of x from a pixel to the next */
  int runs, run;           /* contiguous taps of the kernel: in all, and in each */
  int in_row;              /* runs in a row of the kernel */
  int64_t windows;         /* of a sample */
  int64_t across, line;    /* windows that are evenly apart, elements of the image's line under them */
} copy_shape;

/* Lines without padding may follow each other so that all windows of a sample are evenly apart. */
static copy_shape shape_of(const hd_geom *g, int64_t dy_pixel, int64_t pixel) {
  const hd_window_geom *w = &g->window;
  const int even = w->ph == 0 && w->pw == 0 && w->sh * g->wi == w->sw * g->wp;
  copy_shape s = {.dy_pixel = dy_pixel, .pixel = pixel, .windows = (int64_t)g->hp * g->wp};
  s.in_row = w->dilation[1] > 1 || pixel != g->ci ? w->kw : 1;
  s.runs = w->kh * s.in_row;
  s.run = w->kw / s.in_row * g->ci;
  s.across = even ? s.windows : g->wp;
  s.line = (int64_t)g->wi * pixel * (even ? g->hi : 1);
  return s;
}

/* The windows first .. first + count - 1 of the call, counted over all samples. */
typedef struct copy_chunk {
  const hd_call *call;
  const copy_shape *shape;
  int64_t first, count;
  int begins, ends; /* whether they are the first, the last */
  int plus_zero;
} copy_chunk;

/* Some taps under neighbouring windows of a line: `at` is the first of them, an element of the line, or of the padding
 * before or behind it; it grows by `step` a window. */
typedef struct copy_taps {
  const float *line;
  int64_t at, step, elems;
  int taps;
} copy_taps;

static void copy_edge(float *to, const copy_taps *t) {
  const int64_t from = t->at < 0 ? -t->at : 0, left = t->elems - t->at, end = left < t->taps ? left : t->taps;
  g16_store(to, g16_zero());
  if (from < end)
    memcpy(to + from, t->line + t->at + from, (size_t)(end - from) * sizeof *to);
}

static void copy_line(float *to, copy_taps t, int64_t count) {
  for (; count > 0 && t.at < 0; count--, t.at += t.step, to += PANEL)
    copy_edge(to, &t);
  for (; count > 0 && t.at + t.taps <= t.elems; count--, t.at += t.step, to += PANEL)
    g16_store(to, g16_load_some(t.line + t.at, t.taps));
  for (; count > 0; count--, t.at += t.step, to += PANEL)
    copy_edge(to, &t);
}

/* A group of the panel: up to sixteen taps of a run from k on, followed by zeros, for each window. */
static void copy_x(float *to, const copy_chunk *c, int run, int k) {
  const copy_shape *s = c->shape;
  const hd_geom *g = c->call->g;
  const hd_window_geom *w = &g->window;
  const int down = run / s->in_row * w->dilation[0] - w->ph, right = run % s->in_row * w->dilation[1] - w->pw;
  for (int64_t done = 0, count; done < c->count; done += count, to += PANEL * count) {
    const int64_t n = (c->first + done) / s->windows, i = (c->first + done) % s->windows,
                  left = s->across - i % s->across;
    const int64_t y = i / s->across * w->sh + down, x = i % s->across * w->sw + right;
    count = left < c->count - done ? left : c->count - done;
    if (y < 0 || y >= g->hi)
      for (int64_t window = 0; window < count; window++)
        g16_store(to + PANEL * window, g16_zero());
    else
      copy_line(to,
                (copy_taps){.line = in_row(c->call, 0, n) + y * g->wi * s->pixel,
                            .at = x * s->pixel + k,
                            .step = w->sw * s->pixel,
                            .elems = s->line,
                            .taps = least(16, s->run - k)},
                count);
  }
}

/* The channels of dy from j on of neighbouring blocks, window after window; `outputs` is a constant where this is
 * inlined. */
G16 void copy_dy(float *to, const copy_chunk *c, int j, int block_count, int outputs) {
  const copy_shape *s = c->shape;
  for (int64_t done = 0; done < c->count;) {
    const int64_t n = (c->first + done) / s->windows, i = (c->first + done) % s->windows;
    const float *dy = in_row(c->call, 1, n) + i * s->dy_pixel + j;
    for (int64_t left = s->windows - i; left > 0 && done < c->count; left--, done++, dy += s->dy_pixel, to += outputs)
      for (int b = 0; b < block_count; b++)
        memcpy(to + b * outputs * c->count, dy + b * outputs, (size_t)outputs * sizeof *to);
  }
}

/* Where a block's sums are: `left` taps of each output channel, which lie `step` apart. */
typedef struct copy_sums {
  float *first;
  int64_t step;
  int left;
} copy_sums;

/* Of group q: the others before the last are whole. */
G16 int taps_of(const copy_sums *sums, int q, int groups) { return q < groups - 1 ? 16 : sums->left; }

/* Both counts are constants where this is inlined. */
G16 void add_chunk(const copy_chunk *c, const copy_sums *sums, const float *x, const float *dy, int outputs,
                   int groups) {
  g16 acc[OUTPUTS][GROUPS];
  UNROLL_FOR (o, outputs)
    UNROLL_FOR (q, groups)
      acc[o][q] =
          c->begins ? g16_zero() : g16_load_some(sums->first + o * sums->step + 16 * q, taps_of(sums, q, groups));
  for (int64_t n = c->count; n > 0; n--, x += PANEL, dy += outputs)
    ADD_OUTER(acc, dy, outputs, groups, GROUPS, g16_held(g16_load(x + 16 * q)));
  UNROLL_FOR (o, outputs)
    UNROLL_FOR (q, groups)
      g16_store_some(sums->first + o * sums->step + 16 * q,
                     c->ends && c->plus_zero ? g16_add(acc[o][q], g16_zero()) : acc[o][q], taps_of(sums, q, groups));
}

typedef void block_fn(const copy_chunk *c, const copy_sums *sums, const float *x, const float *dy);

/* Copies of both for each size of a block. */
#define FITS(outputs, groups) ((outputs) <= OUTPUTS && (groups) <= GROUPS)
#define BLOCK(outputs, groups)                                                                                         \
  static __attribute__((noinline)) void block_##outputs##x##groups(const copy_chunk *c, const copy_sums *sums,         \
                                                                   const float *x, const float *dy) {                  \
    if (FITS(outputs, groups))                                                                                         \
      add_chunk(c, sums, x, dy, outputs, groups);                                                                      \
  }
BLOCK_TABLE(block_fn)

#define COPY(outputs, unused)                                                                                          \
  static __attribute__((noinline)) void copy_dy_##outputs(float *to, const copy_chunk *c, int j, int block_count) {    \
    if ((outputs) <= OUTPUTS)                                                                                          \
      copy_dy(to, c, j, block_count, outputs);                                                                         \
  }
#define COPY_ENTRY(outputs, unused) copy_dy_##outputs,
EACH_A(COPY, )
static void (*const copy_of[])(float *to, const copy_chunk *c, int j, int block_count) = {EACH_A(COPY_ENTRY, )};

/* The output channels j0 .. j1 - 1, in blocks of `down`. */
static void add_strip(const copy_chunk *c, int j0, int j1) {
  _Alignas(64) float x[STEPS * PANEL], dy[STEPS * STRIP];
  const copy_shape *s = c->shape;
  const int down = even_part(j1 - j0, OUTPUTS), whole = (j1 - j0) / down, rest = (j1 - j0) % down;
  const int64_t step = (int64_t)s->runs * s->run;
  copy_of[down - 1](dy, c, j0, whole);
  if (rest > 0)
    copy_of[rest - 1](dy + whole * down * c->count, c, j1 - rest, 1);
  for (int run = 0; run < s->runs; run++)
    for (int k = 0, groups; k < s->run; k += 16 * groups) {
      groups = even_part((s->run - k + 15) / 16, GROUPS);
      for (int q = 0; q < groups; q++)
        copy_x(x + 16 * q, c, run, k + 16 * q);
      for (int j = j0; j < j1; j += down) {
        const copy_sums sums = {(float *)c->call->out[0] + j * step + run * s->run + k, step,
                                least(16, s->run - k - 16 * (groups - 1))};
        blocks[groups - 1][least(down, j1 - j) - 1](c, &sums, x, dy + (j - j0) * c->count);
      }
    }
}

void HD_SYM(conv_dw_copied)(const hd_call *call, int64_t dy_pixel, int64_t pixel, int plus_zero) {
  const hd_geom *g = call->g;
  const copy_shape s = shape_of(g, dy_pixel, pixel);
  const int64_t windows = call->rows * s.windows, chunks = (windows + STEPS - 1) / STEPS;
  const int strip = even_part(g->co, STRIP);
  for (int64_t i = 0; i < chunks; i++) {
    const int64_t first = windows * i / chunks, end = windows * (i + 1) / chunks;
    const copy_chunk c = {call, &s, first, end - first, i == 0, i == chunks - 1, plus_zero};
    for (int j = 0; j < g->co; j += strip)
      add_strip(&c, j, least(j + strip, g->co));
  }
}
