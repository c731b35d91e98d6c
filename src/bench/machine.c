/* The machine's limits: FMA in registers, and bandwidth at sizes from the first-level cache to main memory.
 *
 * Each is the best of several bursts: others on the machine can only make a burst slower. A burst of all lanes is as
 * long as from the first lane's start to the last one's end, so that a lane that comes late counts. Small sizes are not
 * faster than larger ones because of loop overheads: the table is made to fall. */
#include "bench/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sys/clock.h"
#include "sys/cpu_name.h"
#include "sys/lanes.h"
#include "sys/segment.h"
#include "train/planned.h"

enum { PEAK_BURSTS = 60, STREAM_BURSTS = 4, FIRST_LEVEL_BYTES = 16 << 10, ARRAYS = 3 };
static const double BURST_S = 0.002;
static const int64_t LEAST_MEMORY_BYTES = 64 << 20, MOST_MEMORY_BYTES = 256 << 20;

typedef struct lane_burst {
  _Alignas(128) hd_segment memory; /* three arrays */
  double start_s, end_s, work;     /* work: flops or bytes */
  float sink;
} lane_burst;

typedef struct burst {
  const hd_kernels *kernels;
  lane_burst *lane;
  int64_t repeats, bytes; /* bytes: of the three arrays; 0: chains */
} burst;

static void work(burst *b, lane_burst *lane) {
  if (b->bytes == 0) {
    lane->work = (double)b->kernels->chains(&lane->sink, b->repeats);
    return;
  }
  int64_t elems = b->bytes / ARRAYS / 64 * 16;
  float *a = lane->memory.base;
  for (int64_t r = 0; r < b->repeats; r++)
    b->kernels->triad(a, a + elems, a + 2 * elems, 0.5f, elems);
  lane->work = (double)(b->repeats * elems * ARRAYS) * sizeof *a;
}

static void run_burst(void *arg, int index) {
  burst *b = arg;
  lane_burst *lane = &b->lane[index];
  lane->start_s = hd__clock_s();
  work(b, lane);
  lane->end_s = hd__clock_s();
}

/* Work a second of one burst on all lanes. */
static hd_status time_burst(double *rate, hd_ctx *ctx, burst *b, hd_lanes *lanes) {
  HD_TRY(hd__lanes_run(lanes, ctx, run_burst, b));
  double start = b->lane[0].start_s, end = b->lane[0].end_s, sum = 0;
  for (int i = 0; i < hd__lanes_count(lanes); i++) {
    start = b->lane[i].start_s < start ? b->lane[i].start_s : start;
    end = b->lane[i].end_s > end ? b->lane[i].end_s : end;
    sum += b->lane[i].work;
  }
  *rate = sum / (end - start > 1e-9 ? end - start : 1e-9);
  return HD_OK;
}

/* The best of some bursts that are long enough for the clock; in 1e9 a second. */
static hd_status best_rate(double *best, hd_ctx *ctx, burst *b, hd_lanes *lanes, int bursts) {
  double rate;
  *best = 0;
  b->repeats = b->bytes ? 1 : 1000;
  for (int i = 0; i < bursts; i++) {
    HD_TRY(time_burst(&rate, ctx, b, lanes));
    double s = b->lane[0].end_s - b->lane[0].start_s;
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

/* Each level twice the one before; the last one is larger than any cache. */
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
    snprintf(m->level[i].where, sizeof m->level[i].where, "memory");
    for (int c = 0; c < t->caches; c++)
      if (t->cache[c].bytes >= m->level[i].bytes && t->cache[c].bytes < holds) {
        holds = t->cache[c].bytes;
        memcpy(m->level[i].where, t->cache[c].name, sizeof m->level[i].where);
      }
  }
  hd_topology_destroy(t);
  return HD_OK;
}

