/* Schedules as PyTorch defines them, by step. step is StepLR, whose epochs are counted from the end of the warm-up;
 * cosine is CosineAnnealingLR down to 0, linear a LinearLR from the whole rate to end_factor of it.
 * triangular is two of them: from start_factor up to the whole rate at step int(peak * steps), and down to end_factor;
 * its lr at step i is the one of airbench's triangle(steps, start, end, peak)[i]. The warm-up is LinearLR from
 * 1/warmup of the rate in the first step to all of it in the last, and the schedule starts after it, as in a
 * SequentialLR of the two. onecycle, which includes a warm-up, is OneCycleLR with its defaults: cosine from lr/25 up to
 * lr over the first 30 % of the steps, then down to lr/25/1e4; the momentum (sgd) or first beta (adam) changes
 * inversely, from 0.95 to 0.85 and back; a momentum of 0 stays, as with cycle_momentum=False. The bias corrections use
 * beta^t with the beta of the step, as PyTorch's optimizers do. */
#include "train/settings/schedule.h"

#include <math.h>

#include "base/hdmath.h"
#include "base/status.h"

static const double PI = 3.14159265358979323846;

void hd__schedule_settings(hd_update_settings *out, const hd_config *config) {
  const hd_settings *is = hd__settings(config);
  const bool decays = hd__config_has(config, HD_OPT_WEIGHT_DECAY);
  *out = (hd_update_settings){{[HD_SET_OPTIMIZER] = is->optimizer,
                               [HD_SET_LR] = is->lr,
                               [HD_SET_MOMENTUM] = is->momentum,
                               [HD_SET_NESTEROV] = is->nesterov,
                               [HD_SET_BETA1] = is->betas[0],
                               [HD_SET_BETA2] = is->betas[1],
                               [HD_SET_EPS] = is->eps,
                               [HD_SET_WEIGHT_DECAY] = decays ? is->weight_decay : (double)NAN,
                               [HD_SET_NS_STEPS] = (double)is->ns_steps,
                               [HD_SET_NORMALIZE_WEIGHT] = is->normalize_weight,
                               [HD_SET_ADJUST_LR] = is->adjust_lr,
                               [HD_SET_SCHEDULE] = is->schedule,
                               [HD_SET_STEP_SIZE] = (double)is->step_size,
                               [HD_SET_GAMMA] = is->gamma,
                               [HD_SET_WARMUP] = (double)is->warmup,
                               [HD_SET_START_FACTOR] = is->start_factor,
                               [HD_SET_END_FACTOR] = is->end_factor,
                               [HD_SET_PEAK] = is->peak,
                               [HD_SET_EPOCHS] = (double)NAN}};
}

int64_t hd__schedule_steps(double epochs, int64_t steps_per_epoch) {
  const double steps = floor(epochs * (double)steps_per_epoch + 0.5);
  return steps < 1 ? 1 : (int64_t)steps;
}

/* Refuses settings of a group that would be refused as the run's options (config.c). */
static hd_status check(const hd_schedule *s, hd_ctx *ctx, int64_t steps) {
  if (s->curve == HD_SCHEDULE_STEP && s->every == 0)
    return hd__fail(ctx, HD_E_USAGE, "parameters: expected a step_size beside the schedule step, found none; add it");
  if (s->curve == HD_SCHEDULE_ONECYCLE && s->warmup > 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "parameters: onecycle warms up by itself, found a warmup of %lld too; give 'warmup: 0'",
                    (long long)s->warmup);
  if (s->warmup < steps)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "--warmup expects fewer than the %lld steps of all epochs, found %lld; use fewer or more --epochs",
                  (long long)steps, (long long)s->warmup);
}

double hd__schedule_default_decay(hd_op op) { return op == HD_OP_adamw ? 0.01 : 0; }

