/* What makes this machine slow for training: findings, each with its measured cost and a remedy.
 *
 *     hd_doctor *doctor;
 *     hd_doctor_create(&doctor, ctx, 0);
 *     for (int i = 0; i < doctor->count; i++)
 *       printf("%s: %s; %s\n", hd_check_name(doctor->finding[i].check), doctor->finding[i].measured,
 *              doctor->finding[i].remedy);
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

enum { HD_DOCTOR_MOST = 32 };

/* Ordered by what costs users most. */
typedef enum hd_check {
  HD_CHECK_QUOTA,
  HD_CHECK_OVERSUBSCRIBED,
  HD_CHECK_BLAS_CORE,
  HD_CHECK_ISA,
  HD_CHECK_SMT_PAIRS,
  HD_CHECK_OMP_RUNTIMES,
  HD_CHECK_BUSY,
  HD_CHECK_STEAL,
  HD_CHECK_THROTTLED,
  HD_CHECK_FREQUENCY,
  HD_CHECK_HUGE_PAGES,
  HD_CHECK_MEMLOCK,
  HD_CHECK_SHM_SIZE,
} hd_check;

/* "quota", "oversubscribed", "blas-core", ... Static storage. */
HD_API const char *hd_check_name(hd_check check);

typedef struct hd_finding {
  hd_check check;
  double factor;      /* speed-up without it; NAN where it cannot be measured on this machine */
  char measured[256]; /* one line: what was found */
  char remedy[256];   /* one line: what to do */
} hd_finding;

typedef struct hd_doctor {
  int32_t threads, cpus; /* checked; usable by the process */
  int32_t checks;
  hd_check check[HD_DOCTOR_MOST]; /* in order */
  int32_t count;
  hd_finding finding[HD_DOCTOR_MOST]; /* in the order of the checks */
  const char *isa;                    /* the instruction set of the kernels and of their block sizes; static */
} hd_doctor;

/* Checks for what would slow a run of `threads` threads; 0: a run's default number. HD_E_USAGE for an invalid number
 * of threads. The caller owns the report; NULL may be destroyed. */
HD_API hd_status hd_doctor_create(hd_doctor **out, hd_ctx *ctx, int32_t threads);
HD_API void hd_doctor_destroy(hd_doctor *doctor);

#ifdef __cplusplus
}
#endif
#endif
