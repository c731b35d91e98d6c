/* The public session: training from event to event (epoch ends, saves, evaluations), and its report. */
#include "train/session.h"

#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "comm/group.h"
#include "comm/hosts.h"
#include "heddle/ddp.h"
#include "data/skip.h"
#include "sys/clock.h"
#include "train/device.h"
#include "train/record.h"

/* How often ranks hear of a save that they wait for. */
static const double BEAT_S = 0.05;

static hd_session *session_of(void *self) { return self; }

bool hd__session_writes(const hd_session *s) { return hd__hosts_rank(s->world) == 0; }

double hd__session_train_s(const hd_session *s) { return s->train_s + (hd__clock_s() - s->region_s); }

/* The executor's questions. */

void hd__session_describe(hd_step *step, const hd_session *s, int64_t index) {
  int64_t in_epoch = index % s->steps_per_epoch, cursor = in_epoch * s->batch;
  int64_t left = s->train_feed.count - cursor;
  *step = (hd_step){.samples = left < s->batch ? left : s->batch, .cursor = cursor, .number = index};
  step->seed = (uint64_t)hd__config_int(s->config, HD_OPT_seed);
  step->epoch = (uint32_t)(index / s->steps_per_epoch);
  step->divisor = (float)hd__target_divisor(&s->network.target, &s->train_feed, step->epoch, cursor, step->samples);
  for (int g = 0; g < s->plan->group_count; g++) {
    const hd_plan_group *group = &s->plan->groups[g];
    const hd_schedule schedule = hd__schedule_of_group(&s->schedule, group->lr, group->weight_decay);
    hd__schedule_hyper(&step->hyper[g], &schedule, index);
  }
}

static int next_step(void *self, hd_step *step) {
  hd_session *s = session_of(self);
  if (s->planned >= s->target)
    return 0;
  hd__session_describe(step, s, s->planned++);
  step->reports = s->planned == s->target || s->planned % hd__config_int(s->config, HD_OPT_log_every) == 0;
  return 1;
}

/* The counters when a step counts. */
static hd_counters counted(const hd_session *s, const hd_step *step, const hd_step_result *result) {
  hd_counters counters = s->counters;
  counters.step++;
  counters.epoch_loss_sum += result->loss_sum;
  counters.epoch_divisor += (double)step->divisor;
  return counters;
}

static uint32_t closing(void *self, const hd_step *step, const hd_step_result *result) {
  hd_session *s = session_of(self);
  if (s->rescue) {
    const hd_counters next = counted(s, step, result);
    hd__rescue_note(s->rescue, &next);
  }
  return atomic_load(&s->stop) ? HD_FLAG_STOP : 0;
}

static void step_done(void *self, const hd_step *step, const hd_step_result *result) {
  hd_session *s = session_of(self);
  if (s->supply)
    hd__supply_done(s->supply, step->number);
  s->counters = counted(s, step, result);
  hd__world_step(s->world, s->counters.step);
  s->stretch_loss_sum += result->loss_sum;
  s->stretch_divisor += (double)step->divisor;
  s->trained_samples += step->samples;
  const double loss = result->loss_sum / (double)step->divisor;
  const int64_t epoch = (s->counters.step - 1) / s->steps_per_epoch;
  hd__job_step(&s->page, s->counters.step, epoch, s->trained_samples, loss);
  if (s->on_event) {
    hd_event event = {.kind = HD_EVENT_STEP, .step = s->counters.step, .epoch = epoch, .loss = loss};
    hd__session_tell(s, &event);
  }
  if (s->counters.step % hd__config_int(s->config, HD_OPT_log_every) == 0)
    hd__session_log(s, step, loss);
}

static uint32_t fetch_train(void *self, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to) {
  hd_session *s = session_of(self);
  if (s->supply)
    return hd__supply_fetch(s->supply, step->number, first, rows, to);
  return hd__feed_fetch(&s->train_feed, step->epoch, step->cursor + first, rows, to);
}

static void choose_train(void *self, const hd_step *step, int32_t *sample) {
  const hd_session *s = self;
  for (int64_t r = 0; r < step->samples; r++)
    sample[r] = (int32_t)hd__feed_sample(&s->train_feed, step->epoch, step->cursor + r);
}

static hd_status why_train(void *self, hd_ctx *ctx) {
  hd_session *s = session_of(self);
  return s->supply ? hd__supply_why(s->supply, ctx, s->counters.step) : hd__feed_why(&s->train_feed, ctx);
}

