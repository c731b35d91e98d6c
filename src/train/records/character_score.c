/* Losses by character: see character_score.h. */
#include "train/records/character_score.h"

#include <math.h>

static bool add_places(hd_character_score *score, const int32_t *label, const float *loss, int32_t count,
                       const hd_target *target) {
  for (int32_t i = 0; i < count; i++) {
    if (label[i] < 0 || label[i] >= target->scores || label[i] == target->ignored)
      continue;
    if (isnan(loss[i]))
      return false;
    score[label[i]].samples++;
    score[label[i]].loss += (double)loss[i];
  }
  return true;
}

bool hd__character_scores(hd_character_score *score, const hd_target *target, const hd_feed *feed,
                          const hd_exec_outcome *outcome) {
  enum { SOME = 256 };
  int32_t label[SOME];
  for (int64_t i = 0; i < feed->count; i++)
    for (int32_t first = 0; first < target->places; first += SOME) {
      const int32_t count = target->places - first < SOME ? target->places - first : SOME;
      hd__feed_labels(label, feed, 0, i, first, count);
      if (!add_places(score, label, outcome->place_loss + i * target->places + first, count, target))
        return false;
    }
  return true;
}
