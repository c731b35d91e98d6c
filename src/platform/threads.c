/* Running regions on a team, binding its threads, setting their floating-point mode; and the speeds of threads. */
#include "platform/threads.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/status.h"
#include "platform/cpu_claim.h"
#include "platform/cpu_set.h"
#include "platform/fpmode.h"
#include "platform/thread_start.h"
#include "platform/thread_team.h"
#include "platform/topology.h"

enum { MOST_SPEED = 1000 };

static const hd_binding anywhere = {-1, -1, -1, -1};

struct hd_threads {
  int count;
  hd_thread_team *team; /* NULL: one thread, the caller's */
  int cpus;             /* that may be busy at once */
  hd_binding *thread;
  hd_binding *worker; /* NULL: none were requested */
  int32_t *speed;
  bool has_speeds; /* else all are equal */
  bool disputed;   /* another job has one of the CPUs, too */
  atomic_bool thread_refused;
  bool memory_refused;
  hd_claim claim;
};

static hd_status threads_refused(hd_ctx *ctx, int wanted, int there) {
  return hd__fail(ctx, HD_E_SYSTEM,
                  "expected %d threads, but the system starts no more than %d; lower --threads, or raise `ulimit -u`, "
                  "`ulimit -v` or the container's limit on processes",
                  wanted, there);
}

/* The variable is not heddle's, but it limits the threads of programs. */
int32_t hd__threads_most(void) {
  const char *text = getenv("OMP_THREAD_LIMIT");
  int64_t limit;
  if (!text || !hd__parse_int64(&limit, text) || limit < 1)
    return 0;
  return limit < HD_MAX_THREADS ? (int32_t)limit : HD_MAX_THREADS;
}

static int allowed(int wanted) {
  const int most = hd__threads_most();
  return most > 0 && most < wanted ? most : wanted;
}

static hd_status start_team(hd_threads *threads, hd_ctx *ctx) {
  if (threads->count == 1)
    return HD_OK;
  const int there = hd__thread_team_create(&threads->team, threads->count, threads->count > threads->cpus);
  HD_TRY(HD_ALLOCATED(there > 0, ctx, "out of memory for %d threads", threads->count));
  return there == threads->count ? HD_OK : threads_refused(ctx, threads->count, there);
}

/* "2,2,1": one number for each thread, repeated from the start as needed. */
static hd_status read_speeds(hd_threads *threads, hd_ctx *ctx, const char *text) {
  int32_t sum = 0;
  const char *at = text;
  for (int i = 0; i < threads->count; i++) {
    char item[8] = "";
    int64_t speed;
    size_t length = strcspn(at, ",");
    strncat(item, at, length < sizeof item ? length : 0);
    if (!hd__parse_int64(&speed, item) || speed < 0 || speed > MOST_SPEED)
      return hd__fail(ctx, HD_E_USAGE,
                      "HEDDLE_THREAD_SPEEDS expects numbers from 0 to %d such as 2,2,1, found '%.80s'; unset it to "
                      "have them measured",
                      MOST_SPEED, text);
    threads->speed[i] = (int32_t)speed;
    sum += threads->speed[i];
    at = at[length] ? at + length + 1 : text;
  }
  if (sum == 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "HEDDLE_THREAD_SPEEDS expects one of the first %d above 0, found '%.80s'; raise one or unset it",
                    threads->count, text);
  return HD_OK;
}

static hd_status fill(hd_threads *threads, hd_ctx *ctx, const hd_placement *place) {
  const char *speeds = getenv("HEDDLE_THREAD_SPEEDS");
  threads->thread = hd__calloc((size_t)threads->count, sizeof *threads->thread);
  threads->speed = hd__calloc((size_t)threads->count, sizeof *threads->speed);
  if (place->workers > 0)
    threads->worker = hd__calloc((size_t)place->workers, sizeof *threads->worker);
  if (!threads->thread || !threads->speed || (place->workers > 0 && !threads->worker))
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d threads", threads->count);
  if (place->workers > 0)
    memcpy(threads->worker, place->worker, (size_t)place->workers * sizeof *threads->worker);
  for (int i = 0; i < threads->count; i++)
    threads->thread[i] = i < place->threads ? place->thread[i] : anywhere;
  threads->has_speeds = speeds && *speeds;
  return threads->has_speeds ? read_speeds(threads, ctx, speeds) : HD_OK;
}

