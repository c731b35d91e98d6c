/* Weights of samples: part of the data, one number for each sample of a split. A sample counts in the mean loss of a
 * batch, in evaluations, and in means of columns and targets, as often as its weight says: losses are sum of w * l over
 * sum of w. A weight is 0, or from HD_WEIGHT_LEAST to HD_WEIGHT_MOST. */
#pragma once

#include <stdbool.h>

#include "data/split/split.h"

#define HD_WEIGHT_LEAST 1e-18
#define HD_WEIGHT_MOST 1e18

bool hd__weight_is_valid(double weight);

/* What a valid weight is, for messages. */
#define HD_WEIGHT_WORDS "a weight of 0 or from 1e-18 to 1e18"

/* HD_E_FORMAT unless all of a split's weights are valid, and some above 0; without weights it does nothing. `which`:
 * "training set", "test set". */
hd_status hd__weights_check(hd_ctx *ctx, const char *name, const hd_split *split, const char *which);
