/* Finding running jobs by the pages that they hold (sys/job_page.h).
 *
 * Every process whose open files may be read is looked at; those of other users may not, unless root looks. A page
 * speaks for the process that holds it, and for no other: a slot counts if its number and its start are those of the
 * holder. So nobody can pass another's process off as a job, and a page that a child inherited is not a second job. */
#ifndef HD_MONITOR_JOBS_H
#define HD_MONITOR_JOBS_H

#include "heddle/monitor.h"

typedef struct hd_jobs {
  hd_job *job; /* the oldest first */
  int count;
} hd_jobs;

/* Those of the processes in root/proc, "" for this machine. Adds to what is there; HD_E_NOMEM alone can happen. */
hd_status hd__jobs_find(hd_jobs *jobs, hd_ctx *ctx, const char *root);
void hd__jobs_fini(hd_jobs *jobs);

#endif
