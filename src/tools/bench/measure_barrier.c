/* The time of a barrier: heddle's against the OpenMP runtime's, in turns, on threads without other work. A turn's time
 * is that of the first thread. Nothing else in heddle uses OpenMP. */
#include <omp.h>

#include "base/alloc.h"
#include "base/sized_struct.h"
#include "tools/bench/machine_limits.h"
#include "train/settings/config.h"
#include "platform/clock.h"
#include "platform/cpu_set.h"
#include "platform/machine.h"
#include "platform/threads.h"
#include "platform/barrier.h"
#include "tools/tune/scaling.h"

enum { TURNS = 15, FIRST_BARRIERS = 16 };

typedef struct barrier_timing {
  hd_barrier barrier;
  int64_t barriers;
  double s; /* of thread 0 */
} barrier_timing;

static void wait_heddle(void *arg, int thread) {
  barrier_timing *b = arg;
  hd__barrier_wait(&b->barrier, thread, 0);
  double start = hd__clock_s();
  for (int64_t i = 0; i < b->barriers; i++)
    hd__barrier_wait(&b->barrier, thread, 0);
  if (thread == 0)
    b->s = hd__clock_s() - start;
}

static hd_status run_heddle(barrier_timing *b, hd_ctx *ctx, hd_threads *threads) {
  return hd__threads_run(threads, ctx, wait_heddle, b);
}

/* One thread of an OpenMP region, on the CPU of heddle's. */
static void wait_openmp(barrier_timing *b, int cpu) {
  hd_cpu_set before, bound;
  hd__cpu_set_one(&bound, cpu);
  const bool binds = cpu >= 0 && hd__cpu_set_read(&before) && hd__cpu_set_bind(&bound);
#pragma omp barrier
  double start = hd__clock_s();
  for (int64_t i = 0; i < b->barriers; i++) {
#pragma omp barrier
  }
  if (omp_get_thread_num() == 0)
    b->s = hd__clock_s() - start;
  if (binds)
    hd__cpu_set_bind(&before);
}

static hd_status run_openmp(barrier_timing *b, hd_ctx *ctx, hd_threads *threads) {
  const int count = hd__threads_count(threads);
  int came = 0;
#pragma omp parallel num_threads(count)
  {
#pragma omp single
    came = omp_get_num_threads();
    if (came == count)
      wait_openmp(b, hd__threads_cpu(threads, omp_get_thread_num()));
  }
  return came == count ? HD_OK
                       : hd__fail(ctx, HD_E_SYSTEM,
                                  "expected %d threads of the OpenMP runtime, found %d; unset OMP_THREAD_LIMIT, "
                                  "OMP_DYNAMIC and OMP_MAX_ACTIVE_LEVELS, or lower --threads",
                                  count, came);
}

typedef hd_status run_fn(barrier_timing *b, hd_ctx *ctx, hd_threads *threads);

/* Microseconds of one barrier, in a turn of about `seconds`. */
static hd_status time_turn(double *us, hd_ctx *ctx, barrier_timing *b, hd_threads *threads, run_fn *run,
                           double seconds) {
  for (b->barriers = FIRST_BARRIERS;; b->barriers *= 2) {
    HD_TRY(run(b, ctx, threads));
    if (b->s >= seconds / 2)
      break;
  }
  *us = 1e6 * b->s / (double)b->barriers;
  return HD_OK;
}

static hd_status measure(hd_bench_barrier_result *out, hd_ctx *ctx, hd_threads *threads, hd_barrier_line *lines,
                         double seconds) {
  barrier_timing b = {0};
  double heddle[TURNS], openmp[TURNS], turn = seconds / TURNS / 4;
  hd__barrier_init(&b.barrier, lines, out->threads, hd__threads_share_cpus(threads));
  for (int i = 0; i < out->threads; i++)
    hd__barrier_set_cache(lines, i, hd__threads_cache(threads, i));
  hd__barrier_join_caches(&b.barrier);
  for (int t = 0; t < TURNS; t++, out->turns = t) {
    HD_TRY(time_turn(&heddle[t], ctx, &b, threads, run_heddle, turn));
    HD_TRY(time_turn(&openmp[t], ctx, &b, threads, run_openmp, turn));
  }
  hd_median us = hd__median(heddle, TURNS), openmp_us = hd__median(openmp, TURNS);
  out->us = us.value;
  out->us_low = us.low;
  out->us_high = us.high;
  out->openmp_us = openmp_us.value;
  out->openmp_us_low = openmp_us.low;
  out->openmp_us_high = openmp_us.high;
  return HD_OK;
}

static hd_status bench_barrier(hd_bench_barrier_result *out, hd_ctx *ctx, const hd_config *config, double seconds) {
  hd_placement_request request = hd__config_placement(config);
  hd_threads *threads;
  HD_TRY(hd__bench_check_seconds(ctx, seconds));
  HD_TRY(hd__threads_open(&threads, ctx, &request));
  out->threads = hd__threads_count(threads);
  out->cpus = hd__threads_cpus(threads);
  hd__cpu_name(out->cpu, sizeof out->cpu);
  hd_barrier_line *lines = hd__malloc_aligned((size_t)HD_BARRIER_LINES(out->threads) * sizeof *lines);
  hd_status status = HD_ALLOCATED(lines, ctx, "out of memory for a measurement");
  if (lines)
    status = measure(out, ctx, threads, lines, seconds);
  hd__free(lines);
  hd__threads_destroy(threads);
  return status;
}

hd_status hd_bench_barrier(hd_bench_barrier_result *out, hd_ctx *ctx, const hd_config *config, double seconds) {
  hd_bench_barrier_result result = {0};
  HD_TRY(hd__struct_check(ctx, out, sizeof result, "hd_bench_barrier_result"));
  const hd_status status = bench_barrier(&result, ctx, config, seconds);
  hd__struct_write(out, &result, sizeof result);
  return status;
}
