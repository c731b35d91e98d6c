/* The speed of the linear layer, the loss, reductions and optimizers on one core, by instruction set.
 *
 *     bench_linear [ISA ...]     default: every set this CPU has, reference left out
 *
 * Each line is one call on data that stays where a training step would find it: weights in the second-level cache,
 * tiles in the first. Reported are the best time of many runs, the rate, and the share of the limit measured on this
 * core at the same time: FMA in registers for what multiplies, a plain copy of the same size for what only moves. Pin
 * it to a core; other load on the machine shows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernel/kernel.h"
#include "platform/clock.h"
#include "platform/fpmode.h"
#include "reduce/reduction_tree.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { REPEATS = 40 };
static const double RUN_S = 0.0005; /* one timed run is long enough for the clock */

typedef void work_fn(void *self);

/* Seconds of one call: the best of REPEATS runs. */
static double time_of(work_fn *work, void *self) {
  double best = 1e30;
  long calls = 1;
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    double start = hd__clock_s(), spent;
    for (long i = 0; i < calls; i++)
      work(self);
    spent = hd__clock_s() - start;
    if (spent < RUN_S && repeat < 8)
      calls = calls * 2, repeat = 0;
    else if (spent / (double)calls < best)
      best = spent / (double)calls;
  }
  return best;
}

/* ---- limits ---- */

enum { PEAK_LOOPS = 4096, PEAK_CHAINS = 12 };
static volatile float sink;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void fma_avx512(void *self) {
  (void)self;
  __m512 acc[PEAK_CHAINS], one = _mm512_set1_ps(1), tiny = _mm512_set1_ps(1e-9f);
#pragma GCC unroll 12
  for (int c = 0; c < PEAK_CHAINS; c++)
    acc[c] = one;
  for (int i = 0; i < PEAK_LOOPS; i++)
#pragma GCC unroll 12
    for (int c = 0; c < PEAK_CHAINS; c++) {
      acc[c] = _mm512_fmadd_ps(acc[c], one, tiny);
      __asm__ volatile("" : "+v"(acc[c]));
    }
#pragma GCC unroll 12
  for (int c = 0; c < PEAK_CHAINS; c++)
    sink = _mm512_cvtss_f32(acc[c]);
}

__attribute__((target("avx2,fma"))) static void fma_avx2(void *self) {
  (void)self;
  __m256 acc[PEAK_CHAINS], one = _mm256_set1_ps(1), tiny = _mm256_set1_ps(1e-9f);
#pragma GCC unroll 12
  for (int c = 0; c < PEAK_CHAINS; c++)
    acc[c] = one;
  for (int i = 0; i < PEAK_LOOPS; i++)
#pragma GCC unroll 12
    for (int c = 0; c < PEAK_CHAINS; c++) {
      acc[c] = _mm256_fmadd_ps(acc[c], one, tiny);
      __asm__ volatile("" : "+v"(acc[c]));
    }
#pragma GCC unroll 12
  for (int c = 0; c < PEAK_CHAINS; c++)
    sink = _mm256_cvtss_f32(acc[c]);
}
#endif

/* GFLOP/s of FMA in registers, 0 where this file cannot measure it. */
static double peak_gflops(const char *isa) {
#if defined(__x86_64__)
  double flops = 2.0 * PEAK_LOOPS * PEAK_CHAINS;
  if (!strcmp(isa, "avx512"))
    return 16 * flops / time_of(fma_avx512, NULL) * 1e-9;
  if (!strcmp(isa, "avx2"))
    return 8 * flops / time_of(fma_avx2, NULL) * 1e-9;
#endif
  (void)isa;
  return 0;
}

static float *floats(int64_t count, float scale) {
  const size_t large = 2 << 20, line = (size_t)count * 4 < large ? 64 : large, bytes = (size_t)count * 4;
  float *p = aligned_alloc(line, (bytes + line - 1) / line * line);
  if (!p)
    exit(1);
  if (line == large)
    madvise(p, bytes, MADV_HUGEPAGE); /* as a run's weights are */
  for (int64_t i = 0; i < count; i++)
    p[i] = scale * ((float)((i * 2654435761u) % 1000) - 500) / 500;
  return p;
}

