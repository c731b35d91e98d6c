/* F1, AUC and R2: see metric.h. */
#include "train/records/metric.h"

#include <math.h>

#include "base/hdmath.h"
#include "train/records/output_scores.h"
#include "train/records/pixel_score.h"

bool hd__metric_needs_scores(hd_metric_choice metric, const hd_target *target, const hd_split *split) {
  return metric == HD_METRIC_AUC || metric == HD_METRIC_R2 ||
         (metric == HD_METRIC_F1 && hd__outputs_are_judged(target, split));
}

bool hd__metric_is_of(hd_metric_choice metric, const hd_target *target, const hd_split *split) {
  const bool labels = hd__outputs_are_labels(target, split) && metric != HD_METRIC_ACCURACY;
  if (split->masks)
    return metric == HD_METRIC_LOSS || metric == HD_METRIC_ACCURACY || metric == HD_METRIC_F1 ||
           metric == HD_METRIC_IOU;
  return metric == HD_METRIC_LOSS ||
         (metric == HD_METRIC_R2 ? hd__target_numbers(target)
                                 : metric != HD_METRIC_IOU && (labels || hd__target_judges(target, split)));
}

/* The label of a sample at a position of the feed; -1: it does not count. */
static int32_t label_at(const hd_target *target, const hd_feed *feed, int64_t position) {
  const int64_t sample = hd__feed_sample(feed, 0, position);
  return hd__target_counts(target, feed->split, sample) ? feed->split->labels[sample] : -1;
}

static double mean(double sum, int32_t count) { return count > 0 ? sum / count : NAN; }

/* ---- F1 ---- */

typedef struct class_count {
  int64_t labels, guesses, right;
} class_count;

static double f1_of_pixels(const hd_target *target, const hd_feed *feed, const hd_exec_outcome *outcome) {
  hd_pixel_counts counts;
  hd__pixels_count(&counts, NULL, target, feed, outcome);
  return hd__pixels_f1(&counts, target->scores);
}

static hd_status f1(double *out, hd_ctx *ctx, const hd_target *target, const hd_feed *feed,
                    const hd_exec_outcome *outcome) {
  const int32_t classes = hd__target_classes(target);
  HD_OWNED class_count *count = NULL;
  double sum = 0;
  int32_t there = 0;
  if (feed->split->masks) {
    *out = f1_of_pixels(target, feed, outcome);
    return HD_OK;
  }
  HD_TRY(HD_NEW(count, classes, ctx, "out of memory for a metric"));
  for (int64_t i = 0; i < feed->count; i++) {
    const int32_t label = label_at(target, feed, i), guess = outcome->guess[i];
    if (label < 0)
      continue;
    count[label].labels++;
    count[guess].guesses++;
    count[label].right += guess == label;
  }
  for (const class_count *c = count; c < count + classes; c++) {
    there += c->labels + c->guesses > 0;
    sum += c->labels + c->guesses > 0 ? 2 * (double)c->right / (double)(c->labels + c->guesses) : 0;
  }
  *out = mean(sum, there);
  return HD_OK;
}

/* ---- AUC ---- */

/* The logarithm of the odds of a class, which orders samples as its probability does, but has no ties where that is 0
 * or 1 but for its rounding; a single score is one. */
static double odds_of(const float *score, int32_t scores, int32_t class) {
  double largest = -INFINITY, sum = 0;
  if (scores == 1)
    return (double)score[0];
  for (int32_t k = 0; k < scores; k++)
    largest = k == class ? largest : fmax(largest, (double)score[k]);
  for (int32_t k = 0; k < scores; k++)
    sum += k == class ? 0 : hd__exp((double)score[k] - largest);
  return (double)score[class] - largest - hd__log(sum);
}

static hd_status auc(double *out, hd_ctx *ctx, const hd_target *target, const hd_feed *feed,
                     const hd_exec_outcome *outcome) {
  HD_OWNED hd_ranked *list = NULL;
  double sum = 0;
  int32_t there = 0;
  HD_TRY(HD_NEW(list, feed->count + 1, ctx, "out of memory for a metric"));
  for (int32_t class = target->scores == 1; class < hd__target_classes(target); class ++) {
    int64_t count = 0;
    for (int64_t i = 0; i < feed->count; i++) {
      const int32_t label = label_at(target, feed, i);
      if (label >= 0)
        list[count++] =
            (hd_ranked){odds_of(outcome->score + i * target->scores, target->scores, class), label == class};
    }
    const double is = hd__ranking_area(list, count);
    there += !isnan(is);
    sum += isnan(is) ? 0 : is;
  }
  *out = mean(sum, there);
  return HD_OK;
}

/* ---- Outputs with targets of their own ---- */

static hd_status of_outputs(double *out, hd_ctx *ctx, hd_metric_choice metric, const hd_target *target,
                            const hd_feed *feed, const hd_exec_outcome *outcome) {
  hd_output_scores scores;
  const hd_status status = hd__output_scores(&scores, ctx, target, feed, outcome);
  hd__free(scores.output);
  *out = metric == HD_METRIC_F1 ? scores.mean.f1 : metric == HD_METRIC_AUC ? scores.mean.auc : scores.mean.r2;
  return status;
}

hd_status hd__metric(double *out, hd_ctx *ctx, hd_metric_choice metric, const hd_target *target, const hd_feed *feed,
                     const hd_exec_outcome *outcome, const hd_score *score) {
  *out = NAN;
  if (!hd__metric_is_of(metric, target, feed->split))
    return HD_OK;
  if (hd__outputs_are_judged(target, feed->split) && metric != HD_METRIC_LOSS)
    return of_outputs(out, ctx, metric, target, feed, outcome);
  switch (metric) {
  case HD_METRIC_F1: return f1(out, ctx, target, feed, outcome);
  case HD_METRIC_AUC: return auc(out, ctx, target, feed, outcome);
  case HD_METRIC_R2: return of_outputs(out, ctx, metric, target, feed, outcome);
  case HD_METRIC_LOSS: *out = score->loss; return HD_OK;
  case HD_METRIC_IOU: *out = score->iou; return HD_OK;
  case HD_METRIC_ACCURACY: break;
  }
  *out = score->accuracy;
  return HD_OK;
}
