/* The public session: training from event to event (epoch ends, saves, evaluations), and its report. */
#include "train/run/session.h"

#include <math.h>
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "base/event_log.h"
#include "base/rounding.h"
#include "base/text_buffer.h"
#include "comm/group_state.h"
#include "exec/exchange/cluster.h"
#include "heddle/ddp.h"
#include "platform/clock.h"
#include "platform/thread_start.h"
#include "platform/process.h"
#include "platform/threads.h"
#include "train/records/loss_score.h"
#include "train/run/agreement.h"
#include "train/run/kept_features.h"

/* Callbacks of the executor. */

static bool next_step(void *self, hd_step *step) {
  hd_session *s = self;
  if (s->run.planned >= s->run.target)
    return false;
  hd__session_describe(step, s, s->run.planned++);
  step->reports = s->run.planned == s->run.target || s->run.planned % s->run.settings->log_every == 0;
  return true;
}

/* The counters after a step that counts. */
static hd_counters counted(const hd_session *s, const hd_step *step, double loss_sum) {
  hd_counters counters = s->run.counters;
  const bool begins = counters.step % s->run.steps_per_epoch == 0;
  counters.step++;
  counters.epoch_loss_sum = (begins ? 0 : counters.epoch_loss_sum) + loss_sum;
  counters.epoch_divisor = (begins ? 0 : counters.epoch_divisor) + (double)step->share;
  counters.step_loss = loss_sum / (double)step->divisor;
  counters.owes_evaluation = hd__session_evaluates_after(s, counters.step);
  return counters;
}

/* Before the closing barrier: an emergency save of the next version takes its counters, and finds its loss. */
static uint32_t close_step(hd_session *s, const hd_step *step, double loss_sum) {
  hd__losses_note(&s->checkpoints.losses, s->run.counters.step, loss_sum);
  hd__losses_note(&s->checkpoints.divisors, s->run.counters.step, (double)step->divisor);
  if (s->checkpoints.emergency) {
    const hd_counters next = counted(s, step, loss_sum);
    hd__emergency_note(s->checkpoints.emergency, &next);
  }
  return atomic_load(&s->run.stop) ? HD_FLAG_STOP : 0;
}

static void count_step(hd_session *s, const hd_step *step, double loss_sum) {
  if (s->input.batches)
    hd__batches_done(s->input.batches, step->number);
  s->run.counters = counted(s, step, loss_sum);
  hd__local_group_step(s->compute.local, s->run.counters.step);
  s->run.call_loss_sum += loss_sum;
  s->run.call_divisor += (double)step->share;
  s->run.trained_samples += step->samples;
  const double loss = s->run.counters.step_loss;
  const int64_t epoch = (s->run.counters.step - 1) / s->run.steps_per_epoch;
  hd__job_step(&s->report.page, s->run.counters.step, epoch, s->run.trained_samples, loss);
  if (s->report.on_event) {
    hd_event event = {
        .kind = HD_EVENT_STEP, .step = s->run.counters.step, .epoch = epoch, .loss = loss, .loss_sum = loss_sum};
    hd__session_event(s, &event);
  }
  hd__session_log(s);
}

static uint32_t report(void *self, const hd_step *step, double loss_sum, bool counts) {
  if (!counts)
    return close_step(self, step, loss_sum);
  count_step(self, step, loss_sum);
  return 0;
}

static hd_status fetch_train(void *self, hd_ctx *ctx, const hd_step *step, int64_t first, int64_t rows,
                             const hd_slots *to) {
  const hd_session *s = self;
  return hd__session_read(s, s->input.batches, ctx, step, first, rows, to);
}

/* The digest of the last version, for the reports of all ranks. Where hosts have stages of their own, the save of
 * its step has found it, or the first host collects what a run had before its first step. */
