/* The page of a job, opened by all ranks of a host: see publish_job.h. */
#include "train/session/publish_job.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"

/* Local rank 0 of a host creates the page; the other ranks open it through that rank's descriptor. */
static hd_status open_page(hd_session *s, hd_ctx *ctx, const hd_job_facts *facts) {
  typedef struct holder {
    int32_t pid, fd;
  } holder;
  const int ranks = hd__local_group_ranks(s->compute.local);
  if (hd__local_group_rank(s->compute.local) == 0)
    hd__job_open(&s->report.page, ranks, facts);
  holder this_rank = {(int32_t)getpid(), s->report.page.head ? s->report.page.fd : -1},
         *all = hd__malloc((size_t)ranks * sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for a job of %d ranks", ranks));
  hd_status status = hd__local_group_gather(all, s->compute.local, ctx, &this_rank, sizeof this_rank);
  if (status == HD_OK && hd__local_group_rank(s->compute.local) > 0)
    hd__job_join(&s->report.page, all[0].pid, all[0].fd, hd__local_group_rank(s->compute.local));
  hd__free(all);
  return status == HD_OK ? hd__local_group_barrier(s->compute.local, ctx)
                         : status; /* rank 0 must not close it earlier */
}

hd_status hd__session_publish(hd_session *s, hd_ctx *ctx) {
  hd_job_facts facts = {.batch = s->run.batch, .epochs = s->report.facts.epochs, .steps = s->run.steps_in_all};
  char path[PATH_MAX];
  int cpu[HD_MAX_THREADS], threads = hd__threads_count(s->compute.threads);
  snprintf(facts.model, sizeof facts.model, "%s", s->report.facts.model);
  snprintf(facts.data, sizeof facts.data, "%.*s", HD_JOB_PATH_BYTES - 1, s->report.facts.data);
  snprintf(facts.isa, sizeof facts.isa, "%s", s->report.facts.isa);
  snprintf(facts.device, sizeof facts.device, "%s", s->report.facts.device);
  snprintf(facts.out, sizeof facts.out, "%.*s", HD_JOB_PATH_BYTES - 1,
           realpath(s->checkpoints.folder, path) ? path : s->checkpoints.folder);
  HD_TRY(open_page(s, ctx, &facts));
  for (int i = 0; i < threads && i < HD_MAX_THREADS; i++)
    cpu[i] = hd__threads_cpu(s->compute.threads, i);
  hd__job_threads(&s->report.page, cpu, threads);
  hd__job_step(&s->report.page, s->run.counters.step, s->run.counters.step / s->run.steps_per_epoch, 0, NAN);
  return HD_OK;
}
