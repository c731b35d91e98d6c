/* shifted_linear forward: products with zeros of x are left out.
 *
 * Vectors lie over outputs, since a sum of which products are left out is one chain. The packed copy of the weight has
 * panels of up to MOST_GROUPS groups of outputs, in each of which an input's weights are neighbours, and then the sum of
 * every output's weights:
 *
 *     [panel][input][outputs of a panel] [outputs]
 *
 * A panel runs over BLOCK inputs at a time, whose weights stay in the first-level cache for all samples; chains are
 * stored between two blocks. The inputs of a sample that are not zero are bits of a mask; without many zeros a block
 * of samples runs over all inputs, as a product of matrices does. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"
#include "op/shifted_linear/shifted_linear_cpu.h"

enum { MOST_GROUPS = 4, MOST_OUTPUTS = 16 * MOST_GROUPS, BLOCK = 64, SAMPLES = 64 };

/* Samples whose chains fill the registers with those of a panel. */
#if HD_ISA_IS(avx512)
enum { ROWS = 6 };
#else
enum { ROWS = 1 };
#endif

/* Some outputs of some samples. */
typedef struct panel {
  const float *x, *w; /* the first sample; the panel's weights */
  int64_t x_stride;
  int samples, groups;
  float (*chain)[MOST_OUTPUTS]; /* of each sample */
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
G16 void skip_zeros(const panel *p, int n, int k, uint64_t live, int groups) {
  const float *x = p->x + n * p->x_stride + k, *w = p->w + (int64_t)k * 16 * groups;
  g16 acc[MOST_GROUPS];
  load(acc, p->chain[n], groups);
  for (; live; live &= live - 1) {
    const int i = __builtin_ctzll(live);
    multiply(acc, x[i], w + i * 16 * groups, groups);
  }
  store(p->chain[n], acc, groups);
}

/* The number of samples is a constant, too. */
G16 void take_all(const panel *p, int n, int k, int count, int rows, int groups) {
  const float *x = p->x + n * p->x_stride + k, *w = p->w + (int64_t)k * 16 * groups;
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

/* The inputs k to k + count - 1 of all samples. */
G16 void run_block(const panel *p, int k, int count, int groups) {
  uint64_t live[SAMPLES];
  int products = 0, n = 0;
  for (int i = 0; i < p->samples; i++) {
    live[i] = live_inputs(p->x + i * p->x_stride + k, count);
    products += __builtin_popcountll(live[i]);
  }
  if (products * 4 > p->samples * count * 3) {
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
  static __attribute__((noinline)) void run_block_##groups(const panel *p, int k, int count) {                         \
    run_block(p, k, count, groups);                                                                                    \
  }
RUN_BLOCK(1)
RUN_BLOCK(2)
RUN_BLOCK(3)
RUN_BLOCK(4)
static void (*const run_block_of[MOST_GROUPS + 1])(const panel *, int, int) = {NULL, run_block_1, run_block_2,
                                                                               run_block_3, run_block_4};

/* Outputs of a panel. */
static int width_of(const hd_geom *g) { return g->co < MOST_OUTPUTS ? (g->co + 15) / 16 * 16 : MOST_OUTPUTS; }

static int64_t outputs_in_panels(const hd_geom *g) { return (g->co + width_of(g) - 1) / width_of(g) * width_of(g); }

/* Where the packed copy has the sums of weights. */
static int64_t sums_at(const hd_geom *g) { return outputs_in_panels(g) * g->ci; }

/* What the chains of a panel start from, whose first output is j. */
static void start(float *first, const hd_call *call, int j) {
  const hd_geom *g = call->g;
  const float *bias = call->in[2], *sum = call->packed + sums_at(g) + j;
  for (int i = 0; i < width_of(g); i += 16) {
    const g16 constant = bias && j + i < g->co ? g16_load_some(bias + j + i, g->co - j - i) : g16_zero();
    g16_store(first + i, shifted_linear_start16(g->shift, g16_load(sum + i), constant));
  }
}

/* Stores outputs j0 to j1 - 1; the panel starts with output j. */
static void finish(float *y, const float *chain, int j, int j0, int j1, int relu) {
  float out[MOST_OUTPUTS];
  for (int i = 0; j + i < j1; i += 16) {
    const g16 v = g16_add(g16_load(chain + i), g16_zero());
    g16_store(out + i, relu ? g16_relu(v) : v);
  }
  memcpy(y + j0, out + j0 - j, (size_t)(j1 - j0) * sizeof *out);
}

/* The outputs j0 to j1 - 1 of the panel that starts with output j. */
static void run_panel(const hd_call *call, int j, int j0, int j1) {
  _Alignas(64) float first[MOST_OUTPUTS], chain[SAMPLES][MOST_OUTPUTS];
  const int inputs = call->g->ci;
  panel p = {.w = call->packed + (int64_t)j * inputs, .x_stride = call->in_stride[0], .chain = chain};
  p.groups = width_of(call->g) / 16;
  start(first, call, j);
  for (int64_t row = 0; row < call->rows; row += SAMPLES) {
    p.samples = call->rows - row < SAMPLES ? (int)(call->rows - row) : SAMPLES;
    p.x = in_row(call, 0, row);
    for (int n = 0; n < p.samples; n++)
      memcpy(chain[n], first, (size_t)p.groups * 16 * sizeof *first);
    for (int k = 0; k < inputs; k += BLOCK)
      run_block_of[p.groups](&p, k, inputs - k < BLOCK ? inputs - k : BLOCK);
    for (int n = 0; n < p.samples; n++)
      finish(out_row(call, 0, row + n), chain[n], j, j0, j1, call->g->relu);
  }
}

static void shifted_linear_outputs(const hd_call *call, int32_t j0, int32_t j1) {
  const int width = width_of(call->g);
  for (int j = j0 / width * width; j < j1; j += width)
    run_panel(call, j, j < j0 ? j0 : j, j1 < j + width ? j1 : j + width);
}

static void shifted_linear(const hd_call *call) { shifted_linear_outputs(call, 0, call->g->co); }

/* ---- The packed copy ---- */

static int64_t packed_elems(const hd_geom *g) { return sums_at(g) + outputs_in_panels(g); }

/* 16 chains over k of s + w[k], and the tree. */
static float sum_of(const float *w, int inputs) {
  g16 sum = g16_zero();
  for (int k = 0; k < inputs; k += 16)
    sum = g16_keep_tail(sum, g16_add(sum, g16_load_some(w + k, inputs - k)), inputs - k);
  return g16_tree(sum);
}

/* Up to 16 outputs, of one group of a panel. */
static void pack_group(float *to, const float *w, int inputs, int outputs, int width) {
  for (int k = 0; k < inputs; k += 16) {
    g16 square[16];
    for (int j = 0; j < 16; j++)
      square[j] = j < outputs ? g16_load_some(w + (int64_t)j * inputs + k, inputs - k) : g16_zero();
    g16_transpose(square);
    for (int i = 0; i < 16 && k + i < inputs; i++)
      g16_store_some(to + (int64_t)(k + i) * width, square[i], outputs);
  }
}

static void pack(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  const int width = width_of(g);
  for (int32_t j = j0, end; j < j1; j = end) {
    end = (j / 16 + 1) * 16 < j1 ? (j / 16 + 1) * 16 : j1;
    pack_group(packed + (int64_t)(j / width * width) * g->ci + j % width, w + (int64_t)j * g->ci, g->ci, end - j,
               width);
    for (int32_t i = j; i < end; i++)
      packed[sums_at(g) + i] = sum_of(w + (int64_t)i * g->ci, g->ci);
  }
}

void HD_SYM(shifted_linear_fill)(hd_kernels *table) {
  table->run[HD_OP_shifted_linear] = shifted_linear;
  table->run_outputs[HD_OP_shifted_linear] = shifted_linear_outputs;
  table->packed_elems[HD_OP_shifted_linear] = packed_elems;
  table->pack[HD_OP_shifted_linear] = pack;
}