static hd_status digest(hd_session *s, hd_ctx *ctx) {
  char *text = s->report.facts.weights_sha256;
  enum { BYTES = sizeof s->report.facts.weights_sha256 };
  const bool is_saved = hd__stages_are_apart(s) && s->run.counters.step > s->report.facts.resumed_step;
  HD_OWNED char *all = hd__malloc((size_t)hd__cluster_ranks(s->compute.local) * BYTES);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for the digests of ranks"));
  HD_TRY(is_saved ? hd__session_await_save(s, ctx) : hd__exec_collect(s->compute.exec, ctx));
  if (is_saved)
    memcpy(text, s->checkpoints.saver.weights_sha256, BYTES);
  else if (hd__session_writes(s))
    HD_TRY(hd__checkpoint_digest(text, ctx, s->compute.store, s->run.earlier_steps + s->run.counters.step));
  HD_TRY(hd__cluster_gather(all, s->compute.local, ctx, text, BYTES));
  memcpy(text, all, BYTES);
  return HD_OK;
}

/* The next multiple of `every`, at most the end of the run; without `every` the end of the run. */
static int64_t next_multiple(const hd_session *s, int64_t every) {
  return every > 0 ? (s->run.counters.step / every + 1) * every : s->run.steps_in_all;
}

/* Where the next region ends: the epoch's end, a save, an evaluation, the caller's pause, or the run's end. */
static int64_t next_stop(const hd_session *s) {
  int64_t stop = (s->run.counters.step / s->run.steps_per_epoch + 1) * s->run.steps_per_epoch;
  const int64_t others[] = {s->run.steps_in_all, s->run.pause, next_multiple(s, s->run.settings->save_every),
                            next_multiple(s, s->run.settings->eval_every),
                            next_multiple(s, s->run.settings->sample_every)};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    stop = others[i] < stop ? others[i] : stop;
  return stop;
}

/* Adds to the message the step and the remedy: a run keeps its settings, so a new run continues from its last good
 * weights. */
static hd_status not_finite(hd_session *s, hd_ctx *ctx) {
  char what[256], last[HD_PATH_BYTES];
  long long step = (long long)s->run.counters.step + 1;
  const bool divides =
      hd__config_given(s->run.config, HD_OPT_EPS) && hd_config_get_real(s->run.config, HD_OPT_EPS) == 0; /* 0 by 0 */
  const char *remedy = divides ? "an --eps above 0" : "a lower --lr or --clip-grad-norm";
  snprintf(what, sizeof what, "%.255s", ctx->message);
  HD_TRY(hd__session_await_save(s, ctx));
  HD_TRY(hd__file_join(last, ctx, s->checkpoints.folder, "last/model.safetensors"));
  if (!hd__file_exists(last))
    return hd__fail(ctx, HD_E_NOTFINITE, "step %lld: %s; nothing was saved: start again with %s", step, what, remedy);
  return hd__fail(ctx, HD_E_NOTFINITE,
                  "step %lld: %s; start a new run with %s, from the last good weights: --init %.500s", step, what,
                  remedy, last);
}

/* Adds to the message how to continue: the steps since the last checkpoint were lost with the device's memory. */
static hd_status lost_device(hd_session *s, hd_ctx *ctx, hd_status status) {
  char what[512], last[HD_PATH_BYTES];
  hd_ctx quiet = {0};
  snprintf(what, sizeof what, "%.511s", ctx->message);
  const bool saved = hd__saver_wait(&s->checkpoints.saver, &quiet) == HD_OK &&
                     hd__file_join(last, &quiet, s->checkpoints.folder, "last/model.safetensors") == HD_OK &&
                     hd__file_exists(last);
  if (!saved)
    return hd__fail(ctx, status, "%s", what);
  return hd__fail(ctx, status, "%s; continue from the last checkpoint with --resume %.400s", what,
                  s->checkpoints.folder);
}

static void note(hd_session *s, const char *text) {
  const hd_event event = {.kind = HD_EVENT_NOTE, .step = s->run.counters.step, .text = text};
  hd__session_event(s, &event);
}

static void note_once(hd_session *s, bool *noted, const char *text) {
  if (text && !*noted)
    note(s, text);
  *noted |= text != NULL;
}

