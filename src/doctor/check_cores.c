/* Checks of the CPUs themselves: which share a core, and whether they keep their speed. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "doctor/patient.h"

/* Two threads of one core get about 60 % each of what one gets alone; on two cores nearly all. */
static const double SHARED = 0.8, PAIR_S = 0.012, KEPT = 0.85;
enum { MOST_PAIRED = 24, TRIES = 3 };

int hd__judge_pairs(double *share, int pair[2], const double *rate, int count) {
  int found = 0;
  double sum = 0;
  for (int a = 0; a < count; a++) {
    double least = 1;
    int partner = -1;
    for (int b = 0; b < count; b++)
      if (a != b && rate[a * count + b] < least) {
        least = rate[a * count + b];
        partner = b;
      }
    if (partner < 0 || least >= SHARED || rate[partner * count + a] >= SHARED)
      continue;
    if (!found) {
      pair[0] = a;
      pair[1] = partner;
    }
    found++;
    sum += least;
  }
  *share = found ? sum / found : 1;
  return found;
}

/* The best of some tries, for others disturb too; 0 if the CPU was never ours. */
static hd_status best_beside(double *best, hd_ctx *ctx, const hd_patient *p, int a, int b, double enough) {
  *best = 0;
  for (int try = 0; try < TRIES && *best <= enough; try++) {
    double now;
    HD_TRY(hd__work_beside(&now, ctx, p->kernels, a, b, PAIR_S));
    *best = now > *best ? now : *best;
  }
  return HD_OK;
}

/* rate[a * count + b]: what CPU a keeps of its speed while b works; 1 where that could not be seen. */
static hd_status measure_pairs(double *rate, hd_ctx *ctx, const hd_patient *p, int count) {
  for (int a = 0; a < count; a++) {
    double alone, beside;
    HD_TRY(best_beside(&alone, ctx, p, p->cpu[a], -1, INFINITY));
    for (int b = 0; b < count; b++) {
      rate[a * count + b] = 1;
      if (a == b || alone <= 0)
        continue;
      HD_TRY(best_beside(&beside, ctx, p, p->cpu[a], p->cpu[b], SHARED * alone));
      if (beside > 0)
        rate[a * count + b] = beside / alone;
    }
  }
  return HD_OK;
}

/* Which CPUs share a physical core. */
typedef struct sharing {
  int of;       /* CPUs that were looked at */
  int shared;   /* of these, CPUs with a partner */
  int cores;    /* that these have */
  int pair[2];  /* the first that share one, by index */
  double share; /* what a CPU keeps of its speed beside its partner; 0: that could not be seen */
} sharing;

/* As the system tells. */
static void look_up(sharing *s, const hd_patient *p) {
  *s = (sharing){.of = p->cpus};
  for (int a = 0; a < p->cpus; a++) {
    int partner = -1, earlier = 0;
    for (int b = 0; b < p->cpus; b++)
      if (b != a && p->core[b] == p->core[a]) {
        partner = b;
        earlier |= b < a;
      }
    s->cores += !earlier;
    if (partner >= 0 && s->shared++ == 0) {
      s->pair[0] = a;
      s->pair[1] = partner;
    }
  }
}

/* By trying all pairs. */
static hd_status try_pairs(sharing *s, hd_ctx *ctx, const hd_patient *p) {
  *s = (sharing){.of = p->cpus < MOST_PAIRED ? p->cpus : MOST_PAIRED};
  double *rate = hd__malloc((size_t)(s->of * s->of) * sizeof *rate);
  if (!rate)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a measurement");
  hd_status status = measure_pairs(rate, ctx, p, s->of);
  if (status == HD_OK)
    s->shared = hd__judge_pairs(&s->share, s->pair, rate, s->of);
  s->cores = s->of - s->shared / 2;
  hd__free(rate);
  return status;
}

static hd_status measure_share(sharing *s, hd_ctx *ctx, const hd_patient *p) {
  double alone, beside;
  HD_TRY(best_beside(&alone, ctx, p, p->cpu[s->pair[0]], -1, INFINITY));
  HD_TRY(best_beside(&beside, ctx, p, p->cpu[s->pair[0]], p->cpu[s->pair[1]], INFINITY));
  s->share = alone > 0 ? fmin(beside / alone, 1) : 0;
  return HD_OK;
}

/* The system is believed where it names a pair, and where the machine is no virtual one; many of these show each CPU as
 * a core of its own. */
hd_status hd__check_pairs(hd_finding *out, hd_ctx *ctx, const hd_patient *p) {
  sharing s;
  char measured[200], remedy[160], cost[64] = "what that costs could not be seen";
  if (p->cpus < 2 || p->threads < 2)
    return HD_OK;
  look_up(&s, p);
  const bool known = s.shared > 0 || p->bare;
  if (!known)
    HD_TRY(try_pairs(&s, ctx, p));
  if (s.shared == 0 || p->threads <= s.cores)
    return HD_OK;
  if (known)
    HD_TRY(measure_share(&s, ctx, p));
  if (s.share > 0)
    snprintf(cost, sizeof cost, "beside it each keeps %.0f %% of its speed", 100 * s.share);
  snprintf(measured, sizeof measured, "%d of %d CPUs share a physical core with another, for example %d and %d: %s",
           s.shared, s.of, p->cpu[s.pair[0]], p->cpu[s.pair[1]], cost);
  snprintf(remedy, sizeof remedy, "use --threads %d: one for each physical core", s.cores);
  hd__find(out, s.share > 0 ? fmax(1 / (2 * s.share), 1) : NAN, measured, remedy);
  return HD_OK;
}

hd_status hd__check_frequency(hd_finding *out, hd_ctx *ctx, const hd_patient *p) {
  char measured[200];
  double kept = p->effort.early > 0 ? p->effort.late / p->effort.early : 1;
  (void)ctx;
  if (kept >= KEPT || kept <= 0)
    return HD_OK;
  snprintf(measured, sizeof measured,
           "after %.1f s of work on all CPUs they ran at %.0f %% of the speed they began with", p->effort.wall_s,
           100 * kept);
  hd__find(out, 1 / kept, measured, "look at cooling and power limits: cpupower frequency-set -g performance");
  return HD_OK;
}
