/* The steps of a schedule. The warm-up is LinearLR from 1/warmup of the rate in the first step to all of it in the
 * last, and the schedule's curve starts after it, as in a SequentialLR of the two. Bias corrections use beta^t with the
 * beta of the step, as PyTorch's optimizers do. */
#include "optimizer/schedule.h"

#include <math.h>

#include "base/status.h"

int64_t hd__schedule_steps(double epochs, int64_t steps_per_epoch) {
  const double steps = floor(epochs * (double)steps_per_epoch + 0.5);
  return steps < 1 ? 1 : (int64_t)steps;
}

/* What the run's options are refused for (train/settings/config.c), of a group. */
static hd_status check(const hd_schedule *s, hd_ctx *ctx, int64_t steps) {
  for (const hd_update_setting *row = hd__update_settings; row->name; row++)
    if (s->rule->needs == row->value && row->value && s->settings.value[row->value] <= 0)
      return hd__fail(ctx, HD_E_USAGE, "parameters: expected a %s beside the schedule %s, found none; add it",
                      row->name, s->rule->name);
  if (s->rule->warms_up && s->warmup > 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "parameters: expected another schedule than %s, which warms up by itself, beside a warmup of "
                    "%lld; give 'warmup: 0'",
                    s->rule->name, (long long)s->warmup);
  if (s->warmup < steps)
    return HD_OK;
  if (s->end < INT64_MAX)
    return hd__fail(ctx, HD_E_USAGE,
                    "parameters: expected a warmup of fewer than the %lld steps of their epochs, found %lld; give "
                    "'warmup: 0' or more epochs",
                    (long long)steps, (long long)s->warmup);
  return hd__fail(ctx, HD_E_USAGE,
                  "--warmup expects fewer than the %lld steps of all epochs, found %lld; use fewer or more --epochs",
                  (long long)steps, (long long)s->warmup);
}

/* Whether a momentum takes the place of the first of betas. */
static bool has_momentum(const hd_schedule *s) { return !hd__optimizer_takes(s->optimizer, HD_SET_betas); }

hd_status hd__schedule_init(hd_schedule *out, hd_ctx *ctx, const hd_update_settings *settings, int64_t steps,
                            int64_t steps_per_epoch) {
  *out = (hd_schedule){.optimizer = hd__optimizer_of(settings), .settings = *settings};
  hd__optimizer_complete(&out->settings);
  const double *value = out->settings.value;
  const bool ends = !isnan(value[HD_SET_epochs]);
  const int64_t trained = ends ? hd__schedule_steps(value[HD_SET_epochs], steps_per_epoch) : steps;
  out->rule = hd__curve_at((int)value[HD_SET_schedule]);
  out->warmup = (int64_t)value[HD_SET_warmup];
  out->end = ends ? trained : INT64_MAX;
  out->curve = (hd_curve){.lr = value[HD_SET_lr],
                          .cycled = value[has_momentum(out) ? HD_SET_momentum : HD_SET_betas],
                          .length = trained - out->warmup,
                          .every = (int64_t)value[HD_SET_step_size] * steps_per_epoch,
                          .gamma = value[HD_SET_gamma],
                          .start_factor = value[HD_SET_start_factor],
                          .end_factor = value[HD_SET_end_factor]};
  out->curve.top = (int64_t)(value[HD_SET_peak] * (double)out->curve.length);
  return check(out, ctx, trained);
}

bool hd__schedule_keeps_momentum(const hd_schedule *s) {
  return s->rule->cycles && has_momentum(s) && s->curve.cycled <= 0;
}

void hd__schedule_at(const hd_schedule *s, int64_t step, double *lr, double *momentum) {
  double cycled = s->curve.cycled;
  *lr = s->curve.lr;
  *momentum = s->curve.cycled;
  if (step < s->warmup) {
    *lr *= (double)(step + 1) / (double)s->warmup;
    return;
  }
  s->rule->at(lr, &cycled, &s->curve, step - s->warmup);
  if (!hd__schedule_keeps_momentum(s))
    *momentum = cycled;
}

void hd__schedule_scale(hd_schedule *s, double factor) { s->curve.lr = s->settings.value[HD_SET_lr] * factor; }

/* Of a step of the parameters, counted from their first. */
static double momentum_at(const hd_schedule *s, int64_t step) {
  double lr, momentum;
  hd__schedule_at(s, s->first + step, &lr, &momentum);
  return momentum;
}

void hd__schedule_hyper(hd_hyper *out, const hd_schedule *s, int64_t step) {
  hd_update_step at = {.schedule = s, .value = s->settings.value, .step = step > s->first ? step - s->first : 0};
  at.momentum_at = s->rule->cycles ? momentum_at : NULL;
  hd__schedule_at(s, step, &at.lr, &at.momentum);
  const double decay = at.value[HD_SET_weight_decay];
  *out = (hd_hyper){.op = (int32_t)s->optimizer->op,
                    .grad_scale = 1,
                    .lr = (float)at.lr,
                    .weight_decay = (float)decay,
                    .decay_keep = (float)(1 - at.lr * decay),
                    .idle = step >= s->end};
  s->optimizer->scalars(out, &at);
}