/* Reports, once each, that the system refused the places of threads or of their memory, or locking of the loader's
 * batches. */
static void note_refusals(hd_session *s) {
  note_once(s, &s->report.noted_refusal, hd__threads_refused(s->compute.threads));
  if (s->input.batches && hd__ring_is_unpinned(hd__batches_ring(s->input.batches)))
    note_once(s, &s->input.noted_loose,
              "the loader's batches could not be locked in memory and may be swapped out; raise `ulimit -l`, or leave "
              "--pin-memory out");
}

static hd_status run_region(hd_session *s, hd_ctx *ctx, uint32_t *flags) {
  const hd_step_source source = {.self = s, .next = next_step, .fetch = fetch_train};
  const int64_t epoch = s->run.earlier_epochs + s->run.counters.step / s->run.steps_per_epoch;
  s->run.region_s = hd__clock_s();
  int64_t began_ns = hd__clock_ns();
  if (hd__feed_shuffle(&s->input.train, (uint64_t)s->run.settings->seed, (uint32_t)epoch))
    hd__trace_event(hd__profile_first_track(&s->report.profiler), HD_SLICE_SHUFFLE, 0, began_ns);
  s->run.planned = s->run.counters.step;
  s->run.target = next_stop(s);
  HD_TRY(hd__losses_reserve(&s->checkpoints.losses, ctx, s->run.target));
  HD_TRY(hd__losses_reserve(&s->checkpoints.divisors, ctx, s->run.target));
  if (s->input.batches)
    hd__batches_seek(s->input.batches, s->run.counters.step, s->run.steps_in_all);
  hd__job_enter(&s->report.page, HD_JOB_TRAINING);
  HD_LOG(EXEC, "steps %lld to %lld begin", (long long)s->run.counters.step + 1, (long long)s->run.target);
  s->run.steps = true;
  hd_status status = hd__exec_run(s->compute.exec, ctx, &source, report, flags);
  s->run.steps = false;
  HD_LOG(EXEC, "steps ended after %lld, flags %#x", (long long)s->run.counters.step, (unsigned)*flags);
  hd__job_enter(&s->report.page, HD_JOB_READY);
  note_refusals(s);
  s->run.train_s = hd__session_train_s(s);
  s->report.facts.steps = s->run.counters.step;
  if (status != HD_OK && !(*flags & HD_FLAG_NO_DATA) && status != HD_E_NOTFINITE && status != HD_E_PEER)
    return lost_device(s, ctx, status);
  return status == HD_E_NOTFINITE ? not_finite(s, ctx) : status;
}

static void finish_report(hd_session *s) {
  s->report.facts.peak_rss_bytes = hd__process_peak_bytes();
  s->report.facts.train_s = s->run.train_s;
  if (s->input.batches)
    s->report.facts.waited_s =
        1e-9 * (double)hd__ring_waited_ns(hd__batches_ring(s->input.batches)) / s->report.facts.threads;
  s->report.facts.samples_per_s = s->run.train_s > 0 ? (double)s->run.trained_samples / s->run.train_s : 0;
  s->report.facts.wall_s = hd__clock_process_s();
  s->report.facts.rank_time = hd__rank_times_whole(&s->report.rank_times);
  hd__gpu_accounts_read(&s->report.gpu_memory, s->compute.exec);
  s->report.facts.gpu_memory = s->report.gpu_memory.of;
  s->report.facts.gpus = s->report.gpu_memory.count;
}

