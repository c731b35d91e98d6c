/* Kernels that move or combine elements one by one: ReLU, addition, flatten, and their gradients.
 *
 * Each lane computes what the reference computes for its element; results do not depend on its place in a group.
 * ReLU is x < 0 ? 0 : x, so a NaN gets through and -0 stays. Inputs may be the output where the table says in place:
 * every element is read before it is written. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

static int64_t elems(const hd_geom *g) { return (int64_t)g->ci * g->hi * g->wi; }

static const float *input(const hd_call *call, int which, int64_t n) {
  return (const float *)call->in[which] + n * call->in_stride[which];
}

static float *output(const hd_call *call, int64_t n) { return (float *)call->out[0] + n * call->out_stride[0]; }

static void relu(const hd_call *call) {
  const int64_t count = elems(call->g);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = input(call, 0, n);
    float *y = output(call, n);
    for (int64_t i = 0; i < count; i += 16)
      g16_store_some(y + i, g16_relu(g16_load_some(x + i, count - i)), count - i);
  }
}

static void relu_dx(const hd_call *call) {
  const int64_t count = elems(call->g);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = input(call, 0, n), *y = input(call, 1, n);
    float *dx = output(call, n);
    for (int64_t i = 0; i < count; i += 16) {
      g16_mask through = g16_less(g16_zero(), g16_load_some(y + i, count - i));
      g16_store_some(dx + i, g16_choose(through, g16_load_some(dy + i, count - i), g16_zero()), count - i);
    }
  }
}

static void add(const hd_call *call) {
  const int64_t count = elems(call->g);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *a = input(call, 0, n), *b = input(call, 1, n);
    float *y = output(call, n);
    for (int64_t i = 0; i < count; i += 16)
      g16_store_some(y + i, g16_add(g16_load_some(a + i, count - i), g16_load_some(b + i, count - i)), count - i);
  }
}

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

void HD_SYM(pointwise_fill)(hd_kernels *table) {
  table->run[HD_OP_relu] = relu;
  table->run[HD_OP_relu_dx] = relu_dx;
  table->run[HD_OP_add] = add;
  table->run[HD_OP_flatten] = flatten;
  table->run[HD_OP_flatten_dx] = flatten_dx;
}
