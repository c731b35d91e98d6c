/* See publish_job.h. */
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
  const int ranks = hd__local_group_ranks(s->local);
  if (hd__local_group_rank(s->local) == 0)
    hd__job_open(&s->page, ranks, facts);
  holder this_rank = {(int32_t)getpid(), s->page.head ? s->page.fd : -1},
         *all = hd__malloc((size_t)ranks * sizeof *all);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a job of %d ranks", ranks);
  hd_status status = hd__local_group_gather(all, s->local, ctx, &this_rank, sizeof this_rank);
  if (status == HD_OK && hd__local_group_rank(s->local) > 0)
    hd__job_join(&s->page, all[0].pid, all[0].fd, hd__local_group_rank(s->local));
  hd__free(all);
  return status == HD_OK ? hd__local_group_barrier(s->local, ctx) : status; /* rank 0 must not close it earlier */
}

hd_status hd__session_publish(hd_session *s, hd_ctx *ctx) {
  hd_job_facts facts = {.batch = s->batch, .epochs = s->report.epochs, .steps = s->steps_in_all};
  char path[PATH_MAX];
  int cpu[HD_MAX_THREADS], threads = hd__threads_count(s->threads);
  snprintf(facts.model, sizeof facts.model, "%s", s->report.model);
  snprintf(facts.data, sizeof facts.data, "%.*s", HD_JOB_PATH_BYTES - 1, s->report.data);
  snprintf(facts.isa, sizeof facts.isa, "%s", s->report.isa);
  snprintf(facts.device, sizeof facts.device, "%s", s->report.device);
  snprintf(facts.out, sizeof facts.out, "%.*s", HD_JOB_PATH_BYTES - 1, realpath(s->out, path) ? path : s->out);
  HD_TRY(open_page(s, ctx, &facts));
  for (int i = 0; i < threads && i < HD_MAX_THREADS; i++)
    cpu[i] = hd__threads_cpu(s->threads, i);
  hd__job_threads(&s->page, cpu, threads);
  hd__job_step(&s->page, s->counters.step, s->counters.step / s->steps_per_epoch, 0, NAN);
  return HD_OK;
}