static uint32_t fetch_from(void *feed, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to) {
  return hd__feed_fetch(feed, step->epoch, step->cursor + first, rows, to);
}

static hd_status why_from(void *feed, hd_ctx *ctx) { return hd__feed_why(feed, ctx); }

/* Evaluates one split; leaves what was guessed in s->guesses. */
static hd_status evaluate_split(hd_score *out, hd_session *s, hd_ctx *ctx, hd_feed *feed) {
  const hd_driver driver = {.self = feed, .fetch = fetch_from, .why = why_from};
  HD_TRY(hd__exec_evaluate(s->eval_exec, ctx, &driver, feed->count, &s->guesses));
  hd__target_score(out, &s->network.target, feed, &s->guesses);
  return HD_OK;
}

static hd_status evaluate(hd_session *s, hd_ctx *ctx) {
  hd_report *r = &s->report;
  hd_score score;
  if (s->val_feed.count > 0) {
    HD_TRY(evaluate_split(&score, s, ctx, &s->val_feed));
    r->val_loss = score.loss;
    r->val_accuracy = score.accuracy;
  }
  HD_TRY(evaluate_split(&score, s, ctx, &s->test_feed));
  r->test_loss = score.loss;
  r->test_accuracy = score.accuracy;
  r->wrong = isnan(score.accuracy) ? -1 : score.judged - score.right;
  s->evaluated_step = s->counters.step;
  return HD_OK;
}

hd_status hd_session_evaluate(hd_session *s, hd_ctx *ctx) {
  if (s->evaluated_step == s->counters.step)
    return HD_OK;
  hd__job_enter(&s->page, HD_JOB_EVALUATING);
  hd_status status = evaluate(s, ctx);
  hd__job_enter(&s->page, HD_JOB_READY);
  return status;
}

/* Whether --patience is at its end. */
static bool impatient(const hd_session *s) {
  return hd__config_has(s->config, HD_OPT_patience) &&
         s->counters.stale_epochs >= hd__config_int(s->config, HD_OPT_patience);
}

static int64_t next_multiple(const hd_session *s, hd_option_id every) {
  if (!hd__config_has(s->config, every))
    return s->steps_in_all;
  int64_t n = hd__config_int(s->config, every);
  return (s->counters.step / n + 1) * n;
}

/* Where the next region ends: the epoch's end, a save, an evaluation, the caller's pause, or the run's end. */
static int64_t next_stop(const hd_session *s) {
  int64_t stop = (s->counters.step / s->steps_per_epoch + 1) * s->steps_per_epoch;
  const int64_t others[] = {s->steps_in_all, s->pause, next_multiple(s, HD_OPT_save_every),
                            next_multiple(s, HD_OPT_eval_every)};
  for (int i = 0; i < 4; i++)
    stop = others[i] < stop ? others[i] : stop;
  return stop;
}

/* What the ranks wait for, as the one that writes sees it. */
typedef enum save_state { SAVE_GOES_ON, SAVE_IS_WHOLE, SAVE_FAILED } save_state;

/* After a moment at most, in which it may come to an end. */
static save_state look_at_save(const hd_session *s) {
  const struct timespec rest = {.tv_nsec = 1000000};
  const double until_s = hd__clock_s() + BEAT_S;
  while (!hd__saver_has_ended(&s->saver) && hd__clock_s() < until_s)
    nanosleep(&rest, NULL);
  return !hd__saver_has_ended(&s->saver)             ? SAVE_GOES_ON
         : s->saver.busy && s->saver.status != HD_OK ? SAVE_FAILED
                                                     : SAVE_IS_WHOLE;
}

/* All ranks: they hear of the save all the while, so that a slow disk makes nobody count as lost. Where it failed, the
 * one that writes says so, which ends this meeting of the others. */
static hd_status hear_of_save(hd_session *s, hd_ctx *ctx) {
  char heard[HD_WORLD_MOST_RANKS] = {SAVE_GOES_ON};
  while (heard[0] == SAVE_GOES_ON || (heard[0] == SAVE_FAILED && !hd__session_writes(s))) {
    const char mine = (char)look_at_save(s);
    HD_TRY(hd__hosts_gather(heard, s->world, ctx, &mine, 1));
  }
  return HD_OK;
}

