/* Checks of how many threads there are for how many CPUs, and of who else is there. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "doctor/patient.h"

static const double TURN_S = 0.05, SHOWS = 1.01;
enum { TURNS = 4 };

/* How much faster steps are with `few` threads than with `many`, by the clock or by processor time, whichever shows
 * more: teams take turns, and the best of each counts. Where other programs have the CPUs, many threads get more of
 * them by the clock, and few spend theirs on waiting: then nothing shows, and the factor is NAN. */
static hd_status compare_teams(double *factor, hd_ctx *ctx, const hd_patient *p, int few, int many) {
  hd_pace best[2] = {{0}}, now;
  for (int turn = 0; turn < 2 * TURNS; turn++) {
    hd_pace *team = &best[turn % 2];
    HD_TRY(hd__work_steps(&now, ctx, p->kernels, turn % 2 ? many : few, few, TURN_S));
    team->wall = now.wall > team->wall ? now.wall : team->wall;
    team->cpu = now.cpu > team->cpu ? now.cpu : team->cpu;
  }
  *factor = fmax(best[0].wall / best[1].wall, best[0].cpu / best[1].cpu);
  *factor = *factor >= SHOWS ? *factor : NAN;
  return HD_OK;
}

static const char *cost_text(char *text, size_t bytes, double factor, int few) {
  if (isfinite(factor))
    snprintf(text, bytes, "with %d a step takes 1/%.2f of the time", few, factor);
  else
    snprintf(text, bytes, "what that costs does not show while other programs have the CPUs");
  return text;
}

static void say_threads(hd_finding *out, double factor, const char *measured, int threads) {
  char remedy[128];
  const char *omp = getenv("OMP_NUM_THREADS");
  if (omp && *omp)
    snprintf(remedy, sizeof remedy, "unset OMP_NUM_THREADS, or export OMP_NUM_THREADS=%d", threads);
  else
    snprintf(remedy, sizeof remedy, "use --threads %d", threads);
  hd__find(out, factor, measured, remedy);
}

hd_status hd__check_quota(hd_finding *out, hd_ctx *ctx, const hd_patient *p) {
  char measured[256], cost[96];
  double factor;
  int few = p->quota < 1 ? 1 : (int)p->quota;
  if (p->quota <= 0 || p->threads <= few)
    return HD_OK;
  HD_TRY(compare_teams(&factor, ctx, p, few, p->threads));
  snprintf(measured, sizeof measured, "%d threads under a quota of %g CPUs: %s", p->threads, p->quota,
           cost_text(cost, sizeof cost, factor, few));
  say_threads(out, factor, measured, few);
  return HD_OK;
}

hd_status hd__check_oversubscribed(hd_finding *out, hd_ctx *ctx, const hd_patient *p) {
  char measured[256], cost[96];
  double factor;
  if (p->threads <= p->cpus)
    return HD_OK;
  HD_TRY(compare_teams(&factor, ctx, p, p->cpus, p->threads));
  snprintf(measured, sizeof measured, "%d threads share %d CPU%s: %s", p->threads, p->cpus, p->cpus == 1 ? "" : "s",
           cost_text(cost, sizeof cost, factor, p->cpus));
  say_threads(out, factor, measured, p->cpus);
  return HD_OK;
}

/* A file of any length, as a string; NULL when out of memory. */
static char *read_all(const hd_patient *p, const char *path) {
  for (size_t bytes = 1 << 16;; bytes *= 2) {
    char *text = hd__malloc(bytes);
    if (!text || strlen(hd__host_text(text, bytes, p, path)) + 1 < bytes)
      return text;
    hd__free(text);
  }
}

hd_status hd__check_runtimes(hd_finding *out, hd_ctx *ctx, const hd_patient *p) {
  char names[96], measured[256], cost[96];
  char *maps = read_all(p, "/proc/self/maps");
  if (!maps)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for /proc/self/maps");
  int count = hd__count_runtimes(names, sizeof names, maps);
  hd__free(maps);
  if (count < 2)
    return HD_OK;
  double factor;
  HD_TRY(compare_teams(&factor, ctx, p, p->threads, p->threads * count));
  snprintf(measured, sizeof measured, "%d OpenMP runtimes (%s), %d threads in all: %s", count, names,
           p->threads * count, cost_text(cost, sizeof cost, factor, p->threads));
  hd__find(out, factor, measured, "leave one: look at LD_PRELOAD, and link every library with the same runtime");
  return HD_OK;
}

/* Shares of the effort's time that others had. */
static double lost_share(const hd_patient *p) {
  double could = p->effort.wall_s * p->effort.lanes;
  return could > 0 ? 1 - p->effort.cpu_s / could : 0;
}

static double steal_share(const hd_patient *p) {
  double total = p->after.total - p->before.total;
  return total > 0 ? (p->after.steal - p->before.steal) / total : 0;
}

static double throttled_share(const hd_patient *p) {
  double could = p->effort.wall_s * p->effort.lanes;
  return could > 0 ? (p->after.throttled_s - p->before.throttled_s) / could : 0;
}

hd_status hd__check_steal(hd_finding *out, hd_ctx *ctx, const hd_patient *p) {
  char measured[200];
  double share = steal_share(p);
  (void)ctx;
  if (share < 0.02)
    return HD_OK;
  snprintf(measured, sizeof measured, "the host of this virtual machine took %.0f %% of the processor time",
           100 * share);
  hd__find(out, 1 / (1 - fmin(share, 0.99)), measured,
           "ask for a machine with dedicated CPUs, or use --threads with fewer than there are");
  return HD_OK;
}

hd_status hd__check_throttled(hd_finding *out, hd_ctx *ctx, const hd_patient *p) {
  char measured[200], remedy[128];
  double share = throttled_share(p);
  (void)ctx;
  if (share < 0.02)
    return HD_OK;
  snprintf(measured, sizeof measured, "the cgroup was stopped for %.0f %% of the processor time it asked for",
           100 * share);
  snprintf(remedy, sizeof remedy, "raise the container's CPU limit, or use --threads %d",
           p->quota >= 1 ? (int)p->quota : 1);
  hd__find(out, 1 / (1 - fmin(share, 0.99)), measured, remedy);
  return HD_OK;
}

hd_status hd__check_busy(hd_finding *out, hd_ctx *ctx, const hd_patient *p) {
  char measured[200];
  double share = lost_share(p) - steal_share(p) - throttled_share(p);
  (void)ctx;
  if (share < 0.1)
    return HD_OK;
  snprintf(measured, sizeof measured, "other programs had %.0f %% of the time of %d CPU%s", 100 * share,
           p->effort.lanes, p->effort.lanes == 1 ? "" : "s");
  hd__find(out, 1 / (1 - fmin(share, 0.99)), measured, "end what else is running: top shows it");
  return HD_OK;
}
