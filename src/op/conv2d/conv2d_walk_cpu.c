/* The walk: a register-blocked direct convolution; see conv2d_cpu.h.
 *
 * A block is `pixels` windows (of one row or several, or of several samples) by `groups` groups of channels: that many
 * accumulators, with one pass over all taps for each position of the pool; behind a pool of side 2 a block has all four
 * positions of fewer windows, so that maxima need no registers meanwhile. The outer loop is over blocks of weights, the
 * inner over windows, so that the weights of a block stay in the nearest caches.
 *
 * Of a last group whose upper half would be empty, the lower half belongs to one window and the upper half to its
 * neighbour; the sums of such groups are in the even windows.
 *
 * Order: acc = bias or +0; over the kernel's rows, inside over the row's elements: acc = fma(x, w, acc). Then the
 * maximum over positions, row-major, a later one taken if it is greater or NaN; then + 0 or the ReLU, if set.
 * Windows are independent. */
#include "op/conv2d/conv2d_cpu.h"

enum {
  MOST_PIXELS = ACC_GROUPS / BLOCK_GROUPS,
  MOST_GROUPS = BLOCK_GROUPS > 1 ? BLOCK_GROUPS + 1 : 1,
  POSITIONS = 4, /* positions of a pool of side 2 */
  MOST_WINDOWS = ACC_GROUPS < 2 * POSITIONS ? 2 : ACC_GROUPS / POSITIONS,
  MOST_MAXIMA = ACC_GROUPS < 6 ? 2 : ACC_GROUPS / 3,
  LONG_CHAIN = 64
};

/* The windows of a block, and where their outputs go. */
typedef struct walk_block {
  const float *x[MOST_PIXELS];
  float *y[MOST_PIXELS];
  uint8_t *argmax[MOST_PIXELS];
  const float *w, *bias;
  int channels; /* of this block that exist */
} walk_block;

/* The next window to be put into a block. */
typedef struct walk_cursor {
  const float *x;
  float *y;
  uint8_t *argmax; /* or NULL */
  int wy, wx;
} walk_cursor;

static void take_windows(walk_block *block, walk_cursor *at, const conv_walk *walk, int pixels) {
  for (int p = 0; p < pixels; p++) {
    int64_t x = walk->x_step_x, y = walk->y_step_x, argmax = y;
    block->x[p] = at->x;
    block->y[p] = at->y;
    block->argmax[p] = at->argmax;
    if (++at->wx == walk->width) {
      at->wx = 0;
      x += walk->x_step_y - walk->width * walk->x_step_x;
      y += walk->y_step_y - walk->width * walk->y_step_x;
      argmax = y;
      if (++at->wy == walk->height) {
        at->wy = 0;
        x += walk->x_stride - walk->height * walk->x_step_y;
        y += walk->y_stride - walk->height * walk->y_step_y;
        argmax += walk->argmax_stride - walk->height * walk->y_step_y;
      }
    }
    at->x += x;
    at->y += y;
    at->argmax = at->argmax ? at->argmax + argmax : NULL;
  }
}

G16 void take_bias(g16 *bias, const walk_block *block, int groups, int half) {
  UNROLL_FOR (q, groups)
    bias[q] = block->bias ? g16_load_some(block->bias + 16 * q, block->channels - 16 * q) : g16_zero();
  if (half)
    bias[groups - 1] = g16_low_twice(bias[groups - 1]);
}

/* One position of all windows: acc[p][q] = the whole chain. `half`: whether the last group is one of halves. */
G16 void taps(g16 (*acc)[MOST_GROUPS], const conv_walk *walk, const walk_block *block, int64_t at, int pixels,
              int groups, int half) {
  const float *x[MOST_PIXELS], *w = block->w;
  g16 bias[MOST_GROUPS], before = g16_zero();
  take_bias(bias, block, groups, half);
  UNROLL_FOR (p, pixels) {
    x[p] = block->x[p];
    UNROLL_FOR (q, groups)
      acc[p][q] = bias[q];
  }
  for (int ky = 0; ky < walk->taps_y; ky++, at += walk->x_line, w += walk->w_skip * 16 * groups)
    for (int64_t i = at; i < at + walk->run; i++, w += 16 * groups) {
      g16 wv[MOST_GROUPS];
      UNROLL_FOR (q, groups)
        wv[q] = g16_load(w + 16 * q);
      UNROLL_FOR (p, pixels) {
        g16 xv = g16_all(x[p][i]);
        UNROLL_FOR (q, groups - half)
          acc[p][q] = g16_fma(xv, wv[q], acc[p][q]);
        if (half && p % 2)
          acc[p - 1][groups - 1] = g16_fma(g16_halves(before, xv), wv[groups - 1], acc[p - 1][groups - 1]);
        before = xv;
      }
    }
}

