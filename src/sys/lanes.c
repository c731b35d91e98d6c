/* Opening OpenMP regions, binding their threads, setting their floating-point mode; and how fast the lanes are. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys/lanes.h"

#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "sys/claim.h"
#include "sys/cpu_set.h"
#include "sys/fpmode.h"
#include "sys/topology.h"

enum { MOST_SPEED = 1000 };

typedef struct lane_place {
  int cpu;  /* -1: not bound */
  int kind; /* of its core; -1: unknown */
  int numa; /* of that CPU; -1: unknown */
  int l3;   /* that the CPU lives under; -1: unknown */
} lane_place;

static const lane_place anywhere = {-1, -1, -1, -1};

struct hd_lanes {
  int count;
  int cpus; /* that may be busy at once */
  lane_place *lane;
  hd_binding *worker; /* NULL: none were asked for */
  int32_t *speed;
  bool has_speeds; /* else all are alike */
  bool disputed;   /* another job has one of the CPUs, too */
  atomic_bool lane_refused;
  bool memory_refused;
  hd_claim claim;
};

static hd_status region_failed(hd_ctx *ctx, int wanted, int came) {
  return hd__fail(ctx, HD_E_SYSTEM,
                  "expected %d threads, the OpenMP runtime delivered %d; lower --threads or raise OMP_THREAD_LIMIT",
                  wanted, came);
}

static hd_status threads_refused(hd_ctx *ctx, int wanted, int there) {
  return hd__fail(ctx, HD_E_SYSTEM,
                  "expected %d threads, the system starts no more than %d; lower --threads, or raise `ulimit -u`, "
                  "`ulimit -v` or the container's limit on processes",
                  wanted, there);
}

static void *pass_gate(void *gate) {
  pthread_mutex_lock(gate);
  pthread_mutex_unlock(gate);
  return NULL;
}

/* How many threads there may be at a time, up to `wanted`, with this one. An OpenMP runtime that is refused one ends the
 * process, so the system is asked first: once, since the runtime keeps those that it has for whoever opens a region. */
