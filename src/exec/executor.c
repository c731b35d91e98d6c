/* Executors: the calls of their device's functions, and what does not depend on the device: a sample's outcome, the
 * errors that end a run. */
#include "exec/executor.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hdmath.h"
#include "exec/exchange/exchange.h"

hd_status hd__exec_create(hd_exec **out, hd_ctx *ctx, const hd_plan *plan, hd_store *store, hd_threads *threads,
                          const hd_exec_settings *settings) {
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for the executor"));
  hd_exec *exec = *out;
  *exec = (hd_exec){.device = settings->executor, .local = settings->local};
  const hd_status status = exec->device->create(&exec->self, ctx, plan, store, threads, settings);
  return HD_CREATED(status, out, hd__free);
}

void hd__exec_destroy(hd_exec *exec) {
  if (!exec)
    return;
  exec->device->destroy(exec->self);
  hd__free(exec);
}

bool hd__exec_fetches(const hd_exec *exec, int64_t samples, int64_t first, int64_t rows) {
  return exec->device->fetches(exec->self, samples, first, rows);
}

int hd__exec_facts(void *out, const hd_exec *exec, hd_fact fact) {
  return exec->device->facts ? exec->device->facts(out, exec->self, fact) : 0;
}

hd_status hd__exec_trace(hd_exec *exec, hd_ctx *ctx, hd_trace *trace) {
  return exec->device->trace(exec->self, ctx, trace);
}

hd_trace_size hd__exec_trace_size(const hd_exec *exec, int64_t slices) {
  return exec->device->trace_size(exec->self, slices);
}

void hd__exec_spent(int64_t *sums, const hd_exec *exec) {
  const size_t ranks = (size_t)hd__cluster_ranks(exec->local);
  memset(sums, 0, ranks * (HD_SPENT_KINDS + ranks) * sizeof *sums);
  exec->device->spent(sums, exec->self);
}

hd_status hd__exec_collect(hd_exec *exec, hd_ctx *ctx) {
  return exec->device->collect ? exec->device->collect(exec->self, ctx) : HD_OK;
}

hd_status hd__exec_spread(hd_exec *exec, hd_ctx *ctx) {
  return exec->device->spread ? exec->device->spread(exec->self, ctx) : HD_OK;
}

int64_t hd__exec_bytes(const hd_exec *exec) { return exec->device->bytes ? exec->device->bytes(exec->self) : 0; }

hd_status hd__exec_measure(hd_exec_memory *out, hd_ctx *ctx, const hd_plan *plan, int threads,
                           const hd_exec_settings *settings) {
  if (!settings->executor->measure)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "expected a device that knows its memory beforehand, found one that does not; use --device cpu");
  return settings->executor->measure(out, ctx, plan, threads, settings);
}

/* ---- Samples that cannot be read ---- */

_Static_assert(offsetof(hd_ctx, message) == 0, "the message comes first");

uint32_t hd__exec_fetch(hd_exec_caller *caller, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to) {
  hd_ctx here;
  memset((char *)&here + HD_MESSAGE_BYTES, 0, sizeof here - HD_MESSAGE_BYTES); /* the message alone is long */
  here.message[0] = 0;
  const hd_status status = caller->source->fetch(caller->source->self, &here, step, first, rows, to);
  const int64_t position = step->cursor + first;
  if (status == HD_OK)
    return 0;
  pthread_mutex_lock(&caller->lock);
  if (caller->fault.status == HD_OK || position < caller->fault.position) {
    caller->fault = (hd_fetch_fault){.status = status, .position = position};
    memcpy(caller->fault.message, here.message, sizeof here.message);
  }
  pthread_mutex_unlock(&caller->lock);
  return HD_FLAG_NO_DATA;
}

/* Why samples could not be read: the error of the first rank that has one. */
static hd_status find_fault(hd_local_group *local, hd_ctx *ctx, const hd_fetch_fault *fault) {
  const int ranks = hd__cluster_ranks(local);
  HD_OWNED hd_fetch_fault *all = NULL;
  HD_TRY(HD_NEW_RAW(all, ranks, ctx, "out of memory for the reasons of %d ranks", ranks));
  HD_TRY(hd__cluster_gather(all, local, ctx, fault, sizeof *fault));
  for (int r = 0; r < ranks; r++)
    if (all[r].status != HD_OK)
      return hd__fail(ctx, all[r].status, "%s", all[r].message);
  return HD_OK;
}

hd_status hd__exec_not_finite(hd_ctx *ctx, const hd_plan *plan, int32_t param) {
  const char *what = param < 0 ? "the loss" : plan->params[param].name;
  if (plan->program)
    HD_TRY(plan->program->failure(plan->program->self, ctx));
  return hd__fail(ctx, HD_E_NOTFINITE, "expected finite numbers, found NaN or infinity in %s%s",
                  param < 0 ? "" : "the update of ", what);
}

