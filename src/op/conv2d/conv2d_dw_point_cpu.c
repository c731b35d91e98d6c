/* The gradient of the weight of a 1 x 1 convolution, where one group of taps fills a block of registers: rows of x and
 * dy lie so far apart that the parts of them which a block reads find few sets of the nearest cache. Both are copied
 * together: dy of a strip of output channels, in the order in which its blocks read it, and x of one group. A block
 * then stays in registers for all windows of a chunk; between two chunks its sums are in the weight's place, so that
 * there is no scratch for them.
 *
 * Order: per weight, over samples ascending, windows row-major: acc = fma(dy, x, acc), at last acc + 0. */
#include "op/conv2d/conv2d_cpu.h"

/* Windows of a chunk, output channels of a block and of a strip. */
enum { STEPS = POINT_STEPS > 0 ? POINT_STEPS : 1, OUTPUTS = ACC_GROUPS < 6 ? ACC_GROUPS : 6, STRIP = 16 * OUTPUTS };

/* The windows first .. first + count - 1 of the call, counted over all samples. */
typedef struct point_chunk {
  const hd_call *call;
  int64_t first, count;
  int begins, ends; /* whether they are the first, the last */
  int plus_zero;
} point_chunk;

/* Windows that lie `step` apart, from the first of a line on. */
typedef struct point_line {
  const float *first;
  int64_t step, count;
} point_line;

/* The windows of operand `slot` from `window` on, as many as are evenly apart: of a line, or of a whole sample where
 * lines follow each other. pixel: elements from a pixel to the next. */
static point_line line_at(const point_chunk *c, int slot, int64_t window, int64_t pixel) {
  const hd_geom *g = c->call->g;
  const int64_t of_sample = (int64_t)g->hp * g->wp, end = c->first + c->count;
  /* (of a transposed convolution's padding at the end no window reads) */
  const int is_even = slot == 1 || (g->window.sh == 1 && g->window.sw == 1 && g->wi == g->wp);
  const int64_t n = window / of_sample, i = window % of_sample, across = is_even ? of_sample : g->wp;
  const int64_t y = i / across, x = i % across, line = (int64_t)g->window.sh * g->wi, sw = is_even ? 1 : g->window.sw;
  const int64_t left = across - x < end - window ? across - x : end - window;
  return (point_line){in_row(c->call, slot, n) + (y * line + x * sw) * pixel, sw * pixel, left};
}

/* Up to sixteen channels of x from k on, followed by zeros. */
static void copy_x(float *to, const point_chunk *c, int k, int64_t pixel) {
  const int channels = c->call->g->ci - k;
  for (int64_t done = 0; done < c->count;) {
    point_line line = line_at(c, 0, c->first + done, pixel);
    for (done += line.count; line.count > 0; line.count--, line.first += line.step, to += 16)
      g16_store(to, g16_load_some(line.first + k, channels));
  }
}

/* A block's channels of dy from j on; `outputs` is a constant where this is inlined. */
G16 void copy_dy(float *to, const point_chunk *c, int j, int64_t pixel, int outputs) {
  for (int64_t done = 0; done < c->count;) {
    point_line line = line_at(c, 1, c->first + done, pixel);
    for (done += line.count; line.count > 0; line.count--, line.first += line.step, to += outputs)
      memcpy(to, line.first + j, (size_t)outputs * sizeof *to);
  }
}

/* Where a block's sums are: `left` input channels of each output channel, which lie `step` apart. */
typedef struct point_sums {
  float *first;
  int64_t step;
  int left;
} point_sums;

G16 void add_chunk(const point_chunk *c, const point_sums *sums, const float *x, const float *dy, int outputs) {
  g16 acc[OUTPUTS];
  UNROLL_FOR (o, outputs)
    acc[o] = c->begins ? g16_zero() : g16_load_some(sums->first + o * sums->step, sums->left);
  for (int64_t n = c->count; n > 0; n--, x += 16, dy += outputs) {
    const g16 xv = g16_held(g16_load(x));
    UNROLL_FOR (o, outputs)
      acc[o] = g16_fma(g16_all(dy[o]), xv, acc[o]);
  }
  UNROLL_FOR (o, outputs)
    g16_store_some(sums->first + o * sums->step, c->ends && c->plus_zero ? g16_add(acc[o], g16_zero()) : acc[o],
                   sums->left);
}

/* Copies of both for each size of a block. */
#define EACH_OUTPUTS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define FUNCTIONS(outputs)                                                                                             \
  static __attribute__((noinline)) void copy_dy_##outputs(float *to, const point_chunk *c, int j, int64_t pixel) {     \
    copy_dy(to, c, j, pixel, outputs <= OUTPUTS ? outputs : OUTPUTS);                                                  \
  }                                                                                                                    \
  static __attribute__((noinline)) void add_chunk_##outputs(const point_chunk *c, const point_sums *sums,              \
                                                            const float *x, const float *dy) {                         \
    add_chunk(c, sums, x, dy, outputs <= OUTPUTS ? outputs : OUTPUTS);                                                 \
  }
EACH_OUTPUTS(FUNCTIONS)
#define COPY(outputs) copy_dy_##outputs,
#define ADD(outputs) add_chunk_##outputs,
static void (*const copy_of[])(float *to, const point_chunk *c, int j, int64_t pixel) = {NULL, EACH_OUTPUTS(COPY)};
static void (*const add_of[])(const point_chunk *c, const point_sums *sums, const float *x,
                              const float *dy) = {NULL, EACH_OUTPUTS(ADD)};

/* The output channels j0 .. j1 - 1, in blocks of `down`. */
static void add_strip(const point_chunk *c, int j0, int j1, int64_t dy_pixel, int64_t pixel) {
  _Alignas(64) float x[STEPS * 16], dy[STEPS * STRIP];
  const hd_geom *g = c->call->g;
  const int down = even_part(j1 - j0, OUTPUTS);
  for (int j = j0; j < j1; j += down)
    copy_of[least(down, j1 - j)](dy + (j - j0) * c->count, c, j, dy_pixel);
  for (int k = 0; k < g->ci; k += 16) {
    copy_x(x, c, k, pixel);
    for (int j = j0; j < j1; j += down) {
      const point_sums sums = {(float *)c->call->out[0] + (int64_t)j * g->ci + k, g->ci, g->ci - k};
      add_of[least(down, j1 - j)](c, &sums, x, dy + (j - j0) * c->count);
    }
  }
}

void HD_SYM(conv_dw_point)(const hd_call *call, int64_t dy_pixel, int64_t pixel, int plus_zero) {
  const hd_geom *g = call->g;
  const int64_t windows = call->rows * g->hp * g->wp;
  const int strip = even_part(g->co, STRIP);
  for (int64_t w = 0; w < windows; w += STEPS) {
    const int64_t count = windows - w < STEPS ? windows - w : STEPS;
    const point_chunk c = {call, w, count, w == 0, w + count == windows, plus_zero};
    for (int j = 0; j < g->co; j += strip)
      add_strip(&c, j, least(j + strip, g->co), dy_pixel, pixel);
  }
}
