/* What the doctor knows before it judges, and the checks themselves.
 *
 * A check looks at one thing that may slow training, and fills a finding only if it does: what it found, what that
 * costs as measured here, and the line that mends it. What is measured once for several checks lies in the patient;
 * what judges numbers is a function of these numbers alone, so that tests can show it any machine. A new check is one
 * function and one row of the table in doctor.c. Checks know no model and no data. */
#ifndef HD_DOCTOR_PATIENT_H
#define HD_DOCTOR_PATIENT_H

#include <stdbool.h>

#include "doctor/work.h"
#include "heddle/doctor.h"
#include "kernel/kernel.h"

/* Time that CPUs gave to others than this machine's programs, and that a cgroup held back. */
typedef struct hd_losses {
  double steal, total; /* jiffies of all CPUs since boot */
  double throttled_s;  /* of this process's cgroup */
} hd_losses;

typedef struct hd_patient {
  const char *root;                 /* before /proc, /sys and /dev; "" for this machine */
  int threads;                      /* of the run in question */
  int cpus, *cpu, *core;            /* those that this process may use, and the core of each as the system tells */
  bool bare;                        /* the machine is known to be no virtual one */
  double quota;                     /* in CPUs; 0: none */
  const hd_kernels *kernels, *best; /* those that a run takes, and the best of this CPU */
  hd_effort effort;                 /* all CPUs at work for a while */
  hd_losses before, after;          /* that while */
} hd_patient;

typedef hd_status hd_check_fn(hd_finding *out, hd_ctx *ctx, const hd_patient *p);

hd_check_fn hd__check_quota, hd__check_oversubscribed, hd__check_blas, hd__check_pairs, hd__check_runtimes,
    hd__check_busy, hd__check_steal, hd__check_throttled, hd__check_frequency, hd__check_isa, hd__check_huge_pages,
    hd__check_memlock, hd__check_shm;

/* Fills a finding. */
void hd__find(hd_finding *out, double factor, const char *measured, const char *remedy);

/* The first bytes of ROOT/PATH as a string; "" if it cannot be read. */
const char *hd__host_text(char *text, size_t bytes, const hd_patient *p, const char *path);

hd_losses hd__host_losses(const hd_patient *p);

/* For tests: the parts that judge.
 *
 * Steal and the total in the first line of /proc/stat; throttled seconds in a cgroup's cpu.stat, of either version. */
bool hd__parse_steal(double *steal, double *total, const char *stat);
double hd__parse_throttled(const char *cpu_stat);

/* Whether a /proc/cpuinfo is that of a machine that is not virtual; false where it does not tell. */
bool hd__parse_bare(const char *cpuinfo);

/* How many OpenMP runtimes a /proc/self/maps names, and which: "libgomp.so.1, libomp.so.5". */
int hd__count_runtimes(char *names, size_t bytes, const char *maps);

/* Whether pair rates (shares of a CPU's rate alone, count x count, row by row) say that CPUs share cores: the number of
 * CPUs that have a partner, their mean share, and the first such pair. */
int hd__judge_pairs(double *share, int pair[2], const double *rate, int count);

#endif