static hd_status measure(hd_bench_machine *m, hd_ctx *ctx, burst *b, hd_lanes *lanes, bool all) {
  for (int i = 0; i < hd__lanes_count(lanes); i++)
    HD_TRY(hd__segment_create(&b->lane[i].memory, ctx, (size_t)m->level[m->levels - 1].bytes, "a measurement"));
  b->bytes = 0;
  HD_TRY(best_rate(all ? &m->all_peak_gflops : &m->peak_gflops, ctx, b, lanes, PEAK_BURSTS));
  for (int i = 0; i < m->levels; i++) {
    hd_bench_level *level = &m->level[i];
    b->bytes = level->bytes;
    HD_TRY(best_rate(all ? &level->all_gbytes_per_s : &level->gbytes_per_s, ctx, b, lanes, STREAM_BURSTS));
  }
  for (int i = m->levels - 2; i >= 0; i--) {
    hd_bench_level *level = &m->level[i], *next = level + 1;
    level->gbytes_per_s = level->gbytes_per_s > next->gbytes_per_s ? level->gbytes_per_s : next->gbytes_per_s;
    level->all_gbytes_per_s =
        level->all_gbytes_per_s > next->all_gbytes_per_s ? level->all_gbytes_per_s : next->all_gbytes_per_s;
  }
  return HD_OK;
}

/* `threads`: 1, or 0 for what the configuration asks for. */
static hd_status measure_with(hd_bench_machine *m, hd_ctx *ctx, const hd_config *config, int threads) {
  hd_placement_request request = hd_config_lanes(config);
  burst b = {0};
  hd_lanes *lanes;
  request.threads = threads ? threads : request.threads;
  HD_TRY(hd__planned_kernels(&b.kernels, ctx));
  HD_TRY(hd__lanes_open(&lanes, ctx, &request));
  int count = hd__lanes_count(lanes);
  snprintf(m->isa, sizeof m->isa, "%s", b.kernels->isa);
  m->threads = count;
  hd_status status = HD_OK;
  b.lane = hd__malloc_aligned((size_t)count * sizeof *b.lane);
  if (!b.lane)
    status = hd__fail(ctx, HD_E_NOMEM, "out of memory for a measurement");
  else
    memset(b.lane, 0, (size_t)count * sizeof *b.lane);
  if (status == HD_OK)
    status = measure(m, ctx, &b, lanes, threads == 0);
  for (int i = 0; b.lane && i < count; i++)
    hd__segment_destroy(&b.lane[i].memory);
  hd__free(b.lane);
  hd__lanes_destroy(lanes);
  return status;
}

hd_status hd_bench_machine_measure(hd_bench_machine *out, hd_ctx *ctx, const hd_config *config) {
  *out = (hd_bench_machine){0};
  hd__cpu_name(out->cpu, sizeof out->cpu);
  HD_TRY(choose_levels(out, ctx));
  HD_TRY(measure_with(out, ctx, config, 1));
  return measure_with(out, ctx, config, 0);
}

double hd_bench_least_s(int32_t *level, const hd_bench_machine *machine, double executed_flops, double bytes,
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
  op->least_s = hd_bench_least_s(&op->level, machine, op->executed_flops, op->bytes, op->bytes_at_once);
}

double hd__bench_executed_share(hd_op op, const hd_geom *g, double live) {
  static const double TILES = 16.0 / 36.0;
  if (op != HD_OP_conv2d && op != HD_OP_conv2d_dx && op != HD_OP_conv2d_dw)
    return 1;
  double windows = (double)g->hp * g->wp / ((double)g->ho * g->wo);
  if (op != HD_OP_conv2d && g->pool > 1)
    return windows * live;
  return windows * g->pool * g->pool * (hd_geom_is_winograd(g) ? TILES : 1);
}

hd_status hd__bench_check_seconds(hd_ctx *ctx, double seconds) {
  if (seconds >= 0.1 && seconds <= 3600)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE, "expected 0.1 to 3600 seconds, found %g", seconds);
}
