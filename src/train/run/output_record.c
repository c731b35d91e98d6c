/* The entry of history.jsonl for an evaluation whose outputs have targets of their own: the scores of each output, and
 * for the first outputs of a regression pairs of target and output from the test set, for a plot; and for one of a
 * text the losses of its characters. */
#include <math.h>

#include "base/alloc.h"
#include "base/json_text.h"
#include "data/split/skipped_samples.h"
#include "train/records/character_score.h"
#include "train/records/output_scores.h"
#include "train/run/session.h"

enum { MOST_OUTPUTS = 256, MOST_DRAWN = 4, MOST_POINTS = 500, MOST_CLASSES = 100 };

static void set_known(json_t *to, const char *key, double value) {
  if (isfinite(value))
    json_object_set_new(to, key, json_real(value));
}

static void set_scores(json_t *to, const hd_output_score *score, bool labels) {
  if (labels)
    json_object_set_new(to, "positives", json_integer((json_int_t)score->positives));
  set_known(to, "f1", score->f1);
  set_known(to, "auc", score->auc);
  set_known(to, "r2", score->r2);
  set_known(to, "mean_absolute_error", score->mean_absolute_error);
  set_known(to, "root_mean_square_error", score->root_mean_square_error);
}

/* Pairs of target and output, of evenly spaced samples. */
static json_t *scatter(const hd_session *s, int32_t output) {
  const hd_feed *feed = &s->input.test;
  const int64_t points = feed->count < MOST_POINTS ? feed->count : MOST_POINTS;
  json_t *list = json_array();
  for (int64_t i = 0; i < points; i++) {
    const int64_t at = i * feed->count / points, sample = hd__feed_sample(feed, 0, at);
    const double score = (double)s->report.guesses.score[at * s->run.network.target.scores + output];
    const double is = hd__target_unscaled(&s->input.targets, output, score);
    if (!isfinite(is) || hd__skips_has(feed->split, sample))
      continue;
    json_array_append_new(list, hd__json_of_float(hd__split_number(feed->split, sample, output)));
    json_array_append_new(list, json_real(is));
  }
  return list;
}

/* The confusion matrix of a head that guesses one of not too many classes, and the names of these, where a table has
 * them. */
static hd_status note_confusion(json_t *to, const hd_session *s, hd_ctx *ctx, int32_t k) {
  const hd_target *target = &s->run.network.target;
  const int32_t classes = hd__head_classes(&target->head[k]);
  const hd_target_column *column = s->input.test.split->target_column;
  HD_OWNED int64_t *count = NULL;
  if (classes == 0 || classes > MOST_CLASSES)
    return HD_OK;
  HD_TRY(HD_NEW(count, (size_t)classes * (size_t)classes, ctx, "out of memory for a confusion matrix"));
  hd__head_confusion(count, target, k, &s->input.test, &s->report.guesses);
  json_object_set_new(to, "confusion", hd__json_matrix(count, classes));
  column = column ? &column[target->head[k].is.target] : NULL;
  if (!column || !column->class_name)
    return HD_OK;
  json_t *names = json_array();
  for (int32_t c = 0; c < column->classes; c++)
    json_array_append_new(names, json_string(column->class_name[c]));
  json_object_set_new(to, "class_names", names);
  return HD_OK;
}

/* {"name": "size", "loss": 0.25, "r2": 0.9, ...} of each head. */
static hd_status note_heads(json_t *line, const hd_session *s, hd_ctx *ctx) {
  const hd_target *target = &s->run.network.target;
  HD_OWNED hd_head_score *head = NULL;
  HD_TRY(hd__head_scores(&head, ctx, target, &s->input.test, &s->report.guesses));
  json_t *list = json_array();
  hd_status status = HD_OK;
  for (int32_t k = 0; k < target->heads; k++) {
    json_t *one = json_pack("{s:s, s:s}", "name", head[k].name, "loss_name", head[k].loss_name);
    set_known(one, "loss", head[k].loss);
    set_known(one, "accuracy", head[k].accuracy);
    set_known(one, "r2", head[k].r2);
    set_known(one, "mean_absolute_error", head[k].mean_absolute_error);
    json_array_append_new(list, one);
    status = status == HD_OK ? note_confusion(one, s, ctx, k) : status;
  }
  json_object_set_new(line, "heads", list);
  return status;
}

hd_status hd__session_note_outputs(json_t *line, const hd_session *s, hd_ctx *ctx) {
  const hd_target *target = &s->run.network.target;
  HD_OWNED hd_output_score *owned = NULL;
  hd_output_scores scores;
  if (!s->report.guesses.score || s->run.evaluated_step != s->run.counters.step)
    return HD_OK;
  if (target->heads > 0)
    return note_heads(line, s, ctx);
  if (!hd__outputs_are_judged(target, s->input.test.split))
    return HD_OK;
  const hd_status status = hd__output_scores(&scores, ctx, target, &s->input.test, &s->report.guesses);
  owned = scores.output;
  HD_TRY(status);
  json_t *list = json_array(), *mean = json_object();
  set_scores(mean, &scores.mean, scores.labels);
  set_known(mean, "f1_micro", scores.f1_micro);
  set_known(mean, "auc_micro", scores.auc_micro);
  for (int32_t k = 0; k < scores.count && k < MOST_OUTPUTS; k++) {
    json_t *one = json_object();
    set_scores(one, &scores.output[k], scores.labels);
    if (!scores.labels && k < MOST_DRAWN)
      json_object_set_new(one, "scatter", scatter(s, k));
    json_array_append_new(list, one);
  }
  json_object_set_new(line, "scores", mean);
  json_object_set_new(line, "outputs", list);
  return HD_OK;
}

void hd__session_note_characters(json_t *line, const hd_session *s) {
  const hd_split *test = hd__dataset_test(s->input.data);
  const int classes = s->report.guesses.place_loss && s->run.evaluated_step == s->run.counters.step ? test->classes : 0;
  HD_OWNED hd_character_score *score = hd__calloc((size_t)classes + 1, sizeof *score);
  if (classes == 0 || !score ||
      !hd__character_scores(score, &s->run.network.target, &s->input.test, &s->report.guesses))
    return;
  json_t *samples = json_array(), *losses = json_array();
  for (int c = 0; c < classes; c++) {
    json_array_append_new(samples, json_integer((json_int_t)score[c].samples));
    json_array_append_new(losses, json_real(score[c].samples > 0 ? score[c].loss / (double)score[c].samples : 0));
  }
  json_object_set_new(line, "character_samples", samples);
  json_object_set_new(line, "character_losses", losses);
}