/* The rule of the maximum. */
G16 void take_over(g16 *best, g16 *taken, g16 later, int position) {
  g16_mask over = g16_or(g16_less(*best, later), g16_nan(later));
  *best = g16_choose(over, later, *best);
  *taken = g16_choose(over, g16_all((float)position), *taken);
}

/* The end of a chain: + 0 or the ReLU, if set. */
G16 g16 ended(const conv_walk *walk, g16 value) {
  value = walk->plus_zero ? g16_add(value, g16_zero()) : value;
  return walk->relu ? g16_relu(value) : value;
}

/* The half of a group that belongs to window p. */
G16 g16 half_of(g16 both, int p) { return p % 2 ? g16_high(both) : both; }

G16 void put_maximum(const conv_walk *walk, const walk_block *block, g16 best, g16 taken, int p, int q) {
  int count = block->channels - 16 * q;
  g16_store_some(block->y[p] + 16 * q, ended(walk, best), count);
  if (block->argmax[p])
    g16_to_bytes(block->argmax[p] + 16 * q, taken, count);
}

/* Stores the maxima of a group; of a group of halves, to both windows. */
G16 void put_maxima(const conv_walk *walk, const walk_block *block, g16 best, g16 taken, int p, int q, int half) {
  put_maximum(walk, block, best, taken, p, q);
  if (half)
    put_maximum(walk, block, g16_high(best), g16_high(taken), p + 1, q);
}

/* A block without a pool; pixels, groups and half are constants where this is inlined. */
G16 void run_plain(const conv_walk *walk, const walk_block *block, int pixels, int groups, int half) {
  g16 acc[MOST_PIXELS][MOST_GROUPS];
  taps(acc, walk, block, 0, pixels, groups, half);
  if (walk->plus_zero || walk->relu)
    UNROLL_FOR (p, pixels)
      UNROLL_FOR (q, groups)
        acc[p][q] = ended(walk, acc[p][q]);
  if (block->channels >= 16 * groups)
    UNROLL_FOR (p, pixels)
      UNROLL_FOR (q, groups)
        g16_store(block->y[p] + 16 * q, acc[p][q]);
  else
    UNROLL_FOR (p, pixels)
      UNROLL_FOR (q, groups) {
        g16 value = half && q == groups - 1 ? half_of(acc[p - p % 2][q], p) : acc[p][q];
        g16_store_some(block->y[p] + 16 * q, value, block->channels - 16 * q);
      }
}

/* Behind a pool of any side, position after position. */
G16 void run_many(const conv_walk *walk, const walk_block *block, int pixels, int groups, int half) {
  g16 best[MOST_PIXELS][MOST_GROUPS], taken[MOST_PIXELS][MOST_GROUPS], acc[MOST_PIXELS][MOST_GROUPS];
  taps(best, walk, block, 0, pixels, groups, half);
  UNROLL_FOR (p, pixels)
    UNROLL_FOR (q, groups)
      taken[p][q] = g16_zero();
  for (int position = 1; position < walk->pool * walk->pool; position++) {
    int64_t at = position / walk->pool * walk->at_step_y + position % walk->pool * walk->at_step_x;
    taps(acc, walk, block, at, pixels, groups, half);
    UNROLL_FOR (p, pixels)
      UNROLL_FOR (q, groups)
        take_over(&best[p][q], &taken[p][q], acc[p][q], position);
  }
  UNROLL_FOR (p, pixels)
    UNROLL_FOR (q, groups)
      if (!half || q < groups - 1 || p % 2 == 0)
        put_maxima(walk, block, best[p][q], taken[p][q], p, q, half && q == groups - 1);
}

