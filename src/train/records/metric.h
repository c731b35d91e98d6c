/* Metrics of an evaluation besides its loss and accuracy: those of --metric, and of `heddle eval`.
 *
 *   f1    2 tp / (2 tp + fp + fn) of a class, the mean over the classes that occur as label or as guess
 *   auc   the share of pairs of a sample of a class and one of another in which the first has the larger probability of
 *         the class, ties half; the mean over classes with both. Scores are compared, not their probabilities,
 *         which rounding makes equal near 0 and 1
 *   iou   of pixels: pixel_score.h, which also has their F1
 *   r2    the mean over outputs: output_scores.h, which also has F1 and AUC where a sample may have several labels
 *
 * They are those of scikit-learn: f1_score(average="macro"), roc_auc_score(multi_class="ovr"), r2_score. Sums are made
 * in the order of the samples, so a metric is the same on any layout. */
#pragma once

#include "train/records/loss_score.h"

/* Whether it needs all scores of a sample, and whether a model with this loss has it. */
bool hd__metric_needs_scores(hd_metric_choice metric, const hd_target *target, const hd_split *split);
bool hd__metric_is_of(hd_metric_choice metric, const hd_target *target, const hd_split *split);

/* Larger is better for all but the loss. NAN where the model does not have it, or there is no sample to judge by. */
hd_status hd__metric(double *out, hd_ctx *ctx, hd_metric_choice metric, const hd_target *target, const hd_feed *feed,
                     const hd_exec_outcome *outcome, const hd_score *score);
