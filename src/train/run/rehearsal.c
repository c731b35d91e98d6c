/* Timing a session's steps on other threads: see rehearsal.h. */
#include "train/run/rehearsal.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "platform/clock.h"
#include "train/placement/run_plan.h"

struct hd_rehearsal {
  hd_session *session;
  hd_threads *threads;
  hd_store *store; /* NULL with the session's executor, */
  void *before;    /* whose store is saved here */
  hd_exec *exec;
  hd_batches *batches;     /* NULL: threads read their samples */
  int64_t at;              /* steps planned so far, over all runs */
  int64_t left;            /* of this run; INT64_MAX: until the time is up */
  double seconds, start_s; /* of this run; start_s: when its first step was done */
  double begin_s, end_s;   /* when this run began, and when its last step was done */
  int64_t steps, samples;  /* done in this run, the first step's samples left out */
};

hd_status hd__rehearsal_check(hd_ctx *ctx, const hd_config *config) {
  const hd_settings *is = hd__settings(config);
  const bool stages = is->stage_count < 0 || is->stage_count > 1;
  const char *other = is->procs > 1 ? "procs" : is->devices.gpus ? "device" : stages ? "stages" : NULL;
  if (!other)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "expected to measure the threads of one process on the CPU, found --%s %s; leave it out", other,
                  hd_config_get(config, other));
}

/* The number of steps after which the batches repeat. */
static int64_t length_of(const hd_session *s) {
  return s->run.steps_per_epoch < s->run.steps_in_all ? s->run.steps_per_epoch : s->run.steps_in_all;
}

static bool next_step(void *self, hd_step *step) {
  hd_rehearsal *r = self;
  const hd_session *s = r->session;
  bool over = r->steps > 1 && r->end_s - r->start_s >= r->seconds;
  if (r->left == 0 || (r->left == INT64_MAX && over))
    return false;
  hd__session_describe(step, s, r->at % length_of(s));
  step->number = r->at++;
  r->left -= r->left != INT64_MAX;
  return true;
}

static uint32_t report(void *self, const hd_step *step, double loss_sum, bool counts) {
  hd_rehearsal *r = self;
  if (!counts)
    return 0;
  if (r->batches)
    hd__batches_done(r->batches, step->number);
  r->end_s = hd__clock_s();
  if (r->steps++ == 0)
    r->start_s = r->end_s;
  else
    r->samples += step->samples;
  return 0;
}

static hd_status fetch(void *self, hd_ctx *ctx, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to) {
  const hd_rehearsal *r = self;
  return hd__session_read(r->session, r->batches, ctx, step, first, rows, to);
}

static hd_status run(hd_rehearsal *r, hd_ctx *ctx, int64_t steps, double seconds) {
  const hd_step_source source = {.self = r, .next = next_step, .fetch = fetch};
  uint32_t flags;
  r->begin_s = r->end_s = hd__clock_s();
  r->left = steps;
  r->seconds = seconds;
  r->steps = r->samples = 0;
  if (r->batches)
    hd__batches_seek(r->batches, r->at, INT64_MAX);
  return hd__exec_run(r->exec, ctx, &source, report, &flags);
}

/* Uses the session's executor; its weights are restored when the rehearsal is destroyed, also after a failure. */
static hd_status borrow(hd_rehearsal *r, hd_ctx *ctx) {
  const hd_segment *store = &r->session->compute.store->segment;
  r->before = hd__malloc(store->bytes);
  HD_TRY(HD_ALLOCATED(r->before, ctx, "out of memory for a rehearsal"));
  memcpy(r->before, store->base, store->bytes);
  r->exec = r->session->compute.exec;
  return HD_OK;
}

static hd_status make_executor_here(hd_rehearsal *r, hd_ctx *ctx) {
  hd_session *s = r->session;
  const hd_run_device here = hd__device_threads(s->run.config);
  hd_exec_settings settings = hd__planned_training(s->run.config, (int32_t)s->report.facts.shards, &here);
  settings.fetch_bytes = hd__feed_scratch_bytes(&s->input.train);
  HD_TRY(hd__store_create(&r->store, ctx, NULL, s->compute.plan));
  HD_TRY(hd__exec_create(&r->exec, ctx, s->compute.plan, r->store, r->threads, &settings));
  memcpy(r->store->segment.base, s->compute.store->segment.base, (size_t)s->compute.store->directory->packed_offset);
  hd__store_pack(r->store, s->compute.plan, NULL);
  return HD_OK;
}

hd_status hd__rehearsal_create(hd_rehearsal **out, hd_ctx *ctx, hd_session *session, hd_threads *threads, int workers) {
  hd_rehearsal *r = *out = hd__calloc(1, sizeof *r);
  if (!r) {
    hd__threads_destroy(threads);
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a rehearsal");
  }
  r->session = session;
  r->threads = threads;
  hd_status status = hd__session_batches(&r->batches, ctx, session, threads ? threads : session->compute.threads,
                                         workers, length_of(session));
  HD_THEN(status, threads ? make_executor_here(r, ctx) : borrow(r, ctx));
  return HD_CREATED(status, out, hd__rehearsal_destroy);
}

void hd__rehearsal_destroy(hd_rehearsal *r) {
  if (!r)
    return;
  hd__batches_destroy(r->batches);
  if (r->before)
    memcpy(r->session->compute.store->segment.base, r->before, r->session->compute.store->segment.bytes);
  else
    hd__exec_destroy(r->exec);
  hd__free(r->before);
  hd__store_destroy(r->store);
  hd__threads_destroy(r->threads);
  hd__free(r);
}

int hd__rehearsal_threads(const hd_rehearsal *r) { return hd__threads_count(r->threads); }

hd_status hd__rehearsal_steps(hd_rehearsal *r, hd_ctx *ctx, int64_t steps) { return run(r, ctx, steps, 0); }

double hd__rehearsal_spent(const hd_rehearsal *r) { return r->end_s - r->begin_s; }

hd_paced hd__rehearsal_paced(const hd_rehearsal *r) {
  const double s = r->end_s - r->start_s;
  return (hd_paced){.samples = (double)r->samples, .seconds = s > 0 ? s : 1e-9};
}

hd_status hd__rehearsal_time(double *samples_per_s, hd_rehearsal *r, hd_ctx *ctx, double seconds) {
  HD_TRY(run(r, ctx, INT64_MAX, seconds));
  const hd_paced paced = hd__rehearsal_paced(r);
  *samples_per_s = paced.samples / paced.seconds;
  return HD_OK;
}

hd_status hd__rehearsal_digest(char hex[65], hd_rehearsal *r, hd_ctx *ctx) {
  return hd__checkpoint_digest(hex, ctx, r->store, (int64_t)hd__store_version(r->store));
}