/* The chains of all four positions of some windows behind a pool of side 2. */
G16 void taps_of_four(g16 (*acc)[POSITIONS][MOST_GROUPS], const conv_walk *walk, const walk_block *block, int windows,
                      int groups, int half) {
  const float *upper[MOST_WINDOWS], *lower[MOST_WINDOWS], *w = block->w;
  g16 bias[MOST_GROUPS], before[POSITIONS];
  take_bias(bias, block, groups, half);
  UNROLL_FOR (p, windows) {
    upper[p] = block->x[p];
    lower[p] = block->x[p] + walk->at_step_y;
    UNROLL_FOR (i, POSITIONS)
      UNROLL_FOR (q, groups)
        acc[p][i][q] = bias[q];
  }
  for (int ky = 0; ky < walk->taps_y; ky++, w += walk->w_skip * 16 * groups) {
    for (int64_t left = 0, right = walk->at_step_x; left < walk->run; left++, right++, w += 16 * groups) {
      g16 wv[MOST_GROUPS];
      UNROLL_FOR (q, groups)
        wv[q] = g16_load(w + 16 * q);
      UNROLL_FOR (p, windows)
        UNROLL_FOR (i, POSITIONS) {
          g16 xv = g16_all((i < 2 ? upper : lower)[p][i % 2 ? right : left]);
          UNROLL_FOR (q, groups - half)
            acc[p][i][q] = g16_fma(xv, wv[q], acc[p][i][q]);
          if (half && p % 2)
            acc[p - 1][i][groups - 1] = g16_fma(g16_halves(before[i], xv), wv[groups - 1], acc[p - 1][i][groups - 1]);
          before[i] = xv;
        }
    }
    UNROLL_FOR (p, windows) {
      upper[p] += walk->x_line;
      lower[p] += walk->x_line;
    }
  }
}

/* Behind a pool of side 2: all four positions are summed, then compared. */
G16 void run_four(const conv_walk *walk, const walk_block *block, int windows, int groups, int half) {
  g16 acc[MOST_WINDOWS][POSITIONS][MOST_GROUPS];
  taps_of_four(acc, walk, block, windows, groups, half);
  UNROLL_FOR (p, windows)
    UNROLL_FOR (q, groups) {
      g16 best = acc[p][0][q], taken = g16_zero();
      UNROLL_FOR (i, POSITIONS - 1)
        take_over(&best, &taken, acc[p][i + 1][q], i + 1);
      if (!half || q < groups - 1 || p % 2 == 0)
        put_maxima(walk, block, best, taken, p, q, half && q == groups - 1);
    }
}

typedef void block_fn(const conv_walk *walk, const walk_block *block);

#define BLOCK(kind, pixels, groups)                                                                                    \
  static void kind##_##pixels##x##groups(const conv_walk *walk, const walk_block *block) {                             \
    run_##kind(walk, block, pixels, groups, 0);                                                                        \
  }

#define HALF(kind, pixels, groups)                                                                                     \
  static void half_##kind##_##pixels##x##groups(const conv_walk *walk, const walk_block *block) {                      \
    run_##kind(walk, block, pixels, groups, 1);                                                                        \
  }

/* Each kind's blocks by their size, as far as what a block holds in registers fits: one sum an output, four, or a sum,
 * a maximum and its position. */
/* clang-format off */
#if HD_ISA_IS(avx512)
BLOCK(plain, 1, 1) BLOCK(plain, 2, 1) BLOCK(plain, 3, 1) BLOCK(plain, 4, 1) BLOCK(plain, 5, 1) BLOCK(plain, 6, 1)
BLOCK(plain, 7, 1) BLOCK(plain, 8, 1) BLOCK(plain, 9, 1) BLOCK(plain, 10, 1) BLOCK(plain, 11, 1) BLOCK(plain, 12, 1)
BLOCK(plain, 1, 2) BLOCK(plain, 2, 2) BLOCK(plain, 3, 2) BLOCK(plain, 4, 2) BLOCK(plain, 5, 2) BLOCK(plain, 6, 2)
BLOCK(plain, 7, 2) BLOCK(plain, 8, 2) BLOCK(plain, 9, 2) BLOCK(plain, 10, 2) BLOCK(plain, 11, 2) BLOCK(plain, 12, 2)
BLOCK(plain, 1, 3) BLOCK(plain, 2, 3) BLOCK(plain, 3, 3) BLOCK(plain, 4, 3) BLOCK(plain, 5, 3) BLOCK(plain, 6, 3)
BLOCK(plain, 7, 3) BLOCK(plain, 8, 3)
static block_fn *const plain[MOST_GROUPS][MOST_PIXELS] = {
    {plain_1x1, plain_2x1, plain_3x1, plain_4x1, plain_5x1, plain_6x1, plain_7x1, plain_8x1, plain_9x1, plain_10x1, plain_11x1, plain_12x1},
    {plain_1x2, plain_2x2, plain_3x2, plain_4x2, plain_5x2, plain_6x2, plain_7x2, plain_8x2, plain_9x2, plain_10x2, plain_11x2, plain_12x2},
    {plain_1x3, plain_2x3, plain_3x3, plain_4x3, plain_5x3, plain_6x3, plain_7x3, plain_8x3}};