/* Until the save under way is whole, or has failed: all ranks. They stay for it, since launchers end the others soon
 * after the first has ended. */
static hd_status await_save(hd_session *s, hd_ctx *ctx) {
  hd__job_enter(&s->page, HD_JOB_SAVING);
  hd_status status = hd__hosts_ranks(s->world) > 1 ? hear_of_save(s, ctx) : HD_OK;
  if (status == HD_OK)
    status = hd__saver_wait(&s->saver, ctx);
  hd__job_enter(&s->page, HD_JOB_READY);
  return status;
}

/* Says at which step, and the way out: a run keeps its settings, so another one goes on from its last good weights. */
static hd_status not_finite(hd_session *s, hd_ctx *ctx) {
  char what[256], last[HD_PATH_BYTES];
  long long step = (long long)s->counters.step + 1;
  snprintf(what, sizeof what, "%.255s", ctx->message);
  HD_TRY(await_save(s, ctx));
  HD_TRY(hd__file_join(last, ctx, s->out, "last/model.safetensors"));
  if (!hd__file_exists(last))
    return hd__fail(ctx, HD_E_NOTFINITE, "step %lld: %s; lower --lr or use --clip-grad-norm", step, what);
  return hd__fail(ctx, HD_E_NOTFINITE,
                  "step %lld: %s; start a new run with a lower --lr, or with --clip-grad-norm, from the last good "
                  "weights: --init %.500s",
                  step, what, last);
}

/* Says how to go on: what was trained since the last checkpoint is gone with the GPU's memory. */
static hd_status lost_gpu(hd_session *s, hd_ctx *ctx, hd_status status) {
  char what[512], last[HD_PATH_BYTES];
  hd_ctx quiet = {0};
  snprintf(what, sizeof what, "%.511s", ctx->message);
  const bool saved = hd__saver_wait(&s->saver, &quiet) == HD_OK &&
                     hd__file_join(last, &quiet, s->out, "last/model.safetensors") == HD_OK && hd__file_exists(last);
  if (!saved)
    return hd__fail(ctx, status, "%s", what);
  return hd__fail(ctx, status, "%s; go on from the last checkpoint with --resume %.400s", what, s->out);
}

static void tell_once(hd_session *s, bool *told, const char *text) {
  if (!text || *told)
    return;
  hd_event event = {.kind = HD_EVENT_NOTE, .step = s->counters.step, .text = text};
  hd__session_tell(s, &event);
  *told = true;
}

/* Once each: where lanes, their memory or the loader's are not where they were meant to be. */
static void tell_refusals(hd_session *s) {
  tell_once(s, &s->told_refusal, hd__lanes_refused(s->lanes));
  if (s->supply && hd__ring_is_loose(hd__supply_ring(s->supply)))
    tell_once(s, &s->told_loose,
              "the system does not let the loader's batches be locked in memory: they may be swapped "
              "out; raise `ulimit -l`, or leave --pin-memory out");
}

static hd_status run_region(hd_session *s, hd_ctx *ctx, uint32_t *flags) {
  const hd_driver driver = {.self = s,
                            .next = next_step,
                            .closing = closing,
                            .done = step_done,
                            .fetch = fetch_train,
                            .choose = choose_train,
                            .why = why_train};
  int64_t epoch = s->counters.step / s->steps_per_epoch;
  s->region_s = hd__clock_s();
  int64_t began_ns = hd__clock_ns();
  if (hd__feed_shuffle(&s->train_feed, (uint64_t)hd__config_int(s->config, HD_OPT_seed), (uint32_t)epoch))
    hd__trace_event(hd__profile_first_track(&s->profiler), HD_SLICE_SHUFFLE, 0, began_ns);
  s->planned = s->counters.step;
  s->target = next_stop(s);
  if (s->supply)
    hd__supply_seek(s->supply, s->counters.step, s->steps_in_all);
  hd__job_enter(&s->page, HD_JOB_TRAINING);
  hd_status status = hd__exec_run(s->exec, ctx, &driver, flags);
  hd__job_enter(&s->page, HD_JOB_READY);
  tell_refusals(s);
  s->train_s = hd__session_train_s(s);
  s->report.steps = s->counters.step;
  if (status != HD_OK && s->cuda && !(*flags & HD_FLAG_NO_DATA) && status != HD_E_NOTFINITE && status != HD_E_PEER)
    return lost_gpu(s, ctx, status);
  return status == HD_E_NOTFINITE ? not_finite(s, ctx) : status;
}

