/* shifted_linear forward: products with zeros of x are left out.
 *
 * Vectors lie over outputs, since a sum of which products are left out is one chain. A panel of up to MOST_GROUPS
 * groups of outputs runs over BLOCK inputs at a time. Their weights are transposed first, so that an input's weights
 * are neighbours, and stay in the first-level cache for all samples; chains are stored between two blocks. The inputs
 * of a sample that are not zero are bits of a mask; without many zeros a block of samples runs over all inputs, as a
 * product of matrices does. */
#include <stdbool.h>

#include "kernel/cpu/blocks.h"
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"
#include "op/shifted_linear/shifted_linear_cpu.h"

enum { MOST_GROUPS = 4, MOST_OUTPUTS = 16 * MOST_GROUPS, BLOCK = 64, SAMPLES = 256, ROWS = SHIFTED_ROWS };

/* Some outputs of some samples. */
typedef struct panel {
  const hd_call *call;
  int j, outputs, groups; /* the first output, their number, their groups */
  int samples;
  const float *x; /* the first sample */
  int64_t x_stride;
  _Alignas(64) float w[BLOCK * MOST_OUTPUTS]; /* [input][output] of a block */
  float chain[SAMPLES][MOST_OUTPUTS];
} panel;

G16 void load(g16 *acc, const float *from, int groups) {
  UNROLL
  for (int g = 0; g < groups; g++)
    acc[g] = g16_load(from + 16 * g);
}

G16 void store(float *to, const g16 *acc, int groups) {
  UNROLL
  for (int g = 0; g < groups; g++)
    g16_store(to + 16 * g, acc[g]);
}

G16 void multiply(g16 *acc, float x, const float *w, int groups) {
  const g16 xv = g16_all(x);
  UNROLL
  for (int g = 0; g < groups; g++)
    acc[g] = g16_fma(xv, g16_load(w + 16 * g), acc[g]);
}

/* The inputs k to k + count - 1 of a sample that are not zero. */
G16 uint64_t live_inputs(const float *x, int count) {
  uint64_t live = 0;
  for (int i = 0; i < count; i += 16)
    live |= (uint64_t)g16_nonzero(g16_load_some(x + i, count - i)) << i;
  return live;
}

/* The number of groups is a constant where this is inlined, and below. */
G16 void skip_zeros(panel *p, int n, int k, uint64_t live, int groups) {
  const float *x = p->x + n * p->x_stride + k, *w = p->w;
  g16 acc[MOST_GROUPS];
  load(acc, p->chain[n], groups);
  for (; live; live &= live - 1) {
    const int i = __builtin_ctzll(live);
    multiply(acc, x[i], w + i * 16 * groups, groups);
  }
  store(p->chain[n], acc, groups);
}

/* The number of samples is a constant, too. */
G16 void take_all(panel *p, int n, int k, int count, int rows, int groups) {
  const float *x = p->x + n * p->x_stride + k, *w = p->w;
  g16 acc[ROWS][MOST_GROUPS];
  UNROLL
  for (int r = 0; r < rows; r++)
    load(acc[r], p->chain[n + r], groups);
  for (int i = 0; i < count; i++, w += 16 * groups)
    UNROLL
  for (int r = 0; r < rows; r++)
    multiply(acc[r], x[r * p->x_stride + i], w, groups);
  UNROLL
  for (int r = 0; r < rows; r++)
    store(p->chain[n + r], acc[r], groups);
}

/* Weights of the inputs k to k + count - 1, sixteen at a time if one of them is in `live`. */
static void transpose_weights(panel *p, int k, int count, uint64_t live) {
  const int inputs = p->call->g->ci, width = 16 * p->groups;
  for (int j = 0; j < p->outputs; j += 16)
    for (int i = 0; i < count; i += 16) {
      const float *w = (const float *)p->call->in[1] + (int64_t)(p->j + j) * inputs + k + i;
      g16 square[16];
      if (!(live >> i & 0xffff))
        continue;
      for (int r = 0; r < 16; r++)
        square[r] = j + r < p->outputs ? g16_load_some(w + (int64_t)r * inputs, count - i) : g16_zero();
      g16_transpose(square);
      for (int r = 0; r < 16 && i + r < count; r++)
        g16_store(p->w + (i + r) * width + j, square[r]);
    }
}