hd_status hd__threads_create(hd_threads **out, hd_ctx *ctx, const hd_placement *place) {
  *out = NULL;
  HD_TRY(hd__thread_check_stack(ctx));
  hd_threads *threads = *out = hd__calloc(1, sizeof *threads);
  HD_TRY(HD_ALLOCATED(threads, ctx, "out of memory for %d threads", place->threads));
  *threads = (hd_threads){.count = allowed(place->threads), .cpus = place->cpus};
  hd_status status = fill(threads, ctx, place);
  HD_THEN(status, start_team(threads, ctx));
  return HD_CREATED(status, out, hd__threads_destroy);
}

HD_RELEASER(release_machine, hd_topology, hd_topology_destroy)

hd_status hd__threads_place(hd_placement **out, hd_ctx *ctx, const hd_placement_request *request) {
  HD_RELEASED(release_machine) hd_topology *machine = NULL;
  hd_placement_request wanted = *request;
  if (ctx && wanted.threads == 0)
    wanted.threads = ctx->threads;
  *out = NULL;
  HD_TRY(hd_topology_create(&machine, ctx));
  return hd__placement_create(out, ctx, machine, &wanted);
}

/* Two jobs that start at once may choose the same CPUs. One of them claims them, the other chooses again, unless the
 * user has chosen. */
hd_status hd__threads_open(hd_threads **out, hd_ctx *ctx, const hd_placement_request *request) {
  enum { ATTEMPTS = 3 };
  hd_placement_request within = *request;
  within.most = hd__threads_most();
  *out = NULL;
  for (int attempt = 1;; attempt++) {
    hd_placement *place;
    HD_TRY(hd__threads_place(&place, ctx, &within));
    hd_status status = hd__threads_open_at(out, ctx, place);
    hd_placement_destroy(place);
    if (status != HD_OK || !(*out)->disputed || request->cpus || attempt == ATTEMPTS)
      return status;
    hd__threads_destroy(*out);
    *out = NULL;
  }
}

hd_status hd__threads_open_at(hd_threads **out, hd_ctx *ctx, const hd_placement *place) {
  hd_claim claim = {0};
  hd_placement run = *place; /* of which all threads run */
  run.threads = allowed(place->threads);
  const bool complete = hd__claim_take(&claim, &run);
  hd_status status = hd__threads_create(out, ctx, place);
  if (status != HD_OK) {
    hd__claim_drop(&claim);
    return status;
  }
  (*out)->claim = claim;
  (*out)->disputed = !complete;
  return HD_OK;
}

hd_status hd__threads_first(hd_threads **out, hd_ctx *ctx, const hd_threads *others, int count) {
  *out = NULL;
  HD_OWNED hd_binding *thread = hd__malloc((size_t)count * sizeof *thread);
  HD_TRY(HD_ALLOCATED(thread, ctx, "out of memory for the places of %d threads", count));
  memcpy(thread, others->thread, (size_t)count * sizeof *thread);
  return hd__threads_create(out, ctx, &(hd_placement){.threads = count, .cpus = others->cpus, .thread = thread});
}

void hd__threads_unbind(hd_threads *threads) {
  hd__claim_drop(&threads->claim);
  for (int i = 0; i < threads->count; i++)
    threads->thread[i] = anywhere;
}

void hd__threads_destroy(hd_threads *threads) {
  if (!threads)
    return;
  hd__thread_team_destroy(threads->team);
  hd__claim_drop(&threads->claim);
  hd__free(threads->thread);
  hd__free(threads->speed);
  hd__free(threads->worker);
  hd__free(threads);
}

int hd__threads_count(const hd_threads *threads) { return threads->count; }

int hd__threads_cpu(const hd_threads *threads, int thread) { return threads->thread[thread].cpu; }

int hd__threads_cache(const hd_threads *threads, int thread) { return threads->thread[thread].l3; }

const hd_binding *hd__threads_workers(const hd_threads *threads) { return threads->worker; }

int hd__threads_disputed(const hd_threads *threads) { return threads->disputed; }

void hd__threads_set_cpus(hd_threads *threads, int cpus) { threads->cpus = cpus; }

int hd__threads_cpus(const hd_threads *threads) { return threads->cpus; }

int hd__threads_share_cpus(const hd_threads *threads) { return threads->count > threads->cpus; }

const int32_t *hd__threads_speeds(const hd_threads *threads) { return threads->has_speeds ? threads->speed : NULL; }

int hd__threads_need_speeds(const hd_threads *threads) {
  bool differ = false;
  for (int i = 1; i < threads->count; i++)
    differ |= threads->thread[i].kind != threads->thread[0].kind;
  return differ && !threads->has_speeds;
}

