/* Reading a session's state, and asking it to stop: see session.h. */
#include "train/run/session.h"

#include "base/hdmath.h"
#include "exec/exchange/cluster.h"
#include "platform/clock.h"
#include "platform/thread_start.h"
#include "train/records/loss_score.h"

hd_status hd__session_check_idle(const hd_session *s, hd_ctx *ctx) {
  HD_TRY(hd__session_check_process(s, ctx));
  return !s->run.trains ? HD_OK
                        : hd__fail(ctx, HD_E_USAGE,
                                   "expected a session that is idle, found one that is training, in a callback of its "
                                   "own; wait until hd_session_train or hd_session_step returns");
}

hd_status hd__session_check_process(const hd_session *s, hd_ctx *ctx) {
  return s->process == hd__this_process()
             ? HD_OK
             : hd__fail(ctx, HD_E_USAGE,
                        "a session belongs to the process that created it, and this is a child of it; create a session "
                        "in the child, or resume a checkpoint there");
}

void hd_session_stop(hd_session *s) { atomic_store(&s->run.stop, 1); }

void hd_session_terminate(hd_session *s) {
  hd_session_stop(s);
  hd__cluster_shorten_timeout(s->compute.local);
}

bool hd__session_writes(const hd_session *s) { return hd__cluster_rank(s->compute.local) == 0; }

double hd__session_train_s(const hd_session *s) { return s->run.train_s + (hd__clock_s() - s->run.region_s); }

void hd__session_event(hd_session *s, const hd_event *event) {
  if (s->report.on_event)
    s->report.on_event(s->report.user, event);
}

const char *hd__session_library(const hd_session *s) { return s->compute.device.library; }

const char *hd__session_note_sums(hd_session *s) {
  hd_sums_fact sums = {"", ""};
  const bool adds = hd__exec_facts(&sums, s->compute.exec, HD_FACT_SUMS) > 0;
  s->report.facts.gpu_sums = *sums.library ? HD_GPU_SUMS_NCCL : adds ? HD_GPU_SUMS_TREE : HD_GPU_SUMS_NONE;
  s->report.facts.nccl = sums.library;
  return sums.why;
}

const char *hd__session_isa(const hd_session *s) {
  return s->compute.device.isa ? s->compute.device.isa : s->compute.kernels->isa;
}

int64_t hd__session_bytes(const hd_session *s) {
  const hd_store *average = s->compute.average_store;
  return (int64_t)s->compute.store->segment.bytes + (average ? (int64_t)average->segment.bytes : 0) +
         hd__exec_bytes(s->compute.exec) + hd__exec_bytes(s->compute.eval_exec) + s->checkpoints.saver.bytes +
         (int64_t)s->input.features.memory.bytes;
}

/* Every --lookahead-th step, and at the end of all epochs, the weights become the slow ones. */
static void describe_average(hd_step *step, const hd_session *s) {
  const hd_settings *is = s->run.settings;
  const int64_t count = s->run.earlier_steps + step->number + 1, all = s->run.steps_of_epochs;
  if (hd__config_has(s->run.config, HD_OPT_EMA))
    step->average_share = count == 1 ? 1 : (float)(1 - is->ema);
  if (is->lookahead == 0)
    return;
  const double decay = is->lookahead_decay * hd__pow_int((double)count / (double)all, (uint64_t)is->lookahead_power);
  const bool due = count % is->lookahead == 0;
  step->average_share = due ? (float)(1 - decay) : 0;
  step->average_replaces = due || count == all;
}

void hd__session_describe(hd_step *step, const hd_session *s, int64_t index) {
  const int64_t cursor = hd__session_cursor(s, index);
  const int64_t left = s->input.train.count - cursor;
  *step = (hd_step){.samples = left < s->run.batch ? left : s->run.batch, .cursor = cursor, .number = index};
  step->seed = (uint64_t)s->run.settings->seed;
  step->epoch = (uint32_t)(s->run.earlier_epochs + index / s->run.steps_per_epoch);
  step->share = (float)hd__target_share(&s->run.network.target, &s->input.train, step->epoch, cursor, step->samples);
  step->divisor = (float)hd__divisor((double)step->share);
  describe_average(step, s);
  for (int g = 0; g < s->compute.plan->update.group_count; g++)
    hd__schedule_hyper(&step->hyper[g], &s->run.schedule[g], s->run.earlier_steps + index);
}

hd_status hd__session_batches(hd_batches **out, hd_ctx *ctx, hd_session *s, const hd_threads *threads, int workers,
                              int64_t repeats) {
  const hd_batches_settings settings = {.feed = &s->input.train,
                                        .seed = (uint64_t)s->report.facts.seed,
                                        .batch = s->run.batch,
                                        .steps_per_epoch = s->run.steps_per_epoch,
                                        .sample_elems = s->compute.plan->io.input.elems,
                                        .outputs = s->compute.plan->io.target_outputs,
                                        .weighs = s->compute.plan->io.weighs,
                                        .workers = workers,
                                        .prefetch_factor = (int32_t)s->run.settings->prefetch_factor,
                                        .pin = s->run.settings->pin_memory,
                                        .exec = s->compute.local ? s->compute.exec
                                                                 : NULL, /* other ranks read the other rows */
                                        .repeats = repeats,
                                        .place = hd__threads_workers(threads)};
  *out = NULL;
  return workers > 0 ? hd__batches_create(out, ctx, &settings) : HD_OK;
}

hd_status hd__session_start_workers(hd_session *s, hd_ctx *ctx) {
  HD_TRY(hd__session_batches(&s->input.batches, ctx, s, s->compute.threads, (int)s->run.settings->workers, 0));
  s->report.facts.workers = s->input.batches ? hd__ring_workers(hd__batches_ring(s->input.batches)) : 0;
  return HD_OK;
}

hd_status hd__session_read(const hd_session *s, hd_batches *batches, hd_ctx *ctx, const hd_step *step, int64_t first,
                           int64_t rows, const hd_slots *to) {
  return batches && !to->sample ? hd__batches_read(batches, ctx, step->number, first, rows, to)
                                : hd__feed_read(&s->input.train, ctx, step->epoch, step->cursor + first, rows, to);
}
