/* flatten: a transposition in tiles. */
#include "kernel/cpu/cpu_fill.h"

/* y[c][r] = x[r][c] for a matrix of `rows` by `columns`, in tiles whose lines stay in L1 on both sides. */
static void transpose(float *y, const float *x, int64_t rows, int64_t columns) {
  enum { TILE = 16 };
  for (int64_t r0 = 0; r0 < rows; r0 += TILE)
    for (int64_t c0 = 0; c0 < columns; c0 += TILE) {
      const int64_t r1 = r0 + TILE < rows ? r0 + TILE : rows, c1 = c0 + TILE < columns ? c0 + TILE : columns;
      for (int64_t c = c0; c < c1; c++)
        for (int64_t r = r0; r < r1; r++)
          y[c * rows + r] = x[r * columns + c];
    }
}

/* Pixels outside, channels inside: to channels outside. */
static void flatten(const hd_call *call) {
  for (int64_t n = 0; n < call->rows; n++)
    transpose(out_row(call, 0, n), in_row(call, 0, n), pixels_of(call->g), call->g->ci);
}

static void flatten_dx(const hd_call *call) {
  for (int64_t n = 0; n < call->rows; n++)
    transpose(out_row(call, 0, n), in_row(call, 0, n), call->g->ci, pixels_of(call->g));
}

void HD_SYM(flatten_fill)(hd_kernels *table) {
  table->run[HD_OP_flatten] = flatten;
  table->run[HD_OP_flatten_dx] = flatten_dx;
}
