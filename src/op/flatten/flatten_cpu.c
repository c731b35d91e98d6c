/* flatten: a transposition in tiles. */
#include "kernel/cpu/cpu_fill.h"

static const float *input(const hd_call *call, int which, int64_t n) {
  return (const float *)call->in[which] + n * call->in_stride[which];
}

static float *output(const hd_call *call, int64_t n) { return (float *)call->out[0] + n * call->out_stride[0]; }

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
    transpose(output(call, n), input(call, 0, n), (int64_t)call->g->hi * call->g->wi, call->g->ci);
}

static void flatten_dx(const hd_call *call) {
  for (int64_t n = 0; n < call->rows; n++)
    transpose(output(call, n), input(call, 0, n), call->g->ci, (int64_t)call->g->hi * call->g->wi);
}

void HD_SYM(flatten_fill)(hd_kernels *table) {
  table->run[HD_OP_flatten] = flatten;
  table->run[HD_OP_flatten_dx] = flatten_dx;
}
