/* shifted_linear forward: products with zeros of x are left out.
 *
 * Vectors lie over outputs, since a sum of which products are left out is one chain. A panel of up to MOST_GROUPS
 * groups of outputs runs over a block of inputs at a time. Their weights are transposed first, so that an input's
 * weights are neighbours, and stay in a near cache for all samples; chains are stored between two blocks. The inputs of
 * a sample that are not zero are bits of a mask; blocks without many zeros are computed several at a time, as a product
 * of matrices is: some samples by some groups in registers. */
#include <stdbool.h>

#include "kernel/cpu/blocks.h"
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"
#include "op/shifted_linear/shifted_linear_cpu.h"

enum { MOST_GROUPS = 4, MOST_OUTPUTS = 16 * MOST_GROUPS, BLOCK = 64, SAMPLES = 256, KNOWN_BLOCKS = 16 };
enum { ROWS = SHIFTED_ROWS, GROUPS = SHIFTED_GROUPS, RUN = SHIFTED_RUN };
_Static_assert((int)GROUPS == 1 || (int)GROUPS == (int)MOST_GROUPS, "a panel is divided evenly");

/* The inputs of a block that are not zero: of any sample, of each; whether they are so many that all are computed. */
typedef struct block_live {
  uint64_t any, of[SAMPLES];
  bool dense;
} block_live;

/* Some outputs of some samples. */
typedef struct panel {
  const hd_call *call;
  int j, outputs, groups; /* the first output, their number, their groups */
  int samples;
  const float *x; /* the first sample */
  int64_t x_stride;
  int known;                         /* blocks whose live inputs the panel before has found */
  block_live live[KNOWN_BLOCKS + 1]; /* the last one: of any later block */
  bool begun;                        /* the chains are in `chain`, else they are `first` */
  _Alignas(64) float first[MOST_OUTPUTS];
  _Alignas(64) float w[RUN * BLOCK * MOST_OUTPUTS]; /* [input][output] of some blocks */
  float chain[SAMPLES][MOST_OUTPUTS];
} panel;

G16 void load(g16 *acc, const float *from, int groups) {
  UNROLL_FOR (g, groups)
    acc[g] = g16_load(from + 16 * g);
}

G16 void store(float *to, const g16 *acc, int groups) {
  UNROLL_FOR (g, groups)
    g16_store(to + 16 * g, acc[g]);
}

/* The inputs k to k + count - 1 of a sample that are not zero. */
G16 uint64_t live_inputs(const float *x, int count) {
  uint64_t live = 0;
  UNROLL
  for (int i = 0; i < count; i += 16)
    live |= (uint64_t)g16_nonzero(g16_load_some(x + i, count - i)) << i;
  return live;
}

static int block_inputs(const panel *p, int block) {
  const int left = p->call->g->ci - block * BLOCK;
  return left < BLOCK ? left : BLOCK;
}

static const block_live *live_of(panel *p, int block) {
  const int count = block_inputs(p, block);
  block_live *l = &p->live[block < KNOWN_BLOCKS ? block : KNOWN_BLOCKS];
  int products = 0;
  if (block < p->known)
    return l;
  l->any = 0;
  for (int n = 0; n < p->samples; n++) {
    const float *x = p->x + n * p->x_stride + block * BLOCK;
    l->of[n] = count == BLOCK ? live_inputs(x, BLOCK) : live_inputs(x, count);
    l->any |= l->of[n];
    products += __builtin_popcountll(l->of[n]);
  }
  l->dense = products * 4 > p->samples * count * 3;
  if (block < KNOWN_BLOCKS)
    p->known = block + 1;
  return l;
}

/* Weights of the inputs k to k + count - 1 behind `to`, sixteen at a time if one of them is in `live`. */
static void transpose_weights(panel *p, float *to, int k, int count, uint64_t live) {
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
        g16_store(to + (i + r) * width + j, square[r]);
    }
}

/* The number of groups is a constant where this is inlined, and below. */
G16 void skip_zeros(panel *p, int n, int k, uint64_t live, int groups) {
  const float *x = p->x + n * p->x_stride + k;
  g16 acc[MOST_GROUPS];
  load(acc, p->chain[n], groups);
  for (; live; live &= live - 1) {
    const int i = __builtin_ctzll(live);
    const g16 xv = g16_all(x[i]);
    UNROLL_FOR (g, groups)
      acc[g] = g16_fma(xv, g16_load(p->w + (i * groups + g) * 16), acc[g]);
  }
  store(p->chain[n], acc, groups);
}

/* The inputs whose weights are in a panel's w. */
typedef struct input_range {
  int k, count;
} input_range;

/* Samples n to n + rows - 1, GROUPS groups from group g on, or all. All numbers but this one are constants, too. */
G16 void take_some(panel *p, int n, input_range in, int rows, int g, int groups) {
  const int now = groups < GROUPS ? groups : GROUPS;
  const float *x = p->x + n * p->x_stride + in.k, *w = p->w + 16 * g;
  g16 acc[ROWS][GROUPS];
  UNROLL_FOR (r, rows)
    load(acc[r], (p->begun ? p->chain[n + r] : p->first) + 16 * g, now);
  for (int i = 0; i < in.count; i++, w += 16 * groups) {
    g16 wv[GROUPS];
    UNROLL_FOR (v, now)
      wv[v] = g16_held(g16_load(w + 16 * v));
    UNROLL_FOR (r, rows) {
      const g16 xv = g16_all(x[r * p->x_stride + i]);
      UNROLL_FOR (v, now)
        acc[r][v] = g16_fma(xv, wv[v], acc[r][v]);
    }
  }
  UNROLL_FOR (r, rows)
    store(p->chain[n + r] + 16 * g, acc[r], now);
}