/* ---- Steps and samples ---- */

hd_status hd__exec_run(hd_exec *exec, hd_ctx *ctx, const hd_step_source *source, hd_report_fn *report,
                       uint32_t *flags) {
  hd_exec_caller caller = {.source = source, .report = report, .lock = PTHREAD_MUTEX_INITIALIZER};
  HD_TRY(exec->device->run(exec->self, ctx, &caller, flags));
  return *flags & HD_FLAG_NO_DATA ? find_fault(exec->local, ctx, &caller.fault) : HD_OK;
}

hd_status hd__exec_evaluate(hd_exec *exec, hd_ctx *ctx, const hd_step_source *source, int64_t samples,
                            const hd_exec_outcome *out) {
  hd_exec_caller caller = {.source = source, .lock = PTHREAD_MUTEX_INITIALIZER};
  uint32_t flags = 0;
  HD_TRY(exec->device->evaluate(exec->self, ctx, &caller, samples, out, &flags));
  return flags & HD_FLAG_NO_DATA ? find_fault(exec->local, ctx, &caller.fault) : HD_OK;
}

void hd__exec_publish_outcome(hd_exchange *x, const hd_exec_outcome *out, const int64_t *first, const hd_plan_io *io) {
  enum { ARRAYS = 6 };
  void *const array[ARRAYS] = {out->loss, out->guess, out->probability, out->score, out->classes, out->place_loss};
  const int64_t each[ARRAYS] = {4, 4, 4, 4 * io->logits.elems, io->places, 4 * io->places};
  for (int i = 0; i < ARRAYS; i++) {
    int64_t *bytes = array[i] ? hd__exchange_publish(x, array[i]) : NULL;
    for (int h = 0; bytes && h < x->hosts; h++)
      bytes[h] = each[i] * (first[h + 1] - first[h]);
  }
}

/* The first of the largest scores; a NaN counts as largest, as in the kernels. */
static int32_t guess_of(const float *score, int32_t count) {
  int32_t best = 0;
  for (int32_t i = 1; i < count; i++)
    if (score[i] > score[best] || (isnan(score[i]) && !isnan(score[best])))
      best = i;
  return best;
}

static float probability_of(const float *score, int32_t count, int32_t guess) {
  double sum = 0;
  for (int32_t i = 0; i < count; i++)
    sum += hd__exp((double)score[i] - (double)score[guess]);
  return (float)(1 / sum);
}

/* The cross-entropy of a place: its label's score against the sum over all, added in order. */
static float place_loss(const float *score, int32_t count, int32_t label) {
  const double most = (double)score[guess_of(score, count)];
  double sum = 0;
  for (int32_t i = 0; i < count; i++)
    sum += hd__exp((double)score[i] - most);
  return (float)(hd__log(sum) + most - (double)score[label]);
}

static void write_losses(float *to, const float *score, const hd_plan_io *io, const int32_t *label) {
  const int32_t classes = (int32_t)(io->logits.elems / io->places);
  for (int32_t i = 0; i < io->places; i++) {
    const bool known = label && label[i] >= 0 && label[i] < classes;
    to[i] = known ? place_loss(score + (int64_t)i * classes, classes, label[i]) : NAN;
  }
}

void hd__exec_write_places(const hd_exec_outcome *out, int64_t sample, const float *score, const hd_plan_io *io,
                           const int32_t *label) {
  const int32_t classes = (int32_t)(io->logits.elems / io->places);
  uint8_t *to = out->classes ? out->classes + sample * io->places : NULL;
  int32_t right = label ? 0 : -1;
  for (int32_t i = 0; (label || to) && i < io->places; i++) {
    const int32_t guess = guess_of(score + (int64_t)i * classes, classes);
    if (label)
      right += label[i] != io->ignored && label[i] == guess;
    if (to)
      to[i] = (uint8_t)guess;
  }
  out->guess[sample] = right;
  if (out->probability)
    out->probability[sample] = 0;
  if (out->score)
    memcpy(out->score + sample * io->logits.elems, score, (size_t)io->logits.elems * sizeof *score);
  if (out->place_loss)
    write_losses(out->place_loss + sample * io->places, score, io, label);
}

void hd__exec_write_outcome(const hd_exec_outcome *out, int64_t sample, const float *score, const hd_plan_io *io) {
  const int32_t classes = (int32_t)io->logits.elems;
  out->guess[sample] = io->is_log_odds ? score[0] > 0 : guess_of(score, classes);
  if (out->probability)
    out->probability[sample] = io->is_log_odds ? (float)(1 / (1 + hd__exp(-fabs((double)score[0]))))
                                               : probability_of(score, classes, out->guess[sample]);
  if (out->score)
    memcpy(out->score + sample * classes, score, (size_t)classes * sizeof *score);
}
