/* Counts of pixels; see pixel_score.h. */
#include "train/records/pixel_score.h"

#include <math.h>
#include <string.h>

void hd__pixels_count(hd_pixel_counts *out, int64_t *confusion, const hd_target *target, const hd_feed *feed,
                      const hd_exec_outcome *outcome) {
  memset(out, 0, sizeof *out);
  for (int64_t i = 0; i < feed->count; i++) {
    const uint8_t *mask = hd__feed_mask(feed, 0, i, feed->mask_room), *guess = outcome->classes + i * target->places;
    for (int32_t k = 0; k < target->places; k++) {
      if (mask[k] == HD_NO_CLASS || mask[k] == target->ignored)
        continue;
      out->labels[mask[k]]++;
      out->guesses[guess[k]]++;
      out->right[mask[k]] += mask[k] == guess[k];
      if (confusion)
        confusion[mask[k] * target->scores + guess[k]]++;
    }
  }
}

double hd__pixels_iou(const hd_pixel_counts *n, int32_t class) {
  const int64_t either = n->labels[class] + n->guesses[class] - n->right[class];
  return either > 0 ? (double)n->right[class] / (double)either : NAN;
}

double hd__pixels_mean_iou(const hd_pixel_counts *counts, int32_t classes) {
  double sum = 0;
  int32_t there = 0;
  for (int32_t c = 0; c < classes; c++) {
    const double is = hd__pixels_iou(counts, c);
    there += !isnan(is);
    sum += isnan(is) ? 0 : is;
  }
  return there > 0 ? sum / there : NAN;
}

double hd__pixels_f1(const hd_pixel_counts *n, int32_t classes) {
  double sum = 0;
  int32_t there = 0;
  for (int32_t c = 0; c < classes; c++) {
    const int64_t both = n->labels[c] + n->guesses[c];
    there += both > 0;
    sum += both > 0 ? 2 * (double)n->right[c] / (double)both : 0;
  }
  return there > 0 ? sum / there : NAN;
}
