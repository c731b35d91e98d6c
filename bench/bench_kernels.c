/* Times the convolution and pooling kernels on one core: bench_kernels [ISA [SECONDS [FILTER]]].
 *
 * For each shape and kernel: nanoseconds a sample, and GFLOP/s in two conventions. "dense" counts what a library
 * would compute that ignores the pool (two per multiply-add of the whole map), "executed" what a perfect kernel of
 * this design has to: outputs that some window reads; gradients that are not zero, each at one position of its
 * window. The machine's peak is measured first, by independent chains in registers: "of peak" is executed against
 * it.
 *
 * Gradients are as training sees them: half of them are zero behind a ReLU, none without. The best of several runs
 * is printed, since the machine may be shared. Developers' tool for a list of shapes and for pools, reaches the
 * kernel table directly; any other convolution: heddle bench conv. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel/kernel.h"

/* Of this thread's CPU time: the machine may be shared. */
static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* GFLOP/s of one core with this table's instructions. */
static double peak_of(const hd_kernels *table) {
  double best = 0;
  float sink = 0.5f;
  for (int i = 0; i < 10; i++) {
    double start = seconds_now(), flops = (double)table->chains(&sink, 2000000);
    double rate = 1e-9 * flops / (seconds_now() - start);
    best = rate > best ? rate : best;
  }
  return best;
}

typedef struct shape {
  const char *name;
  int64_t rows;
  hd_geom g;
} shape;

#define CONV(ci_, side, co_, k, s, p, pool_)                                                                           \
  {                                                                                                                    \
    .ci = ci_, .hi = side, .wi = side, .co = co_, .window = {.kh = k, .kw = k, .sh = s, .sw = s, .ph = p, .pw = p},    \
    .conv.pool = pool_, .relu = 1                                                                                      \
  }

/* Padding 1, no ReLU: as before a GELU. */
#define SMOOTH(ci_, side, co_, pool_)                                                                                  \
  {                                                                                                                    \
    .ci = ci_, .hi = side, .wi = side, .co = co_, .window = {.kh = 3, .kw = 3, .sh = 1, .sw = 1, .ph = 1, .pw = 1},    \
    .conv.pool = pool_                                                                                                 \
  }

#define GROUPS(groups_, ci_, side, co_, k, s, p)                                                                       \
  {                                                                                                                    \
    .ci = ci_, .hi = side, .wi = side, .co = co_, .window = {.kh = k, .kw = k, .sh = s, .sw = s, .ph = p, .pw = p},    \
    .conv.groups = groups_, .conv.pool = 1, .relu = 1                                                                  \
  }

/* A transposed convolution. */
#define SPREAD(ci_, side, co_, k, s, p, more)                                                                          \
  {                                                                                                                    \
    .ci = ci_, .hi = side, .wi = side, .co = co_,                                                                      \
    .window = {.kh = k, .kw = k, .sh = s, .sw = s, .ph = p, .pw = p, .transposed = 1},                                 \
    .conv_transpose2d.output_padding = {more, more}, .conv.pool = 1                                                    \
  }

