/* The lines of metrics.jsonl: see session.h. */
#include "base/json_text.h"
#include "train/run/session.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "train/records/loss_score.h"
#include "train/records/pixel_score.h"

/* Writes a line of metrics.jsonl and releases it. */
static void write_line(FILE *to, json_t *line) {
  if (line && to && hd__json_write(to, line, JSON_COMPACT | JSON_PRESERVE_ORDER) == 0)
    fputc('\n', to);
  json_decref(line);
}

/* The metrics line of the last step; takes over `ranks`. NAN: the rate is unknown. */
static json_t *step_line(const hd_session *s, double samples_per_s, json_t *ranks) {
  double lr, beta;
  hd__schedule_at(s->run.schedule, s->run.counters.step - 1, &lr, &beta);
  return json_pack("{s:I, s:I, s:f, s:f, s:o, s:o*, s:s}", "step", (json_int_t)s->run.counters.step, "epoch",
                   (json_int_t)((s->run.counters.step - 1) / s->run.steps_per_epoch), "loss", s->run.counters.step_loss,
                   "lr", lr, "samples_per_s", isnan(samples_per_s) ? json_null() : json_real(samples_per_s), "ranks",
                   ranks, "type", "step");
}

static bool is_logged(const hd_session *s, int64_t step) { return step > 0 && step % s->run.settings->log_every == 0; }

/* Whether a line of earlier metrics is kept: lines after the resumed step are written again, and so is its evaluation
 * if that is still due. *is_last: it is the line of the resumed step itself. */
static bool holds(bool *is_last, const hd_session *s, const json_t *line) {
  const json_int_t step = json_integer_value(json_object_get(line, "step"));
  const bool evaluates = json_object_get(line, "loss") == NULL, resumed = step == s->run.counters.step;
  *is_last = resumed && !evaluates;
  return step > 0 && step <= s->run.counters.step && !(resumed && evaluates && s->run.counters.owes_evaluation);
}

typedef struct earlier_lines {
  const hd_session *session;
  const char *folder;
} earlier_lines;

/* Copies the lines of earlier metrics that are kept. A run that was killed between a step and its line gets the line
 * now. Unreadable metrics are no failure. */
static hd_status keep_lines(FILE *to, hd_ctx *ctx, void *arg) {
  const earlier_lines *earlier = arg;
  const hd_session *s = earlier->session;
  bool has_last = false, is_last;
  char path[HD_PATH_BYTES], *line = NULL;
  size_t room = 0;
  HD_TRY(hd__file_join(path, ctx, earlier->folder, "metrics.jsonl"));
  HD_FILE_OWNED *from = NULL;
  HD_TRY(hd__file_open_if_there(&from, ctx, path));
  while (from && getline(&line, &room, from) >= 0) {
    json_t *object = json_loads(line, 0, NULL);
    if (holds(&is_last, s, object)) {
      fputs(line, to);
      has_last |= is_last;
    }
    json_decref(object);
  }
  if (from && !has_last && is_logged(s, s->run.counters.step) && !isnan(s->run.counters.step_loss))
    write_line(to, step_line(s, NAN, NULL));
  const hd_status status = from && ferror(from) ? hd__file_error(ctx, path, "read it") : HD_OK;
  free(line);
  return status;
}

hd_status hd__session_open_metrics(hd_session *s, hd_ctx *ctx, const char *from) {
  earlier_lines earlier = {s, from};
  char path[HD_PATH_BYTES];
  HD_TRY(hd__file_join(path, ctx, s->checkpoints.folder, "metrics.jsonl"));
  HD_TRY(hd__file_write(ctx, path, keep_lines, &earlier));
  s->report.metrics = fopen(path, "ae");
  if (!s->report.metrics)
    return hd__file_error(ctx, path, "write it");
  setvbuf(s->report.metrics, NULL, _IOLBF, 0); /* a reader of the file sees each line when it is written */
  return HD_OK;
}

hd_status hd__session_check_metrics(hd_session *s, hd_ctx *ctx) {
  char path[HD_PATH_BYTES];
  HD_TRY(hd__events_check(s->report.events, ctx));
  if (!s->report.metrics || (fflush(s->report.metrics) == 0 && !ferror(s->report.metrics)))
    return HD_OK;
  HD_TRY(hd__file_join(path, ctx, s->checkpoints.folder, "metrics.jsonl"));
  return hd__file_check(ctx, s->report.metrics, path);
}

