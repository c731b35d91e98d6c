/* The mean of a loss over samples of a feed: its divisor, and the score of an evaluation.
 *
 * A sample adds to the divisor, for cross_entropy, its class's weight, or 1, or nothing if its label is ignored; 1
 * where transforms made probabilities of the labels; for the other losses, one per output. Samples with weights add
 * that much times their weight, and losses and guesses count as much. */
#pragma once

#include "exec/executor.h"
#include "data/feed/feed.h"
#include "train/settings/model_source.h"

/* What positions [first, first + count) of a feed's epoch add to the divisor of a mean: the sum of their samples'
 * shares, in order. */
double hd__target_share(const hd_target *target, const hd_feed *feed, uint32_t epoch, int64_t first, int64_t count);

/* The divisor of a mean over samples with these shares in all: without any, the mean is 0. */
static inline double hd__divisor(double share) { return share > 0 ? share : 1; }

/* Whether the divisor does not follow from the number of samples. */
bool hd__target_varies(const hd_target *target, const hd_split *split);

/* Of a text: e to the loss of a token; bits for a byte of text, NAN where tokens are no text. Else NAN. */
double hd__perplexity(const hd_split *split, double loss);
double hd__bits_per_byte(const hd_split *split, double loss);

/* The result of an evaluation, of samples that could be read (data/split/skipped_samples.h). */
typedef struct hd_score {
  double loss;           /* the mean */
  double accuracy;       /* NAN where guesses are not judged */
  double iou;            /* of pixels, the mean over classes (pixel_score.h); else NAN */
  double metric;         /* of --metric: see metric.h */
  int64_t judged, right; /* samples, whatever their weights; or pixels */
} hd_score;

/* Samples of a class, and those of them that were guessed right. */
typedef struct hd_tally {
  int64_t judged, right;
} hd_tally;

/* Adds the samples of a feed to the tally of their class, where guesses are judged. */
void hd__target_tally(hd_tally *tally, const hd_target *target, const hd_feed *feed, const hd_exec_outcome *outcome);

/* The score of all samples of a feed, in order. */
void hd__target_score(hd_score *out, const hd_target *target, const hd_feed *feed, const hd_exec_outcome *outcome);