/* ---- calls over rows ---- */

typedef struct layer {
  const hd_kernels *table;
  hd_op op;
  hd_geom g;
  hd_call call;
} layer;

static void run_layer(void *self) {
  layer *l = self;
  l->table->run[l->op](&l->call);
}

/* The stride of rows of n floats (hd__value_stride). */
static int64_t padded(int64_t n) {
  const int64_t whole = (n + 15) / 16 * 16;
  return whole % 256 ? whole : whole + 16;
}

/* A flat value of `in` elements and one of `out`. */
static hd_geom flat(int32_t in, int32_t out) {
  return (hd_geom){.ci = in,
                   .hi = 1,
                   .wi = 1,
                   .co = out,
                   .ho = 1,
                   .wo = 1,
                   .window = {.kh = 1, .kw = 1, .sh = 1, .sw = 1},
                   .conv = {.pool = 1},
                   .hp = 1,
                   .wp = 1};
}

static void bench_layer(const hd_kernels *table, hd_op op, const char *name, int32_t in, int32_t out, int64_t rows,
                        double peak) {
  layer l = {.table = table, .op = op};
  l.g = flat(in, out);
  float *x = floats(rows * padded(in), 1), *y = floats(rows * padded(out), 1), *w = floats((int64_t)in * out + 16, 1),
        *b = floats(out + 16, 1);
  l.call = (hd_call){.g = &l.g, .rows = rows};
  if (op == HD_OP_linear) {
    l.call.in[0] = x, l.call.in[1] = w, l.call.in[2] = b, l.call.out[0] = y;
    l.call.in_stride[0] = padded(in), l.call.out_stride[0] = padded(out);
  } else if (op == HD_OP_linear_dx) {
    l.call.in[0] = y, l.call.in[1] = w, l.call.out[0] = x;
    l.call.in_stride[0] = padded(out), l.call.out_stride[0] = padded(in);
  } else {
    l.call.in[0] = x, l.call.in[1] = y, l.call.out[0] = w, l.call.out[1] = b;
    l.call.in_stride[0] = padded(in), l.call.in_stride[1] = padded(out);
  }
  double s = time_of(run_layer, &l), gflops = 2e-9 * (double)in * out * (double)rows / s;
  printf("%-8s %-10s %5d -> %-4d %4d rows %9.2f us %8.1f GFLOP/s", table->name, name, in, out, (int)rows, s * 1e6,
         gflops);
  printf(peak > 0 ? " %4.0f %%\n" : "\n", 100 * gflops / peak);
  free(x), free(y), free(w), free(b);
}

static void bench_loss(const hd_kernels *table, int32_t classes, int64_t rows) {
  float *logits = floats(rows * padded(classes), 5), *out = floats(rows * padded(classes), 1);
  int32_t *labels = calloc((size_t)rows, sizeof *labels);
  layer l = {.table = table};
  l.g = (hd_geom){.ci = classes,
                  .hi = 1,
                  .wi = 1,
                  .co = classes,
                  .ho = 1,
                  .wo = 1,
                  .window = {.kh = 1, .kw = 1, .sh = 1, .sw = 1},
                  .conv = {.pool = 1},
                  .hp = 1,
                  .wp = 1,
                  .cross_entropy = {.ignore_index = -1}};
  for (int64_t n = 0; n < rows; n++)
    labels[n] = (int32_t)(n * 7 % classes);
  l.call = (hd_call){
      .g = &l.g, .rows = rows, .in = {logits, labels}, .in_stride = {padded(classes), 1}, .out = {out}, .divisor = 64};
  for (l.op = HD_OP_cross_entropy; l.op <= HD_OP_cross_entropy_dx; l.op++) {
    l.call.out_stride[0] = l.op == HD_OP_cross_entropy ? 1 : padded(classes);
    double s = time_of(run_layer, &l);
    printf("%-8s %-21s %4d classes, %4d rows %9.2f us %8.1f ns a row\n", table->name,
           l.op == HD_OP_cross_entropy ? "cross_entropy" : "cross_entropy_dx", classes, (int)rows, s * 1e6,
           s * 1e9 / (double)rows);
  }
  free(logits), free(out), free(labels);
}