/* The speed of a kind is that of its fastest thread: slower ones were disturbed while they were timed. */
void hd__threads_set_speeds(hd_threads *threads, const double *rate) {
  double of_kind[HD_MAX_KINDS + 1] = {0}, most = 0;
  for (int i = 0; i < threads->count; i++) {
    double *known = &of_kind[threads->thread[i].kind + 1];
    *known = rate[i] > *known ? rate[i] : *known;
    most = rate[i] > most ? rate[i] : most;
  }
  for (int i = 0; i < threads->count; i++)
    threads->speed[i] =
        most > 0 ? (int32_t)(of_kind[threads->thread[i].kind + 1] / most * MOST_SPEED + 0.5) : MOST_SPEED;
  threads->has_speeds = true;
}

int hd__threads_span_nodes(const hd_threads *threads) {
  bool differ = false;
  for (int i = 1; i < threads->count; i++)
    differ |= threads->thread[i].numa != threads->thread[0].numa;
  return differ;
}

void hd__threads_bind_memory(hd_threads *threads, char *const *from) {
  HD_OWNED hd_memory_range *range = hd__calloc((size_t)threads->count, sizeof *range);
  int count = 0;
  for (int i = 0; range && i < threads->count; i++)
    if (threads->thread[i].numa >= 0)
      range[count++] = (hd_memory_range){from[i], (size_t)(from[i + 1] - from[i]), threads->thread[i].numa};
  threads->memory_refused |= !range || hd__topology_bind_memory(NULL, range, count) != HD_OK;
}

const char *hd__threads_refused(const hd_threads *threads) {
  static const char *const text[] = {
      NULL, "threads could not be bound to CPUs; the system places them",
      "memory could not be bound to NUMA nodes; it is allocated where a thread first touches it",
      "threads could not be bound to CPUs, nor memory to NUMA nodes; the system places both"};
  return text[(threads->thread_refused ? 1 : 0) + (threads->memory_refused ? 2 : 0)];
}

/* Binds this thread to a CPU; *before is the binding before. False: the binding is unchanged. */
static bool bind(int cpu, hd_cpu_set *before) {
  hd_cpu_set set;
  hd__cpu_set_one(&set, cpu);
  return hd__cpu_set_read(before) && hd__cpu_set_bind(&set);
}

typedef struct region {
  hd_threads *threads;
  void (*work)(void *arg, int thread);
  void *arg;
} region;

/* The work of one thread in a region. */
static void run_thread(void *arg, int thread) {
  const region *r = arg;
  const int cpu = r->threads->thread[thread].cpu;
  hd_cpu_set before;
  const bool bound = cpu >= 0 && bind(cpu, &before);
  if (cpu >= 0 && !bound)
    atomic_store(&r->threads->thread_refused, true);
  uint64_t mode = hd__fpmode_enter();
  r->work(r->arg, thread);
  hd__fpmode_leave(mode);
  if (bound)
    hd__cpu_set_bind(&before);
}

hd_status hd__threads_run(hd_threads *threads, hd_ctx *ctx, void (*work)(void *arg, int thread), void *arg) {
  region r = {threads, work, arg};
  if (threads->team) {
    const int there = hd__thread_team_run(threads->team, run_thread, &r);
    return there == threads->count ? HD_OK : threads_refused(ctx, threads->count, there);
  }
  run_thread(&r, 0);
  return HD_OK;
}

/* ---- The number of threads of a context (heddle/topology.h), which hd__threads_place reads ---- */

/* Warns in the context if there are more threads than CPUs that may be busy at once. An error in reading the machine
 * gives no warning: opening threads reports it. */
static void warn(hd_ctx *ctx, int32_t threads) {
  hd_topology *machine;
  const int32_t cpus = hd_topology_create(&machine, ctx) == HD_OK ? machine->budget.cpus : threads;
  hd_topology_destroy(machine);
  ctx->message[0] = 0;
  if (threads > cpus)
    hd__fail(ctx, HD_OK, "warning: %d threads share %d CPU%s, which is slower; use %d or fewer", threads, cpus,
             cpus == 1 ? "" : "s", cpus);
}

hd_status hd_set_num_threads(hd_ctx *ctx, int32_t threads) {
  if (!ctx || threads < 1 || threads > HD_MAX_THREADS)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected 1 to %d threads, found %d; hd_get_num_threads gives a good number for this machine",
                    HD_MAX_THREADS, threads);
  ctx->threads = threads;
  warn(ctx, threads);
  return HD_OK;
}

hd_status hd_get_num_threads(int32_t *threads, hd_ctx *ctx) {
  hd_placement *place;
  *threads = 0;
  HD_TRY(hd__threads_place(&place, ctx, &(hd_placement_request){.most = hd__threads_most()}));
  *threads = place->threads;
  hd_placement_destroy(place);
  return HD_OK;
}