static const shape convs[] = {
    {"cnn conv1: 1x28x28, 32 3x3, pool 2", 8, CONV(1, 28, 32, 3, 1, 0, 2)},
    {"cnn conv2: 32x13x13, 64 3x3, pool 2", 8, CONV(32, 13, 64, 3, 1, 0, 2)},
    {"fastmnist conv1: 1x28x28, 24 5x5, pool 2", 8, CONV(1, 28, 24, 5, 1, 0, 2)},
    {"fastmnist conv2: 24x12x12, 32 3x3, pool 2", 8, CONV(24, 12, 32, 3, 1, 0, 2)},
    {"lenet conv1: 1x28x28, 6 5x5 pad 2, pool 2", 8, CONV(1, 28, 6, 5, 1, 2, 2)},
    {"lenet conv2: 6x14x14, 16 5x5, pool 2", 8, CONV(6, 14, 16, 5, 1, 0, 2)},
    {"rgb: 3x32x32, 32 3x3 pad 1", 4, CONV(3, 32, 32, 3, 1, 1, 1)},
    {"rgb pool: 3x32x32, 32 3x3 pad 1, pool 2", 4, CONV(3, 32, 32, 3, 1, 1, 2)},
    {"64x16x16, 64 3x3 pad 1", 4, CONV(64, 16, 64, 3, 1, 1, 1)},
    {"64x16x16, 128 3x3 pad 1, pool 2", 4, CONV(64, 16, 128, 3, 1, 1, 2)},
    {"64x16x16, 128 3x3 stride 2 pad 1", 4, CONV(64, 16, 128, 3, 2, 1, 1)},
    {"1x28x28, 32 3x3 stride 2", 8, CONV(1, 28, 32, 3, 2, 0, 1)},
    {"32x13x13, 64 3x3 stride 2", 8, CONV(32, 13, 64, 3, 2, 0, 1)},
    {"48x12x12, 48 5x5 pad 2", 4, CONV(48, 12, 48, 5, 1, 2, 1)},
    {"48x12x12, 48 5x5 stride 2", 4, CONV(48, 12, 48, 5, 2, 0, 1)},
    {"128x8x8, 128 3x3 pad 1", 8, CONV(128, 8, 128, 3, 1, 1, 1)},
    {"24x14x14, 48 3x3 pad 1", 8, CONV(24, 14, 48, 3, 1, 1, 1)},
    {"1x28x28, 24 3x3", 4, CONV(1, 28, 24, 3, 1, 0, 1)},
    {"64x14x14, 128 1x1", 8, CONV(64, 14, 128, 1, 1, 0, 1)},
    {"32x28x28, 64 1x1", 4, CONV(32, 28, 64, 1, 1, 0, 1)},
    {"depthwise 32x28x28, 3x3 pad 1", 4, GROUPS(32, 32, 28, 32, 3, 1, 1)},
    {"depthwise 64x14x14, 3x3 pad 1", 8, GROUPS(64, 64, 14, 64, 3, 1, 1)},
    {"depthwise 64x14x14, 3x3 stride 2 pad 1", 8, GROUPS(64, 64, 14, 64, 3, 2, 1)},
    {"depthwise 96x28x28, 5x5 pad 2", 4, GROUPS(96, 96, 28, 96, 5, 1, 2)},
    {"smooth 24x31x31, 64 3x3 pad 1, pool 2", 16, SMOOTH(24, 31, 64, 2)},
    {"smooth 64x15x15, 64 3x3 pad 1", 64, SMOOTH(64, 15, 64, 1)},
    {"smooth 64x15x15, 256 3x3 pad 1, pool 2", 32, SMOOTH(64, 15, 256, 2)},
    {"smooth 256x7x7, 256 3x3 pad 1", 125, SMOOTH(256, 7, 256, 1)},
    {"smooth 256x7x7, 256 3x3 pad 1, pool 2", 125, SMOOTH(256, 7, 256, 2)},
    {"smooth 256x3x3, 256 3x3 pad 1", 125, SMOOTH(256, 3, 256, 1)},
    {"large 3x224x224, 64 7x7 stride 2 pad 3", 2, CONV(3, 224, 64, 7, 2, 3, 1)},
    {"large 64x56x56, 64 3x3 pad 1", 4, SMOOTH(64, 56, 64, 1)},
    {"large 64x56x56, 128 3x3 stride 2 pad 1", 4, CONV(64, 56, 128, 3, 2, 1, 1)},
    {"large 64x56x56, 128 1x1 stride 2", 4, CONV(64, 56, 128, 1, 2, 0, 1)},
    {"large 128x28x28, 128 3x3 pad 1", 8, SMOOTH(128, 28, 128, 1)},
    {"large 128x28x28, 256 3x3 stride 2 pad 1", 8, CONV(128, 28, 256, 3, 2, 1, 1)},
    {"large 256x14x14, 256 3x3 pad 1", 8, SMOOTH(256, 14, 256, 1)},
    {"large 256x14x14, 512 3x3 stride 2 pad 1", 8, CONV(256, 14, 512, 3, 2, 1, 1)},
    {"large 512x7x7, 512 3x3 pad 1", 8, SMOOTH(512, 7, 512, 1)},
    {"64x16x16, 64 3x3 pad 1, groups 4", 4, GROUPS(4, 64, 16, 64, 3, 1, 1)},
    {"transposed 128x16x16, 64 2x2 stride 2", 4, SPREAD(128, 16, 64, 2, 2, 0, 0)},
    {"transposed 512x8x8, 256 2x2 stride 2", 4, SPREAD(512, 8, 256, 2, 2, 0, 0)},
    {"transposed 512x4x4, 256 4x4 stride 2 pad 1", 4, SPREAD(512, 4, 256, 4, 2, 1, 0)},
    {"transposed 128x16x16, 64 4x4 stride 2 pad 1", 4, SPREAD(128, 16, 64, 4, 2, 1, 0)},
    {"transposed 64x32x32, 3 4x4 stride 2 pad 1", 4, SPREAD(64, 32, 3, 4, 2, 1, 0)},
    {"transposed 128x14x14, 64 3x3 stride 2, 1 more", 4, SPREAD(128, 14, 64, 3, 2, 1, 1)},
    {"transposed 100x1x1, 512 4x4", 4, SPREAD(100, 1, 512, 4, 1, 0, 0)},
    {"transposed 72x5x5, 40 5x5 stride 3 pad 2", 4, SPREAD(72, 5, 40, 5, 3, 2, 0)},
};