hd_status hd__schedule_init(hd_schedule *out, hd_ctx *ctx, const hd_update_settings *settings, int64_t steps,
                            int64_t steps_per_epoch) {
  const double *value = settings->value;
  const bool ends = !isnan(value[HD_SET_EPOCHS]);
  const int64_t trained = ends ? hd__schedule_steps(value[HD_SET_EPOCHS], steps_per_epoch) : steps;
  int states;
  *out = (hd_schedule){.op = hd__update_settings_op(&states, settings),
                       .lr = value[HD_SET_LR],
                       .momentum = value[HD_SET_MOMENTUM],
                       .nesterov = value[HD_SET_NESTEROV] > 0,
                       .beta1 = value[HD_SET_BETA1],
                       .beta2 = value[HD_SET_BETA2],
                       .eps = value[HD_SET_EPS],
                       .weight_decay = value[HD_SET_WEIGHT_DECAY],
                       .normalize_weight = value[HD_SET_NORMALIZE_WEIGHT] > 0,
                       .curve = (int)value[HD_SET_SCHEDULE],
                       .gamma = value[HD_SET_GAMMA],
                       .every = (int64_t)value[HD_SET_STEP_SIZE] * steps_per_epoch,
                       .start_factor = value[HD_SET_START_FACTOR],
                       .end_factor = value[HD_SET_END_FACTOR],
                       .warmup = (int64_t)value[HD_SET_WARMUP],
                       .end = ends ? trained : INT64_MAX};
  out->length = trained - out->warmup;
  out->top = (int64_t)(value[HD_SET_PEAK] * (double)out->length);
  if (isnan(out->weight_decay))
    out->weight_decay = hd__schedule_default_decay(out->op);
  return check(out, ctx, trained);
}

/* Whether a momentum takes the place of the first beta. */
static bool has_momentum(const hd_schedule *s) { return s->op == HD_OP_sgd || s->op == HD_OP_muon; }

static double cosine_between(double from, double to, double share) {
  return to + (from - to) / 2 * (1 + hd__cos(PI * share));
}

/* Between two factors, where `left` of `length` steps are left. */
static double line(double from, double to, int64_t left, int64_t length) {
  return to + (from - to) * ((double)left / (double)length);
}

static void onecycle_at(const hd_schedule *s, double at, double *lr, double *beta1) {
  double low = s->lr / 25, least = low / 1e4;
  double top = 0.3 * (double)s->length - 1, end = (double)(s->length - 1);
  bool cycles = !has_momentum(s) || s->momentum > 0;
  if (at <= top) {
    double share = top > 0 ? at / top : 1;
    *lr = cosine_between(low, s->lr, share);
    *beta1 = cycles ? cosine_between(0.95, 0.85, share) : *beta1;
  } else {
    double share = end > top ? (at - top) / (end - top) : 1;
    share = share > 1 ? 1 : share;
    *lr = cosine_between(s->lr, least, share);
    *beta1 = cycles ? cosine_between(0.85, 0.95, share) : *beta1;
  }
}

bool hd__schedule_keeps_momentum(const hd_schedule *s) {
  return s->curve == HD_SCHEDULE_ONECYCLE && has_momentum(s) && s->momentum <= 0;
}

void hd__schedule_at(const hd_schedule *s, int64_t step, double *lr, double *beta1) {
  int64_t at = step - s->warmup;
  *lr = s->lr;
  *beta1 = has_momentum(s) ? s->momentum : s->beta1;
  if (at < 0) {
    *lr *= (double)(step + 1) / (double)s->warmup;
    return;
  }
  switch (s->curve) {
  case HD_SCHEDULE_CONST: return;
  case HD_SCHEDULE_STEP: *lr *= hd__pow_int(s->gamma, (uint64_t)(at / s->every)); return;
  case HD_SCHEDULE_COSINE: *lr = cosine_between(s->lr, 0, (double)at / (double)s->length); return;
  case HD_SCHEDULE_LINEAR: *lr *= line(1, s->end_factor, s->length - at, s->length); return;
  case HD_SCHEDULE_ONECYCLE: onecycle_at(s, (double)at, lr, beta1); return;
  case HD_SCHEDULE_TRIANGULAR:
    *lr *= at < s->top ? line(s->start_factor, 1, s->top - at, s->top)
                       : line(1, s->end_factor, s->length - at, s->length - s->top);
    return;
  }
}

void hd__schedule_hyper(hd_hyper *out, const hd_schedule *s, int64_t step) {
  double lr, beta1;
  hd__schedule_at(s, step, &lr, &beta1);
  double bias1 = 1 - hd__pow_int(beta1, (uint64_t)step + 1), bias2 = 1 - hd__pow_int(s->beta2, (uint64_t)step + 1);
  *out = (hd_hyper){.op = (int32_t)s->op,
                    .grad_scale = 1,
                    .lr = (float)lr,
                    .weight_decay = (float)s->weight_decay,
                    .decay_keep = (float)(1 - lr * s->weight_decay),
                    .momentum = (float)beta1,
                    .nesterov = s->nesterov,
                    .beta2 = (float)s->beta2,
                    .one_minus_beta1 = (float)(1 - beta1),
                    .one_minus_beta2 = (float)(1 - s->beta2),
                    .eps = (float)s->eps,
                    .step_size = (float)(lr / bias1),
                    .sqrt_bias2 = (float)sqrt(bias2),
                    .idle = step >= s->end,
                    .normalize_weight = s->normalize_weight};
}
