/* The shares of samples in a mean loss, and what an evaluation found; see loss_score.h. */
#include "train/records/loss_score.h"

#include <math.h>

#include "base/hdmath.h"
#include "data/split/skipped_samples.h"
#include "train/records/pixel_score.h"

/* The share of a label of cross_entropy in the divisor. */
static double share_of(const hd_target *target, int32_t label) {
  if (label == target->ignored || label >= target->scores)
    return 0;
  return target->weight ? target->weight[label] : 1;
}

/* The sum of the shares of a window's places; *labels: how many of them have a label that counts. */
static double window_share(int64_t *labels, const hd_target *target, const hd_feed *feed, uint32_t epoch,
                           int64_t position) {
  enum { SOME = 256 };
  int32_t label[SOME];
  double sum = 0;
  *labels = 0;
  for (int32_t first = 0; first < target->places; first += SOME) {
    const int32_t count = target->places - first < SOME ? target->places - first : SOME;
    hd__feed_labels(label, feed, epoch, position, first, count);
    for (int32_t i = 0; i < count; i++) {
      const bool counts = label[i] >= 0 && label[i] != target->ignored;
      sum += counts ? share_of(target, label[i]) : 0;
      *labels += counts;
    }
  }
  return sum;
}

/* The sum of the shares of a sample's pixels. */
static double mask_share(const hd_target *target, const hd_feed *feed, uint32_t epoch, int64_t position) {
  const uint8_t *mask = hd__feed_mask(feed, epoch, position, feed->mask_room);
  double sum = 0;
  for (int32_t i = 0; i < target->places; i++)
    sum += mask[i] == HD_NO_CLASS ? 0 : share_of(target, mask[i]);
  return sum;
}

/* The share of the sample at a position in the divisor. */
static double share_at(const hd_target *target, const hd_feed *feed, uint32_t epoch, int64_t position) {
  const int64_t sample = hd__feed_sample(feed, epoch, position);
  const double weight = hd__split_weight(feed->split, sample);
  int64_t labels;
  if (target->of_program || target->heads > 0)
    return weight;
  if (target->loss != HD_OP_cross_entropy)
    return weight * target->scores;
  if (feed->split->window)
    return window_share(&labels, target, feed, epoch, position);
  if (feed->split->masks)
    return mask_share(target, feed, epoch, position);
  return weight * (target->of_classes ? 1 : share_of(target, feed->split->labels[sample]));
}

double hd__target_share(const hd_target *target, const hd_feed *feed, uint32_t epoch, int64_t first, int64_t count) {
  double sum = 0;
  if (!feed->split->weights && (target->loss != HD_OP_cross_entropy || target->of_classes))
    return (double)count * share_at(target, feed, epoch, first);
  for (int64_t i = first; i < first + count; i++)
    sum += share_at(target, feed, epoch, i);
  return sum;
}

bool hd__target_varies(const hd_target *target, const hd_split *split) {
  if (split->weights)
    return true;
  if (target->of_program || target->heads > 0 || target->loss != HD_OP_cross_entropy)
    return false;
  if (split->window)
    return split->whole_answers || target->weight || target->ignored >= 0;
  if (split->masks || target->of_classes)
    return !target->of_classes;
  bool varies = target->weight != NULL;
  for (int64_t i = 0; i < split->count && !varies; i++)
    varies = share_of(target, split->labels[i]) != 1;
  return varies;
}

/* The divisor of an evaluation's mean. */
static double divisor_of_all(const hd_target *target, const hd_feed *feed) {
  const bool is_whole = hd__skips_count(feed->split) == 0;
  double sum = is_whole ? hd__target_share(target, feed, 0, 0, feed->count) : 0;
  for (int64_t i = 0; i < feed->count && !is_whole; i++)
    if (!hd__skips_has(feed->split, hd__feed_sample(feed, 0, i)))
      sum += share_at(target, feed, 0, i);
  return hd__divisor(sum);
}

double hd__perplexity(const hd_split *split, double loss) {
  return split->window && !split->whole_answers ? hd__exp(loss) : NAN;
}

double hd__bits_per_byte(const hd_split *split, double loss) {
  return split->window && split->token_bytes > 0 ? loss / hd__log(2) / split->token_bytes : NAN;
}

/* A window is right if all its labels are guessed; not where a device does not tell its guesses. */
static void judge_window(hd_score *out, const hd_target *target, const hd_feed *feed, int64_t position, int32_t right) {
  int64_t labels;
  window_share(&labels, target, feed, 0, position);
  out->judged += right >= 0;
  out->right += right == labels;
}

static void score_pixels(hd_score *out, const hd_target *target, const hd_feed *feed, const hd_exec_outcome *outcome) {
  hd_pixel_counts counts;
  hd__pixels_count(&counts, NULL, target, feed, outcome);
  for (int32_t c = 0; c < target->scores; c++) {
    out->judged += counts.labels[c];
    out->right += counts.right[c];
  }
  out->iou = hd__pixels_mean_iou(&counts, target->scores);
  if (out->judged > 0)
    out->accuracy = (double)out->right / (double)out->judged;
}

void hd__target_score(hd_score *out, const hd_target *target, const hd_feed *feed, const hd_exec_outcome *outcome) {
  bool judges = hd__target_judges(target, feed->split);
  double sum = 0, judged = 0, right = 0;
  *out = (hd_score){.accuracy = NAN, .iou = NAN, .metric = NAN};
  for (int64_t i = 0; i < feed->count; i++) {
    int64_t sample = hd__feed_sample(feed, 0, i);
    if (hd__skips_has(feed->split, sample))
      continue;
    const double weight = hd__split_weight(feed->split, sample);
    sum += weight * (double)outcome->loss[i];
    if (feed->split->whole_answers)
      judge_window(out, target, feed, i, outcome->guess[i]);
    if (!judges || !hd__target_counts(target, feed->split, sample))
      continue;
    const bool is_right = outcome->guess[i] == feed->split->labels[sample];
    out->judged++;
    out->right += is_right;
    judged += weight;
    right += is_right ? weight : 0;
  }
  out->loss = sum / divisor_of_all(target, feed);
  if (feed->split->whole_answers) {
    judged = (double)out->judged;
    right = (double)out->right;
  }
  if (judged > 0)
    out->accuracy = right / judged;
  if (feed->split->masks)
    score_pixels(out, target, feed, outcome);
}

void hd__target_tally(hd_tally *tally, const hd_target *target, const hd_feed *feed, const hd_exec_outcome *outcome) {
  for (int64_t i = 0; i < feed->count; i++) {
    const int64_t sample = hd__feed_sample(feed, 0, i);
    if (hd__skips_has(feed->split, sample) || !hd__target_counts(target, feed->split, sample))
      continue;
    const int32_t label = feed->split->labels[sample];
    tally[label].judged++;
    tally[label].right += outcome->guess[i] == label;
  }
}