/* Trains up to the step `end`. */
static hd_status train_until(hd_session *s, hd_ctx *ctx, int64_t end) {
  uint32_t flags = 0;
  if (s->report.facts.startup_s == 0)
    s->report.facts.startup_s = hd__clock_process_s();
  s->run.pause = end < s->run.steps_in_all ? end : s->run.steps_in_all;
  s->report.facts.stopped = 0;
  HD_TRY(hd__session_settle_evaluation(s, ctx)); /* of the step from which a resumed run continues */
  while (s->run.counters.step < s->run.pause && !s->report.facts.stopped && !hd__session_patience_ended(s)) {
    HD_TRY(hd__session_enter_stage(s, ctx));
    hd_status status = run_region(s, ctx, &flags);
    if (status != HD_OK && flags & HD_FLAG_NO_DATA)
      return hd__session_save_without_data(s, ctx, status);
    HD_TRY(status);
    s->report.facts.stopped = (flags & HD_FLAG_STOP) && s->run.counters.step < s->run.steps_in_all;
    if (flags & HD_FLAG_STOP)
      hd__cluster_restore_timeout(s->compute.local); /* all ranks know it, and may have something to save */
    HD_TRY(hd__session_end_region(s, ctx, s->report.facts.stopped));
    if (!s->report.facts.stopped)
      HD_TRY(hd__session_sample(s, ctx));
  }
  hd__cluster_restore_timeout(s->compute.local);
  return HD_OK;
}

static hd_status stopped(hd_session *s, hd_ctx *ctx) {
  return hd__fail(ctx, HD_E_INTERRUPTED, "stopped after step %lld", (long long)s->run.counters.step);
}

static void note_patience_ended(hd_session *s) {
  char text[128];
  const char *metric = s->report.facts.metric;
  snprintf(text, sizeof text, "ended early: no %s %s %s for %lld epoch%s", *metric ? "better" : "lower",
           s->input.val.count > 0 ? "validation" : "test", *metric ? metric : "loss",
           (long long)s->run.counters.stale_epochs, s->run.counters.stale_epochs == 1 ? "" : "s");
  note(s, text);
}

/* A run that ends by its test set has chosen its number of steps by it. */
static void note_patience_on_test(hd_session *s) {
  if (s->run.settings->patience > 0 && s->input.val.count == 0)
    note(s,
         "--patience goes by the test set, so the test score is of a run chosen by it; --val-split 0.1 keeps it apart");
}

/* Of the run, or of a group of parameters. */
static void note_constant_momentum(hd_session *s) {
  bool constant = false;
  for (int g = 0; g < s->compute.plan->update.group_count; g++)
    constant |= hd__schedule_keeps_momentum(&s->run.schedule[g]);
  if (constant)
    note(s, "--schedule onecycle leaves a momentum of 0 unchanged; PyTorch's OneCycleLR cycles it from 0.95 to 0.85: "
            "for that give --momentum 0.95");
}

/* The first layer whose statistics are of one number a channel where `samples` are a batch: NULL for none. */
static const hd_node *lone_norm(const hd_session *s, int64_t samples) {
  const hd_graph *graph = s->compute.plan->graph;
  for (int i = 0; i < graph->node_count; i++) {
    const hd_node *node = &graph->nodes[i];
    const bool shard = node->op == HD_OP_shard_norm;
    if (!shard && (node->op != HD_OP_batch_norm || graph->values[node->in[3]].kind == HD_VALUE_PARAM))
      continue; /* or it reads stored statistics */
    const hd_shape *x = &graph->values[node->in[0]].shape;
    if (hd__shape_elems(x) == x->dim[0] && samples < 2 * (shard ? s->report.facts.shards : 1))
      return node;
  }
  return NULL;
}

/* A number minus the mean of itself alone is 0, whatever it is. */
static void note_lone_numbers(hd_session *s) {
  const int64_t rest = s->run.settings->drop_last ? 0 : s->input.train.count % s->run.batch;
  const hd_node *all = lone_norm(s, s->run.batch), *last = rest ? lone_norm(s, rest) : NULL;
  char text[HD_NAME_BYTES + 192];
  if (!all && !last)
    return;
  snprintf(text, sizeof text,
           "batch_norm '%s' sees one number per channel %s, which becomes 0 whatever its value; give %s--batch",
           (all ? all : last)->name, all ? "in each batch" : "in the last batch of an epoch",
           all ? "a larger " : "--drop-last or another ");
  note(s, text);
}

