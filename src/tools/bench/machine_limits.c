/* The machine's limits: FMA in registers, and bandwidth at sizes from the first-level cache to main memory.
 *
 * Each is the best of several bursts: other programs can only make a burst slower. A burst of all threads lasts from
 * the first thread's start to the last one's end, so that a late thread counts. Small sizes may measure slower than
 * larger ones because of loop overheads: the table is made monotonic. */
#include "tools/bench/machine_limits.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "kernel/bf16.h"
#include "op/conv2d/winograd_rule.h"
#include "platform/clock.h"
#include "platform/machine.h"
#include "platform/threads.h"
#include "platform/segment.h"
#include "train/placement/run_plan.h"

enum { PEAK_BURSTS = 60, STREAM_BURSTS = 4, FIRST_LEVEL_BYTES = 16 << 10, ARRAYS = 3 };
static const double BURST_S = 0.002;
static const int64_t LEAST_MEMORY_BYTES = 64 << 20, MOST_MEMORY_BYTES = 256 << 20;

typedef struct thread_burst {
  _Alignas(128) hd_segment memory; /* three arrays */
  double start_s, end_s, work;     /* work: flops or bytes */
  float sink;
} thread_burst;

typedef struct burst {
  const hd_kernels *kernels;
  thread_burst *thread;
  int64_t repeats, bytes; /* bytes: of the three arrays; 0: chains of FMA */
} burst;

static void work(burst *b, thread_burst *thread) {
  if (b->bytes == 0) {
    thread->work = (double)b->kernels->chains(&thread->sink, b->repeats);
    return;
  }
  int64_t elems = b->bytes / ARRAYS / 64 * 16;
  float *a = thread->memory.base;
  for (int64_t r = 0; r < b->repeats; r++)
    b->kernels->triad(a, a + elems, a + 2 * elems, 0.5f, elems);
  thread->work = (double)(b->repeats * elems * ARRAYS) * sizeof *a;
}

static void run_burst(void *arg, int index) {
  burst *b = arg;
  thread_burst *thread = &b->thread[index];
  thread->start_s = hd__clock_s();
  work(b, thread);
  thread->end_s = hd__clock_s();
}

/* Work a second of one burst on all threads. */
static hd_status time_burst(double *rate, hd_ctx *ctx, burst *b, hd_threads *threads) {
  HD_TRY(hd__threads_run(threads, ctx, run_burst, b));
  double start = b->thread[0].start_s, end = b->thread[0].end_s, sum = 0;
  for (int i = 0; i < hd__threads_count(threads); i++) {
    start = b->thread[i].start_s < start ? b->thread[i].start_s : start;
    end = b->thread[i].end_s > end ? b->thread[i].end_s : end;
    sum += b->thread[i].work;
  }
  *rate = sum / (end - start > 1e-9 ? end - start : 1e-9);
  return HD_OK;
}

/* The best of earlier calls and of several bursts that are long enough for the clock; in 1e9 a second. */
static hd_status best_rate(double *best, hd_ctx *ctx, burst *b, hd_threads *threads, int bursts) {
  double rate;
  b->repeats = b->bytes ? 1 : 1000;
  for (int i = 0; i < bursts; i++) {
    HD_TRY(time_burst(&rate, ctx, b, threads));
    double s = b->thread[0].end_s - b->thread[0].start_s;
    if (s < BURST_S / 2) {
      b->repeats *= s < BURST_S / 16 ? 8 : 2;
      i = -1;
    }
    *best = 1e-9 * rate > *best ? 1e-9 * rate : *best;
  }
  return HD_OK;
}

static int64_t clamp(int64_t value, int64_t least, int64_t most) {
  return value < least ? least : value > most ? most : value;
}

