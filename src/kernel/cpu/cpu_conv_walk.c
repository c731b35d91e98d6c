/* The walk: a register-blocked direct convolution; see cpu_conv.h.
 *
 * A block is `pixels` windows (of one row or several, or of several samples) by `groups` groups of channels: that many
 * accumulators, walked once over all taps for each position of the pool; behind a pool of side 2 a block has all four
 * positions of fewer windows, whose maxima then need no registers meanwhile. Blocks of weights lie outside, windows inside,
 * so a block's weights stay in the nearest caches while windows stream.
 *
 * Order: acc = bias or +0; over the kernel's rows, inside over the row's elements: acc = fma(x, w, acc). Then the
 * maximum over positions, row-major, a later one taken if it is greater or NaN; then + 0 or the ReLU, if asked for.
 * Windows are independent. */
#include "kernel/cpu/cpu_conv.h"

enum {
  MOST_PIXELS = ACC_GROUPS / BLOCK_GROUPS,
  MOST_GROUPS = BLOCK_GROUPS > 1 ? BLOCK_GROUPS + 1 : 1,
  POSITIONS = 4, /* positions of a pool of side 2 */
  MOST_WINDOWS = ACC_GROUPS < POSITIONS ? 1 : ACC_GROUPS / POSITIONS
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
  int64_t row;
  int wy, wx;
} walk_cursor;

static void take_windows(walk_block *block, walk_cursor *at, const conv_walk *walk, int pixels, int channel) {
  for (int p = 0; p < pixels; p++) {
    int64_t out = at->wy * walk->y_step_y + at->wx * walk->y_step_x + channel;
    block->x[p] = walk->x + at->row * walk->x_stride + at->wy * walk->x_step_y + at->wx * walk->x_step_x;
    block->y[p] = walk->y + at->row * walk->y_stride + out;
    block->argmax[p] = walk->argmax ? walk->argmax + at->row * walk->argmax_stride + out : NULL;
    if (++at->wx < walk->width)
      continue;
    at->wx = 0;
    if (++at->wy < walk->height)
      continue;
    at->wy = 0;
    at->row++;
  }
}

/* One position of all windows: acc[p][q] = the whole chain. */
G16 void taps(g16 (*acc)[MOST_GROUPS], const conv_walk *walk, const walk_block *block, int64_t at, int pixels,
              int groups) {
  const float *x[MOST_PIXELS], *w = block->w;
  g16 bias[MOST_GROUPS];
  UNROLL_FOR (q, groups)
    bias[q] = block->bias ? g16_load_some(block->bias + 16 * q, block->channels - 16 * q) : g16_zero();
  UNROLL_FOR (p, pixels) {
    x[p] = block->x[p];
    UNROLL_FOR (q, groups)
      acc[p][q] = bias[q];
  }
  for (int ky = 0; ky < walk->taps_y; ky++, at += walk->x_line)
    for (int64_t i = at; i < at + walk->run; i++, w += 16 * groups) {
      g16 wv[MOST_GROUPS];
      UNROLL_FOR (q, groups)
        wv[q] = g16_load(w + 16 * q);
      UNROLL_FOR (p, pixels) {
        g16 xv = g16_all(x[p][i]);
        UNROLL_FOR (q, groups)
          acc[p][q] = g16_fma(xv, wv[q], acc[p][q]);
      }
    }
}

/* The maximum's rule. */
G16 void take_over(g16 *best, g16 *taken, g16 later, int position) {
  g16_mask over = g16_or(g16_less(*best, later), g16_nan(later));
  *best = g16_choose(over, later, *best);
  *taken = g16_choose(over, g16_all((float)position), *taken);
}

G16 void finish(const conv_walk *walk, const walk_block *block, g16 best, g16 taken, int p, int q) {
  int count = block->channels - 16 * q;
  best = walk->plus_zero ? g16_add(best, g16_zero()) : best;
  g16_store_some(block->y[p] + 16 * q, walk->relu ? g16_relu(best) : best, count);
  if (block->argmax[p])
    g16_to_bytes(block->argmax[p] + 16 * q, taken, count);
}