/* Reports what was chosen for rows of numbers. */
static void note_rows(hd_session *s) {
  const hd_features *f = hd__dataset_features(s->input.data);
  const bool targets = s->input.targets.count > 0;
  char text[320];
  hd_line line = {.text = text, .bytes = sizeof text};
  if (s->input.data->normalize != HD_NORMALIZE_COLUMN || !f)
    return;
  if (!f->given)
    hd__line_add(&line,
                 "each of the %d numbers of a row is scaled to mean 0 and standard deviation 1 (--normalize column)",
                 f->count);
  if (targets)
    hd__line_add(&line, "%sthe target%s too, and losses are on that scale (--target-scale)", line.length ? "; " : "",
                 s->input.targets.count > 1 ? "s" : "");
  if (s->input.chose_epochs)
    hd__line_add(&line, "%s%g epochs (--epochs)", line.length ? "; " : "", s->run.settings->epochs);
  if (line.length)
    note(s, text);
}

static void note_data(hd_session *s) {
  for (char *const *line = s->input.data->note; *line; line++)
    note(s, *line);
  note_rows(s);
  if (*s->report.model_note)
    note(s, s->report.model_note);
  if (*s->report.features_note)
    note(s, s->report.features_note);
}

static void note_spare_scores(hd_session *s) {
  const hd_split *data = hd__dataset_train(s->input.data);
  const int32_t scores = hd__target_classes(&s->run.network.target);
  char text[HD_PATH_BYTES + 192];
  if ((!data->labels && !data->masks && !data->window) || data->classes >= scores || data->classes < 2)
    return;
  snprintf(text, sizeof text,
           "the last layer has %d scores for the %d classes of %s; those from %d on are not used: 'out: %d' is enough",
           scores, data->classes, s->input.data->name, data->classes, data->classes);
  note(s, text);
}

static hd_status train(hd_session *s, hd_ctx *ctx) {
  if (s->run.counters.step < s->run.steps_in_all) {
    note_data(s);
    note_spare_scores(s);
    note_lone_numbers(s);
    note_constant_momentum(s);
    note_patience_on_test(s);
    if (s->run.settings->sample_every > 0 && !hd__session_shows_texts(s))
      note(s, "--sample-every shows no texts of this network on these ranks and devices; heddle generate does");
  }
  HD_TRY(train_until(s, ctx, s->run.steps_in_all));
  HD_TRY(hd__stages_note(s, ctx));
  if (s->run.counters.step < s->run.steps_in_all && !s->report.facts.stopped)
    note_patience_ended(s);
  HD_TRY(digest(s, ctx));
  HD_TRY(hd__session_await_save(s, ctx));
  if (s->report.facts.stopped)
    return stopped(s, ctx);
  HD_TRY(hd_session_evaluate(s, ctx));
  HD_TRY(hd__dataset_check_unchanged(s->input.data, ctx));
  const bool is_earlier = s->report.had_ended && hd__steps_linked(s->checkpoints.folder, "last") > s->run.counters.step;
  return hd__session_writes(s) && !is_earlier ? hd__session_draw_wrong(s, ctx) : HD_OK;
}

/* Called at the end of every run: writes its profile, and returns that failure unless the run failed before. */
static hd_status profile_end(hd_session *s, hd_ctx *ctx, hd_status status) {
  hd_ctx quiet = {0};
  hd_ctx *failure_ctx = status == HD_OK ? ctx : &quiet;
  if (!s->report.profiler.trace)
    return status;
  hd_status waited = hd__saver_wait(&s->checkpoints.saver, failure_ctx); /* the saver's thread writes a track */
  hd_status wrote = hd__profile_write(&s->report.profiler, failure_ctx);
  s->report.facts.profile = wrote == HD_OK && hd__session_writes(s) ? &s->report.profiler.result : NULL;
  return status != HD_OK ? status : waited != HD_OK ? waited : wrote;
}

/* Whether this rank makes the emergency save. A rank that counts as lost but is still running does not: others may have
 * resumed the run meanwhile. */
