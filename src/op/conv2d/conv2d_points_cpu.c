/* Walks whose windows lie at equal distances and read one run of the input each: linear layers over the places of a
 * text or the pixels of an image, and convolutions over a line.
 *
 * A block is some windows of a sample by some groups of channels, as in conv2d_walk_cpu.c, and its chains are those.
 * Pointers of windows are multiples of one step, and while a block is computed, the lines that it will write and its
 * share of the next block of weights are fetched, a few at a time: products of one or two samples use weights and
 * sums too few times to wait for the third-level cache.
 *
 * Order: acc = bias or +0; over the run: acc = fma(x, w, acc); then + 0 or the ReLU, if set. */
#include "op/conv2d/conv2d_cpu.h"

enum {
  MOST_WINDOWS = ACC_GROUPS / BLOCK_GROUPS,
  MOST_GROUPS = BLOCK_GROUPS > 1 ? BLOCK_GROUPS + 1 : 1,
  STEPS = 16,       /* between two rounds of fetching */
  FETCHED_ROWS = 2, /* windows whose outputs are fetched in a round */
  FEWEST_WINDOWS = 2 * MOST_WINDOWS
};

typedef struct points_block {
  const float *x, *w, *bias;
  float *y;
  int64_t x_step, y_step, run;
  int channels; /* from the block's first on */
  int relu, plus_zero;
  const float *ahead; /* weights to be fetched, so many lines a round */
  int lines;
} points_block;

/* Some steps of all chains. The upper half of the windows has a pointer of its own, so that few registers hold
 * distances. windows and groups are constants where this is inlined. */
G16 void add_steps(g16 (*acc)[MOST_GROUPS], const points_block *b, int64_t at, int64_t steps, int windows, int groups) {
  const int lower = (windows + 1) / 2;
  const int64_t x_step = b->x_step;
  const float *x = b->x + at, *w = b->w + at * 16 * groups, *above = x + lower * x_step;
  for (; steps > 0; steps--, x++, above++, w += 16 * groups) {
    g16 wv[MOST_GROUPS];
    UNROLL_FOR (q, groups)
      wv[q] = g16_load(w + 16 * q);
    UNROLL_FOR (p, windows) {
      const g16 xv = g16_all(p < lower ? x[p * x_step] : above[(p - lower) * x_step]);
      UNROLL_FOR (q, groups)
        acc[p][q] = g16_fma(xv, wv[q], acc[p][q]);
    }
  }
}

G16 void fetch_outputs(const points_block *b, int from, int to, int groups) {
  for (int p = from; p < to; p++)
    UNROLL_FOR (q, groups)
      __builtin_prefetch(b->y + p * b->y_step + 16 * q, 1);
}

G16 void put_sums(const points_block *b, g16 (*acc)[MOST_GROUPS], int windows, int groups) {
  UNROLL_FOR (p, windows)
    UNROLL_FOR (q, groups) {
      acc[p][q] = b->plus_zero ? g16_add(acc[p][q], g16_zero()) : acc[p][q];
      acc[p][q] = b->relu ? g16_relu(acc[p][q]) : acc[p][q];
    }
  if (b->channels >= 16 * groups)
    UNROLL_FOR (p, windows)
      UNROLL_FOR (q, groups)
        g16_store(b->y + p * b->y_step + 16 * q, acc[p][q]);
  else
    UNROLL_FOR (p, windows)
      UNROLL_FOR (q, groups)
        g16_store_some(b->y + p * b->y_step + 16 * q, acc[p][q], b->channels - 16 * q);
}

G16 void run_points(const points_block *b, int windows, int groups) {
  g16 acc[MOST_WINDOWS][MOST_GROUPS];
  const float *ahead = b->ahead;
  const int64_t rounds = b->run / STEPS;
  UNROLL_FOR (q, groups) {
    const g16 bias = b->bias ? g16_load_some(b->bias + 16 * q, b->channels - 16 * q) : g16_zero();
    UNROLL_FOR (p, windows)
      acc[p][q] = bias;
  }
  int fetched = (int)(rounds * FETCHED_ROWS < windows ? windows - rounds * FETCHED_ROWS : 0);
  fetch_outputs(b, 0, fetched, groups);
  for (int64_t round = 0; round < rounds; round++) {
    if (fetched < windows)
      fetch_outputs(b, fetched, least(windows, fetched + FETCHED_ROWS), groups);
    fetched += FETCHED_ROWS;
    for (int line = b->lines; line > 0; line--, ahead += 16)
      __builtin_prefetch(ahead, 0, 2);
    add_steps(acc, b, round * STEPS, STEPS, windows, groups);
  }
  add_steps(acc, b, rounds * STEPS, b->run % STEPS, windows, groups);
  put_sums(b, acc, windows, groups);
}

typedef void block_fn(const points_block *block);

#define FITS(windows, groups)                                                                                          \
  ((groups) <= MOST_GROUPS && (windows) <= MOST_WINDOWS && (windows) * (groups) <= ACC_GROUPS)
#define BLOCK(windows, groups)                                                                                         \
  static void block_##windows##x##groups(const points_block *block) {                                                  \
    if (FITS(windows, groups))                                                                                         \
      run_points(block, windows, groups);                                                                              \
  }
BLOCK_TABLE(block_fn)

int HD_SYM(conv_walk_is_points)(const conv_walk *walk) {
  const int even = walk->height == 1 ||
                   (walk->x_step_y == walk->width * walk->x_step_x && walk->y_step_y == walk->width * walk->y_step_x);
  return even && walk->pool == 1 && walk->taps_y == 1 && walk->runs == 1 &&
         walk->height * walk->width >= FEWEST_WINDOWS;
}

/* The weights behind those of the groups from `first` on are divided among the blocks, in whole lines of each round. */
void HD_SYM(conv_walk_points)(const conv_walk *walk, int first, int groups) {
  const int channel = 16 * first, all = up16(walk->channels) / 16, next = first + groups;
  const int windows = walk->height * walk->width, largest = least(MOST_WINDOWS, ACC_GROUPS / groups);
  const int parts = (windows + largest - 1) / largest;
  const int64_t lines = next < all ? walk->w_taps * walk_block_groups(next, all) : 0;
  const int64_t rounds = walk->rows * parts * (walk->run / STEPS),
                each = rounds > 0 ? (lines + rounds - 1) / rounds : 0;
  points_block b = {.w = walk->w + channel * walk->w_taps + walk->w_first * 16 * groups,
                    .bias = walk->bias ? walk->bias + channel : NULL,
                    .x_step = walk->x_step_x,
                    .y_step = walk->y_step_x,
                    .run = walk->run,
                    .channels = walk->channels - channel,
                    .relu = walk->relu,
                    .plus_zero = walk->plus_zero};
  b.ahead = walk->w + 16 * (int64_t)next * walk->w_taps;
  const float *end = b.ahead + 16 * lines;
  for (int64_t n = 0; n < walk->rows; n++) {
    b.x = walk->x + n * walk->x_stride;
    b.y = walk->y + n * walk->y_stride + channel;
    for (int part = 0, at = 0; part < parts; part++) {
      const int to = (int)((int64_t)windows * (part + 1) / parts);
      b.lines = b.ahead < end ? (int)each : 0;
      blocks[groups - 1][to - at - 1](&b);
      b.ahead += b.run / STEPS * 16 * b.lines;
      b.x += (to - at) * b.x_step;
      b.y += (to - at) * b.y_step;
      at = to;
    }
  }
}