/* All positions of a block's windows; pixels and groups are constants where this is inlined. */
G16 void run_block(const conv_walk *walk, const walk_block *block, int pixels, int groups) {
  g16 best[MOST_PIXELS][MOST_GROUPS], taken[MOST_PIXELS][MOST_GROUPS], acc[MOST_PIXELS][MOST_GROUPS];
  taps(best, walk, block, 0, pixels, groups);
  UNROLL_FOR (p, pixels)
    UNROLL_FOR (q, groups)
      taken[p][q] = g16_zero();
  for (int position = 1; position < walk->pool * walk->pool; position++) {
    int64_t at = position / walk->pool * walk->at_step_y + position % walk->pool * walk->at_step_x;
    taps(acc, walk, block, at, pixels, groups);
    UNROLL_FOR (p, pixels)
      UNROLL_FOR (q, groups)
        take_over(&best[p][q], &taken[p][q], acc[p][q], position);
  }
  UNROLL_FOR (p, pixels)
    UNROLL_FOR (q, groups)
      finish(walk, block, best[p][q], taken[p][q], p, q);
}

/* All four positions' chains of some windows behind a pool of side 2. */
G16 void taps_of_four(g16 (*acc)[POSITIONS][MOST_GROUPS], const conv_walk *walk, const walk_block *block, int windows,
                      int groups) {
  const float *upper[MOST_WINDOWS], *lower[MOST_WINDOWS], *w = block->w;
  g16 bias[MOST_GROUPS];
  UNROLL_FOR (q, groups)
    bias[q] = block->bias ? g16_load_some(block->bias + 16 * q, block->channels - 16 * q) : g16_zero();
  UNROLL_FOR (p, windows) {
    upper[p] = block->x[p];
    lower[p] = block->x[p] + walk->at_step_y;
    UNROLL_FOR (i, POSITIONS)
      UNROLL_FOR (q, groups)
        acc[p][i][q] = bias[q];
  }
  for (int ky = 0; ky < walk->taps_y; ky++) {
    for (int64_t left = 0, right = walk->at_step_x; left < walk->run; left++, right++, w += 16 * groups) {
      g16 wv[MOST_GROUPS];
      UNROLL_FOR (q, groups)
        wv[q] = g16_load(w + 16 * q);
      UNROLL_FOR (p, windows)
        UNROLL_FOR (i, POSITIONS) {
          g16 xv = g16_all((i < 2 ? upper : lower)[p][i % 2 ? right : left]);
          UNROLL_FOR (q, groups)
            acc[p][i][q] = g16_fma(xv, wv[q], acc[p][i][q]);
        }
    }
    UNROLL_FOR (p, windows) {
      upper[p] += walk->x_line;
      lower[p] += walk->x_line;
    }
  }
}

/* As run_block, behind a pool of side 2: nothing but sums while weights go by. */
G16 void run_four(const conv_walk *walk, const walk_block *block, int windows, int groups) {
  g16 acc[MOST_WINDOWS][POSITIONS][MOST_GROUPS];
  taps_of_four(acc, walk, block, windows, groups);
  UNROLL_FOR (p, windows)
    UNROLL_FOR (q, groups) {
      g16 best = acc[p][0][q], taken = g16_zero();
      UNROLL_FOR (i, POSITIONS - 1)
        take_over(&best, &taken, acc[p][i + 1][q], i + 1);
      finish(walk, block, best, taken, p, q);
    }
}

typedef void block_fn(const conv_walk *walk, const walk_block *block);

#define BLOCK(pixels, groups)                                                                                          \
  static void block_##pixels##x##groups(const conv_walk *walk, const walk_block *block) {                              \
    run_block(walk, block, pixels, groups);                                                                            \
  }

#define FOUR(windows, groups)                                                                                          \
  static void four_##windows##x##groups(const conv_walk *walk, const walk_block *block) {                              \
    run_four(walk, block, windows, groups);                                                                            \
  }

