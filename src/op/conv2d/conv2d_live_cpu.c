/* Finds the live gradients behind a pool, and sums a few scaled patches, the inner loop of the weight's gradient: sum
 * += g * x for each live entry of a list.
 *
 * A patch is `rows` lines of whole groups. It is cut into blocks whose sums stay in registers while the list is
 * read, once for each block. Order: per element, entries as listed: acc = fma(g, x, acc). */
#include "op/conv2d/conv2d_live_cpu.h"

void HD_SYM(conv_mark_live)(uint64_t *bits, const hd_call *call, int64_t n, int part) {
  const hd_geom *g = call->g;
  const float *dy = in_row(call, 0, n);
  const uint8_t *argmax = (const uint8_t *)call->in[2] + n * call->in_stride[2];
  const int words = words_of(g, part), line = g->wp * g->conv.pool * words;
  for (int wy = 0; wy < g->hp; wy++, bits += (g->conv.pool - 1) * line)
    for (int wx = 0; wx < g->wp; wx++, dy += g->co, argmax += g->co, bits += g->conv.pool * words)
      for (int c = 0, k = 0; c < g->co; c += part, k++) {
        const int count = least(part, g->co - c);
        const uint64_t live = bits_nonzero(dy + c, count);
        for (int py = 0, p = 0; py < g->conv.pool; py++)
          for (int px = 0; px < g->conv.pool; px++, p++)
            bits[py * line + px * words + k] = live & bits_equal(argmax + c, count, p);
      }
}

typedef void block_fn(float *sum, int64_t sum_line, const conv_list *list, const float *x, int64_t x_line);

/* lines and across are constants where this is inlined. */
G16 void add_block(float *sum, int64_t sum_line, const conv_list *list, const float *x, int64_t x_line, int lines,
                   int across) {
  g16 acc[LIVE_LINES][LIVE_ACROSS];
  UNROLL_FOR (r, lines)
    UNROLL_FOR (q, across)
      acc[r][q] = g16_load(sum + r * sum_line + 16 * q);
  for (int e = 0; e < list->count; e++) {
    const float *patch = x + list->at[e];
    g16 by = g16_all(list->by[e]);
    UNROLL_FOR (r, lines)
      UNROLL_FOR (q, across)
        acc[r][q] = g16_fma(by, g16_load(patch + r * x_line + 16 * q), acc[r][q]);
  }
  UNROLL_FOR (r, lines)
    UNROLL_FOR (q, across)
      g16_store(sum + r * sum_line + 16 * q, acc[r][q]);
}

#define FITS LIVE_FITS
#define BLOCK(across, lines)                                                                                           \
  static void block_##across##x##lines(float *sum, int64_t sum_line, const conv_list *list, const float *x,            \
                                       int64_t x_line) {                                                               \
    if (FITS(across, lines))                                                                                           \
      add_block(sum, sum_line, list, x, x_line, lines, across);                                                        \
  }
BLOCK_TABLE(block_fn)

void HD_SYM(conv_add_live)(float *sum, int64_t sum_line, const conv_list *list, const float *x, int64_t x_line,
                           const conv_cut *cut) {
  for (int row = 0; row < cut->rows; row += cut->lines)
    for (int group = 0; group < cut->groups; group += cut->across) {
      block_fn *block = blocks[least(cut->lines, cut->rows - row) - 1][least(cut->across, cut->groups - group) - 1];
      block(sum + row * sum_line + 16 * group, sum_line, list, x + row * x_line + 16 * group, x_line);
    }
}

void HD_SYM(conv_finish_sums)(float *out, const float *sum, int64_t count) {
  for (int64_t i = 0; i < count; i += 16)
    g16_store_some(out + i, g16_add(g16_load_some(sum + i, count - i), g16_zero()), count - i);
}
