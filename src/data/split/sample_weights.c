/* Checks of samples' weights; see sample_weights.h. */
#include "data/split/sample_weights.h"

#include <math.h>

bool hd__weight_is_valid(double weight) {
  return weight == 0 || (weight >= HD_WEIGHT_LEAST && weight <= HD_WEIGHT_MOST);
}

hd_status hd__weights_check(hd_ctx *ctx, const char *name, const hd_split *split, const char *which) {
  bool counts = !split->weights;
  for (int64_t i = 0; split->weights && i < split->count; i++) {
    const double weight = (double)split->weights[i];
    if (!hd__weight_is_valid(weight))
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected " HD_WEIGHT_WORDS ", found %g for sample %lld of the %s; %s",
                      name, weight, (long long)i, which, isnan(weight) ? "give it one" : "correct it");
    counts = counts || weight > 0;
  }
  if (counts)
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT, "%s: expected a weight above 0 in the %s, found only zeros; change one", name,
                  which);
}
