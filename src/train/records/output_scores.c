/* Scores of outputs: see output_scores.h. */
#include "train/records/output_scores.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/hdmath.h"
#include "data/split/skipped_samples.h"

bool hd__outputs_are_labels(const hd_target *target, const hd_split *split) {
  return target->loss == HD_OP_bce_with_logits && !target->of_classes && split->targets;
}

bool hd__outputs_are_judged(const hd_target *target, const hd_split *split) {
  return hd__target_numbers(target) || hd__outputs_are_labels(target, split);
}

/* ---- A ranking ---- */

static int by_score(const void *a, const void *b) {
  const double x = ((const hd_ranked *)a)->score, y = ((const hd_ranked *)b)->score;
  return (x > y) - (x < y);
}

double hd__ranking_area(hd_ranked *list, int64_t count) {
  int64_t below = 0, of_class = 0;
  double pairs = 0;
  for (int64_t i = 0; i < count; i++)
    if (isnan(list[i].score))
      return NAN;
  qsort(list, (size_t)count, sizeof *list, by_score);
  for (int64_t i = 0, end; i < count; i = end) {
    int64_t in = 0;
    for (end = i; end < count && list[end].score == list[i].score; end++)
      in += list[end].is_of_class;
    pairs += (double)in * ((double)below + 0.5 * (double)(end - i - in));
    below += end - i - in;
    of_class += in;
  }
  return of_class > 0 && below > 0 ? pairs / ((double)of_class * (double)below) : NAN;
}

/* ---- Samples ---- */

/* The outcome of the samples that could be read. */
typedef struct judged {
  const hd_split *data;
  const hd_feed *feed;
  const float *score;
  int32_t outputs;       /* of a sample */
  int32_t first, target; /* the first output that is judged, and its target */
} judged;

static bool is_there(const judged *j, int64_t at) { return !hd__skips_has(j->data, hd__feed_sample(j->feed, 0, at)); }

static double target_at(const judged *j, int64_t at, int32_t k) {
  return (double)hd__split_number(j->data, hd__feed_sample(j->feed, 0, at), j->target + k);
}

static double weight_at(const judged *j, int64_t at) {
  return hd__split_weight(j->data, hd__feed_sample(j->feed, 0, at));
}

static double score_at(const judged *j, int64_t at, int32_t k) {
  const double score = (double)j->score[at * j->outputs + j->first + k];
  return j->feed->targets ? hd__target_unscaled(j->feed->targets, k, score) : score;
}

/* ---- Labels ---- */

typedef struct label_count {
  int64_t positives, guesses, right, samples;
  bool binary; /* each target is 0 or 1 */
} label_count;

static double f1_of(const label_count *c) {
  return c->binary && c->positives + c->guesses > 0 ? 2 * (double)c->right / (double)(c->positives + c->guesses) : NAN;
}

static label_count count_label(const judged *j, int32_t k) {
  label_count c = {.binary = true};
  for (int64_t i = 0; i < j->feed->count; i++) {
    if (!is_there(j, i))
      continue;
    const double is = target_at(j, i, k);
    const bool guess = score_at(j, i, k) > 0;
    c.binary = c.binary && (is == 0 || is == 1);
    c.samples++;
    c.positives += is == 1;
    c.guesses += guess;
    c.right += guess && is == 1;
  }
  return c;
}

/* The AUC of outputs [from, to) as if they were one. */
static double auc_of(hd_ranked *list, const judged *j, int32_t from, int32_t to) {
  int64_t count = 0;
  for (int64_t i = 0; i < j->feed->count; i++)
    for (int32_t k = from; k < to && is_there(j, i); k++)
      list[count++] = (hd_ranked){score_at(j, i, k), target_at(j, i, k) == 1};
  return hd__ranking_area(list, count);
}

static hd_status score_labels(hd_output_scores *out, hd_ctx *ctx, const judged *j) {
  HD_OWNED hd_ranked *list = NULL;
  label_count all = {.binary = true};
  HD_TRY(HD_NEW_RAW(list, j->feed->count * j->outputs + 1, ctx, "out of memory for the scores of labels"));
  for (int32_t k = 0; k < j->outputs; k++) {
    const label_count c = count_label(j, k);
    out->output[k] = (hd_output_score){.positives = c.positives,
                                       .binary = c.binary,
                                       .f1 = f1_of(&c),
                                       .auc = c.binary ? auc_of(list, j, k, k + 1) : NAN,
                                       .r2 = NAN,
                                       .mean_absolute_error = NAN,
                                       .root_mean_square_error = NAN};
    all.binary = all.binary && c.binary;
    all.positives += c.positives;
    all.guesses += c.guesses;
    all.right += c.right;
  }
  out->mean.positives = all.positives;
  out->mean.binary = all.binary;
  out->f1_micro = f1_of(&all);
  out->auc_micro = all.binary ? auc_of(list, j, 0, j->outputs) : NAN;
  return HD_OK;
}

