/* The scale of targets: see target_scale.h. */
#include "data/feed/target_scale.h"

#include <math.h>

#include "base/alloc.h"

static const char TARGETS[] = "targets";

void hd__target_scale_fini(hd_target_scale *scale) {
  hd__free(scale->mean);
  *scale = (hd_target_scale){0};
}

static hd_status make_room(hd_target_scale *out, hd_ctx *ctx, int32_t count) {
  HD_TRY(HD_NEW(out->mean, 2 * (int64_t)count, ctx, "out of memory for the scale of %d targets", count));
  out->std = out->mean + count;
  out->count = count;
  return HD_OK;
}

/* ---- Choosing ---- */

static void measure(hd_target_scale *s, const hd_split *train) {
  double counted = 0;
  for (int64_t i = 0; i < train->count; i++)
    counted += hd__split_weight(train, i);
  for (int32_t k = 0; k < s->count; k++) {
    double sum = 0, square = 0, least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < train->count; i++) {
      const double number = (double)hd__split_number(train, i, k), weight = hd__split_weight(train, i);
      sum += weight * number;
      least = weight > 0 ? fmin(least, number) : least;
      most = weight > 0 ? fmax(most, number) : most;
    }
    s->mean[k] = least < most ? sum / counted : least; /* weights would leave a rounding error as deviation */
    for (int64_t i = 0; i < train->count; i++) {
      const double off = (double)hd__split_number(train, i, k) - s->mean[k];
      square += hd__split_weight(train, i) * (off * off);
    }
    const double std = sqrt(square / counted);
    s->std[k] = isnormal(std) ? std : 1;
  }
}

hd_status hd__target_scale_choose(hd_target_scale *out, hd_ctx *ctx, hd_config *config, const hd_network *network,
                                  const hd_dataset *data) {
  const hd_settings *is = hd__settings(config);
  const bool numbers = hd__target_numbers(&network->target), asked = is->target_scale == HD_TARGET_SCALE_STANDARD;
  const bool chosen = numbers && network->input_of_data && data->normalize == HD_NORMALIZE_COLUMN;
  const bool scales = asked || (chosen && is->target_scale == HD_TARGET_SCALE_AUTO);
  if (asked && !numbers)
    return hd__fail(ctx, HD_E_USAGE,
                    "--target-scale standard expects a model that predicts numbers (mse, l1, huber), found another "
                    "loss; leave it out");
  if (asked && *is->transforms)
    return hd__fail(ctx, HD_E_USAGE,
                    "--target-scale standard expects a run without --transforms, found both; leave one out");
  HD_TRY(
      hd__config_settle(config, ctx, HD_OPT_TARGET_SCALE,
                        hd_choice_name(HD_OPT_TARGET_SCALE, scales ? HD_TARGET_SCALE_STANDARD : HD_TARGET_SCALE_NONE)));
  if (!scales)
    return HD_OK;
  HD_TRY(make_room(out, ctx, network->target.scores));
  measure(out, hd__dataset_train(data));
  return HD_OK;
}

/* ---- Scaling ---- */

float hd__target_scaled(const hd_target_scale *s, int32_t output, float target) {
  return output < s->count ? (float)(((double)target - s->mean[output]) / s->std[output]) : target;
}

double hd__target_unscaled(const hd_target_scale *s, int32_t output, double value) {
  return output < s->count ? value * s->std[output] + s->mean[output] : value;
}

/* ---- run.json ---- */

hd_status hd__target_scale_note(json_t *record, hd_ctx *ctx, const hd_target_scale *s) {
  if (s->count == 0)
    return HD_OK;
  json_t *list = json_array();
  for (int32_t k = 0; k < s->count; k++)
    json_array_append_new(list, json_pack("{s:f, s:f}", "mean", s->mean[k], "std", s->std[k]));
  return HD_ALLOCATED(json_object_set_new(json_object_get(record, "data"), TARGETS, list) == 0, ctx,
                      "out of memory for the run's record");
}

hd_status hd__target_scale_read(hd_target_scale *out, hd_ctx *ctx, const json_t *record, const char *folder) {
  const json_t *list = json_object_get(json_object_get(record, "data"), TARGETS);
  const size_t count = json_array_size(list);
  *out = (hd_target_scale){0};
  if (count == 0 || count > INT32_MAX / 2)
    return HD_OK;
  HD_TRY(make_room(out, ctx, (int32_t)count));
  for (size_t k = 0; k < count; k++) {
    const json_t *one = json_array_get(list, k), *mean = json_object_get(one, "mean");
    const json_t *std = json_object_get(one, "std");
    out->mean[k] = json_number_value(mean);
    out->std[k] = json_number_value(std);
    if (!json_is_number(mean) || !isnormal(out->std[k]) || out->std[k] < 0)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s/run.json: expected the targets' mean and std, found none; the checkpoint is damaged, use "
                      "another",
                      folder);
  }
  return HD_OK;
}
