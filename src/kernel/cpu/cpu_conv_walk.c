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

/* The chains' ends. */
G16 g16 ended(const conv_walk *walk, g16 value) {
  value = walk->plus_zero ? g16_add(value, g16_zero()) : value;
  return walk->relu ? g16_relu(value) : value;
}

G16 void put_maximum(const conv_walk *walk, const walk_block *block, g16 best, g16 taken, int p, int q) {
  int count = block->channels - 16 * q;
  g16_store_some(block->y[p] + 16 * q, ended(walk, best), count);
  if (block->argmax[p])
    g16_to_bytes(block->argmax[p] + 16 * q, taken, count);
}

/* A block without a pool; pixels and groups are constants where this is inlined. */
G16 void run_plain(const conv_walk *walk, const walk_block *block, int pixels, int groups) {
  g16 acc[MOST_PIXELS][MOST_GROUPS];
  taps(acc, walk, block, 0, pixels, groups);
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
      UNROLL_FOR (q, groups)
        g16_store_some(block->y[p] + 16 * q, acc[p][q], block->channels - 16 * q);
}

/* Behind a pool of any side, position after position. */
G16 void run_many(const conv_walk *walk, const walk_block *block, int pixels, int groups) {
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
      put_maximum(walk, block, best[p][q], taken[p][q], p, q);
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

/* Behind a pool of side 2: nothing but sums while weights go by. */
G16 void run_four(const conv_walk *walk, const walk_block *block, int windows, int groups) {
  g16 acc[MOST_WINDOWS][POSITIONS][MOST_GROUPS];
  taps_of_four(acc, walk, block, windows, groups);
  UNROLL_FOR (p, windows)
    UNROLL_FOR (q, groups) {
      g16 best = acc[p][0][q], taken = g16_zero();
      UNROLL_FOR (i, POSITIONS - 1)
        take_over(&best, &taken, acc[p][i + 1][q], i + 1);
      put_maximum(walk, block, best, taken, p, q);
    }
}

typedef void block_fn(const conv_walk *walk, const walk_block *block);

#define BLOCK(kind, pixels, groups)                                                                                    \
  static void kind##_##pixels##x##groups(const conv_walk *walk, const walk_block *block) {                             \
    run_##kind(walk, block, pixels, groups);                                                                           \
  }

/* Each kind's blocks by their size, as far as what a block holds in registers fits: one sum an output, four, or a sum, a
 * maximum and its position. */
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
#elif HD_ISA_IS(scalar)
BLOCK(plain, 1, 1) BLOCK(plain, 2, 1)
BLOCK(four, 1, 1)
BLOCK(many, 1, 1)
static block_fn *const plain[MOST_GROUPS][MOST_PIXELS] = {{plain_1x1, plain_2x1}};
static block_fn *const four[MOST_GROUPS][MOST_WINDOWS] = {{four_1x1}};
static block_fn *const many[MOST_GROUPS][MOST_PIXELS] = {{many_1x1}};
#else
BLOCK(plain, 1, 1) BLOCK(plain, 2, 1) BLOCK(plain, 3, 1) BLOCK(plain, 4, 1) BLOCK(plain, 5, 1) BLOCK(plain, 6, 1)
BLOCK(four, 1, 1)
BLOCK(many, 1, 1) BLOCK(many, 2, 1)
static block_fn *const plain[MOST_GROUPS][MOST_PIXELS] = {
    {plain_1x1, plain_2x1, plain_3x1, plain_4x1, plain_5x1, plain_6x1}};
static block_fn *const four[MOST_GROUPS][MOST_WINDOWS] = {{four_1x1}};
static block_fn *const many[MOST_GROUPS][MOST_PIXELS] = {{many_1x1, many_2x1}};
#endif
/* clang-format on */

/* A walk's blocks by their number of windows, and the largest. */
static block_fn *const *sized_blocks(const conv_walk *walk, int groups, int *most_windows) {
  int held = walk->pool == 1 ? 1 : walk->pool == 2 ? POSITIONS : 3;
  *most_windows = most(1, least(MOST_PIXELS, ACC_GROUPS / (held * groups)));
  return walk->pool == 1 ? plain[groups - 1] : walk->pool == 2 ? four[groups - 1] : many[groups - 1];
}

/* All windows for the groups from `first` on, in blocks of nearly equal size. */
static void walk_channels(const conv_walk *walk, int first, int groups) {
  int pixels;
  block_fn *const *blocks = sized_blocks(walk, groups, &pixels);
  int64_t windows = walk->rows * walk->height * walk->width, count = (windows + pixels - 1) / pixels;
  int64_t size = windows / count, larger = windows % count;
  int channel = first * 16;
  walk_cursor at = {walk->x, walk->y + channel, walk->argmax ? walk->argmax + channel : NULL, 0, 0};
  walk_block block = {.w = walk->w + (int64_t)channel * walk->taps_y * walk->run,
                      .bias = walk->bias ? walk->bias + channel : NULL,
                      .channels = walk->channels - channel};
  for (int64_t b = 0; b < count; b++) {
    int here = (int)(b < larger ? size + 1 : size);
    take_windows(&block, &at, walk, here);
    blocks[here - 1](walk, &block);
  }
}

/* Without a pool every maximum is its only position's. */
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