static bool saves_for_ranks(const hd_session *s) {
  hd_fault fault;
  return s->checkpoints.emergency && hd__local_group_is_saver(s->compute.local) &&
         hd__local_group_fault(&fault, s->compute.local) &&
         (fault.kind == HD_FAULT_PARENT || fault.rank != hd__local_group_rank(s->compute.local));
}

/* Kills a rank that counts as lost because it is stopped or late. It must not continue later, and it may hold the run's
 * lock. */
static void end_silent_rank(const hd_local_group *local) {
  hd_fault fault;
  if (!hd__local_group_fault(&fault, local) || (fault.kind != HD_FAULT_STOPPED && fault.kind != HD_FAULT_LATE) ||
      fault.rank < 0)
    return;
  const hd_rank_view view = hd__local_group_view(local, fault.rank);
  hd__process_signal(view.pid, view.start, SIGKILL);
}

/* After a rank was lost: where there is neither parent nor supervisor, the first of the remaining ranks makes the
 * emergency save. */
static hd_status save_for_ranks(hd_session *s, hd_ctx *ctx) {
  char what[HD_FAULT_LINE_BYTES], run[HD_PATH_BYTES];
  hd_ctx quiet = {0};
  int64_t step;
  if (!saves_for_ranks(s))
    return HD_E_PEER;
  snprintf(what, sizeof what, "%s", hd_ctx_message(ctx));
  hd__saver_wait(&s->checkpoints.saver, &quiet);
  end_silent_rank(s->compute.local);
  if (hd__emergency_save(&step, run, NULL, &quiet, s->compute.local) != HD_OK)
    return hd__fail(ctx, HD_E_PEER, "%s; it could not be saved: %.500s", what, quiet.message);
  return hd__fail(ctx, HD_E_PEER, "%s; saved step %lld, continue with --resume %.900s", what, (long long)step, run);
}

/* Unlocks the run's folder for the process that makes the emergency save. */
static void leave_run(hd_session *s) {
  hd_ctx quiet = {0};
  hd__saver_wait(&s->checkpoints.saver, &quiet);
  hd__file_unlock(&s->checkpoints.lock);
}

/* Whether the other ranks would wait for this one. Some failures occur on all ranks at the same step, or are known to
 * all. */
static bool fails_alone(hd_status status) {
  return status != HD_OK && status != HD_E_INTERRUPTED && status != HD_E_NOTFINITE && status != HD_E_PEER;
}

/* Handles the status with which a collective call ended. */
static hd_status conclude(hd_session *s, hd_ctx *ctx, hd_status status) {
  if (status == HD_E_PEER)
    return save_for_ranks(s, ctx);
  if (fails_alone(status) && hd__cluster_ranks(s->compute.local) > 1) {
    leave_run(s);
    hd__local_group_give_up(s->compute.local, hd_ctx_message(ctx));
  }
  return status;
}

/* A line that cannot be written is a failure of a run that had none. */
static hd_status end_history(hd_session *s, hd_ctx *ctx, hd_status status) {
  hd_ctx quiet = {0};
  const hd_status wrote = hd__session_close_history(s, &quiet, status, hd_ctx_message(ctx));
  return status != HD_OK || wrote == HD_OK ? status : hd__fail(ctx, wrote, "%s", quiet.message);
}

static hd_status train_to_end(hd_session *s, hd_ctx *ctx) {
  hd_status status = hd__agree_on_end(s, ctx, s->run.steps_in_all);
  if (status == HD_E_USAGE) /* of all ranks, which may go on */
    return status;
  HD_THEN(status, train(s, ctx));
  status = conclude(s, ctx, status);
  finish_report(s);
  status = profile_end(s, ctx, status);
  if (status == HD_OK && hd__device_note_idle(s))
    note(s, s->report.device_note);
  return hd__session_writes(s) ? end_history(s, ctx, status) : status;
}

