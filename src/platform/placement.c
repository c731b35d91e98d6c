/* Placement: maps a machine to the CPUs of threads. A pure function, so that tests can run it on descriptions of
 * machines.
 *
 * A policy is an order of the usable CPUs; threads take the first ones. An order is a sort by small keys, which are
 * positions in the machine counted over the usable CPUs: a mask with holes is a smaller machine. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/status.h"
#include "platform/cgroup.h"
#include "platform/placement.h"

enum { KEYS = 6 };

typedef struct spot {
  const hd_cpu *cpu;
  int key[KEYS]; /* compared from the first on */
} spot;

/* The state of making a placement. */
typedef struct placing {
  const hd_topology *t;
  const hd_placement_request *request;
  spot *spot; /* usable CPUs in the order of the policy, or those of the list in its order */
  int spots;
  hd_placement *out;
} placing;

/* ---- The order of a policy ---- */

/* The position of a CPU among the usable ones: its index in its core, of the core in its L3 group, of the group in
 * its NUMA node, of the node in its package. */
typedef struct cpu_position {
  int turn, core, l3, numa;
} cpu_position;

static cpu_position next_position(cpu_position before, const hd_cpu *last, const hd_cpu *cpu) {
  if (!last || last->package != cpu->package)
    return (cpu_position){0};
  if (last->numa != cpu->numa)
    return (cpu_position){.numa = before.numa + 1};
  if (last->l3 != cpu->l3)
    return (cpu_position){.numa = before.numa, .l3 = before.l3 + 1};
  if (last->core != cpu->core)
    return (cpu_position){.numa = before.numa, .l3 = before.l3, .core = before.core + 1};
  before.turn++;
  return before;
}

/* Whether another job is bound to the core: 1: one of this user; 2: another user claims so, which may be untrue. */
static int busy_of(const hd_topology *t, const hd_cpu *cpu) {
  int busy = 0;
  for (const hd_cpu *c = cpu - cpu->sibling; c < t->cpu + t->cpus && c->core == cpu->core; c++)
    busy = c->busy == 1 || busy == 0 ? c->busy : busy;
  return busy;
}

static void set_keys(spot *s, cpu_position at, const placing *p, int position) {
  const int power = -s->cpu->kind, busy = busy_of(p->t, s->cpu) != 0;
  switch (p->request->policy) {
  case HD_PLACEMENT_COMPACT: memcpy(s->key, (int[KEYS]){power, position}, sizeof s->key); break;
  case HD_PLACEMENT_SPREAD:
    memcpy(s->key, (int[KEYS]){at.turn, power, at.core, at.l3, at.numa, s->cpu->package}, sizeof s->key);
    break;
  case HD_PLACEMENT_PHYSICAL: memcpy(s->key, (int[KEYS]){at.turn, busy, power, position}, sizeof s->key); break;
  case HD_PLACEMENT_ALL: memcpy(s->key, (int[KEYS]){at.turn, power, position}, sizeof s->key); break;
  }
}

static int compare(const void *left, const void *right) {
  const spot *a = left, *b = right;
  for (int k = 0; k < KEYS; k++)
    if (a->key[k] != b->key[k])
      return a->key[k] < b->key[k] ? -1 : 1;
  return 0;
}

static void order_by_policy(placing *p) {
  cpu_position at = {0};
  const hd_cpu *last = NULL;
  for (int i = 0; i < p->t->cpus; i++) {
    const hd_cpu *cpu = &p->t->cpu[i];
    if (!cpu->usable)
      continue;
    at = next_position(at, last, cpu);
    last = cpu;
    p->spot[p->spots].cpu = cpu;
    set_keys(&p->spot[p->spots++], at, p, i);
  }
  qsort(p->spot, (size_t)p->spots, sizeof *p->spot, compare);
}

/* ---- A list of CPUs ---- */

static const hd_cpu *usable_cpu(const hd_topology *t, int64_t number) {
  for (int i = 0; i < t->cpus; i++)
    if (t->cpu[i].cpu == number && t->cpu[i].usable)
      return &t->cpu[i];
  return NULL;
}

/* "0-3,8": the usable CPUs. */
static void mask_text(char *text, size_t room, const hd_topology *t) {
  int most = 0;
  size_t at = 0;
  for (int i = 0; i < t->cpus; i++)
    most = t->cpu[i].cpu > most ? t->cpu[i].cpu : most;
  text[0] = 0;
  for (int from = 0; from <= most && at < room; from++) {
    int to = from;
    if (!usable_cpu(t, from))
      continue;
    while (usable_cpu(t, to + 1))
      to++;
    int length = snprintf(text + at, room - at, from == to ? "%s%d" : "%s%d-%d", at ? "," : "", from, to);
    at += (size_t)length;
    from = to;
  }
}