/* The inputs k to k + count - 1 of all samples. */
G16 void run_block(panel *p, int k, int count, int groups) {
  uint64_t live[SAMPLES], any = 0;
  int products = 0, n = 0;
  for (int i = 0; i < p->samples; i++) {
    live[i] = live_inputs(p->x + i * p->x_stride + k, count);
    any |= live[i];
    products += __builtin_popcountll(live[i]);
  }
  const bool dense = products * 4 > p->samples * count * 3;
  transpose_weights(p, k, count, dense ? ~(uint64_t)0 : any);
  if (dense) {
    for (; n + ROWS <= p->samples; n += ROWS)
      take_all(p, n, k, count, ROWS, groups);
    for (; n < p->samples; n++)
      take_all(p, n, k, count, 1, groups);
  }
  for (; n < p->samples; n++)
    if (live[n])
      skip_zeros(p, n, k, live[n], groups);
}

/* Not inlined: each has the registers to itself. */
#define RUN_BLOCK(groups)                                                                                              \
  static __attribute__((noinline)) void run_block_##groups(panel *p, int k, int count) {                               \
    run_block(p, k, count, groups);                                                                                    \
  }
RUN_BLOCK(1)
RUN_BLOCK(2)
RUN_BLOCK(3)
RUN_BLOCK(4)
static void (*const run_block_of[MOST_GROUPS + 1])(panel *, int, int) = {NULL, run_block_1, run_block_2, run_block_3,
                                                                         run_block_4};

/* 16 chains over k of s + w[k], and the tree. */
static float sum_of(const float *w, int inputs) {
  g16 sum = g16_zero();
  for (int k = 0; k < inputs; k += 16)
    sum = g16_keep_tail(sum, g16_add(sum, g16_load_some(w + k, inputs - k)), inputs - k);
  return g16_tree(sum);
}

/* The starts of a panel's chains. */
static void start(float first[MOST_OUTPUTS], const panel *p) {
  const hd_geom *g = p->call->g;
  const float *w = (const float *)p->call->in[1] + (int64_t)p->j * g->ci, *bias = p->call->in[2];
  float sum[MOST_OUTPUTS] = {0};
  for (int j = 0; j < p->outputs; j++)
    sum[j] = sum_of(w + (int64_t)j * g->ci, g->ci);
  for (int j = 0; j < p->outputs; j += 16) {
    const g16 constant = bias ? g16_load_some(bias + p->j + j, p->outputs - j) : g16_zero();
    g16_store(first + j, shifted_linear_start16(g->shifted_linear.shift, g16_load(sum + j), constant));
  }
}

static void finish(float *y, const float *chain, int outputs, int relu) {
  for (int j = 0; j < outputs; j += 16) {
    const g16 v = g16_add(g16_load(chain + j), g16_zero());
    g16_store_some(y + j, relu ? g16_relu(v) : v, outputs - j);
  }
}

static void run_panel(panel *p) {
  const hd_call *call = p->call;
  const int inputs = call->g->ci;
  _Alignas(64) float first[MOST_OUTPUTS];
  start(first, p);
  for (int64_t row = 0; row < call->rows; row += SAMPLES) {
    p->samples = call->rows - row < SAMPLES ? (int)(call->rows - row) : SAMPLES;
    p->x = in_row(call, 0, row);
    for (int n = 0; n < p->samples; n++)
      memcpy(p->chain[n], first, (size_t)p->groups * 16 * sizeof *first);
    for (int k = 0; k < inputs; k += BLOCK)
      run_block_of[p->groups](p, k, inputs - k < BLOCK ? inputs - k : BLOCK);
    for (int n = 0; n < p->samples; n++)
      finish((float *)out_row(call, 0, row + n) + p->j, p->chain[n], p->outputs, call->g->relu);
  }
}

static void shifted_linear_outputs(const hd_call *call, int32_t j0, int32_t j1) {
  panel p;
  p.call = call;
  p.x_stride = call->in_stride[0];
  for (p.j = j0; p.j < j1; p.j += p.outputs) {
    p.outputs = j1 - p.j < MOST_OUTPUTS ? j1 - p.j : MOST_OUTPUTS;
    p.groups = (p.outputs + 15) / 16;
    run_panel(&p);
  }
}

static void shifted_linear(const hd_call *call) { shifted_linear_outputs(call, 0, call->g->co); }

void HD_SYM(shifted_linear_fill)(hd_kernels *table) {
  table->run[HD_OP_shifted_linear] = shifted_linear;
  table->run_outputs[HD_OP_shifted_linear] = shifted_linear_outputs;
}