hd_status hd_session_train(hd_session *s, hd_ctx *ctx, hd_event_fn *on_event, void *user) {
  HD_ROUNDING_TO_NEAREST;
  HD_TRY(hd__session_check_idle(s, ctx));
  s->report.on_event = on_event;
  s->report.user = user;
  s->run.trains = true;
  const hd_status status = train_to_end(s, ctx);
  s->run.trains = false;
  s->report.on_event = NULL; /* it and its `user` may not outlive the call */
  return status;
}

hd_status hd_session_profile(hd_session *s, hd_ctx *ctx) {
  HD_ROUNDING_TO_NEAREST;
  HD_TRY(hd__session_check_process(s, ctx));
  if (!s->report.profiler.trace)
    return hd__fail(ctx, HD_E_USAGE, "expected a session with the option profile, found one without it; set it");
  HD_TRY(conclude(s, ctx, hd__session_await_save(s, ctx))); /* the saver's thread writes a track */
  return profile_end(s, ctx, HD_OK);
}

static hd_status take_steps(hd_session *s, hd_ctx *ctx, int64_t end) {
  HD_TRY(train_until(s, ctx, end));
  if (!s->report.facts.stopped)
    return HD_OK;
  HD_TRY(hd__session_await_save(s, ctx));
  return stopped(s, ctx);
}

hd_status hd_session_step(double *loss, hd_session *s, hd_ctx *ctx, int64_t steps) {
  HD_ROUNDING_TO_NEAREST;
  HD_TRY(hd__session_check_idle(s, ctx));
  const int64_t begin = s->run.counters.step, left = s->run.steps_in_all - begin;
  const int64_t end = begin + (steps < left ? steps : left);
  s->run.call_loss_sum = 0;
  s->run.call_divisor = 0;
  hd_status status = hd__agree_on_end(s, ctx, end);
  if (status == HD_E_USAGE) /* of all ranks, which may go on */
    return status;
  s->run.trains = true;
  HD_THEN(status, take_steps(s, ctx, end));
  s->run.trains = false;
  status = conclude(s, ctx, status);
  if (loss)
    *loss = s->run.counters.step > begin ? s->run.call_loss_sum / hd__divisor(s->run.call_divisor) : NAN;
  finish_report(s);
  return status;
}

int hd_session_done(const hd_session *s) { return hd__session_is_over(s); }

/* A step that the caller evaluated may become the best one: its evaluation is marked as due until `best` names it. */
static hd_status save_now(hd_session *s, hd_ctx *ctx) {
  const bool evaluated = s->run.evaluated_step == s->run.counters.step;
  const int64_t due = s->run.counters.owes_evaluation;
  s->run.counters.owes_evaluation |= evaluated && !hd__session_evaluates_after(s, s->run.counters.step);
  const hd_status status = hd__session_begin_save(s, ctx);
  s->run.counters.owes_evaluation = due;
  HD_TRY(status);
  HD_TRY(digest(s, ctx));
  HD_TRY(hd__session_await_save(s, ctx));
  HD_TRY(hd__dataset_check_unchanged(s->input.data, ctx));
  return evaluated ? hd__session_mark_best(s, ctx) : HD_OK;
}

hd_status hd_session_save(hd_session *s, hd_ctx *ctx) {
  HD_ROUNDING_TO_NEAREST;
  HD_TRY(hd__session_check_process(s, ctx));
  return conclude(s, ctx, save_now(s, ctx));
}

hd_status hd__session_create(hd_session **out, hd_ctx *ctx, const hd_config *config, const hd_session_use *use) {
  HD_ROUNDING_TO_NEAREST;
  hd_session *s = *out = hd__calloc(1, sizeof *s);
  int lock = use->lock;
  if (!s)
    hd__file_unlock(&lock);
  HD_TRY(HD_ALLOCATED(s, ctx, "out of memory for the session"));
  s->process = hd__this_process();
  s->compute.local = use->local;
  s->run.evaluated_step = s->checkpoints.saved_step = -1;
  s->checkpoints.losses.fd = s->checkpoints.divisors.fd = -1;
  s->checkpoints.lock = lock;
  hd_status status = hd__thread_check_stack(ctx);
  HD_THEN(status, hd__config_copy(&s->run.config, ctx, config));
  s->run.settings = status == HD_OK ? hd__settings(s->run.config) : NULL;
  s->run.rehearses = use->rehearses;
  HD_THEN(status, hd__session_setup(s, ctx, use->rehearses));
  if (fails_alone(status))
    hd__local_group_give_up(use->local, hd_ctx_message(ctx));
  return HD_CREATED(status, out, hd_session_destroy);
}