/* Each level is twice the size of the one before; the last one is larger than any cache. */
static hd_status choose_levels(hd_bench_machine *m, hd_ctx *ctx) {
  hd_topology *t;
  int64_t largest = 0;
  HD_TRY(hd_topology_create(&t, ctx));
  for (int i = 0; i < t->caches; i++)
    largest = t->cache[i].bytes > largest ? t->cache[i].bytes : largest;
  const int64_t most = clamp(4 * largest, LEAST_MEMORY_BYTES, MOST_MEMORY_BYTES);
  for (int64_t bytes = FIRST_LEVEL_BYTES; bytes * 2 < most && m->levels < HD_BENCH_MAX_LEVELS - 1; bytes *= 2)
    m->level[m->levels++].bytes = bytes;
  m->level[m->levels++].bytes = most;
  for (int i = 0; i < m->levels; i++) {
    int64_t holds = INT64_MAX;
    m->level[i].where = HD_MAIN_MEMORY;
    for (int c = 0; c < t->caches; c++)
      if (t->cache[c].bytes >= m->level[i].bytes && t->cache[c].bytes < holds) {
        holds = t->cache[c].bytes;
        m->level[i].where = t->cache[c].level;
      }
  }
  hd_topology_destroy(t);
  return HD_OK;
}

static hd_status measure(hd_bench_machine *m, hd_ctx *ctx, burst *b, hd_threads *threads, bool all) {
  for (int i = 0; i < hd__threads_count(threads); i++)
    HD_TRY(hd__segment_create(&b->thread[i].memory, ctx, (size_t)m->level[m->levels - 1].bytes, "a measurement"));
  b->bytes = 0;
  HD_TRY(best_rate(all ? &m->all_peak_gflops : &m->peak_gflops, ctx, b, threads, PEAK_BURSTS));
  for (int i = 0; i < m->levels; i++) {
    hd_bench_level *level = &m->level[i];
    b->bytes = level->bytes;
    HD_TRY(best_rate(all ? &level->all_gbytes_per_s : &level->gbytes_per_s, ctx, b, threads, STREAM_BURSTS));
  }
  for (int i = m->levels - 2; i >= 0; i--) {
    hd_bench_level *level = &m->level[i], *next = level + 1;
    level->gbytes_per_s = level->gbytes_per_s > next->gbytes_per_s ? level->gbytes_per_s : next->gbytes_per_s;
    level->all_gbytes_per_s =
        level->all_gbytes_per_s > next->all_gbytes_per_s ? level->all_gbytes_per_s : next->all_gbytes_per_s;
  }
  return HD_OK;
}

/* `count_asked`: number of threads, or 0 for that of the configuration. */
static hd_status measure_with(hd_bench_machine *m, hd_ctx *ctx, const hd_config *config, int count_asked) {
  hd_placement_request request = hd__config_placement(config);
  burst b = {0};
  hd_threads *threads;
  request.threads = count_asked ? count_asked : request.threads;
  HD_TRY(hd__planned_kernels(&b.kernels, ctx));
  HD_TRY(hd__threads_open(&threads, ctx, &request));
  int count = hd__threads_count(threads);
  snprintf(m->isa, sizeof m->isa, "%s", b.kernels->isa);
  m->threads = count;
  hd_status status = HD_OK;
  b.thread = hd__malloc_aligned((size_t)count * sizeof *b.thread);
  if (!b.thread)
    status = hd__fail(ctx, HD_E_NOMEM, "out of memory for a measurement");
  else
    memset(b.thread, 0, (size_t)count * sizeof *b.thread);
  HD_THEN(status, measure(m, ctx, &b, threads, count_asked == 0));
  for (int i = 0; b.thread && i < count; i++)
    hd__segment_destroy(&b.thread[i].memory);
  hd__free(b.thread);
  hd__threads_destroy(threads);
  return status;
}

static hd_status describe_machine(const hd_bench_machine **out, hd_ctx *ctx) {
  hd_bench_machine *m = hd__calloc(1, sizeof *m);
  *out = m;
  HD_TRY(HD_ALLOCATED(m, ctx, "out of memory for a measurement"));
  hd__cpu_name(m->cpu, sizeof m->cpu);
  return choose_levels(m, ctx);
}

