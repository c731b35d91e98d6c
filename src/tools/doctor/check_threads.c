/* Checks of the number of threads against the number of CPUs, and of other load. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/doctor/doctor_checks.h"

static const double TURN_S = 0.05, SHOWS = 1.01;
enum { TURNS = 4 };

/* The factor by which steps are faster with `few` threads than with `many`, by the clock or by processor time,
 * whichever is larger: teams take turns, and the best of each counts. If other programs use the CPUs, many threads get
 * more of them by the clock, and few threads spend theirs on waiting: then there is no difference, and the factor is
 * NAN. */
static hd_status compare_teams(double *factor, hd_ctx *ctx, const hd_machine_facts *facts, int few, int many) {
  hd_pace best[2] = {{0}}, now;
  for (int turn = 0; turn < 2 * TURNS; turn++) {
    hd_pace *team = &best[turn % 2];
    HD_TRY(hd__work_steps(&now, ctx, facts->kernels, turn % 2 ? many : few, few, TURN_S));
    team->wall = now.wall > team->wall ? now.wall : team->wall;
    team->cpu = now.cpu > team->cpu ? now.cpu : team->cpu;
  }
  *factor = fmax(best[0].wall / best[1].wall, best[0].cpu / best[1].cpu);
  *factor = *factor >= SHOWS ? *factor : NAN;
  return HD_OK;
}

static const char *cost_text(char *text, size_t bytes, double factor, int few) {
  if (isfinite(factor))
    snprintf(text, bytes, "with %d thread%s a step is %.2f times as fast", few, few > 1 ? "s" : "", factor);
  else
    snprintf(text, bytes, "the cost cannot be measured while other programs use the CPUs");
  return text;
}

enum { REMEDY_BYTES = 128 };

static const char *fewer_threads(char remedy[REMEDY_BYTES], int threads) {
  const char *omp = getenv("OMP_NUM_THREADS");
  if (omp && *omp)
    snprintf(remedy, REMEDY_BYTES, "unset OMP_NUM_THREADS, or export OMP_NUM_THREADS=%d", threads);
  else
    snprintf(remedy, REMEDY_BYTES, "use --threads %d", threads);
  return remedy;
}

hd_status hd__check_quota(hd_finding *out, hd_ctx *ctx, const hd_machine_facts *facts) {
  char remedy[REMEDY_BYTES], cost[96];
  double factor;
  int few = facts->quota < 1 ? 1 : (int)facts->quota;
  if (facts->quota <= 0 || facts->threads <= few)
    return HD_OK;
  HD_TRY(compare_teams(&factor, ctx, facts, few, facts->threads));
  hd__find(out, factor, fewer_threads(remedy, few), "%d threads under a quota of %g CPUs: %s", facts->threads,
           facts->quota, cost_text(cost, sizeof cost, factor, few));
  return HD_OK;
}

hd_status hd__check_oversubscribed(hd_finding *out, hd_ctx *ctx, const hd_machine_facts *facts) {
  char remedy[REMEDY_BYTES], cost[96];
  double factor;
  if (facts->threads <= facts->cpus)
    return HD_OK;
  HD_TRY(compare_teams(&factor, ctx, facts, facts->cpus, facts->threads));
  hd__find(out, factor, fewer_threads(remedy, facts->cpus), "%d threads share %d CPU%s: %s", facts->threads,
           facts->cpus, facts->cpus == 1 ? "" : "s", cost_text(cost, sizeof cost, factor, facts->cpus));
  return HD_OK;
}

/* A file of any length, as a string; NULL when out of memory. */
static char *read_all(const hd_machine_facts *facts, const char *path) {
  for (size_t bytes = 1 << 16;; bytes *= 2) {
    char *text = hd__malloc(bytes);
    if (!text || strlen(hd__host_text(text, bytes, facts, path)) + 1 < bytes)
      return text;
    hd__free(text);
  }
}

hd_status hd__check_runtimes(hd_finding *out, hd_ctx *ctx, const hd_machine_facts *facts) {
  char names[96], cost[96];
  char *maps = read_all(facts, "/proc/self/maps");
  HD_TRY(HD_ALLOCATED(maps, ctx, "out of memory for /proc/self/maps"));
  int count = hd__count_runtimes(names, sizeof names, maps);
  hd__free(maps);
  if (count < 2)
    return HD_OK;
  double factor;
  HD_TRY(compare_teams(&factor, ctx, facts, facts->threads, facts->threads * count));
  hd__find(out, factor, "use only one: check LD_PRELOAD, and link every library with the same runtime",
           "%d OpenMP runtimes (%s), %d threads in all: %s", count, names, facts->threads * count,
           cost_text(cost, sizeof cost, factor, facts->threads));
  return HD_OK;
}

/* Shares of the effort's time that went to others. */
static double lost_share(const hd_machine_facts *facts) {
  double could = facts->effort.wall_s * facts->effort.threads;
  return could > 0 ? 1 - facts->effort.cpu_s / could : 0;
}

static double steal_share(const hd_machine_facts *facts) {
  double total = facts->after.total - facts->before.total;
  return total > 0 ? (facts->after.steal - facts->before.steal) / total : 0;
}

static double throttled_share(const hd_machine_facts *facts) {
  double could = facts->effort.wall_s * facts->effort.threads;
  return could > 0 ? (facts->after.throttled_s - facts->before.throttled_s) / could : 0;
}

hd_status hd__check_steal(hd_finding *out, hd_ctx *ctx, const hd_machine_facts *facts) {
  double share = steal_share(facts);
  if (share >= 0.02)
    hd__find(out, 1 / (1 - fmin(share, 0.99)),
             "ask for a machine with dedicated CPUs, or use fewer --threads than CPUs",
             "the host of this virtual machine took %.0f %% of the processor time", 100 * share);
  return HD_OK;
}

hd_status hd__check_throttled(hd_finding *out, hd_ctx *ctx, const hd_machine_facts *facts) {
  char remedy[REMEDY_BYTES];
  double share = throttled_share(facts);
  if (share < 0.02)
    return HD_OK;
  snprintf(remedy, sizeof remedy, "raise the container's CPU limit, or use --threads %d",
           facts->quota >= 1 ? (int)facts->quota : 1);
  hd__find(out, 1 / (1 - fmin(share, 0.99)), remedy,
           "the cgroup was stopped for %.0f %% of the processor time it asked for", 100 * share);
  return HD_OK;
}

hd_status hd__check_busy(hd_finding *out, hd_ctx *ctx, const hd_machine_facts *facts) {
  double share = lost_share(facts) - steal_share(facts) - throttled_share(facts);
  if (share >= 0.1)
    hd__find(out, 1 / (1 - fmin(share, 0.99)), "stop other programs; top shows them",
             "other programs used %.0f %% of the time of %d CPU%s", 100 * share, facts->effort.threads,
             facts->effort.threads == 1 ? "" : "s");
  return HD_OK;
}