hd_status hd_session_create(hd_session **out, hd_ctx *ctx, const hd_config *config) {
  return hd_ddp(out, ctx, config, NULL);
}

static hd_status check_group(hd_ctx *ctx, const hd_group *group, int64_t ranks) {
  if (!hd__group_is_whole(group))
    return hd__fail(ctx, HD_E_USAGE,
                    "hd_ddp expects the group of all ranks, which hd_group_init made, found one of hd_group_new with "
                    "%d; give it the former, or start a job of those ranks alone",
                    hd_group_size(group));
  if (ranks > 1 && ranks != hd_group_size(group))
    return hd__fail(ctx, HD_E_USAGE,
                    "--procs expects the number of ranks that were started, %d, found %lld; leave it out, or start "
                    "that many with `heddle launch` or hd_spawn and give their group to hd_ddp",
                    hd_group_size(group), (long long)ranks);
  return HD_OK;
}

hd_status hd_ddp(hd_session **out, hd_ctx *ctx, const hd_config *config, const hd_group *group) {
  const int64_t ranks = hd__settings(config)->procs;
  *out = NULL;
  const hd_status fits = check_group(ctx, group, ranks);
  if (fits != HD_OK) { /* the other ranks may have the right group and number */
    hd__local_group_give_up(hd__group_local(group), hd_ctx_message(ctx));
    return fits;
  }
  HD_TRY(hd__log_start(ctx));
  hd__local_group_set_timeout(hd__group_local(group), hd__settings(config)->stall_timeout);
  return hd__session_create(out, ctx, config, &(hd_session_use){.local = hd__group_local(group), .lock = -1});
}

void hd_session_destroy(hd_session *s) {
  if (!s || hd__session_check_process(s, NULL) != HD_OK) /* a child's copy lasts as long as the child */
    return;
  hd__cluster_restore_timeout(s->compute.local); /* of the ranks, which may go on without the session */
  hd__saver_fini(&s->checkpoints.saver);
  hd__losses_close(&s->checkpoints.losses, s->run.counters.step);
  hd__losses_close(&s->checkpoints.divisors, s->run.counters.step);
  hd__job_close(&s->report.page);
  if (s->report.metrics)
    fclose(s->report.metrics);
  hd__events_close(s->report.events);
  hd__file_unlock(&s->checkpoints.lock);
  hd__session_unequip(&s->compute);
  hd__program_loss_destroy(s->compute.program); /* after the plan that has it */
  hd__profile_close(&s->report.profiler);
  hd__threads_destroy(s->compute.threads);
  hd__batches_destroy(s->input.batches); /* before the feed that its workers read */
  hd__kept_features_fini(&s->input.features);
  hd__feed_fini(&s->input.train);
  hd__target_scale_fini(&s->input.targets);
  hd__feed_fini(&s->input.val);
  hd__feed_fini(&s->input.test);
  hd__segment_destroy(&s->report.guess_memory);
  hd__free(s->report.mean_memory);
  hd__emergency_close(s->checkpoints.emergency);
  hd__rank_times_fini(&s->report.rank_times);
  hd__gpu_accounts_fini(&s->report.gpu_memory);
  hd__stages_fini(&s->report.stages);
  hd__free(s->report.places);
  hd__dataset_close(s->input.data);
  hd__segment_destroy(&s->input.skip_memory); /* after all readers of the data */
  hd__network_fini(&s->run.network);
  json_decref(s->run.record);
  hd_config_destroy(s->run.config);
  hd__free(s);
}

const hd_report *hd_session_report(const hd_session *s) { return &s->report.facts; }
