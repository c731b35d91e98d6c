/* What makes this machine slow for training: findings, each with its measured cost and a remedy.
 *
 *     hd_doctor *doctor;
 *     hd_doctor_create(&doctor, ctx, 0);
 *     for (int i = 0; i < doctor->count; i++)
 *       printf("%s: %s; %s\n", doctor->finding[i].id, doctor->finding[i].measured, doctor->finding[i].remedy);
 *     hd_doctor_destroy(doctor);
 *
 * The checks take about two seconds, on all CPUs of this process. System files are read below HEDDLE_SYSROOT, if it
 * is set. Thread safety: run one at a time in a process; concurrent ones disturb each other. A report is immutable. */
#ifndef HEDDLE_DOCTOR_H
#define HEDDLE_DOCTOR_H

#include <stdint.h>

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_DOCTOR_MOST = 16 };

typedef struct hd_finding {
  const char *id;     /* "quota", "oversubscribed", "blas-core", ...: static storage, stable */
  double factor;      /* speed-up without it; NAN where it cannot be measured on this machine */
  char measured[256]; /* one line: what was found */
  char remedy[256];   /* one line: what to do */
} hd_finding;

typedef struct hd_doctor {
  int32_t threads, cpus; /* checked; usable by the process */
  int32_t checks;
  const char *check[HD_DOCTOR_MOST]; /* their ids, in order */
  int32_t count;
  hd_finding finding[HD_DOCTOR_MOST]; /* in the order of the checks */
} hd_doctor;

/* Checks for what would slow a run of `threads` threads; 0: a run's default number. HD_E_USAGE for an invalid number
 * of threads. The caller owns the report; NULL may be destroyed. */
HD_API hd_status hd_doctor_create(hd_doctor **out, hd_ctx *ctx, int32_t threads);
HD_API void hd_doctor_destroy(hd_doctor *doctor);

#ifdef __cplusplus
}
#endif
#endif