G16 void take_rows(panel *p, int n, input_range in, int rows, int groups) {
  for (int g = 0; g < groups; g += GROUPS)
    take_some(p, n, in, rows, g, groups);
}

#define TAKE_ROWS(rows)                                                                                                \
  case rows:                                                                                                           \
    if (rows <= ROWS)                                                                                                  \
      take_rows(p, n, in, rows, groups);                                                                               \
    break

/* All products of all samples, in blocks as even as they can be. */
G16 void take_all(panel *p, input_range in, int groups) {
  int n = 0;
  for (int blocks = (p->samples + ROWS - 1) / ROWS; blocks > 0; blocks--) {
    const int rows = (p->samples - n + blocks - 1) / blocks;
    switch (rows) { CASES_6(TAKE_ROWS) }
    n += rows;
  }
  p->begun = true;
}

static void begin(panel *p) {
  for (int n = 0; n < p->samples && !p->begun; n++)
    memcpy(p->chain[n], p->first, (size_t)p->groups * 16 * sizeof *p->first);
  p->begun = true;
}

/* All inputs of all samples. */
G16 void run_inputs(panel *p, int groups) {
  const int blocks = (p->call->g->ci + BLOCK - 1) / BLOCK;
  for (int block = 0, next; block < blocks; block = next) {
    int count = 0;
    for (next = block; next < blocks && next < block + RUN && live_of(p, next)->dense; next++) {
      transpose_weights(p, p->w + count * 16 * groups, next * BLOCK, block_inputs(p, next), ~(uint64_t)0);
      count += block_inputs(p, next);
    }
    if (next > block) {
      take_all(p, (input_range){block * BLOCK, count}, groups);
      continue;
    }
    const block_live *live = live_of(p, next++);
    begin(p);
    transpose_weights(p, p->w, block * BLOCK, block_inputs(p, block), live->any);
    for (int n = 0; n < p->samples; n++)
      if (live->of[n])
        skip_zeros(p, n, block * BLOCK, live->of[n], groups);
  }
}

/* Not inlined: each has the registers to itself. */
#define RUN_INPUTS(groups)                                                                                             \
  static __attribute__((noinline)) void run_inputs_##groups(panel *p) { run_inputs(p, groups); }
RUN_INPUTS(1)
RUN_INPUTS(2)
RUN_INPUTS(3)
RUN_INPUTS(4)
static void (*const run_inputs_of[MOST_GROUPS + 1])(panel *) = {NULL, run_inputs_1, run_inputs_2, run_inputs_3,
                                                                run_inputs_4};

/* Of four outputs: 16 chains over k of s + w[k], and the tree. */
static void sums_of(float *to, const float *w, int inputs, int outputs) {
  g16 sum[4] = {g16_zero(), g16_zero(), g16_zero(), g16_zero()};
  const float *row[4];
  for (int j = 0; j < 4; j++)
    row[j] = w + (int64_t)(j < outputs ? j : 0) * inputs;
  for (int k = 0; k < inputs; k += 16)
    UNROLL_FOR (j, 4)
      sum[j] = g16_keep_tail(sum[j], g16_add(sum[j], g16_load_some(row[j] + k, inputs - k)), inputs - k);
  g16_tree4(to, sum[0], sum[1], sum[2], sum[3]);
}

/* The starts of a panel's chains. */
static void start(panel *p) {
  const hd_geom *g = p->call->g;
  const float *w = (const float *)p->call->in[1] + (int64_t)p->j * g->ci, *bias = p->call->in[2];
  float sum[MOST_OUTPUTS] = {0};
  for (int j = 0; j < p->outputs; j += 4)
    sums_of(sum + j, w + (int64_t)j * g->ci, g->ci, p->outputs - j);
  for (int j = 0; j < p->outputs; j += 16) {
    const g16 constant = bias ? g16_load_some(bias + p->j + j, p->outputs - j) : g16_zero();
    g16_store(p->first + j, shifted_linear_start16(g->shifted_linear.shift, g16_load(sum + j), constant));
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
  start(p);
  for (int64_t row = 0; row < call->rows; row += SAMPLES) {
    p->samples = call->rows - row < SAMPLES ? (int)(call->rows - row) : SAMPLES;
    p->x = in_row(call, 0, row);
    p->known = call->rows <= SAMPLES ? p->known : 0;
    p->begun = false;
    run_inputs_of[p->groups](p);
    for (int n = 0; n < p->samples; n++)
      finish((float *)out_row(call, 0, row + n) + p->j, p->chain[n], p->outputs, call->g->relu);
  }
}

static void shifted_linear_outputs(const hd_call *call, int32_t j0, int32_t j1) {
  panel p;
  p.call = call;
  p.x_stride = call->in_stride[0];
  p.known = 0;
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