static int startable(int wanted) {
  static _Thread_local int known = 1;
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  sigset_t all, before;
  int more = 0;
  pthread_t *thread = wanted > known ? hd__calloc((size_t)wanted, sizeof *thread) : NULL;
  if (!thread)
    return wanted;
  sigfillset(&all); /* signals are for the program's own threads */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_mutex_lock(&gate);
  while (more < wanted - 1 && pthread_create(&thread[more], NULL, pass_gate, &gate) == 0)
    more++;
  pthread_mutex_unlock(&gate);
  for (int i = 0; i < more; i++)
    pthread_join(thread[i], NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  hd__free(thread);
  known = more + 1 > known ? more + 1 : known;
  return more + 1;
}

/* How many threads a region of `wanted` delivers. */
static int probe(int wanted) {
  int came = 0;
#pragma omp parallel num_threads(wanted)
#pragma omp single
  came = omp_get_num_threads();
  return came;
}

/* "2,2,1": one for each lane, over and over. */
static hd_status take_speeds(hd_lanes *lanes, hd_ctx *ctx, const char *text) {
  int32_t sum = 0;
  const char *at = text;
  for (int i = 0; i < lanes->count; i++) {
    char item[8] = "";
    int64_t speed;
    size_t length = strcspn(at, ",");
    strncat(item, at, length < sizeof item ? length : 0);
    if (!hd__parse_int64(&speed, item) || speed < 0 || speed > MOST_SPEED)
      return hd__fail(ctx, HD_E_USAGE, "HEDDLE_LANE_SPEEDS expects numbers from 0 to %d such as 2,2,1, found '%.80s'",
                      MOST_SPEED, text);
    lanes->speed[i] = (int32_t)speed;
    sum += lanes->speed[i];
    at = at[length] ? at + length + 1 : text;
  }
  if (sum == 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "HEDDLE_LANE_SPEEDS expects one of the first %d above 0, found '%.80s'; raise one or unset it",
                    lanes->count, text);
  return HD_OK;
}

static hd_status fill(hd_lanes *lanes, hd_ctx *ctx, const hd_placement *place) {
  const char *speeds = getenv("HEDDLE_LANE_SPEEDS");
  lanes->lane = hd__calloc((size_t)lanes->count, sizeof *lanes->lane);
  lanes->speed = hd__calloc((size_t)lanes->count, sizeof *lanes->speed);
  if (place->workers > 0)
    lanes->worker = hd__calloc((size_t)place->workers, sizeof *lanes->worker);
  if (!lanes->lane || !lanes->speed || (place->workers > 0 && !lanes->worker))
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d lanes", lanes->count);
  if (place->workers > 0)
    memcpy(lanes->worker, place->worker, (size_t)place->workers * sizeof *lanes->worker);
  for (int i = 0; i < lanes->count; i++) {
    const hd_binding *at = &place->lane[i];
    lanes->lane[i] = i < place->lanes ? (lane_place){at->cpu, at->kind, at->numa, at->l3} : anywhere;
  }
  lanes->has_speeds = speeds && *speeds;
  return lanes->has_speeds ? take_speeds(lanes, ctx, speeds) : HD_OK;
}

hd_status hd__lanes_create(hd_lanes **out, hd_ctx *ctx, const hd_placement *place) {
  *out = NULL;
  omp_set_dynamic(0);
  const int most = omp_get_max_threads(), there = startable(place->lanes > most ? place->lanes : most);
  if (there < place->lanes)
    return threads_refused(ctx, place->lanes, there);
  if (there < most)
    omp_set_num_threads(there); /* of other regions */
  int came = probe(place->lanes);
  if (came < 1)
    return region_failed(ctx, place->lanes, came);
  hd_lanes *lanes = hd__calloc(1, sizeof *lanes);
  if (!lanes)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d lanes", came);
  *lanes = (hd_lanes){.count = came, .cpus = place->cpus};
  hd_status status = fill(lanes, ctx, place);
  if (status == HD_OK)
    *out = lanes;
  else
    hd__lanes_destroy(lanes);
  return status;
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
  enum { ATTEMPTS = 3 };
  *out = NULL;
  for (int attempt = 1;; attempt++) {
    hd_placement *place;
    HD_TRY(hd__lanes_place(&place, ctx, request));
    hd_status status = hd__lanes_open_at(out, ctx, place);
    hd_placement_destroy(place);
    if (status != HD_OK || !(*out)->disputed || attempt == ATTEMPTS)
      return status;
    hd__lanes_destroy(*out);
    *out = NULL;
  }
}

hd_status hd__lanes_open_at(hd_lanes **out, hd_ctx *ctx, const hd_placement *place) {
  hd_claim claim = {0};
  const bool ours = hd__claim_take(&claim, place);
  hd_status status = hd__lanes_create(out, ctx, place);
  if (status != HD_OK) {
    hd__claim_drop(&claim);
    return status;
  }
  (*out)->claim = claim;
  (*out)->disputed = !ours;
  return HD_OK;
}

hd_status hd__lanes_first(hd_lanes **out, hd_ctx *ctx, const hd_lanes *others, int count) {
  hd_placement place = {.lanes = count, .cpus = others->cpus, .lane = hd__calloc((size_t)count, sizeof *place.lane)};
  *out = NULL;
  if (!place.lane)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the places of %d lanes", count);
  for (int i = 0; i < count; i++)
    place.lane[i] = (hd_binding){others->lane[i].cpu, others->lane[i].numa, others->lane[i].kind, others->lane[i].l3};
  hd_status status = hd__lanes_create(out, ctx, &place);
  hd__free(place.lane);
  return status;
}

void hd__lanes_unbind(hd_lanes *lanes) {
  hd__claim_drop(&lanes->claim);
  for (int i = 0; i < lanes->count; i++)
    lanes->lane[i] = anywhere;
}

void hd__lanes_destroy(hd_lanes *lanes) {
  if (!lanes)
    return;
  hd__claim_drop(&lanes->claim);
  hd__free(lanes->lane);
  hd__free(lanes->speed);
  hd__free(lanes->worker);
  hd__free(lanes);
}

int hd__lanes_count(const hd_lanes *lanes) { return lanes->count; }

int hd__lanes_cpu(const hd_lanes *lanes, int lane) { return lanes->lane[lane].cpu; }

int hd__lanes_cache(const hd_lanes *lanes, int lane) { return lanes->lane[lane].l3; }

const hd_binding *hd__lanes_workers(const hd_lanes *lanes) { return lanes->worker; }

int hd__lanes_disputed(const hd_lanes *lanes) { return lanes->disputed; }

int hd__lanes_cpus(const hd_lanes *lanes) { return lanes->cpus; }

int hd__lanes_crowded(const hd_lanes *lanes) { return lanes->count > lanes->cpus; }

const int32_t *hd__lanes_speeds(const hd_lanes *lanes) { return lanes->has_speeds ? lanes->speed : NULL; }

int hd__lanes_want_rates(const hd_lanes *lanes) {
  bool differ = false;
  for (int i = 1; i < lanes->count; i++)
    differ |= lanes->lane[i].kind != lanes->lane[0].kind;
  return differ && !lanes->has_speeds;
}

/* A kind is as fast as the fastest of its lanes: others were disturbed while they were timed. */
void hd__lanes_take_rates(hd_lanes *lanes, const double *rate) {
  double of_kind[HD_MAX_KINDS + 1] = {0}, most = 0;
  for (int i = 0; i < lanes->count; i++) {
    double *known = &of_kind[lanes->lane[i].kind + 1];
    *known = rate[i] > *known ? rate[i] : *known;
    most = rate[i] > most ? rate[i] : most;
  }
  for (int i = 0; i < lanes->count; i++)
    lanes->speed[i] = most > 0 ? (int32_t)(of_kind[lanes->lane[i].kind + 1] / most * MOST_SPEED + 0.5) : MOST_SPEED;
  lanes->has_speeds = true;
}

int hd__lanes_far_apart(const hd_lanes *lanes) {
  bool differ = false;
  for (int i = 1; i < lanes->count; i++)
    differ |= lanes->lane[i].numa != lanes->lane[0].numa;
  return differ;
}

void hd__lanes_bind_memory(hd_lanes *lanes, char *const *from) {
  hd_memory_piece *piece = hd__calloc((size_t)lanes->count, sizeof *piece);
  int pieces = 0;
  for (int i = 0; piece && i < lanes->count; i++)
    if (lanes->lane[i].numa >= 0)
      piece[pieces++] = (hd_memory_piece){from[i], (size_t)(from[i + 1] - from[i]), lanes->lane[i].numa};
  lanes->memory_refused |= !piece || hd__topology_bind_memory(NULL, piece, pieces) != HD_OK;
  hd__free(piece);
}

const char *hd__lanes_refused(const hd_lanes *lanes) {
  static const char *const text[] = {NULL, "the system refuses to bind threads to CPUs: they run where it puts them",
                                     "the system refuses to bind memory to NUMA nodes: it comes from where it is taken",
                                     "the system refuses to bind threads to CPUs and memory to NUMA nodes: they are "
                                     "where it puts them"};
  return text[(lanes->lane_refused ? 1 : 0) + (lanes->memory_refused ? 2 : 0)];
}

/* Binds this thread to a CPU; *before is what it was bound to. False where it stays as it was. */
static bool bind(int cpu, hd_cpu_set *before) {
  hd_cpu_set set;
  hd__cpu_set_one(&set, cpu);
  return hd__cpu_set_read(before) && hd__cpu_set_bind(&set);
}

/* One lane's part of a region. */
static void run_lane(hd_lanes *lanes, int lane, void (*work)(void *, int), void *arg) {
  hd_cpu_set before;
  const bool wants = lanes->lane[lane].cpu >= 0, bound = wants && bind(lanes->lane[lane].cpu, &before);
  if (wants && !bound)
    atomic_store(&lanes->lane_refused, true);
  uint64_t mode = hd__fpmode_enter();
  work(arg, lane);
  hd__fpmode_leave(mode);
  if (bound)
    hd__cpu_set_bind(&before);
}

hd_status hd__lanes_run(hd_lanes *lanes, hd_ctx *ctx, void (*work)(void *arg, int lane), void *arg) {
  atomic_int came = 0;
  const int there = startable(lanes->count); /* whoever made them may have been another thread */
  if (there < lanes->count)
    return threads_refused(ctx, lanes->count, there);
#pragma omp parallel num_threads(lanes->count)
  {
    if (omp_get_thread_num() == 0)
      atomic_store(&came, omp_get_num_threads());
    if (omp_get_num_threads() == lanes->count)
      run_lane(lanes, omp_get_thread_num(), work, arg);
  }
  return came == lanes->count ? HD_OK : region_failed(ctx, lanes->count, came);
}