/* clang-format off */
#if HD_ISA_IS(avx512)
BLOCK(1, 1) BLOCK(2, 1) BLOCK(3, 1) BLOCK(4, 1) BLOCK(5, 1) BLOCK(6, 1)
BLOCK(7, 1) BLOCK(8, 1) BLOCK(9, 1) BLOCK(10, 1) BLOCK(11, 1) BLOCK(12, 1)
BLOCK(1, 2) BLOCK(2, 2) BLOCK(3, 2) BLOCK(4, 2) BLOCK(5, 2) BLOCK(6, 2)
BLOCK(7, 2) BLOCK(8, 2) BLOCK(9, 2) BLOCK(10, 2) BLOCK(11, 2) BLOCK(12, 2)
BLOCK(1, 3) BLOCK(2, 3) BLOCK(3, 3) BLOCK(4, 3) BLOCK(5, 3) BLOCK(6, 3) BLOCK(7, 3) BLOCK(8, 3)
static block_fn *const blocks[MOST_GROUPS][MOST_PIXELS] = {
    {block_1x1, block_2x1, block_3x1, block_4x1, block_5x1, block_6x1, block_7x1, block_8x1, block_9x1, block_10x1, block_11x1, block_12x1},
    {block_1x2, block_2x2, block_3x2, block_4x2, block_5x2, block_6x2, block_7x2, block_8x2, block_9x2, block_10x2, block_11x2, block_12x2},
    {block_1x3, block_2x3, block_3x3, block_4x3, block_5x3, block_6x3, block_7x3, block_8x3}};
FOUR(1, 1) FOUR(2, 1) FOUR(3, 1) FOUR(4, 1) FOUR(5, 1) FOUR(6, 1)
FOUR(1, 2) FOUR(2, 2) FOUR(3, 2)
FOUR(1, 3) FOUR(2, 3)
static block_fn *const fours[MOST_GROUPS][MOST_WINDOWS] = {
    {four_1x1, four_2x1, four_3x1, four_4x1, four_5x1, four_6x1}, {four_1x2, four_2x2, four_3x2}, {four_1x3, four_2x3}};
#elif HD_ISA_IS(scalar)
BLOCK(1, 1) BLOCK(2, 1)
static block_fn *const blocks[MOST_GROUPS][MOST_PIXELS] = {{block_1x1, block_2x1}};
FOUR(1, 1)
static block_fn *const fours[MOST_GROUPS][MOST_WINDOWS] = {{four_1x1}};
#else
BLOCK(1, 1) BLOCK(2, 1) BLOCK(3, 1) BLOCK(4, 1) BLOCK(5, 1) BLOCK(6, 1)
static block_fn *const blocks[MOST_GROUPS][MOST_PIXELS] = {{block_1x1, block_2x1, block_3x1, block_4x1, block_5x1, block_6x1}};
FOUR(1, 1)
static block_fn *const fours[MOST_GROUPS][MOST_WINDOWS] = {{four_1x1}};
#endif
/* clang-format on */

/* Windows of a block, all of whose sums stay in registers. */
static int block_windows(const conv_walk *walk, int groups) {
  return walk->pool == 2 ? most(1, ACC_GROUPS / (POSITIONS * groups)) : least(MOST_PIXELS, ACC_GROUPS / groups);
}

/* All windows for the groups from `first` on, in blocks of nearly equal size. */
static void walk_channels(const conv_walk *walk, int first, int groups) {
  int pixels = block_windows(walk, groups);
  block_fn *const *sized = walk->pool == 2 ? fours[groups - 1] : blocks[groups - 1];
  int64_t windows = walk->rows * walk->height * walk->width, count = (windows + pixels - 1) / pixels;
  walk_cursor at = {0};
  walk_block block = {.w = walk->w + (int64_t)first * 16 * walk->taps_y * walk->run,
                      .bias = walk->bias ? walk->bias + first * 16 : NULL,
                      .channels = walk->channels - first * 16};
  for (int64_t b = 0; b < count; b++) {
    int size = (int)(windows * (b + 1) / count - windows * b / count);
    take_windows(&block, &at, walk, size, first * 16);
    sized[size - 1](walk, &block);
  }
}

void HD_SYM(conv_walk)(const conv_walk *walk) {
  int groups = up16(walk->channels) / 16;
  for (int first = 0; first < groups; first += walk_block_groups(first, groups))
    walk_channels(walk, first, walk_block_groups(first, groups));
}
