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
  LONG_CHAIN = 64,
  STRIP_ELEMS = 4096 /* half of L1 */
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
  for (int ky = 0; ky < walk->taps_y; ky++, at += walk->x_line, w += walk->w_skip * 16 * groups) {
    int64_t i = at;
    for (int left = walk->runs;; i += walk->x_tap - walk->run) {
      for (const int64_t end = i + walk->run; i < end; i++, w += 16 * groups) {
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
      if (--left == 0)
        break;
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

/* A block without a pool; pixels, groups and half are constants where this is inlined. The lines that it will write are
 * fetched meanwhile. */
G16 void run_plain(const conv_walk *walk, const walk_block *block, int pixels, int groups, int half) {
  g16 acc[MOST_PIXELS][MOST_GROUPS];
  UNROLL_FOR (p, pixels)
    UNROLL_FOR (q, groups)
      __builtin_prefetch(block->y[p] + 16 * q, 1);
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

/* The windows of the largest block: a multiple of `step` for which `held` groups of registers for each output fit. */
#define LARGEST(held, groups, half)                                                                                    \
  ((half) ? AT_LEAST(2, AT_MOST(CAP(held), ACC_GROUPS / ((held) * (2 * (groups)-1)) * 2))                              \
          : AT_LEAST(1, AT_MOST(CAP(held), ACC_GROUPS / ((held) * (groups)))))
#define CAP(held) ((held) == 1 ? MOST_PIXELS : (held) == POSITIONS ? MOST_WINDOWS : MOST_MAXIMA)
#define AT_LEAST(a, b) ((b) < (a) ? (a) : (b))
#define AT_MOST(a, b) ((b) > (a) ? (a) : (b))

/* What a block holds in registers for an output: a sum, four, or a sum, a maximum and its position. Blocks of halves
 * have pairs of windows. */
#define FITS_OF(windows, groups, held, half)                                                                           \
  ((groups) <= MOST_GROUPS && (windows) <= LARGEST(held, groups, half) && (windows) % ((half) + 1) == 0)
#define BLOCK_OF(windows, groups, kind, held, half)                                                                    \
  static void kind##half##_##windows##x##groups(const conv_walk *walk, const walk_block *block) {                      \
    if (FITS_OF(windows, groups, held, half))                                                                          \
      run_##kind(walk, block, windows, groups, half);                                                                  \
  }
#define ENTRY_OF(windows, groups, kind, held, half)                                                                    \
  [(groups)-1][(windows)-1] = FITS_OF(windows, groups, held, half) ? kind##half##_##windows##x##groups : NULL,
EACH_BLOCK(BLOCK_OF, plain, 1, 0)
EACH_BLOCK(BLOCK_OF, plain, 1, 1)
EACH_BLOCK(BLOCK_OF, four, 4, 0)
EACH_BLOCK(BLOCK_OF, four, 4, 1)
EACH_BLOCK(BLOCK_OF, many, 3, 0)
EACH_BLOCK(BLOCK_OF, many, 3, 1)
static block_fn *const blocks[][2][BLOCK_B][BLOCK_A] = {
    {{EACH_BLOCK(ENTRY_OF, plain, 1, 0)}, {EACH_BLOCK(ENTRY_OF, plain, 1, 1)}},
    {{EACH_BLOCK(ENTRY_OF, four, 4, 0)}, {EACH_BLOCK(ENTRY_OF, four, 4, 1)}},
    {{EACH_BLOCK(ENTRY_OF, many, 3, 0)}, {EACH_BLOCK(ENTRY_OF, many, 3, 1)}}};

/* A walk's blocks by their number of windows, and the largest. */
static block_fn *const *sized_blocks(const conv_walk *walk, int groups, int half, int *most_windows) {
  static const int held[] = {1, POSITIONS, 3};
  const int kind = least(walk->pool, 3) - 1;
  *most_windows = LARGEST(held[kind], groups, half);
  return blocks[kind][half][groups - 1];
}

/* Repeats the previous window where a pair lacks its second. */
static void repeat_window(walk_block *block, int p) {
  block->x[p] = block->x[p - 1];
  block->y[p] = block->y[p - 1];
  block->argmax[p] = block->argmax[p - 1];
}

/* Halves are blended for every product and separated at the end: too expensive for short chains without a pool. */
static int worth_halves(const conv_walk *walk) {
  return walk->pool > 1 || walk->taps_y * walk->runs * walk->run >= LONG_CHAIN;
}

/* All windows for the groups from `first` on, in blocks of nearly equal size. */
static void walk_channels(const conv_walk *walk, int first, int groups) {
  int channel = first * 16, half = walk_is_half(walk->channels, channel + 16 * groups - 16) && worth_halves(walk),
      step = half + 1, size;
  if (!half && HD_SYM(conv_walk_is_points)(walk)) {
    HD_SYM(conv_walk_points)(walk, first, groups);
    return;
  }
  block_fn *const *sized = sized_blocks(walk, groups, half, &size);
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
    sized[windows - 1](walk, &block);
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

/* ahead: elements that will be written next, fetched meanwhile; or NULL. */
static void walk_all_channels(const conv_walk *walk, const float *ahead) {
  const int all = up16(walk->channels) / 16;
  for (int first = 0, groups; first < all; first += groups) {
    groups = walk_block_groups(first, all);
    for (int64_t i = walk->rows * walk->height * walk->width * groups; ahead && i > 0; i--, ahead += 16)
      __builtin_prefetch(ahead, 1);
    walk_channels(walk, first, groups);
  }
}

/* Where all weights stay in L1, in strips whose outputs do: samples, or lines of windows of a sample. Each block of
 * channels would else write its part of all pixels, which by then no cache near enough has. */
static void walk_strips(const conv_walk *walk) {
  const int64_t line = (int64_t)walk->width * walk->channels, sample = line * walk->height;
  const int height = (int)(STRIP_ELEMS / line), dense = walk->y_step_y == line;
  conv_walk strip = *walk;
  for (int64_t n = 0; n < walk->rows; n += strip.rows) {
    strip.rows = sample < STRIP_ELEMS ? STRIP_ELEMS / sample : 1;
    strip.rows = strip.rows < walk->rows - n ? strip.rows : walk->rows - n;
    for (int y = 0; y < walk->height; y += strip.height) {
      strip.height = sample < STRIP_ELEMS ? walk->height : least(most(height, 1), walk->height - y);
      strip.x = walk->x + n * walk->x_stride + y * walk->x_step_y;
      strip.y = walk->y + n * walk->y_stride + y * walk->y_step_y;
      strip.argmax = walk->argmax ? walk->argmax + n * walk->argmax_stride + y * walk->y_step_y : NULL;
      walk_all_channels(&strip, dense ? strip.y + strip.rows * strip.height * line : NULL);
    }
  }
}

void HD_SYM(conv_walk)(const conv_walk *walk) {
  const int groups = up16(walk->channels) / 16;
  if (walk->pool == 1 && walk->argmax)
    clear_argmax(walk);
  if (walk_block_groups(0, groups) < groups && walk->w_taps * 16 * groups <= STRIP_ELEMS)
    walk_strips(walk);
  else
    walk_all_channels(walk, NULL);
}
