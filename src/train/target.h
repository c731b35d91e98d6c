/* What a loss makes of a data set's targets: whether they fit it, what the mean over a batch divides by, and whether a
 * guess can be right.
 *
 * cross_entropy reads class labels; a sample adds its class's weight to the divisor, or 1, or nothing if its label is
 * ignored; where transforms made probabilities of the labels it reads these, and a sample adds 1. The other losses read
 * numbers, or class labels as numbers where the model has one output; a sample adds one per output. */
#ifndef HD_TRAIN_TARGET_H
#define HD_TRAIN_TARGET_H

#include <stdbool.h>

#include "data/dataset.h"
#include "exec/exec.h"
#include "graph/graph.h"
#include "train/feed.h"

typedef struct hd_target {
  hd_op loss;
  int32_t scores;
  int32_t ignored; /* a label, -1 for none */
  bool of_classes; /* numbers were made of labels, a score for each class */
  double *weight;  /* of the classes, `scores` of them; NULL: all are 1 */
} hd_target;

hd_status hd__target_init(hd_target *out, hd_ctx *ctx, const hd_graph *graph);
void hd__target_fini(hd_target *target);

/* Whether the split's targets are what the loss reads; `source` names the model, `data_name` the data in messages. */
hd_status hd__target_check(hd_ctx *ctx, const hd_target *target, const hd_dataset *split, const char *source,
                           const char *data_name);

/* What the mean over positions [first, first + count) of a feed's epoch divides by: their samples' shares, added in
 * order; 1 if none counts. */
double hd__target_divisor(const hd_target *target, const hd_feed *feed, uint32_t epoch, int64_t first, int64_t count);

/* How many classes a model with this loss tells: its scores where they are classes', two by a single bce_with_logits
 * score, else 0. */
int32_t hd__target_classes(const hd_target *target);

/* Whether its outputs are numbers of the targets' kind: mse, l1, huber. */
bool hd__target_numbers(const hd_target *target);

/* Whether guesses of classes can be compared with the split's labels. */
bool hd__target_judges(const hd_target *target, const hd_dataset *split);

/* Whether this sample's guess is: its label is not ignored, and it could be read. */
bool hd__target_counts(const hd_target *target, const hd_dataset *split, int64_t sample);

/* What an evaluation comes to, of samples that could be read (data/skip.h). */
typedef struct hd_score {
  double loss;           /* the mean */
  double accuracy;       /* NAN where guesses are not judged */
  int64_t judged, right; /* samples */
} hd_score;

/* Of all a feed's samples, in order. */
void hd__target_score(hd_score *out, const hd_target *target, const hd_feed *feed, const hd_exec_outcome *outcome);

#endif