static bool is_multiple(const hd_session *s, hd_option_id every) {
  return hd__config_has(s->config, every) && s->counters.step % hd__config_int(s->config, every) == 0;
}

hd_status hd__session_count_skips(hd_session *s, hd_ctx *ctx) {
  if (strcmp(hd__config_text(s->config, HD_OPT_on_error), "skip"))
    return HD_OK;
  s->report.skipped = hd__skips_count(hd__data_train(s->data));
  s->report.test_skipped = hd__skips_count(hd__data_test(s->data));
  return hd__record_note_skips(s->record, ctx, s->data);
}

static hd_status save(hd_session *s, hd_ctx *ctx, bool evaluated) {
  const hd_report *r = &s->report;
  bool split = s->val_feed.count > 0;
  double loss = split ? r->val_loss : r->test_loss, accuracy = split ? r->val_accuracy : r->test_accuracy;
  double score = isnan(accuracy) ? -loss : accuracy;
  bool best = evaluated && score > s->counters.best_score;
  if (best)
    s->counters.best_score = score;
  HD_TRY(await_save(s, ctx)); /* the one before */
  if (!hd__session_writes(s))
    return HD_OK;
  int64_t began_ns = hd__clock_ns();
  HD_TRY(hd__session_count_skips(s, ctx));
  HD_TRY(hd__saver_begin(&s->saver, ctx, &s->counters, s->record, best));
  hd__trace_event(hd__profile_first_track(&s->profiler), HD_SLICE_COPY, 0, began_ns);
  hd_event event = {.kind = HD_EVENT_SAVED, .step = s->counters.step};
  hd__session_tell(s, &event);
  return HD_OK;
}

static void tell_evaluation(hd_session *s, hd_event_kind kind, double rate) {
  hd_event event = {.kind = kind,
                    .step = s->counters.step,
                    .epoch = (s->counters.step - 1) / s->steps_per_epoch,
                    .loss = s->report.train_loss,
                    .samples_per_s = rate,
                    .val_loss = s->report.val_loss,
                    .val_accuracy = s->report.val_accuracy,
                    .test_loss = s->report.test_loss,
                    .test_accuracy = s->report.test_accuracy};
  hd__session_tell(s, &event);
}

/* Counts the epochs since the lowest loss, of validation or, without a split, of the test. */
static void watch_loss(hd_session *s) {
  double loss = s->val_feed.count > 0 ? s->report.val_loss : s->report.test_loss;
  bool better = loss < s->counters.best_loss;
  s->counters.stale_epochs = better ? 0 : s->counters.stale_epochs + 1;
  if (better)
    s->counters.best_loss = loss;
}

static void tell_impatience(hd_session *s) {
  char text[128];
  snprintf(text, sizeof text, "ended early: no lower %s loss for %lld epoch%s",
           s->val_feed.count > 0 ? "validation" : "test", (long long)s->counters.stale_epochs,
           s->counters.stale_epochs == 1 ? "" : "s");
  hd_event event = {.kind = HD_EVENT_NOTE, .step = s->counters.step, .text = text};
  hd__session_tell(s, &event);
}

/* What happens between two regions: evaluation, saving, and the epoch's end. */
static hd_status handle_stop(hd_session *s, hd_ctx *ctx, bool stopped) {
  bool epoch_end = s->counters.step % s->steps_per_epoch == 0, run_end = s->counters.step == s->steps_in_all;
  bool evaluates = !stopped && (epoch_end || run_end || is_multiple(s, HD_OPT_eval_every));
  if (s->counters.epoch_divisor > 0)
    s->report.train_loss = s->counters.epoch_loss_sum / s->counters.epoch_divisor;
  if (evaluates)
    HD_TRY(hd_session_evaluate(s, ctx));
  HD_TRY(hd__session_spread_skips(s, ctx));
  if (evaluates) {
    double rate = s->train_s > 0 ? (double)s->trained_samples / s->train_s : 0;
    tell_evaluation(s, epoch_end ? HD_EVENT_EPOCH : HD_EVENT_EVAL, rate);
    hd__session_log_validation(s);
  }
  if (epoch_end) {
    if (evaluates)
      watch_loss(s);
    s->counters.epoch_loss_sum = 0;
    s->counters.epoch_divisor = 0;
  }
  if (s->metrics && (fflush(s->metrics) != 0 || ferror(s->metrics))) {
    char path[HD_PATH_BYTES];
    HD_TRY(hd__file_join(path, ctx, s->out, "metrics.jsonl"));
    return hd__file_check(ctx, s->metrics, path);
  }
  if (epoch_end || run_end || stopped || is_multiple(s, HD_OPT_save_every))
    return save(s, ctx, evaluates);
  return HD_OK;
}