static hd_status add_cpu(placing *p, hd_ctx *ctx, int64_t number) {
  const hd_cpu *cpu = usable_cpu(p->t, number);
  if (!cpu) {
    char usable[160];
    mask_text(usable, sizeof usable, p->t);
    return hd__fail(ctx, HD_E_USAGE, "--cpus expects CPUs that this process may use (%s), found %lld; see heddle topo",
                    usable, (long long)number);
  }
  for (int i = 0; i < p->spots; i++)
    if (p->spot[i].cpu == cpu)
      return hd__fail(ctx, HD_E_USAGE, "--cpus expects each CPU once, found %lld twice; leave one out",
                      (long long)number);
  p->spot[p->spots++].cpu = cpu;
  return HD_OK;
}

/* "4" or "0-3". */
static bool parse_range(const char *item, int64_t *from, int64_t *to) {
  char low[24];
  const char *dash = strchr(item, '-');
  if (!dash)
    return hd__parse_int64(from, item) && hd__parse_int64(to, item) && *from >= 0;
  if (dash - item >= (int)sizeof low)
    return false;
  snprintf(low, sizeof low, "%.*s", (int)(dash - item), item);
  return hd__parse_int64(from, low) && hd__parse_int64(to, dash + 1) && *from >= 0 && *to >= *from;
}

static hd_status take_list(placing *p, hd_ctx *ctx) {
  const char *at = p->request->cpus;
  for (bool more = true; more; at++) {
    char item[48];
    int64_t from, to;
    size_t length = strcspn(at, ",");
    snprintf(item, sizeof item, "%.*s", (int)(length < sizeof item ? length : 0), at);
    if (!parse_range(item, &from, &to))
      return hd__fail(ctx, HD_E_USAGE, "--cpus expects numbers of CPUs such as 0-3,8, found '%.80s'; see heddle topo",
                      p->request->cpus);
    for (int64_t cpu = from; cpu <= to; cpu++)
      HD_TRY(add_cpu(p, ctx, cpu));
    at += length;
    more = *at == ',';
  }
  return HD_OK;
}

/* ---- The number of threads, and its reason ---- */