/* ---- the gradient of a linear layer as an owner of chunks forms it: whole rows of the weight, twelve at a time
 * ---- */

enum { TILE_ROWS = 12 };

typedef struct former {
  const hd_kernels *table;
  hd_form f;
  int32_t in, out;
} former;

static void run_form(void *self) {
  former *t = self;
  t->f.k1 = t->in;
  for (int32_t j = 0; j < t->out; j += TILE_ROWS) {
    t->f.j0 = j, t->f.j1 = j + TILE_ROWS < t->out ? j + TILE_ROWS : t->out;
    t->table->form[HD_OP_linear_dw](&t->f);
  }
}

static void bench_form(const hd_kernels *table, int32_t in, int32_t out, int32_t samples, int32_t shards, double peak) {
  hd_geom g = flat(in, out);
  hd_micro_batch part = hd__tree_micro_batch(samples, shards, 1, 0);
  hd_range_plan range;
  hd__tree_range(&range, &part, 0, shards);
  float *x = floats(samples * padded(in), 1), *dy = floats(samples * padded(out), 1),
        *tile = floats((int64_t)TILE_ROWS * in, 0);
  former t = {.table = table, .in = in, .out = out};
  t.f = (hd_form){.g = &g,
                  .x = x,
                  .dy = dy,
                  .x_stride = padded(in),
                  .dy_stride = padded(out),
                  .reduction = &range.pushes,
                  .out = tile,
                  .out_ld = in};
  double s = time_of(run_form, &t), gflops = 2e-9 * (double)in * out * samples / s;
  printf("%-8s %-10s %5d -> %-4d %4d rows, %2d shards %9.2f us %8.1f GFLOP/s", table->name, "form", in, out, samples,
         shards, s * 1e6, gflops);
  printf(peak > 0 ? " %4.0f %%\n" : "\n", 100 * gflops / peak);
  free(x), free(dy), free(tile);
}

/* ---- updates and reductions, against a copy that moves as many bytes ---- */

typedef struct mover {
  const hd_kernels *table;
  hd_op op;
  hd_update u;
  hd_hyper h;
  hd_reduction reduction;
  const float *term[HD_MAX_SHARDS];
  float *from, *to;
  size_t bytes;
} mover;

static void run_update(void *self) {
  mover *m = self;
  m->table->update[m->op](&m->u);
}

static void run_reduction(void *self) {
  mover *m = self;
  m->table->reduce(m->to, m->term, &m->reduction, m->u.count);
}

static void run_copy(void *self) {
  mover *m = self;
  memcpy(m->to, m->from, m->bytes / 2);
  __asm__ volatile("" : : "r"(m->to) : "memory");
}

static void report_mover(mover *m, work_fn *work, const char *name) {
  m->from = floats((int64_t)m->bytes / 8 + 16, 1);
  float *out = m->to, *copy = floats((int64_t)m->bytes / 8 + 16, 1);
  double s = time_of(work, m);
  m->to = copy;
  double limit = time_of(run_copy, m);
  m->to = out;
  printf("%-8s %-10s %8d elements %10.2f us %8.1f GB/s; a copy of as many bytes %8.2f us\n", m->table->name, name,
         (int)m->u.count, s * 1e6, 1e-9 * (double)m->bytes / s, limit * 1e6);
  free(m->from), free(copy);
}

