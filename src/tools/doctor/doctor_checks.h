/* The facts that `heddle doctor` measures once, and the checks that read them.
 *
 * A check examines one thing that may slow training, and fills in a finding only if it does: what was found, its cost
 * as measured here, and the remedy. Facts that several checks need are measured once and stored in hd_machine_facts.
 * Judgements of numbers are functions of these numbers alone, so that tests can pass those of any machine. A new check
 * is one function and one row of the table in doctor.c. Checks do not depend on a model or data. */
#pragma once

#include <stdbool.h>

#include "tools/doctor/measured_work.h"
#include "heddle/doctor.h"
#include "kernel/kernel.h"

/* Processor time that the system gave to other machines, and that a cgroup withheld. */
typedef struct hd_losses {
  double steal, total; /* jiffies of all CPUs since boot */
  double throttled_s;  /* of this process's cgroup */
} hd_losses;

typedef struct hd_machine_facts {
  const char *root;                 /* prefix of /proc, /sys and /dev; "" for this machine */
  int threads;                      /* of the run to be judged */
  int cpus, *cpu, *core;            /* usable CPUs, and the core of each as the system reports it */
  bool bare;                        /* the machine is known not to be virtual */
  double quota;                     /* in CPUs; 0: none */
  const hd_kernels *kernels, *best; /* those that a run uses, and the best of this CPU */
  hd_effort effort;                 /* all CPUs at work for a while */
  hd_losses before, after;          /* around the effort */
} hd_machine_facts;

typedef hd_status hd_check_fn(hd_finding *out, hd_ctx *ctx, const hd_machine_facts *facts);

hd_check_fn hd__check_quota, hd__check_oversubscribed, hd__check_blas, hd__check_pairs, hd__check_runtimes,
    hd__check_busy, hd__check_steal, hd__check_throttled, hd__check_frequency, hd__check_isa, hd__check_huge_pages,
    hd__check_memlock, hd__check_shm;

/* Fills in a finding: its factor and remedy, and what was measured, as a format. */
void hd__find(hd_finding *out, double factor, const char *remedy, const char *measured, ...)
    __attribute__((format(printf, 4, 5)));

/* The first bytes of ROOT/PATH as a string; "" if it cannot be read. */
const char *hd__host_text(char *text, size_t bytes, const hd_machine_facts *facts, const char *path);

hd_losses hd__host_losses(const hd_machine_facts *facts);

/* Parsers and judgements, exported for tests.
 *
 * Steal and the total in the first line of /proc/stat; throttled seconds in a cgroup's cpu.stat, of either version. */
bool hd__parse_steal(double *steal, double *total, const char *stat);
double hd__parse_throttled(const char *cpu_stat);

/* Whether a /proc/cpuinfo is that of a machine that is not virtual; false where that is unknown. */
bool hd__parse_bare(const char *cpuinfo);

/* The number of OpenMP runtimes in a /proc/self/maps, and their names: "libgomp.so.1, libomp.so.5". */
int hd__count_runtimes(char *names, size_t bytes, const char *maps);

/* Whether pair rates (shares of a CPU's rate alone, count x count, row by row) show that CPUs share cores: the number
 * of CPUs that have a partner, their mean share, and the first such pair. */
int hd__judge_pairs(double *share, int pair[2], const double *rate, int count);

/* The number of cores of `cpus` CPUs, if `shared` of the `tried` ones have a partner, and as many of the others. */
int hd__count_cores(int cpus, int tried, int shared);