static void say(placing *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(placing *p, const char *fmt, ...) {
  size_t used = strlen(p->out->why);
  va_list args;
  va_start(args, fmt);
  vsnprintf(p->out->why + used, sizeof p->out->why - used, fmt, args);
  va_end(args);
}

/* OMP_NUM_THREADS is a list, one number for each level of nesting; the first number counts. */
static hd_status take_omp(placing *p, hd_ctx *ctx) {
  const char *wanted = p->t->budget.omp;
  int64_t number;
  char first[24] = "";
  sscanf(wanted, " %20[^, \t]", first);
  if (!hd__parse_int64(&number, first) || number < 1 || number > HD_MAX_THREADS)
    return hd__fail(ctx, HD_E_USAGE,
                    "OMP_NUM_THREADS expects a whole number from 1 to %d, found '%.80s'; unset it or use --threads N",
                    HD_MAX_THREADS, wanted);
  p->out->threads = (int32_t)number;
  say(p, "OMP_NUM_THREADS=%s", first);
  return HD_OK;
}

static void suit_machine(placing *p) {
  const hd_budget *budget = &p->t->budget;
  const bool cores = !p->request->cpus && p->request->policy != HD_PLACEMENT_ALL;
  const int most = cores ? budget->cores : p->spots;
  p->out->threads = most < budget->cpus ? most : budget->cpus;
  if (budget->cpus < most)
    say(p, "the quota of %.3g CPUs in %s", budget->quota, budget->quota_file);
  else if (p->request->cpus)
    say(p, "one for each CPU of the list");
  else
    say(p, "one for each of the %d %s that this process may use, of %d", most, cores ? "cores" : "CPUs",
        cores ? p->t->cores : p->t->cpus);
  if (p->out->threads > HD_MAX_THREADS)
    p->out->threads = HD_MAX_THREADS;
  if (p->out->threads < 1)
    p->out->threads = 1;
}

static hd_status count_threads(placing *p, hd_ctx *ctx) {
  const int threads = p->request->threads, quota = hd__quota_floor(p->t->budget.quota);
  p->out->cpus = p->spots < quota ? p->spots : quota;
  if (threads < 0 || threads > HD_MAX_THREADS)
    return hd__fail(ctx, HD_E_USAGE, "expected 0 to %d threads, found %d", HD_MAX_THREADS, threads);
  if (threads > 0) {
    p->out->threads = threads;
    say(p, "as asked for");
  } else if (*p->t->budget.omp) {
    HD_TRY(take_omp(p, ctx));
  } else {
    suit_machine(p);
  }
  if (p->request->most > 0 && p->out->threads > p->request->most) {
    p->out->threads = p->request->most;
    say(p, "; OMP_THREAD_LIMIT allows %d", p->out->threads);
  }
  return HD_OK;
}

/* Whether threads may be bound; if not, adds the reason to the text. */
static bool may_bind(placing *p) {
  if (p->request->cpus)
    return true;
  if (p->out->threads > p->spots) {
    say(p, "; not bound to CPUs, since they share %d CPU%s", p->spots, p->spots == 1 ? "" : "s");
    return false;
  }
  if (p->request->policy != HD_PLACEMENT_PHYSICAL)
    return true;
  if (p->out->cpus < p->spots) {
    say(p, "; not bound to CPUs, since a quota applies to all CPUs together");
    return false;
  }
  bool busy = false, named = false;
  for (int i = 0; i < p->out->threads; i++) {
    busy |= busy_of(p->t, p->spot[i].cpu) == 1;
    named |= busy_of(p->t, p->spot[i].cpu) == 2;
  }
  if (busy && p->out->threads < p->spots) {
    say(p, "; not bound to CPUs, since other jobs are bound to some of the cores");
    return false;
  }
  if (named)
    say(p, "; bound to CPUs although another user has claimed some of the cores");
  return true;
}

/* ---- Places ---- */

static hd_binding binding_of(const hd_cpu *cpu) { return (hd_binding){cpu->cpu, cpu->numa, cpu->kind, cpu->l3}; }

static bool has_thread(const placing *p, const hd_cpu *cpu, bool same_core) {
  for (int i = 0; i < p->out->threads && i < p->spots; i++)
    if (p->spot[i].cpu == cpu || (same_core && p->spot[i].cpu->core == cpu->core))
      return true;
  return false;
}

static bool has_worker(const placing *p, int workers, const hd_cpu *cpu, bool same_core) {
  for (int w = 0; w < workers; w++) {
    const hd_cpu *other = p->out->worker[w].cpu < 0 ? NULL : usable_cpu(p->t, p->out->worker[w].cpu);
    if (other && (other == cpu || (same_core && other->core == cpu->core)))
      return true;
  }
  return false;
}

/* The first usable CPU without a thread or an earlier worker; `alone`: on a core without one. */
static const hd_cpu *spare(const placing *p, int workers, bool alone) {
  for (int i = 0; i < p->t->cpus; i++) {
    const hd_cpu *cpu = &p->t->cpu[i];
    if (cpu->usable && !has_thread(p, cpu, alone) && !has_worker(p, workers, cpu, alone))
      return cpu;
  }
  return NULL;
}

static void fill_places(placing *p) {
  hd_placement *out = p->out;
  const bool bind = may_bind(p);
  for (int i = 0; i < out->threads; i++)
    out->thread[i] = bind ? binding_of(p->spot[i % p->spots].cpu) : (hd_binding){-1, -1, -1, -1};
  for (int w = 0; w < out->workers; w++) {
    const hd_cpu *cpu = bind ? spare(p, w, true) : NULL;
    if (bind && !cpu)
      cpu = spare(p, w, false);
    out->worker[w] = cpu ? binding_of(cpu) : (hd_binding){-1, -1, -1, -1};
  }
}

static hd_status place(placing *p, hd_ctx *ctx) {
  hd_placement *out = p->out;
  const int workers = p->request->workers;
  if (workers < 0 || workers > HD_MAX_THREADS)
    return hd__fail(ctx, HD_E_USAGE, "expected 0 to %d workers, found %d", HD_MAX_THREADS, workers);
  HD_TRY(HD_NEW(p->spot, p->t->cpus, ctx, "out of memory for the order of CPUs"));
  if (p->request->cpus)
    HD_TRY(take_list(p, ctx));
  else
    order_by_policy(p);
  HD_TRY(count_threads(p, ctx));
  out->workers = workers;
  out->thread = hd__calloc((size_t)out->threads, sizeof *out->thread);
  out->worker = hd__calloc((size_t)workers + 1, sizeof *out->worker);
  HD_TRY(HD_ALLOCATED(out->thread && out->worker, ctx, "out of memory for the places of %d threads", out->threads));
  fill_places(p);
  return HD_OK;
}

hd_status hd__placement_create(hd_placement **out, hd_ctx *ctx, const hd_topology *topology,
                               const hd_placement_request *request) {
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for a placement"));
  placing p = {.t = topology, .request = request, .out = *out};
  hd_status status = place(&p, ctx);
  hd__free(p.spot);
  return HD_CREATED(status, out, hd_placement_destroy);
}

void hd_placement_destroy(hd_placement *placement) {
  if (!placement)
    return;
  hd__free(placement->thread);
  hd__free(placement->worker);
  hd__free(placement);
}
