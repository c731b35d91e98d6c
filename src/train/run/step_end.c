/* Saves and evaluations, and their order: see session.h.
 *
 * An evaluation is due after a step at the end of each --eval-epochs-th epoch or of the run, and after each
 * --eval-every-th step: the counters say so from the moment at which the step counts until the evaluation is done
 * (owes_evaluation). The step is saved first, with its evaluation marked as due, and training continues only when the
 * evaluation is done and `best` names its checkpoint. So a run that is killed in between loses no step, and makes the
 * evaluation first when it is resumed: with the same weights, and with the same result. */
#include "train/run/session.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/rounding.h"
#include "data/images/contact_sheet.h"
#include "data/split/skipped_samples.h"
#include "exec/exchange/cluster.h"
#include "platform/clock.h"
#include "train/records/loss_score.h"
#include "train/records/metric.h"
#include "train/records/output_scores.h"
#include "train/inference/view_evaluation.h"

/* How often ranks gather the state of a save that they wait for. */
static const double BEAT_S = 0.05;

/* ---- When an evaluation is due ---- */

static bool is_multiple(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

static bool ends_epoch(const hd_session *s, int64_t step) { return step % s->run.steps_per_epoch == 0; }

bool hd__session_evaluates_after(const hd_session *s, int64_t step) {
  return is_multiple(step, s->run.settings->eval_epochs * s->run.steps_per_epoch) || step == s->run.steps_in_all ||
         is_multiple(step, s->run.settings->eval_every);
}

/* Whether a step is saved: at the end of an epoch or of the run, and at multiples of --save-every. */
static bool is_saved(const hd_session *s, int64_t step) {
  const bool is_due = is_multiple(step / s->run.steps_per_epoch, s->run.settings->save_epochs);
  return (ends_epoch(s, step) && (is_due || hd__session_evaluates_after(s, step))) || step == s->run.steps_in_all ||
         is_multiple(step, s->run.settings->save_every);
}

/* ---- Saving ---- */

/* The state of a save, as the rank that writes reports it. */
typedef enum save_state { SAVE_GOES_ON, SAVE_IS_WHOLE, SAVE_FAILED } save_state;

/* Returns when the save has ended, or after BEAT_S. */
static save_state poll_save(const hd_session *s) {
  const struct timespec rest = {.tv_nsec = 1000000};
  const double until_s = hd__clock_s() + BEAT_S;
  while (!hd__saver_has_ended(&s->checkpoints.saver) && hd__clock_s() < until_s)
    nanosleep(&rest, NULL);
  return !hd__saver_has_ended(&s->checkpoints.saver)   ? SAVE_GOES_ON
         : hd__saver_has_failed(&s->checkpoints.saver) ? SAVE_FAILED
                                                       : SAVE_IS_WHOLE;
}

/* All ranks: they gather the state until the save has ended, so that on a slow disk no rank counts as lost. After a
 * failure the rank that writes reports it, which ends the gather of the others. */
static hd_status follow_save(hd_session *s, hd_ctx *ctx) {
  char state[HD_LOCAL_GROUP_MOST_RANKS] = {SAVE_GOES_ON};
  while (state[0] == SAVE_GOES_ON || (state[0] == SAVE_FAILED && !hd__session_writes(s))) {
    const char this_rank = (char)poll_save(s);
    HD_TRY(hd__cluster_gather(state, s->compute.local, ctx, &this_rank, 1));
  }
  return HD_OK;
}

hd_status hd__session_await_save(hd_session *s, hd_ctx *ctx) {
  const double began_s = hd__clock_s();
  hd__job_enter(&s->report.page, HD_JOB_SAVING);
  hd_status status = hd__cluster_ranks(s->compute.local) > 1 ? follow_save(s, ctx) : HD_OK;
  HD_THEN(status, hd__saver_wait(&s->checkpoints.saver, ctx));
  s->run.save_s += hd__clock_s() - began_s;
  hd__job_enter(&s->report.page, HD_JOB_READY);
  return status;
}

hd_status hd__session_begin_save(hd_session *s, hd_ctx *ctx) {
  HD_TRY(hd__session_await_save(s, ctx)); /* the previous save */
  s->checkpoints.saved_step = s->run.counters.step;
  if (!hd__session_writes(s))
    return s->checkpoints.saver.hosts ? hd__saver_begin(&s->checkpoints.saver, ctx, NULL, NULL) : HD_OK;
  int64_t began_ns = hd__clock_ns();
  HD_TRY(hd__session_count_skips(s, ctx));
  HD_TRY(hd__saver_begin(&s->checkpoints.saver, ctx, &s->run.counters, s->run.record));
  hd__trace_event(hd__profile_first_track(&s->report.profiler), HD_SLICE_COPY, 0, began_ns);
  s->run.save_s += 1e-9 * (double)(hd__clock_ns() - began_ns);
  hd_event event = {.kind = HD_EVENT_SAVED, .step = s->run.counters.step};
  hd__session_event(s, &event);
  return HD_OK;
}

/* ---- Evaluating ---- */

/* Of a regression's outputs on the test set. */
static hd_status score_numbers(hd_session *s, hd_ctx *ctx, const hd_feed *feed) {
  hd_report *r = &s->report.facts;
  const hd_target *target = &s->run.network.target;
  hd_output_scores scores;
  if (feed != &s->input.test || !hd__target_numbers(target) || !s->report.guesses.score)
    return HD_OK;
  const hd_status status = hd__output_scores(&scores, ctx, target, feed, &s->report.guesses);
  hd__free(scores.output);
  if (status != HD_OK || scores.count == 0)
    return status;
  r->test_r2 = scores.mean.r2;
  r->test_mean_absolute_error = scores.mean.mean_absolute_error;
  r->test_root_mean_square_error = scores.mean.root_mean_square_error;
  return HD_OK;
}

/* Evaluates one split; leaves the guesses in s->report.guesses, which ranks share: each rank has read them before any
 * rank evaluates the next split. */
static hd_status evaluate_split(hd_score *out, hd_session *s, hd_ctx *ctx, hd_feed *feed) {
  const hd_view_evaluation settings = {.tta = (hd_tta_choice)s->run.settings->tta,
                                       .plan = s->compute.eval_plan,
                                       .kernels = s->compute.kernels,
                                       .views = &s->report.views};
  HD_TRY(hd__evaluate_views(&s->report.guesses, s->compute.eval_exec, ctx, feed, &settings));
  HD_TRY(hd__program_losses(&s->report.guesses, ctx, s->run.config, &s->run.network.target, feed));
  hd__target_score(out, &s->run.network.target, feed, &s->report.guesses);
  HD_TRY(hd__program_metric(&out->metric, ctx, s->run.config, &s->run.network.target, feed, &s->report.guesses));
  if (s->run.settings->metric >= 0)
    HD_TRY(hd__metric(&out->metric, ctx, (hd_metric_choice)s->run.settings->metric, &s->run.network.target, feed,
                      &s->report.guesses, out));
  HD_TRY(score_numbers(s, ctx, feed));
  return hd__local_group_barrier(s->compute.local, ctx);
}

/* Of the parameters of this host's stages. */
static void copy_average(const hd_session *s, float *to, const float *from) {
  const hd_plan *plan = s->compute.eval_plan;
  for (const hd_plan_param *p = plan->params; p < plan->params + plan->param_count; p++)
    if (s->compute.here[p->stage])
      memcpy(to + p->offset, from + p->offset, (size_t)(p->rows * p->columns) * sizeof *to);
}

hd_status hd__session_load_average(hd_session *s, hd_ctx *ctx) {
  hd_store *to = s->compute.average_store;
  const hd_store *from = s->compute.store;
  if (!to)
    return HD_OK;
  hd__store_set_version(to, hd__store_version(from));
  if (hd__local_group_rank(s->compute.local) == 0) {
    copy_average(s, to->weights[hd__store_buffer(to)], hd__store_result(from));
    hd__store_pack(to, s->compute.eval_plan, s->compute.here);
  }
  return hd__local_group_barrier(s->compute.local, ctx);
}

static hd_status evaluate(hd_session *s, hd_ctx *ctx) {
  hd_report *r = &s->report.facts;
  hd_score score;
  HD_TRY(hd__session_load_average(s, ctx));
  if (s->input.val.count > 0) {
    HD_TRY(evaluate_split(&score, s, ctx, &s->input.val));
    r->val_loss = score.loss;
    r->val_accuracy = score.accuracy;
    r->val_iou = score.iou;
    r->val_metric = score.metric;
  }
  HD_TRY(evaluate_split(&score, s, ctx, &s->input.test));
  r->test_loss = score.loss;
  r->test_accuracy = score.accuracy;
  r->test_iou = score.iou;
  r->test_perplexity = hd__perplexity(hd__dataset_test(s->input.data), score.loss);
  r->test_bits_per_byte = hd__bits_per_byte(hd__dataset_test(s->input.data), score.loss);
  r->test_metric = score.metric;
  r->wrong = isnan(score.accuracy) ? -1 : score.judged - score.right;
  s->run.evaluated_step = s->run.counters.step;
  return HD_OK;
}

hd_status hd_session_evaluate(hd_session *s, hd_ctx *ctx) {
  HD_ROUNDING_TO_NEAREST;
  HD_TRY(s->run.steps ? hd__session_check_idle(s, ctx) : hd__session_check_process(s, ctx));
  if (s->run.evaluated_step == s->run.counters.step)
    return HD_OK;
  const double began_s = hd__clock_s();
  hd__job_enter(&s->report.page, HD_JOB_EVALUATING);
  hd_status status = evaluate(s, ctx);
  s->run.evaluate_s += hd__clock_s() - began_s;
  hd__job_enter(&s->report.page, HD_JOB_READY);
  return status;
}

/* An epoch's end, or an evaluation within it. */
static void report_progress(hd_session *s, hd_event_kind kind) {
  const hd_report *r = &s->report.facts;
  const bool evaluated = s->run.evaluated_step == s->run.counters.step;
  hd_event event = {.kind = kind,
                    .step = s->run.counters.step,
                    .epoch = (s->run.counters.step - 1) / s->run.steps_per_epoch,
                    .loss = r->train_loss,
                    .samples_per_s = s->run.train_s > 0 ? (double)s->run.trained_samples / s->run.train_s : NAN,
                    .val_loss = evaluated ? r->val_loss : NAN,
                    .val_accuracy = evaluated ? r->val_accuracy : NAN,
                    .test_loss = evaluated ? r->test_loss : NAN,
                    .test_accuracy = evaluated ? r->test_accuracy : NAN};
  hd__session_event(s, &event);
}

/* The value of --metric, larger being better: of the validation split or, without one, of the test set. */
static double metric_of(const hd_session *s) {
  const double is = s->input.val.count > 0 ? s->report.facts.val_metric : s->report.facts.test_metric;
  return !hd__config_metric(s->run.config) && s->run.settings->metric == HD_METRIC_LOSS ? -is : is;
}

/* Counts the epochs since the lowest loss, or the best value of --metric. */
static void watch_loss(hd_session *s) {
  double loss = s->input.val.count > 0 ? s->report.facts.val_loss : s->report.facts.test_loss;
  if (hd__session_has_metric(s))
    loss = -metric_of(s);
  bool better = loss < s->run.counters.best_loss;
  s->run.counters.stale_epochs = better ? 0 : s->run.counters.stale_epochs + s->run.settings->eval_epochs;
  if (better)
    s->run.counters.best_loss = loss;
}

hd_status hd__session_mark_best(hd_session *s, hd_ctx *ctx) {
  const hd_report *r = &s->report.facts;
  const bool split = s->input.val.count > 0;
  const double loss = split ? r->val_loss : r->test_loss, accuracy = split ? r->val_accuracy : r->test_accuracy;
  const double score = hd__session_has_metric(s) ? metric_of(s) : isnan(accuracy) ? -loss : accuracy;
  const bool is_best = score > s->run.counters.best_score;
  const double began_s = hd__clock_s();
  if (is_best)
    s->run.counters.best_score = score;
  if (hd__session_writes(s) && !s->report.had_ended) /* else nothing is trained, and the links stay */
    HD_TRY(hd__saver_settle(&s->checkpoints.saver, ctx, s->run.counters.step, is_best));
  s->run.save_s += hd__clock_s() - began_s;
  return HD_OK;
}

/* Adds samples of the test set that turned out to be unreadable to the run's record, which was written before. */
static hd_status record_skips(hd_session *s, hd_ctx *ctx) {
  const int64_t before = s->report.facts.test_skipped;
  if (!hd__session_writes(s))
    return HD_OK;
  HD_TRY(hd__session_count_skips(s, ctx));
  return s->report.facts.test_skipped == before ? HD_OK
                                                : hd__saver_amend(&s->checkpoints.saver, ctx, s->run.record, "skipped");
}

/* A failed evaluation ends the run without a loss: the step is saved, with its evaluation marked as due. */
static hd_status save_unevaluated(hd_session *s, hd_ctx *ctx, hd_status status) {
  char what[512];
  hd_ctx quiet = {0};
  if (status == HD_E_PEER)
    return status;
  snprintf(what, sizeof what, "%.511s", ctx->message);
  const bool saves = s->checkpoints.saved_step != s->run.counters.step;
  if ((saves && hd__session_begin_save(s, &quiet) != HD_OK) || hd__session_await_save(s, &quiet) != HD_OK)
    return hd__fail(ctx, status, "evaluation after step %lld: %s", (long long)s->run.counters.step, what);
  return hd__fail(ctx, status, "evaluation after step %lld: %s; fix it, and continue with --resume %.400s",
                  (long long)s->run.counters.step, what, s->checkpoints.folder);
}

static void note_train_loss(hd_session *s) {
  if (s->run.counters.step > 0)
    s->report.facts.train_loss = s->run.counters.epoch_loss_sum / hd__divisor(s->run.counters.epoch_divisor);
}

hd_status hd__session_settle_evaluation(hd_session *s, hd_ctx *ctx) {
  const int64_t step = s->run.counters.step;
  const bool epoch_end = ends_epoch(s, step);
  if (!s->run.counters.owes_evaluation)
    return HD_OK;
  if (is_saved(s, step) && s->checkpoints.saved_step != step)
    HD_TRY(hd__session_begin_save(s, ctx)); /* for a run that continues in another folder */
  HD_TRY(hd__session_await_save(s, ctx));
  note_train_loss(s);
  hd_status status = hd_session_evaluate(s, ctx);
  if (status != HD_OK)
    return save_unevaluated(s, ctx, status);
  HD_TRY(hd__session_spread_skips(s, ctx));
  HD_TRY(record_skips(s, ctx));
  report_progress(s, epoch_end ? HD_EVENT_EPOCH : HD_EVENT_EVAL);
  hd__session_log_evaluation(s);
  HD_TRY(hd__session_check_metrics(s, ctx));
  if (s->checkpoints.saved_step == step)
    HD_TRY(hd__session_mark_best(s, ctx));
  if (is_multiple(step, s->run.settings->eval_epochs * s->run.steps_per_epoch))
    watch_loss(s);
  s->run.counters.owes_evaluation = 0;
  return HD_OK;
}

/* ---- Region end ---- */

hd_status hd__session_end_region(hd_session *s, hd_ctx *ctx, bool stopped) {
  note_train_loss(s);
  HD_TRY(hd__session_spread_skips(s, ctx));
  HD_TRY(hd__session_check_metrics(s, ctx));
  if (stopped || is_saved(s, s->run.counters.step))
    HD_TRY(hd__session_begin_save(s, ctx));
  if (!stopped && !s->run.counters.owes_evaluation && ends_epoch(s, s->run.counters.step))
    report_progress(s, HD_EVENT_EPOCH);
  return stopped ? HD_OK : hd__session_settle_evaluation(s, ctx);
}

hd_status hd__session_save_without_data(hd_session *s, hd_ctx *ctx, hd_status status) {
  char what[512];
  hd_ctx quiet = {0};
  snprintf(what, sizeof what, "%.511s", ctx->message);
  const bool saved = hd__session_end_region(s, &quiet, true) == HD_OK && hd__session_await_save(s, &quiet) == HD_OK;
  if (!saved)
    return hd__fail(ctx, status, "step %lld: %s", (long long)s->run.counters.step + 1, what);
  return hd__fail(ctx, status, "step %lld: %s; fix it, and continue with --resume %.400s",
                  (long long)s->run.counters.step + 1, what, s->checkpoints.folder);
}

/* ---- The most confident mistakes ---- */

enum { MISTAKES_SHOWN = 40 };

/* The mistakes with the highest confidence, most confident first; returns the number of all mistakes. */
static int64_t pick_mistakes(const hd_session *s, hd_mistake shown[MISTAKES_SHOWN], int *count) {
  const hd_split *test = hd__dataset_test(s->input.data);
  int64_t wrong = 0;
  *count = 0;
  for (int64_t i = 0; i < test->count; i++) {
    if (s->report.guesses.guess[i] == test->labels[i] || !hd__target_counts(&s->run.network.target, test, i))
      continue;
    wrong++;
    int at = *count;
    while (at > 0 && shown[at - 1].confidence < s->report.guesses.probability[i])
      at--;
    if (at == MISTAKES_SHOWN)
      continue;
    int tail = *count < MISTAKES_SHOWN ? (*count)++ : MISTAKES_SHOWN - 1;
    memmove(&shown[at + 1], &shown[at], (size_t)(tail - at) * sizeof *shown);
    shown[at] = (hd_mistake){.label = test->labels[i],
                             .guess = s->report.guesses.guess[i],
                             .confidence = s->report.guesses.probability[i],
                             .index = i};
  }
  return wrong;
}

hd_status hd__session_draw_wrong(hd_session *s, hd_ctx *ctx) {
  hd_mistake shown[MISTAKES_SHOWN];
  const hd_split *test = hd__dataset_test(s->input.data);
  int count;
  if (!hd__target_judges(&s->run.network.target, test) || test->flat)
    return HD_OK; /* nothing to compare, or to draw */
  int64_t wrong = pick_mistakes(s, shown, &count);
  if (wrong == 0)
    return HD_OK;
  HD_TRY(hd__file_join(s->report.wrong_png, ctx, s->checkpoints.folder, "wrong.png"));
  hd_status status =
      hd__picture_mistakes(ctx, s->report.wrong_png, shown, count, wrong, test->count - hd__skips_count(test), test);
  if (status != HD_OK)
    s->report.wrong_png[0] = 0;
  else
    hd__events_picture(s->report.events, s->run.counters.step, "wrong", s->report.wrong_png);
  return status;
}