static void finish_report(hd_session *s) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  s->report.peak_rss_bytes = (int64_t)usage.ru_maxrss * 1024;
  s->report.train_s = s->train_s;
  if (s->supply)
    s->report.waited_s = 1e-9 * (double)hd__ring_waited_ns(hd__supply_ring(s->supply)) / s->report.threads;
  s->report.samples_per_s = s->train_s > 0 ? (double)s->trained_samples / s->train_s : 0;
  s->report.wall_s = hd__clock_process_s();
  s->report.rank_time = hd__rank_times_whole(&s->rank_times);
  if (s->cuda)
    hd__gpu_accounts_read(&s->gpu_memory, s->cuda);
  s->report.gpu_memory = s->cuda ? s->gpu_memory.of : NULL;
  s->report.gpus = s->cuda ? s->gpu_memory.count : 0;
}

/* Samples that cannot be had end a run, but lose nothing of it: what failed is said, and how to go on. */
static hd_status save_without_data(hd_session *s, hd_ctx *ctx, hd_status status) {
  char what[512];
  hd_ctx quiet = {0};
  snprintf(what, sizeof what, "%.511s", ctx->message);
  const bool saved = handle_stop(s, &quiet, true) == HD_OK && await_save(s, &quiet) == HD_OK;
  if (!saved)
    return hd__fail(ctx, status, "step %lld: %s", (long long)s->counters.step + 1, what);
  return hd__fail(ctx, status, "step %lld: %s; mend it, and go on with --resume %.400s",
                  (long long)s->counters.step + 1, what, s->out);
}

/* Trains up to the step `end`. */
static hd_status train_until(hd_session *s, hd_ctx *ctx, int64_t end) {
  uint32_t flags = 0;
  if (s->report.startup_s == 0)
    s->report.startup_s = hd__clock_process_s();
  s->pause = end < s->steps_in_all ? end : s->steps_in_all;
  s->report.stopped = 0;
  while (s->counters.step < s->pause && !s->report.stopped && !impatient(s)) {
    hd_status status = run_region(s, ctx, &flags);
    if (status != HD_OK && flags & HD_FLAG_NO_DATA)
      return save_without_data(s, ctx, status);
    HD_TRY(status);
    s->report.stopped = (flags & HD_FLAG_STOP) && s->counters.step < s->steps_in_all;
    if (s->report.stopped)
      hd__hosts_calm(s->world); /* all know, and have something to save */
    HD_TRY(handle_stop(s, ctx, s->report.stopped));
    hd__rescue_note(s->rescue, &s->counters);
  }
  return HD_OK;
}

static hd_status stopped(hd_session *s, hd_ctx *ctx) {
  return hd__fail(ctx, HD_E_INTERRUPTED, "stopped after step %lld", (long long)s->counters.step);
}

static hd_status train(hd_session *s, hd_ctx *ctx) {
  HD_TRY(train_until(s, ctx, s->steps_in_all));
  if (s->counters.step < s->steps_in_all && !s->report.stopped)
    tell_impatience(s);
  HD_TRY(hd__checkpoint_digest(s->report.weights_sha256, ctx, s->store));
  HD_TRY(await_save(s, ctx));
  if (s->report.stopped)
    return stopped(s, ctx);
  HD_TRY(hd_session_evaluate(s, ctx));
  return hd__session_writes(s) ? hd__session_draw_wrong(s, ctx) : HD_OK;
}

/* However a run ended: writes its profile, and reports that failure unless there was another one before. */
static hd_status profile_end(hd_session *s, hd_ctx *ctx, hd_status status) {
  hd_ctx quiet = {0};
  hd_ctx *heard = status == HD_OK ? ctx : &quiet;
  if (!s->profiler.trace)
    return status;
  hd_status waited = hd__saver_wait(&s->saver, heard); /* its thread records, too */
  hd_status wrote = hd__profile_write(&s->profiler, heard);
  s->report.profile = wrote == HD_OK && hd__session_writes(s) ? &s->profiler.result : NULL;
  return status != HD_OK ? status : waited != HD_OK ? waited : wrote;
}

