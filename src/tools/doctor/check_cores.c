/* Checks of the CPUs: which of them share a core, and whether they keep their speed. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "tools/doctor/doctor_checks.h"

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

int hd__count_cores(int cpus, int tried, int shared) { return cpus - cpus * shared / (2 * tried); }

/* The best of several tries, since other programs disturb them; 0 if the CPU was always busy. */
static hd_status best_beside(double *best, hd_ctx *ctx, const hd_machine_facts *facts, int a, int b, double enough) {
  *best = 0;
  for (int try = 0; try < TRIES && *best <= enough; try++) {
    double now;
    HD_TRY(hd__work_beside(&now, ctx, facts->kernels, a, b, PAIR_S));
    *best = now > *best ? now : *best;
  }
  return HD_OK;
}

/* rate[a * count + b]: the share of its speed that CPU a keeps while b works; 1 where that could not be measured. */
static hd_status measure_pairs(double *rate, hd_ctx *ctx, const hd_machine_facts *facts, int count) {
  for (int a = 0; a < count; a++) {
    double alone, beside;
    HD_TRY(best_beside(&alone, ctx, facts, facts->cpu[a], -1, INFINITY));
    for (int b = 0; b < count; b++) {
      rate[a * count + b] = 1;
      if (a == b || alone <= 0)
        continue;
      HD_TRY(best_beside(&beside, ctx, facts, facts->cpu[a], facts->cpu[b], SHARED * alone));
      if (beside > 0)
        rate[a * count + b] = beside / alone;
    }
  }
  return HD_OK;
}

/* Which CPUs share a physical core. */
typedef struct sharing {
  int of;       /* number of CPUs examined */
  int shared;   /* of these, CPUs with a partner */
  int cores;    /* number of cores of all CPUs */
  int pair[2];  /* the first two that share a core, by index */
  double share; /* the share of its speed that a CPU keeps beside its partner; 0: not measured */
} sharing;

/* From the topology that the system reports. */
static void look_up(sharing *s, const hd_machine_facts *facts) {
  *s = (sharing){.of = facts->cpus};
  for (int a = 0; a < facts->cpus; a++) {
    int partner = -1, earlier = 0;
    for (int b = 0; b < facts->cpus; b++)
      if (b != a && facts->core[b] == facts->core[a]) {
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

/* By measuring all pairs of the first CPUs; the others are taken to be like these. */
static hd_status try_pairs(sharing *s, hd_ctx *ctx, const hd_machine_facts *facts) {
  *s = (sharing){.of = facts->cpus < MOST_PAIRED ? facts->cpus : MOST_PAIRED};
  HD_OWNED double *rate = NULL;
  HD_TRY(HD_NEW_RAW(rate, s->of * s->of, ctx, "out of memory for a measurement"));
  HD_TRY(measure_pairs(rate, ctx, facts, s->of));
  s->shared = hd__judge_pairs(&s->share, s->pair, rate, s->of);
  s->cores = hd__count_cores(facts->cpus, s->of, s->shared);
  return HD_OK;
}

static hd_status measure_share(sharing *s, hd_ctx *ctx, const hd_machine_facts *facts) {
  double alone, beside;
  HD_TRY(best_beside(&alone, ctx, facts, facts->cpu[s->pair[0]], -1, INFINITY));
  HD_TRY(best_beside(&beside, ctx, facts, facts->cpu[s->pair[0]], facts->cpu[s->pair[1]], INFINITY));
  s->share = alone > 0 ? fmin(beside / alone, 1) : 0;
  return HD_OK;
}

/* The system's topology is trusted where it names a pair, and on a machine that is not virtual; many virtual machines
 * show each CPU as a separate core. */
hd_status hd__check_pairs(hd_finding *out, hd_ctx *ctx, const hd_machine_facts *facts) {
  sharing s;
  char remedy[160], cost[64] = "the cost could not be measured", all[48] = "";
  if (facts->cpus < 2 || facts->threads < 2)
    return HD_OK;
  look_up(&s, facts);
  const bool known = s.shared > 0 || facts->bare;
  if (!known)
    HD_TRY(try_pairs(&s, ctx, facts));
  if (s.shared == 0 || facts->threads <= s.cores)
    return HD_OK;
  if (known)
    HD_TRY(measure_share(&s, ctx, facts));
  if (s.share > 0)
    snprintf(cost, sizeof cost, "with both busy, each keeps %.0f %% of its speed", 100 * s.share);
  if (s.of < facts->cpus)
    snprintf(all, sizeof all, " that were tried, of %d,", facts->cpus);
  snprintf(remedy, sizeof remedy, "use --threads %d: one per physical core", s.cores);
  hd__find(out, s.share > 0 ? fmax(1 / (2 * s.share), 1) : NAN, remedy,
           "%d of %d CPUs%s share a physical core with another, for example %d and %d: %s", s.shared, s.of, all,
           facts->cpu[s.pair[0]], facts->cpu[s.pair[1]], cost);
  return HD_OK;
}

hd_status hd__check_frequency(hd_finding *out, hd_ctx *ctx, const hd_machine_facts *facts) {
  double kept = facts->effort.early > 0 ? facts->effort.late / facts->effort.early : 1;
  if (kept < KEPT && kept > 0)
    hd__find(out, 1 / kept, "check cooling and power limits: cpupower frequency-set -g performance",
             "after %.1f s of work on all CPUs they ran at %.0f %% of their initial speed", facts->effort.wall_s,
             100 * kept);
  return HD_OK;
}