static const shape pools[] = {
    {"32x26x26, 2x2 stride 2",
     8,
     {.ci = 32, .hi = 26, .wi = 26, .window = {.kh = 2, .kw = 2, .sh = 2, .sw = 2}, .conv = {.pool = 1}}},
    {"64x16x16, 3x3 stride 2 pad 1",
     8,
     {.ci = 64,
      .hi = 16,
      .wi = 16,
      .window = {.kh = 3, .kw = 3, .sh = 2, .sw = 2, .ph = 1, .pw = 1},
      .conv = {.pool = 1}}},
    {"large 64x112x112, 3x3 stride 2 pad 1",
     2,
     {.ci = 64,
      .hi = 112,
      .wi = 112,
      .window = {.kh = 3, .kw = 3, .sh = 2, .sw = 2, .ph = 1, .pw = 1},
      .conv = {.pool = 1}}},
};

static hd_geom finished(hd_geom g) {
  g.co = g.co ? g.co : g.ci;
  g.conv.groups = g.conv.groups ? g.conv.groups : 1;
  g.window.dilation[0] = g.window.dilation[1] = 1;
  if (g.window.transposed) {
    g.ho = (g.hi - 1) * g.window.sh - 2 * g.window.ph + g.window.kh + g.conv_transpose2d.output_padding[0];
    g.wo = (g.wi - 1) * g.window.sw - 2 * g.window.pw + g.window.kw + g.conv_transpose2d.output_padding[1];
  } else {
    g.ho = (g.hi + 2 * g.window.ph - g.window.kh) / g.window.sh + 1;
    g.wo = (g.wi + 2 * g.window.pw - g.window.kw) / g.window.sw + 1;
  }
  g.hp = g.ho / g.conv.pool;
  g.wp = g.wo / g.conv.pool;
  return g;
}

static void *allocate(int64_t bytes) {
  size_t whole = ((size_t)bytes + 127) / 64 * 64;
  void *memory = aligned_alloc(64, whole);
  if (!memory)
    exit(1);
  memset(memory, 0, whole);
  return memory;
}

static float *random_floats(int64_t count, double zeros) {
  float *out = allocate(count * 4);
  for (int64_t i = 0; i < count; i++)
    out[i] = rand() < zeros * RAND_MAX ? 0 : (float)rand() / (float)RAND_MAX - 0.5f;
  return out;
}

static uint8_t *random_bytes(int64_t count, int below) {
  uint8_t *out = allocate(count);
  for (int64_t i = 0; i < count; i++)
    out[i] = (uint8_t)(rand() % below);
  return out;
}

static int64_t slot(int64_t elems, int64_t to) { return (elems + to - 1) / to * to; }

/* Best time of one call, in seconds. */
static double time_call(hd_run_fn *run, const hd_call *call, double seconds) {
  double best = 1e9, end = seconds_now() + seconds;
  do {
    double start = seconds_now();
    run(call);
    double took = seconds_now() - start;
    best = took < best ? took : best;
  } while (seconds_now() < end);
  return best;
}

typedef struct setting {
  const hd_kernels *table;
  double peak, seconds;
} setting;

static void report(const setting *s, const shape *what, const char *kernel, double took, double dense,
                   double executed) {
  double ns = took * 1e9 / (double)what->rows;
  printf("%-44s %-14s %10.0f ns/sample", what->name, kernel, ns);
  if (dense > 0)
    printf(" %7.1f GFLOP/s dense %7.1f executed", dense / ns, executed / ns);
  if (dense > 0 && s->peak > 0)
    printf(" %5.1f %% of peak", 100 * executed / ns / s->peak);
  printf("\n");
}

