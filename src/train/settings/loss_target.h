/* How a loss reads a data set's targets: whether they fit, the divisor of the mean over a batch, and whether a guess
 * can be judged.
 *
 * cross_entropy reads class labels; a sample adds its class's weight to the divisor, or 1, or nothing if its label is
 * ignored. Where transforms made probabilities of the labels it reads these, and a sample adds 1. The other losses read
 * numbers, or class labels as numbers where the model has one output; a sample adds one per output. */
#ifndef HD_TRAIN_SETTINGS_LOSS_TARGET_H
#define HD_TRAIN_SETTINGS_LOSS_TARGET_H

#include <stdbool.h>

#include "data/formats/dataset.h"
#include "exec/executor.h"
#include "graph/graph.h"
#include "train/session/sample_feed.h"

typedef struct hd_target {
  hd_op loss;
  int32_t scores;
  int32_t ignored; /* a label, -1 for none */
  bool of_classes; /* targets are numbers made of labels, a score for each class */
  double *weight;  /* one per class, `scores` of them; NULL: all are 1 */
} hd_target;

hd_status hd__target_init(hd_target *out, hd_ctx *ctx, const hd_graph *graph);
void hd__target_fini(hd_target *target);

/* Whether the split's targets are what the loss reads; `source` names the model, `data_name` the data in messages. */
hd_status hd__target_check(hd_ctx *ctx, const hd_target *target, const hd_dataset *split, const char *source,
                           const char *data_name);

/* The divisor of the mean over positions [first, first + count) of a feed's epoch: the sum of their samples' shares,
 * added in order; 1 if the sum is 0. */
double hd__target_divisor(const hd_target *target, const hd_feed *feed, uint32_t epoch, int64_t first, int64_t count);

/* The number of classes that a model with this loss distinguishes: its scores where they are classes', 2 for a single
 * bce_with_logits score, else 0. */
int32_t hd__target_classes(const hd_target *target);

/* Whether its outputs are numbers of the targets' kind: mse, l1, huber. */
bool hd__target_numbers(const hd_target *target);

/* Whether guesses of classes can be compared with the split's labels. */
bool hd__target_judges(const hd_target *target, const hd_dataset *split);

/* Whether the guess for this sample counts: its label is not ignored, and it could be read. */
bool hd__target_counts(const hd_target *target, const hd_dataset *split, int64_t sample);

/* The result of an evaluation, of samples that could be read (data/loader/skipped_samples.h). */
typedef struct hd_score {
  double loss;           /* the mean */
  double accuracy;       /* NAN where guesses are not judged */
  int64_t judged, right; /* samples */
} hd_score;

/* The score of all samples of a feed, in order. */
void hd__target_score(hd_score *out, const hd_target *target, const hd_feed *feed, const hd_exec_outcome *outcome);

#endif