BLOCK(four, 1, 1) BLOCK(four, 2, 1) BLOCK(four, 3, 1) BLOCK(four, 4, 1) BLOCK(four, 5, 1) BLOCK(four, 6, 1)
BLOCK(four, 1, 2) BLOCK(four, 2, 2) BLOCK(four, 3, 2)
BLOCK(four, 1, 3) BLOCK(four, 2, 3)
static block_fn *const four[MOST_GROUPS][MOST_WINDOWS] = {
    {four_1x1, four_2x1, four_3x1, four_4x1, four_5x1, four_6x1}, {four_1x2, four_2x2, four_3x2}, {four_1x3, four_2x3}};
BLOCK(many, 1, 1) BLOCK(many, 2, 1) BLOCK(many, 3, 1) BLOCK(many, 4, 1)
BLOCK(many, 5, 1) BLOCK(many, 6, 1) BLOCK(many, 7, 1) BLOCK(many, 8, 1)
BLOCK(many, 1, 2) BLOCK(many, 2, 2) BLOCK(many, 3, 2) BLOCK(many, 4, 2)
BLOCK(many, 1, 3) BLOCK(many, 2, 3)
static block_fn *const many[MOST_GROUPS][MOST_PIXELS] = {
    {many_1x1, many_2x1, many_3x1, many_4x1, many_5x1, many_6x1, many_7x1, many_8x1},
    {many_1x2, many_2x2, many_3x2, many_4x2},
    {many_1x3, many_2x3}};
HALF(plain, 2, 1) HALF(plain, 4, 1) HALF(plain, 6, 1) HALF(plain, 8, 1) HALF(plain, 10, 1) HALF(plain, 12, 1)
HALF(plain, 2, 2) HALF(plain, 4, 2) HALF(plain, 6, 2) HALF(plain, 8, 2) HALF(plain, 10, 2) HALF(plain, 12, 2)
HALF(plain, 2, 3) HALF(plain, 4, 3) HALF(plain, 6, 3) HALF(plain, 8, 3)
static block_fn *const half_plain[MOST_GROUPS][MOST_PIXELS / 2] = {
    {half_plain_2x1, half_plain_4x1, half_plain_6x1, half_plain_8x1, half_plain_10x1, half_plain_12x1},
    {half_plain_2x2, half_plain_4x2, half_plain_6x2, half_plain_8x2, half_plain_10x2, half_plain_12x2},
    {half_plain_2x3, half_plain_4x3, half_plain_6x3, half_plain_8x3}};
HALF(four, 2, 1) HALF(four, 4, 1) HALF(four, 6, 1) HALF(four, 2, 2) HALF(four, 4, 2) HALF(four, 2, 3)
static block_fn *const half_four[MOST_GROUPS][MOST_WINDOWS / 2] = {
    {half_four_2x1, half_four_4x1, half_four_6x1}, {half_four_2x2, half_four_4x2}, {half_four_2x3}};
HALF(many, 2, 1) HALF(many, 4, 1) HALF(many, 6, 1) HALF(many, 8, 1) HALF(many, 2, 2) HALF(many, 4, 2) HALF(many, 2, 3)
static block_fn *const half_many[MOST_GROUPS][MOST_PIXELS / 2] = {
    {half_many_2x1, half_many_4x1, half_many_6x1, half_many_8x1}, {half_many_2x2, half_many_4x2}, {half_many_2x3}};
#elif HD_ISA_IS(scalar)
BLOCK(plain, 1, 1) BLOCK(plain, 2, 1)
BLOCK(four, 1, 1)
BLOCK(many, 1, 1)
static block_fn *const plain[MOST_GROUPS][MOST_PIXELS] = {{plain_1x1, plain_2x1}};
static block_fn *const four[MOST_GROUPS][MOST_WINDOWS] = {{four_1x1}};
static block_fn *const many[MOST_GROUPS][MOST_PIXELS] = {{many_1x1}};
HALF(plain, 2, 1) HALF(four, 2, 1) HALF(many, 2, 1)
static block_fn *const half_plain[MOST_GROUPS][MOST_PIXELS / 2] = {{half_plain_2x1}};
static block_fn *const half_four[MOST_GROUPS][MOST_WINDOWS / 2] = {{half_four_2x1}};
static block_fn *const half_many[MOST_GROUPS][MOST_PIXELS / 2] = {{half_many_2x1}};
#else
BLOCK(plain, 1, 1) BLOCK(plain, 2, 1) BLOCK(plain, 3, 1) BLOCK(plain, 4, 1) BLOCK(plain, 5, 1) BLOCK(plain, 6, 1)
BLOCK(four, 1, 1)
BLOCK(many, 1, 1) BLOCK(many, 2, 1)
static block_fn *const plain[MOST_GROUPS][MOST_PIXELS] = {
    {plain_1x1, plain_2x1, plain_3x1, plain_4x1, plain_5x1, plain_6x1}};
