/* How hard the characters of a text are: the loss of each where it was to be guessed. Sums in the order of the text are
 * the same on any layout. */
#pragma once

#include <stdbool.h>

#include "data/feed/feed.h"
#include "exec/executor.h"
#include "train/settings/model_source.h"

typedef struct hd_character_score {
  int64_t samples; /* places of the text where it follows, */
  double loss;     /* and the sum of their losses, whatever its weight */
} hd_character_score;

/* Adds the places of a feed's windows to the scores of their characters; false: losses of places are not known. */
bool hd__character_scores(hd_character_score *score, const hd_target *target, const hd_feed *feed,
                          const hd_exec_outcome *outcome);