/* ---- A regression ---- */

static void score_number(hd_output_score *out, const judged *j, int32_t k) {
  double first = NAN, sum = 0, absolute = 0, square = 0, spread = 0, count = 0;
  for (int64_t i = 0; i < j->feed->count; i++)
    if (is_there(j, i)) {
      first = isnan(first) ? target_at(j, i, k) : first;
      sum += weight_at(j, i) * (target_at(j, i, k) - first); /* exactly 0 where all are equal */
      count += weight_at(j, i);
    }
  for (int64_t i = 0; i < j->feed->count; i++) {
    if (!is_there(j, i))
      continue;
    const double is = target_at(j, i, k), off = is - first - sum / count, missed = score_at(j, i, k) - is;
    absolute += weight_at(j, i) * fabs(missed);
    square += weight_at(j, i) * (missed * missed);
    spread += weight_at(j, i) * (off * off);
  }
  *out = (hd_output_score){.f1 = NAN,
                           .auc = NAN,
                           .r2 = spread > 0 ? 1 - square / spread : NAN,
                           .mean_absolute_error = absolute / count,
                           .root_mean_square_error = sqrt(square / count)};
}

/* ---- All outputs ---- */

typedef struct mean {
  double sum;
  int32_t count;
} mean;

static void add(mean *m, double value) {
  m->sum += isnan(value) ? 0 : value;
  m->count += !isnan(value);
}

static double value_of(const mean *m) { return m->count > 0 ? m->sum / m->count : NAN; }

static void take_means(hd_output_scores *out) {
  mean f1 = {0}, auc = {0}, r2 = {0}, absolute = {0}, square = {0};
  for (const hd_output_score *o = out->output; o < out->output + out->count; o++) {
    add(&f1, o->f1);
    add(&auc, o->auc);
    add(&r2, o->r2);
    add(&absolute, o->mean_absolute_error);
    add(&square, o->root_mean_square_error);
  }
  out->mean.f1 = value_of(&f1);
  out->mean.auc = value_of(&auc);
  out->mean.r2 = value_of(&r2);
  out->mean.mean_absolute_error = value_of(&absolute);
  out->mean.root_mean_square_error = value_of(&square);
}

hd_status hd__output_scores(hd_output_scores *out, hd_ctx *ctx, const hd_target *target, const hd_feed *feed,
                            const hd_exec_outcome *outcome) {
  const judged j = {.data = feed->split, .feed = feed, .score = outcome->score, .outputs = target->scores};
  *out = (hd_output_scores){.labels = hd__outputs_are_labels(target, feed->split), .f1_micro = NAN, .auc_micro = NAN};
  if (!hd__outputs_are_judged(target, feed->split))
    return HD_OK;
  HD_TRY(HD_NEW(out->output, j.outputs, ctx, "out of memory for the scores of outputs"));
  out->count = j.outputs;
  if (out->labels)
    HD_TRY(score_labels(out, ctx, &j));
  for (int32_t k = 0; k < j.outputs && !out->labels; k++)
    score_number(&out->output[k], &j, k);
  take_means(out);
  return HD_OK;
}

/* ---- Heads ---- */

static int32_t guess_of(const float *score, int32_t count) {
  int32_t best = 0;
  for (int32_t c = 1; c < count; c++)
    best = score[c] > score[best] ? c : best;
  return best;
}

static double entropy_of(const hd_loss_head *h, const float *score, int32_t label) {
  const double largest = (double)score[guess_of(score, h->count)], smoothing = (double)h->setting;
  double sum = 0, all = 0;
  for (int32_t c = 0; c < h->count; c++)
    sum += hd__exp((double)score[c] - largest);
  for (int32_t c = 0; c < h->count; c++)
    all += hd__log(sum) - ((double)score[c] - largest);
  return (1 - smoothing) * (hd__log(sum) - ((double)score[label] - largest)) + smoothing / h->count * all;
}