static block_fn *const four[MOST_GROUPS][MOST_WINDOWS] = {{four_1x1}};
static block_fn *const many[MOST_GROUPS][MOST_PIXELS] = {{many_1x1, many_2x1}};
HALF(plain, 2, 1) HALF(plain, 4, 1) HALF(plain, 6, 1)
HALF(four, 2, 1)
HALF(many, 2, 1) HALF(many, 4, 1)
static block_fn *const half_plain[MOST_GROUPS][MOST_PIXELS / 2] = {{half_plain_2x1, half_plain_4x1, half_plain_6x1}};
static block_fn *const half_four[MOST_GROUPS][MOST_WINDOWS / 2] = {{half_four_2x1}};
static block_fn *const half_many[MOST_GROUPS][MOST_PIXELS / 2] = {{half_many_2x1, half_many_4x1}};
#endif
/* clang-format on */

/* A walk's blocks by their number of windows, or of pairs of windows; and the largest. */
static block_fn *const *sized_blocks(const conv_walk *walk, int groups, int half, int *most_windows) {
  int held = walk->pool == 1   ? 1
             : walk->pool == 2 ? POSITIONS
                               : 3,
      cap = held == 1           ? MOST_PIXELS
            : held == POSITIONS ? MOST_WINDOWS
                                : MOST_MAXIMA;
  if (half) {
    *most_windows = most(2, least(cap, 2 * (ACC_GROUPS / (held * (2 * groups - 1)))));
    return walk->pool == 1 ? half_plain[groups - 1] : walk->pool == 2 ? half_four[groups - 1] : half_many[groups - 1];
  }
  *most_windows = most(1, least(cap, ACC_GROUPS / (held * groups)));
  return walk->pool == 1 ? plain[groups - 1] : walk->pool == 2 ? four[groups - 1] : many[groups - 1];
}

/* Repeats the previous window where a pair lacks its second. */
static void repeat_window(walk_block *block, int p) {
  block->x[p] = block->x[p - 1];
  block->y[p] = block->y[p - 1];
  block->argmax[p] = block->argmax[p - 1];
}

/* Halves are blended for every product and separated at the end: too expensive for short chains without a pool. */
static int worth_halves(const conv_walk *walk) { return walk->pool > 1 || walk->taps_y * walk->run >= LONG_CHAIN; }

/* All windows for the groups from `first` on, in blocks of nearly equal size. */
static void walk_channels(const conv_walk *walk, int first, int groups) {
  int channel = first * 16, half = walk_is_half(walk->channels, channel + 16 * groups - 16) && worth_halves(walk),
      step = half + 1, size;
  block_fn *const *blocks = sized_blocks(walk, groups, half, &size);
  int64_t left = walk->rows * walk->height * walk->width, steps = (left + step - 1) / step;
  int64_t count = (steps + size / step - 1) / (size / step), larger = steps % count;
  walk_cursor at = {walk->x, walk->y + channel, walk->argmax ? walk->argmax + channel : NULL, 0, 0};
  walk_block block = {.w = walk->w + channel * walk->w_taps + walk->w_first * 16 * groups,
                      .bias = walk->bias ? walk->bias + channel : NULL,
                      .channels = walk->channels - channel};
  for (int64_t b = 0; b < count; b++) {
    int here = (int)(steps / count) + (b < larger), windows = here * step;
    take_windows(&block, &at, walk, left < windows ? (int)left : windows);
    if (left < windows)
      repeat_window(&block, windows - 1);
    left -= windows;
    blocks[here - 1](walk, &block);
  }
}

/* Without a pool the position of every maximum is 0. */
static void clear_argmax(const conv_walk *walk) {
  for (int64_t r = 0; r < walk->rows; r++)
    for (int wy = 0; wy < walk->height; wy++)
      for (int wx = 0; wx < walk->width; wx++)
        memset(walk->argmax + r * walk->argmax_stride + wy * walk->y_step_y + wx * walk->y_step_x, 0,
               (size_t)walk->channels);
}

void HD_SYM(conv_walk)(const conv_walk *walk) {
  int groups = up16(walk->channels) / 16;
  if (walk->pool == 1 && walk->argmax)
    clear_argmax(walk);
  for (int first = 0; first < groups; first += walk_block_groups(first, groups))
    walk_channels(walk, first, walk_block_groups(first, groups));
}
