/* What makes this machine slow for training: findings, each with what it costs here and the line that mends it.
 *
 *     hd_doctor *doctor;
 *     hd_doctor_create(&doctor, ctx, 0);
 *     for (int i = 0; i < doctor->count; i++)
 *       printf("%s: %s; %s\n", doctor->finding[i].id, doctor->finding[i].measured, doctor->finding[i].remedy);
 *     hd_doctor_destroy(doctor);
 *
 * Looking takes about two seconds, on all CPUs of this process. Files of the system are read below HEDDLE_SYSROOT, if
 * that is set. Thread safety: one look at a time in a process, or they measure each other; a report never changes. */
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
  double factor;      /* how many times faster it would be; NAN where that cannot be measured on this machine */
  char measured[256]; /* one line: what was found */
  char remedy[256];   /* one line: what to do */
} hd_finding;

typedef struct hd_doctor {
  int32_t threads, cpus; /* that were looked at, and that the process may use */
  int32_t checks;
  const char *check[HD_DOCTOR_MOST]; /* their ids, in order */
  int32_t count;
  hd_finding finding[HD_DOCTOR_MOST]; /* in the order of the checks */
} hd_doctor;

/* Looks for what would slow a run of `threads` threads; 0: of as many as a run takes by itself. HD_E_USAGE for a number
 * of threads that no run may have. The caller owns the report; NULL may be destroyed. */
HD_API hd_status hd_doctor_create(hd_doctor **out, hd_ctx *ctx, int32_t threads);
HD_API void hd_doctor_destroy(hd_doctor *doctor);

#ifdef __cplusplus
}
#endif
#endif
