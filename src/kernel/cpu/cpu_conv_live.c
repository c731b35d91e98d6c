/* Sums of a few scaled patches, the inner loop of the gradients behind a pool: sum += g * x for each live entry of a
 * list.
 *
 * A patch is `rows` lines of whole groups. It is cut into blocks whose sums stay in registers while the list goes by,
 * so the list is read once for each block. Order: per element, entries as listed: acc = fma(g, x, acc). */
#include "kernel/cpu/cpu_conv_live.h"

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

#define BLOCK(lines, across)                                                                                           \
  static void block_##lines##x##across(float *sum, int64_t sum_line, const conv_list *list, const float *x,            \
                                       int64_t x_line) {                                                               \
    add_block(sum, sum_line, list, x, x_line, lines, across);                                                          \
  }

/* blocks[lines - 1][across - 1], as far as lines * across accumulators fit. */
/* clang-format off */
#if HD_ISA_IS(avx512)
BLOCK(1, 1) BLOCK(1, 2) BLOCK(1, 3) BLOCK(1, 4) BLOCK(1, 5) BLOCK(1, 6) BLOCK(1, 7) BLOCK(1, 8)
BLOCK(2, 1) BLOCK(2, 2) BLOCK(2, 3) BLOCK(2, 4) BLOCK(2, 5) BLOCK(2, 6) BLOCK(2, 7) BLOCK(2, 8)
BLOCK(3, 1) BLOCK(3, 2) BLOCK(3, 3) BLOCK(3, 4) BLOCK(3, 5) BLOCK(3, 6) BLOCK(3, 7) BLOCK(3, 8)
BLOCK(4, 1) BLOCK(4, 2) BLOCK(4, 3) BLOCK(4, 4) BLOCK(4, 5) BLOCK(4, 6)
BLOCK(5, 1) BLOCK(5, 2) BLOCK(5, 3) BLOCK(5, 4)
static block_fn *const blocks[LIVE_LINES][LIVE_ACROSS] = {
    {block_1x1, block_1x2, block_1x3, block_1x4, block_1x5, block_1x6, block_1x7, block_1x8},
    {block_2x1, block_2x2, block_2x3, block_2x4, block_2x5, block_2x6, block_2x7, block_2x8},
    {block_3x1, block_3x2, block_3x3, block_3x4, block_3x5, block_3x6, block_3x7, block_3x8},
    {block_4x1, block_4x2, block_4x3, block_4x4, block_4x5, block_4x6},
    {block_5x1, block_5x2, block_5x3, block_5x4}};
#elif HD_ISA_IS(scalar)
BLOCK(1, 1) BLOCK(1, 2) BLOCK(2, 1)
static block_fn *const blocks[LIVE_LINES][LIVE_ACROSS] = {{block_1x1, block_1x2}, {block_2x1}};
#else
BLOCK(1, 1) BLOCK(1, 2) BLOCK(1, 3) BLOCK(1, 4) BLOCK(1, 5) BLOCK(1, 6)
BLOCK(2, 1) BLOCK(2, 2) BLOCK(2, 3)
BLOCK(3, 1) BLOCK(3, 2)
BLOCK(4, 1) BLOCK(5, 1)
static block_fn *const blocks[LIVE_LINES][LIVE_ACROSS] = {
    {block_1x1, block_1x2, block_1x3, block_1x4, block_1x5, block_1x6},
    {block_2x1, block_2x2, block_2x3},
    {block_3x1, block_3x2},
    {block_4x1},
    {block_5x1}};
#endif
/* clang-format on */

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