/* A rank was lost. Where nobody stays behind to save what was trained, the first of those left does. */
static hd_status save_for_ranks(hd_session *s, hd_ctx *ctx) {
  char what[HD_FAULT_LINE_BYTES], run[HD_PATH_BYTES];
  hd_ctx quiet = {0};
  int64_t step;
  if (!s->rescue || !hd__world_is_heir(s->world))
    return HD_E_PEER;
  snprintf(what, sizeof what, "%s", hd_ctx_message(ctx));
  hd__saver_wait(&s->saver, &quiet);
  if (hd__rescue_save(&step, run, NULL, &quiet, s->world) != HD_OK)
    return hd__fail(ctx, HD_E_PEER, "%s; it could not be saved: %.500s", what, quiet.message);
  return hd__fail(ctx, HD_E_PEER, "%s; saved step %lld, go on with --resume %.900s", what, (long long)step, run);
}

/* The other ranks must not wait for this one. Some ends all ranks come to at the same step, or know already. */
static hd_status tell_ranks(hd_world *world, hd_ctx *ctx, hd_status status) {
  if (status != HD_OK && status != HD_E_INTERRUPTED && status != HD_E_NOTFINITE && status != HD_E_PEER)
    hd__world_give_up(world, hd_ctx_message(ctx));
  return status;
}

/* However what the ranks did together has ended. */
static hd_status conclude(hd_session *s, hd_ctx *ctx, hd_status status) {
  return tell_ranks(s->world, ctx, status) == HD_E_PEER ? save_for_ranks(s, ctx) : status;
}

hd_status hd_session_train(hd_session *s, hd_ctx *ctx, hd_event_fn *on_event, void *user) {
  s->on_event = on_event;
  s->user = user;
  hd_status status = conclude(s, ctx, train(s, ctx));
  finish_report(s);
  return profile_end(s, ctx, status);
}

hd_status hd_session_profile(hd_session *s, hd_ctx *ctx) {
  if (!s->profiler.trace)
    return hd__fail(ctx, HD_E_USAGE, "expected a session with the option profile, found one without; set it");
  HD_TRY(conclude(s, ctx, await_save(s, ctx))); /* its thread records, too */
  return profile_end(s, ctx, HD_OK);
}

static hd_status take_steps(hd_session *s, hd_ctx *ctx, int64_t steps) {
  HD_TRY(train_until(s, ctx, s->counters.step + steps));
  if (!s->report.stopped)
    return HD_OK;
  HD_TRY(await_save(s, ctx));
  return stopped(s, ctx);
}

hd_status hd_session_step(double *loss, hd_session *s, hd_ctx *ctx, int64_t steps) {
  s->on_event = NULL;
  s->stretch_loss_sum = 0;
  s->stretch_divisor = 0;
  int64_t left = s->steps_in_all - s->counters.step;
  hd_status status = conclude(s, ctx, take_steps(s, ctx, steps < left ? steps : left));
  if (loss)
    *loss = s->stretch_divisor > 0 ? s->stretch_loss_sum / s->stretch_divisor : 0.0 / 0.0;
  finish_report(s);
  return status;
}

int hd_session_done(const hd_session *s) { return s->counters.step >= s->steps_in_all || impatient(s); }

static hd_status save_now(hd_session *s, hd_ctx *ctx) {
  HD_TRY(save(s, ctx, s->evaluated_step == s->counters.step));
  HD_TRY(hd__checkpoint_digest(s->report.weights_sha256, ctx, s->store));
  return await_save(s, ctx);
}

hd_status hd_session_save(hd_session *s, hd_ctx *ctx) { return conclude(s, ctx, save_now(s, ctx)); }

static hd_status open_profile(hd_session *s, hd_ctx *ctx) {
  const hd_profile_of of = {.path = hd__config_text(s->config, HD_OPT_profile),
                            .model = s->network.name,
                            .exec = s->exec,
                            .plan = s->plan,
                            .lanes = s->cuda ? NULL : s->lanes,
                            .world = s->world,
                            .first_step = s->counters.step};
  if (!hd__config_has(s->config, HD_OPT_profile))
    return HD_OK;
  HD_TRY(hd__profile_open(&s->profiler, ctx, &of));
  return hd__exec_trace(s->eval_exec, ctx, s->profiler.trace);
}