static void bench_update(const hd_kernels *table, hd_op op, const char *name, int64_t count, int state) {
  float *p[7];
  for (int i = 0; i < 7; i++)
    p[i] = floats(count, i == 3 ? 0 : 0.1f);
  mover m = {.table = table, .op = op, .bytes = (size_t)count * 4 * (op == HD_OP_sgd ? (state ? 5 : 3) : 7)};
  m.h = (hd_hyper){.grad_scale = 1,
                   .lr = 0.001f,
                   .decay_keep = 0.99999f,
                   .momentum = 0.9f,
                   .beta2 = 0.999f,
                   .one_minus_beta1 = 0.1f,
                   .one_minus_beta2 = 0.001f,
                   .eps = 1e-8f,
                   .step_size = 0.001f,
                   .sqrt_bias2 = 1};
  m.u = (hd_update){.g = p[0], .w = p[1], .w1 = p[4], .count = count, .hyper = &m.h};
  if (op != HD_OP_sgd || state)
    m.u.s[0] = p[2], m.u.s1[0] = p[5];
  if (op != HD_OP_sgd)
    m.u.s[1] = p[3], m.u.s1[1] = p[6];
  report_mover(&m, run_update, name);
  for (int i = 0; i < 7; i++)
    free(p[i]);
}

static void bench_reduction(const hd_kernels *table, int64_t count, int32_t shards) {
  hd_micro_batch part = hd__tree_micro_batch(shards, shards, 1, 0);
  hd_range_plan range;
  hd__tree_range(&range, &part, 0, shards);
  mover m = {
      .table = table, .reduction = range.pushes, .to = floats(count, 0), .bytes = (size_t)(count * 4 * (shards + 1))};
  m.u.count = count;
  for (int i = 0; i < shards; i++)
    m.term[i] = floats(count, 1);
  report_mover(&m, run_reduction, "reduce");
  for (int i = 0; i < shards; i++)
    free((void *)m.term[i]);
  free(m.to);
}

static void bench_table(const hd_kernels *table) {
  static const struct {
    int32_t in, out, rows;
  } layers[] = {{1600, 128, 4}, {1600, 128, 8}, {1600, 128, 16}, {1600, 128, 64},  {784, 128, 16},
                {784, 10, 4},   {784, 10, 16},  {784, 10, 64},   {128, 10, 16},    {128, 128, 64},
                {512, 512, 64}, {512, 512, 32}, {2048, 2048, 4}, {2048, 2048, 32}, {2048, 2048, 64}};
  double peak = peak_gflops(table->name);
  printf("%-8s FMA in registers: %.1f GFLOP/s\n", table->name, peak);
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    bench_layer(table, HD_OP_linear, "linear", layers[i].in, layers[i].out, layers[i].rows, peak);
    bench_layer(table, HD_OP_linear_dx, "linear_dx", layers[i].in, layers[i].out, layers[i].rows, peak);
    bench_layer(table, HD_OP_linear_dw, "linear_dw", layers[i].in, layers[i].out, layers[i].rows, peak);
  }
  bench_form(table, 1600, 128, 64, 16, peak);
  bench_form(table, 784, 128, 64, 16, peak);
  bench_form(table, 784, 10, 64, 16, peak);
  bench_form(table, 128, 10, 64, 16, peak);
  bench_form(table, 1600, 128, 256, 16, peak);
  bench_form(table, 128, 128, 64, 16, peak);
  bench_form(table, 512, 512, 64, 16, peak);
  bench_form(table, 2048, 2048, 64, 16, peak);
  bench_loss(table, 10, 64);
  bench_loss(table, 100, 64);
  bench_update(table, HD_OP_sgd, "sgd", 4096, 0);
  bench_update(table, HD_OP_sgd, "momentum", 4096, 1);
  bench_update(table, HD_OP_adam, "adam", 4096, 1);
  bench_update(table, HD_OP_adamw, "adamw", 4096, 1);
  bench_update(table, HD_OP_adamw, "adamw", 225034, 1);
  bench_reduction(table, 4096, 4);
  bench_reduction(table, 4096, 16);
}

int main(int argc, char **argv) {
  static const char *const all[] = {"avx512", "avx2", "neon", "scalar"};
  uint64_t before = hd__fpmode_enter();
  int count = argc > 1 ? argc - 1 : (int)(sizeof all / sizeof *all);
  for (int i = 0; i < count; i++) {
    const hd_kernels *table = hd__kernels_of(argc > 1 ? argv[i + 1] : all[i]);
    if (table)
      bench_table(table);
  }
  hd__fpmode_leave(before);
  return 0;
}