/* The loss of an output, of which the head has the mean. */
static double term_of(const hd_loss_head *h, double score, double target) {
  const double off = fabs(score - target), delta = (double)h->setting;
  switch (h->loss) {
  case HD_HEAD_MSE: return off * off;
  case HD_HEAD_L1: return off;
  case HD_HEAD_HUBER: return off < delta ? 0.5 * off * off : delta * (off - 0.5 * delta);
  default: return hd__log(1 + hd__exp(-fabs(score))) + fmax(score, 0) - target * score;
  }
}

/* Adds a sample's loss to *loss and the share of its guesses that are right to *right. */
static void judge_head(double *loss, double *right, const judged *j, const hd_loss_head *h, int64_t at) {
  const float *score = j->score + at * j->outputs + j->first;
  const double weight = weight_at(j, at);
  if (h->loss == HD_HEAD_CROSS_ENTROPY) {
    const int32_t label = (int32_t)target_at(j, at, 0);
    *loss += weight * entropy_of(h, score, label);
    *right += guess_of(score, h->count) == label ? weight : 0;
    return;
  }
  for (int32_t k = 0; k < h->count; k++) {
    const double target = target_at(j, at, k);
    *loss += weight * term_of(h, (double)score[k], target) / h->count;
    *right += (score[k] > 0) == (target > 0.5) ? weight / h->count : 0;
  }
}

static void score_head(hd_head_score *out, const judged *j, const hd_target_head *head) {
  const hd_loss_head *h = &head->is;
  const bool guesses = h->loss == HD_HEAD_CROSS_ENTROPY || h->loss == HD_HEAD_BCE_WITH_LOGITS;
  double loss = 0, right = 0, count = 0;
  mean r2 = {0}, absolute = {0};
  for (int64_t i = 0; i < j->feed->count; i++)
    if (is_there(j, i)) {
      judge_head(&loss, &right, j, h, i);
      count += weight_at(j, i);
    }
  for (int32_t k = 0; k < h->count && !guesses; k++) {
    hd_output_score one;
    score_number(&one, j, k);
    add(&r2, one.r2);
    add(&absolute, one.mean_absolute_error);
  }
  snprintf(out->name, sizeof out->name, "%s", head->name);
  snprintf(out->loss_name, sizeof out->loss_name, "%s", hd__head_loss(head));
  out->loss = loss / count;
  out->accuracy = guesses ? right / count : NAN;
  out->r2 = value_of(&r2);
  out->mean_absolute_error = value_of(&absolute);
}

hd_status hd__head_scores(hd_head_score **out, hd_ctx *ctx, const hd_target *target, const hd_feed *feed,
                          const hd_exec_outcome *outcome) {
  *out = NULL;
  if (target->heads == 0)
    return HD_OK;
  HD_TRY(HD_NEW(*out, target->heads, ctx, "out of memory for the scores of heads"));
  for (int32_t k = 0; k < target->heads; k++) {
    const hd_target_head *head = &target->head[k];
    score_head(&(*out)[k],
               &(judged){feed->split, feed, outcome->score, target->scores, head->is.first, head->is.target}, head);
  }
  return HD_OK;
}

int32_t hd__head_classes(const hd_target_head *head) {
  const bool two = head->is.loss == HD_HEAD_BCE_WITH_LOGITS && head->is.count == 1;
  return head->is.loss == HD_HEAD_CROSS_ENTROPY ? head->is.count : two ? 2 : 0;
}

void hd__head_confusion(int64_t *confusion, const hd_target *target, int32_t head, const hd_feed *feed,
                        const hd_exec_outcome *outcome) {
  const hd_loss_head *h = &target->head[head].is;
  const judged j = {feed->split, feed, outcome->score, target->scores, h->first, h->target};
  const int32_t classes = hd__head_classes(&target->head[head]);
  for (int64_t i = 0; i < feed->count; i++) {
    const float *score = j.score + i * j.outputs + j.first;
    const bool one = h->loss == HD_HEAD_CROSS_ENTROPY;
    const int32_t label = one ? (int32_t)target_at(&j, i, 0) : target_at(&j, i, 0) > 0.5;
    if (is_there(&j, i) && label >= 0 && label < classes)
      confusion[label * classes + (one ? guess_of(score, classes) : *score > 0)]++;
  }
}