static void time_conv(const setting *s, const shape *what) {
  static const char *const names[] = {"forward", "dx", "dw"};
  hd_geom g = finished(what->g);
  int64_t x = slot((int64_t)g.hi * g.wi * g.ci, 16), y = slot((int64_t)g.hp * g.wp * g.co, 16), bytes = slot(y, 64);
  double zeros = g.relu ? 0.5 : 0;
  int64_t taps = (int64_t)g.window.kh * g.window.kw * (g.ci / g.conv.groups), w = slot(taps * g.co, 16), n = what->rows;
  float *xs = random_floats(n * x, 0), *ys = random_floats(n * y, 0), *dys = random_floats(n * y, zeros),
        *dxs = random_floats(n * x, 0);
  float *ws = random_floats(w, 0), *bs = random_floats(slot(g.co, 16), 0), *dws = random_floats(w, 0),
        *dbs = random_floats(slot(g.co, 16), 0);
  uint8_t *at = random_bytes(n * bytes, g.conv.pool * g.conv.pool), *argmax = g.conv.pool > 1 ? at : NULL;
  hd_call calls[] = {
      {.in = {xs, ws, bs},
       .out = {ys, g.conv.pool > 1 ? random_bytes(n * bytes, 1) : NULL},
       .in_stride = {x},
       .out_stride = {y, bytes}},
      {.in = {dys, ws, argmax}, .out = {dxs}, .in_stride = {y, 0, bytes}, .out_stride = {x}},
      {.in = {xs, dys, argmax}, .out = {dws, dbs}, .in_stride = {x, y, bytes}},
  };
  double windows = (double)g.hp * g.wp * g.co * (double)taps * 2, dense = (double)g.ho * g.wo * g.co * (double)taps * 2;
  if (g.window.transposed)
    windows = dense = (double)g.hi * g.wi * g.co * (double)taps * 2;
  for (int i = 0; i < 3; i++) {
    hd_op op = (g.window.transposed ? HD_OP_conv_transpose2d : HD_OP_conv2d) + (hd_op)i;
    hd_call *call = &calls[i];
    int64_t packed = s->table->packed_elems[op] ? s->table->packed_elems[op](&g) : 0;
    float *pack = allocate(packed * 4);
    if (packed)
      s->table->pack[op](&g, ws, pack, 0, g.window.transposed ? g.ci : g.co);
    call->packed = pack;
    call->scratch = allocate(s->table->scratch_bytes[op] ? s->table->scratch_bytes[op](&g) : 0);
    call->g = &g;
    call->rows = n;
    double took = time_call(s->table->run[op], call, s->seconds);
    double gradient = g.conv.pool > 1 ? windows * (1 - zeros) : dense;
    report(s, what, names[i], took, dense, i == 0 ? windows * g.conv.pool * g.conv.pool : gradient);
    free(pack);
    free(call->scratch);
  }
  free(calls[0].out[1]);
  void *all[] = {xs, ys, dys, dxs, ws, bs, dws, dbs, at};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    free(all[i]);
}

static void time_pool(const setting *s, const shape *what) {
  hd_geom g = finished(what->g);
  int64_t x = slot((int64_t)g.hi * g.wi * g.ci, 16), y = slot((int64_t)g.ho * g.wo * g.ci, 16), bytes = slot(y, 64),
          n = what->rows;
  float *xs = random_floats(n * x, 0), *ys = random_floats(n * y, 0), *dxs = random_floats(n * x, 0);
  uint8_t *argmax = random_bytes(n * bytes, 1);
  hd_call forward = {.g = &g, .rows = n, .in = {xs}, .out = {ys, argmax}, .in_stride = {x}, .out_stride = {y, bytes}};
  hd_call backward = {.g = &g, .rows = n, .in = {ys, argmax}, .out = {dxs}, .in_stride = {y, bytes}, .out_stride = {x}};
  report(s, what, "max_pool2d", time_call(s->table->run[HD_OP_max_pool2d], &forward, s->seconds), 0, 0);
  report(s, what, "max_pool2d_dx", time_call(s->table->run[HD_OP_max_pool2d_dx], &backward, s->seconds), 0, 0);
  free(xs);
  free(ys);
  free(dxs);
  free(argmax);
}

static void time_all(const setting *s, const char *filter) {
  for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
    if (strstr(convs[i].name, filter))
      time_conv(s, &convs[i]);
  for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
    if (strstr(pools[i].name, filter))
      time_pool(s, &pools[i]);
}

int main(int argc, char **argv) {
  const char *why = "";
  const hd_kernels *table = hd__kernels_select(argc > 1 ? argv[1] : "", &why);
  if (!table) {
    fprintf(stderr, "bench_kernels: expected an instruction set that runs here, found '%s': %s\n", argv[1], why);
    return 1;
  }
  setting s = {.table = table, .peak = peak_of(table), .seconds = argc > 2 ? atof(argv[2]) : 0.2};
  printf("%s kernels, FMA peak of this core %.0f GFLOP/s\n", table->name, s.peak);
  time_all(&s, argc > 3 ? argv[3] : "");
  return 0;
}
