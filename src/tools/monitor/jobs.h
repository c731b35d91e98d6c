/* Finding running jobs by the pages that they hold (platform/job_page.h).
 *
 * All processes whose open files may be read are searched; those of other users need root. A page identifies only the
 * process that holds it: a slot counts if its number and its start are those of the holder. So no process can present
 * another one as a job, and a page that a child inherited is not a second job. */
#pragma once

#include "heddle/monitor.h"

typedef struct hd_jobs {
  hd_job *job; /* the oldest first */
  int count;
} hd_jobs;

/* Searches the processes in root/proc, "" for this machine. Adds to the list; fails only with HD_E_NOMEM. */
hd_status hd__jobs_find(hd_jobs *jobs, hd_ctx *ctx, const char *root);
void hd__jobs_fini(hd_jobs *jobs);
