/* Opening OpenMP regions, pinning their threads, setting their floating-point mode. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys/lanes.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "sys/budget.h"
#include "sys/fpmode.h"

struct hd_lanes {
  int count;
  int cpus; /* usable by this process */
  int *cpu; /* lane -> CPU, -1: not pinned */
};

static hd_status region_failed(hd_ctx *ctx, int wanted, int came) {
  return hd__fail(ctx, HD_E_SYSTEM,
                  "expected %d threads, the OpenMP runtime delivered %d; lower --threads or raise OMP_THREAD_LIMIT",
                  wanted, came);
}

/* How many threads a region of `wanted` delivers. */
static int probe(int wanted) {
  int came = 0;
#pragma omp parallel num_threads(wanted)
#pragma omp single
  came = omp_get_num_threads();
  return came;
}

hd_status hd__lanes_create(hd_lanes **out, hd_ctx *ctx, int wanted) {
  *out = NULL;
  omp_set_dynamic(0);
  int came = probe(wanted);
  if (came < 1)
    return region_failed(ctx, wanted, came);
  hd_lanes *lanes = hd__calloc(1, sizeof *lanes);
  int *cpu = hd__calloc((size_t)came, sizeof *cpu);
  if (!lanes || !cpu) {
    hd__free(lanes);
    hd__free(cpu);
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d lanes", came);
  }
  *lanes = (hd_lanes){.count = came, .cpus = hd__budget_cpus(), .cpu = cpu};
  hd__budget_place(cpu, came);
  *out = lanes;
  return HD_OK;
}

void hd__lanes_destroy(hd_lanes *lanes) {
  if (!lanes)
    return;
  hd__free(lanes->cpu);
  hd__free(lanes);
}

int hd__lanes_count(const hd_lanes *lanes) { return lanes->count; }

int hd__lanes_crowded(const hd_lanes *lanes) { return lanes->count > lanes->cpus; }

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set); /* a refusal costs speed, not results */
}

/* One lane's part of a region. */
static void run_lane(const hd_lanes *lanes, int lane, void (*work)(void *, int), void *arg) {
  cpu_set_t before;
  int cpu = lanes->cpu[lane];
  int pinned = cpu >= 0 && sched_getaffinity(0, sizeof before, &before) == 0;
  if (pinned)
    pin(cpu);
  uint64_t mode = hd__fpmode_enter();
  work(arg, lane);
  hd__fpmode_leave(mode);
  if (pinned)
    sched_setaffinity(0, sizeof before, &before);
}

hd_status hd__lanes_run(hd_lanes *lanes, hd_ctx *ctx, void (*work)(void *arg, int lane), void *arg) {
  atomic_int came = 0;
#pragma omp parallel num_threads(lanes->count)
  {
    if (omp_get_thread_num() == 0)
      atomic_store(&came, omp_get_num_threads());
    if (omp_get_num_threads() == lanes->count)
      run_lane(lanes, omp_get_thread_num(), work, arg);
  }
  return came == lanes->count ? HD_OK : region_failed(ctx, lanes->count, came);
}