hd_status hd__bench_machine_measure(const hd_bench_machine **out, hd_ctx *ctx, const hd_config *config) {
  if (!*out)
    HD_TRY(describe_machine(out, ctx));
  HD_TRY(measure_with((hd_bench_machine *)*out, ctx, config, 1));
  return measure_with((hd_bench_machine *)*out, ctx, config, 0);
}

double hd__bench_least_s(int32_t *level, const hd_bench_machine *machine, double executed_flops, double bytes,
                         double bytes_at_once) {
  int32_t at = 0;
  while (at < machine->levels - 1 && (double)machine->level[at].bytes < bytes_at_once)
    at++;
  double compute_s = 1e-9 * executed_flops / machine->peak_gflops;
  double memory_s = 1e-9 * bytes / machine->level[at].gbytes_per_s;
  *level = compute_s >= memory_s ? -1 : at;
  return compute_s >= memory_s ? compute_s : memory_s;
}

void hd__bench_bound(hd_bench_op *op, const hd_bench_machine *machine) {
  op->least_s = hd__bench_least_s(&op->level, machine, op->executed_flops, op->bytes, op->bytes_at_once);
}

/* The share of the windows' taps along one axis that lie inside the image. */
static double inside(int windows, int taps, int stride, int dilation, int padding, int image) {
  int64_t count = 0;
  for (int i = 0; i < windows * taps; i++) {
    const int at = i / taps * stride + i % taps * (dilation > 1 ? dilation : 1) - padding;
    count += at >= 0 && at < image;
  }
  return (double)count / ((double)windows * taps);
}

/* Products along an axis of Winograd's tiles: one less of a tile whose last line lies outside. */
static double tiled_line(int outputs, int side) {
  return outputs / side * HD_WINOGRAD_LINE + (outputs % side > 0 ? HD_WINOGRAD_LINE - 1 : 0);
}

/* The products of Winograd's tiles for this many outputs, divided by those of the plain sums. */
static double tiled(const hd_geom *g, int height, int width) {
  const int side = hd_winograd_side(g);
  return tiled_line(height, side) * tiled_line(width, side) / ((double)g->window.kh * g->window.kw * height * width);
}

double hd__bench_executed_share(hd_op op, const hd_geom *g, double live, bool bf16) {
  if (op == HD_OP_shifted_linear)
    return live;
  if (op != HD_OP_conv2d && op != HD_OP_conv2d_dx && op != HD_OP_conv2d_dw)
    return 1;
  double windows = (double)g->hp * g->wp / ((double)g->ho * g->wo);
  if (bf16 && bf16_takes(g))
    return windows * g->conv.pool * g->conv.pool;
  if (op != HD_OP_conv2d && g->conv.pool > 1)
    return windows * live;
  if (hd_geom_is_winograd(g) && op == HD_OP_conv2d_dx)
    return tiled(g, g->hi, g->wi) * g->hi * g->wi / ((double)g->ho * g->wo);
  if (hd_geom_is_winograd(g))
    return windows * g->conv.pool * g->conv.pool * tiled(g, g->hp * g->conv.pool, g->wp * g->conv.pool);
  if (op != HD_OP_conv2d && !g->window.transposed)
    return inside(g->ho, g->window.kh, g->window.sh, g->window.dilation[0], g->window.ph, g->hi) *
           inside(g->wo, g->window.kw, g->window.sw, g->window.dilation[1], g->window.pw, g->wi);
  return windows * g->conv.pool * g->conv.pool;
}

hd_status hd__bench_check_seconds(hd_ctx *ctx, double seconds) {
  if (seconds >= 0.1 && seconds <= 3600)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE, "expected 0.1 to 3600 seconds, found %g", seconds);
}
