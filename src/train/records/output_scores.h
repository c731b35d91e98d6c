/* How good the outputs of a model are whose targets are numbers: of a regression (mse, l1, huber), or of labels of
 * which a sample may have several (bce_with_logits on float targets). Each output is judged by itself:
 *
 *   f1    2 tp / (2 tp + fp + fn), where a score above 0 says that a sample has the label; none without tp, fp and fn
 *   auc   the share of pairs of a sample with the label and one without it in which the first has the larger score,
 *         ties half; none without such pairs
 *   r2    1 - sum of (output - target)^2 / sum of (target - its mean)^2; none where all targets are equal
 *   mean absolute error, root of the mean square error
 *
 * Those of all are the means over the outputs that have one: scikit-learn's "macro" and "uniform_average". The micro
 * ones are over all outputs as if they were one. Labels have F1 and AUC where each target is 0 or 1. Sums are made in
 * the order of the samples, so that a score is the same on any layout. */
#pragma once

#include "heddle/session.h"
#include "train/records/loss_score.h"

typedef struct hd_output_scores {
  int32_t count;           /* of outputs; 0: the model has others */
  bool labels;             /* else a regression's */
  hd_output_score *output; /* each */
  hd_output_score mean;    /* over those that have one; `positives` of all */
  double f1_micro, auc_micro;
} hd_output_scores;

/* Whether the model has outputs of this kind on the split. */
bool hd__outputs_are_labels(const hd_target *target, const hd_split *split);
bool hd__outputs_are_judged(const hd_target *target, const hd_split *split);

/* NAN where a score is not defined. The caller frees out->output, after a failure too. */
hd_status hd__output_scores(hd_output_scores *out, hd_ctx *ctx, const hd_target *target, const hd_feed *feed,
                            const hd_exec_outcome *outcome);

/* The scores of the heads of a network with several losses, in their order; *out is NULL where it has one. The caller
 * frees *out. Losses are computed in double of the outputs. */
hd_status hd__head_scores(hd_head_score **out, hd_ctx *ctx, const hd_target *target, const hd_feed *feed,
                          const hd_exec_outcome *outcome);

/* The classes of a head that guesses one: of cross_entropy, or the two of bce_with_logits with one output, else 0. And
 * its confusion matrix, classes x classes, row: label, column: guess, to which its samples are added. */
int32_t hd__head_classes(const hd_target_head *head);
void hd__head_confusion(int64_t *confusion, const hd_target *target, int32_t head, const hd_feed *feed,
                        const hd_exec_outcome *outcome);

/* A sample's score in a ranking. Sorts them and returns the AUC; NAN unless there are samples of both kinds, and
 * where a score is NAN. */
typedef struct hd_ranked {
  double score;
  bool is_of_class;
} hd_ranked;

double hd__ranking_area(hd_ranked *list, int64_t count);