static hd_status open_supply(hd_session *s, hd_ctx *ctx) {
  HD_TRY(hd__session_supply(&s->supply, ctx, s, s->lanes, (int)hd__config_int(s->config, HD_OPT_workers), 0));
  s->report.workers = s->supply ? hd__ring_workers(hd__supply_ring(s->supply)) : 0;
  return HD_OK;
}

/* A session that `writes` has a run's folder, what it resumes for itself from the beginning, and loader workers. */
static hd_status create(hd_session **out, hd_ctx *ctx, const hd_config *config, hd_world *world, bool writes) {
  *out = NULL;
  hd_session *s = hd__calloc(1, sizeof *s);
  if (!s)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the session");
  s->world = world;
  s->evaluated_step = -1;
  s->lock = -1;
  hd_status status = hd__config_copy(&s->config, ctx, config);
  if (status == HD_OK && writes)
    status = hd__session_lock_resumed(s, ctx);
  if (status == HD_OK)
    status = hd__session_setup(s, ctx);
  if (status == HD_OK && writes)
    status = hd__device_settle(s, ctx);
  if (status == HD_OK && writes)
    status = open_supply(s, ctx);
  if (status == HD_OK && writes)
    status = open_profile(s, ctx);
  if (status == HD_OK && writes)
    status = hd__session_open_run(s, ctx);
  if (tell_ranks(world, ctx, status) != HD_OK)
    hd_session_destroy(s);
  else
    *out = s;
  return status;
}

hd_status hd__session_rehearse(hd_session **out, hd_ctx *ctx, const hd_config *config) {
  return create(out, ctx, config, NULL, false);
}

hd_status hd__session_create_in(hd_session **out, hd_ctx *ctx, const hd_config *config, hd_world *world) {
  hd__world_set_patience(world, hd__config_real(config, HD_OPT_stall_timeout));
  return create(out, ctx, config, world, true);
}

hd_status hd_session_create(hd_session **out, hd_ctx *ctx, const hd_config *config) {
  return hd_ddp(out, ctx, config, NULL);
}

hd_status hd_ddp(hd_session **out, hd_ctx *ctx, const hd_config *config, const hd_group *group) {
  const int64_t ranks = hd__config_int(config, HD_OPT_procs);
  *out = NULL;
  if (ranks > 1 && ranks != hd_group_size(group))
    return hd__fail(ctx, HD_E_USAGE,
                    "--procs expects the number of ranks that were started, %d, found %lld; leave it out, or start "
                    "as many with `heddle launch` or hd_spawn and give their group to hd_ddp",
                    hd_group_size(group), (long long)ranks);
  return hd__session_create_in(out, ctx, config, hd__group_world(group));
}

void hd_session_destroy(hd_session *s) {
  if (!s)
    return;
  hd__saver_fini(&s->saver);
  hd__job_close(&s->page);
  if (s->metrics)
    fclose(s->metrics);
  if (s->lock >= 0)
    close(s->lock);
  hd__exec_destroy(s->exec);
  hd__exec_destroy(s->eval_exec);
  hd__profile_close(&s->profiler);
  hd__cuda_close(s->cuda);
  hd__store_destroy(s->store);
  hd__plan_destroy(s->plan);
  hd__plan_destroy(s->eval_plan);
  hd__lanes_destroy(s->lanes);
  hd__supply_destroy(s->supply); /* before what its workers read */
  hd__feed_fini(&s->train_feed);
  hd__feed_fini(&s->val_feed);
  hd__feed_fini(&s->test_feed);
  hd__segment_destroy(&s->guess_memory);
  hd__rescue_close(s->rescue);
  hd__rank_times_fini(&s->rank_times);
  hd__gpu_accounts_fini(&s->gpu_memory);
  hd__free(s->places);
  hd__data_close(s->data);
  hd__segment_destroy(&s->skip_memory); /* behind whoever reads the data */
  hd__network_fini(&s->network);
  json_decref(s->record);
  hd_config_destroy(s->config);
  hd__free(s);
}

void hd_session_stop(hd_session *s) {
  atomic_store(&s->stop, 1);
  hd__hosts_hurry(s->world);
}

const hd_report *hd_session_report(const hd_session *s) { return &s->report; }
