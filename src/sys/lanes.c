/* Opening OpenMP regions, binding their threads, setting their floating-point mode. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys/lanes.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "sys/claim.h"
#include "sys/fpmode.h"

struct hd_lanes {
  int count;
  int cpus; /* that may be busy at once */
  int *cpu; /* lane -> CPU, -1: not bound */
  hd_claim claim;
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

hd_status hd__lanes_create(hd_lanes **out, hd_ctx *ctx, const hd_placement *place) {
  *out = NULL;
  omp_set_dynamic(0);
  int came = probe(place->lanes);
  if (came < 1)
    return region_failed(ctx, place->lanes, came);
  hd_lanes *lanes = hd__calloc(1, sizeof *lanes);
  int *cpu = hd__calloc((size_t)came, sizeof *cpu);
  if (!lanes || !cpu) {
    hd__free(lanes);
    hd__free(cpu);
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d lanes", came);
  }
  for (int i = 0; i < came; i++)
    cpu[i] = i < place->lanes ? place->lane[i].cpu : -1;
  *lanes = (hd_lanes){.count = came, .cpus = place->cpus, .cpu = cpu};
  *out = lanes;
  return HD_OK;
}

hd_status hd__lanes_place(hd_placement **out, hd_ctx *ctx, const hd_placement_request *request) {
  hd_topology *machine;
  hd_placement_request wanted = *request;
  if (ctx && wanted.threads == 0)
    wanted.threads = ctx->threads;
  *out = NULL;
  HD_TRY(hd_topology_create(&machine, ctx));
  hd_status status = hd_placement_create(out, ctx, machine, &wanted);
  hd_topology_destroy(machine);
  return status;
}

/* Two jobs that start at once may choose the same CPUs. One of them gets the names, the other one chooses again. */
hd_status hd__lanes_open(hd_lanes **out, hd_ctx *ctx, const hd_placement_request *request) {
  hd_placement *place = NULL;
  hd_claim claim = {0};
  *out = NULL;
  for (int attempt = 0; attempt < 3; attempt++) {
    hd__claim_drop(&claim);
    hd_placement_destroy(place);
    HD_TRY(hd__lanes_place(&place, ctx, request));
    if (hd__claim_take(&claim, place))
      break;
  }
  hd_status status = hd__lanes_create(out, ctx, place);
  hd_placement_destroy(place);
  if (status == HD_OK)
    (*out)->claim = claim;
  else
    hd__claim_drop(&claim);
  return status;
}

void hd__lanes_unbind(hd_lanes *lanes) {
  hd__claim_drop(&lanes->claim);
  for (int i = 0; i < lanes->count; i++)
    lanes->cpu[i] = -1;
}

void hd__lanes_destroy(hd_lanes *lanes) {
  if (!lanes)
    return;
  hd__claim_drop(&lanes->claim);
  hd__free(lanes->cpu);
  hd__free(lanes);
}

int hd__lanes_count(const hd_lanes *lanes) { return lanes->count; }

int hd__lanes_cpus(const hd_lanes *lanes) { return lanes->cpus; }

int hd__lanes_crowded(const hd_lanes *lanes) { return lanes->count > lanes->cpus; }

/* Binds this thread to a CPU; *before is what it was bound to. False where it stays as it was. */
static bool bind(int cpu, cpu_set_t *before) {
  cpu_set_t set;
  if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof *before, before) != 0)
    return false;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

/* One lane's part of a region. */
static void run_lane(const hd_lanes *lanes, int lane, void (*work)(void *, int), void *arg) {
  cpu_set_t before;
  const bool bound = bind(lanes->cpu[lane], &before);
  uint64_t mode = hd__fpmode_enter();
  work(arg, lane);
  hd__fpmode_leave(mode);
  if (bound)
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