void hd__session_log(hd_session *s) {
  if (!is_logged(s, s->run.counters.step))
    return;
  double now = hd__session_train_s(s), seconds = now - s->report.logged_s;
  hd_event event = {.kind = HD_EVENT_LOG,
                    .step = s->run.counters.step,
                    .epoch = (s->run.counters.step - 1) / s->run.steps_per_epoch,
                    .loss = s->run.counters.step_loss,
                    .samples_per_s =
                        seconds > 0 ? (double)(s->run.trained_samples - s->report.logged_samples) / seconds : 0};
  double beta;
  hd__schedule_at(s->run.schedule, s->run.counters.step - 1, &event.lr, &beta);
  write_line(s->report.metrics, step_line(s, event.samples_per_s, hd__rank_times_interval(&s->report.rank_times)));
  hd__events_scalar(s->report.events, event.step, "loss/step", event.loss);
  hd__events_scalar(s->report.events, event.step, "lr", event.lr);
  hd__events_scalar(s->report.events, event.step, "samples_per_s", event.samples_per_s);
  s->report.logged_s = now;
  s->report.logged_samples = s->run.trained_samples;
  hd__session_event(s, &event);
}

/* An accuracy, or a loss that is not measured, has no entry. */
static json_t *known(double value) { return isnan(value) ? NULL : json_real(value); }

/* The IoU of each class of the test set's pixels. */
static json_t *test_class_iou(const hd_session *s) {
  const hd_target *target = &s->run.network.target;
  hd_pixel_counts counts;
  if (!hd__dataset_test(s->input.data)->masks)
    return NULL;
  hd__pixels_count(&counts, NULL, target, &s->input.test, &s->report.guesses);
  json_t *list = json_array();
  for (int32_t c = 0; c < target->scores; c++) {
    const double is = hd__pixels_iou(&counts, c);
    json_array_append_new(list, isnan(is) ? json_null() : json_real(is));
  }
  return list;
}

/* The share of each class of the test set that the last evaluation got right, null for a class without samples; NULL
 * where guesses are not judged. */
static json_t *test_classes(const hd_session *s) {
  const hd_split *test = hd__dataset_test(s->input.data);
  json_t *list = hd__target_judges(&s->run.network.target, test) ? json_array() : NULL;
  HD_OWNED hd_tally *tally = list ? hd__calloc((size_t)test->classes, sizeof *tally) : NULL;
  if (tally)
    hd__target_tally(tally, &s->run.network.target, &s->input.test, &s->report.guesses);
  for (int c = 0; tally && c < test->classes; c++)
    json_array_append_new(list,
                          tally[c].judged ? json_real((double)tally[c].right / (double)tally[c].judged) : json_null());
  return list;
}

void hd__session_note_metric(json_t *line, const hd_session *s) {
  const hd_report *r = &s->report.facts;
  const bool own = hd__config_metric(s->run.config); /* whose name may be that of another key */
  char key[64];
  if (!own && s->run.settings->metric < HD_METRIC_F1)
    return; /* none, or one that has its keys */
  for (int split = 0; split < 2; split++) {
    const double is = split ? r->test_metric : r->val_metric;
    snprintf(key, sizeof key, "%s_%s", split ? "test" : "val", own ? "metric" : r->metric);
    if (!isnan(is))
      json_object_set_new(line, key, json_real(is));
  }
}

void hd__session_log_evaluation(hd_session *s) {
  const hd_report *r = &s->report.facts;
  if (!s->report.metrics)
    return;
  json_t *line = json_pack(
      "{s:I, s:I, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:s}", "step", (json_int_t)s->run.counters.step,
      "epoch", (json_int_t)((s->run.counters.step - 1) / s->run.steps_per_epoch), "train_loss", known(r->train_loss),
      "val_loss", known(r->val_loss), "val_accuracy", known(r->val_accuracy), "test_loss", known(r->test_loss),
      "test_accuracy", known(r->test_accuracy), "test_classes", test_classes(s), "val_iou", known(r->val_iou),
      "test_iou", known(r->test_iou), "test_class_iou", test_class_iou(s), "type", "evaluation");
  hd__session_note_metric(line, s);
  write_line(s->report.metrics, line);
  const int64_t step = s->run.counters.step;
  hd__events_scalar(s->report.events, step, "loss/train", r->train_loss);
  hd__events_scalar(s->report.events, step, "loss/validation", r->val_loss);
  hd__events_scalar(s->report.events, step, "loss/test", r->test_loss);
  hd__events_scalar(s->report.events, step, "accuracy/validation", r->val_accuracy);
  hd__events_scalar(s->report.events, step, "accuracy/test", r->test_accuracy);
}
