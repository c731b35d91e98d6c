/* Calls the program's losses and metrics, and checks what they give; see program_loss.h. */
#include "train/run/program_loss.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "data/split/skipped_samples.h"
#include "heddle/custom_op.h"

/* The difference quotients that a gradient is compared with: the step as a share of an output's size, and by how much
 * both may differ as shares of the larger one and of the loss's own size. */
enum { COLUMNS = 16 };
static const double STEP = 1.0 / 1024, RELATIVE = 0.02, ABSOLUTE = 2e-3;

struct hd_program_loss {
  hd_plan_program plan;
  hd_custom_op self; /* carries this in `user`, where kernels find it */
  hd_custom_loss is;
  int32_t width;
  bool labels, checked;
  float *outputs, *targets, *gradient; /* of a batch */
  int32_t *label;
  double *loss, *left, *right;
  const void *first; /* the first target of the batch */
  hd_status failure;
  char why[HD_MESSAGE_BYTES / 2];
};

/* ---- Calls ---- */

static hd_status call_it(hd_ctx *ctx, const hd_custom_loss *is, const char *what, hd_custom_loss_call *call) {
  char why[HD_CUSTOM_WHY_BYTES] = "";
  call->user = is->user;
  if (is->loss(call, why) == 0)
    return HD_OK;
  why[sizeof why - 1] = 0;
  return hd__fail(ctx, HD_E_USAGE, "the %s '%s' failed: %s", what, is->name, *why ? why : "it does not say why");
}

static hd_status check_finite(hd_ctx *ctx, const hd_custom_loss *is, const hd_custom_loss_call *call,
                              const hd_feed *feed) {
  for (int64_t n = 0; n < call->samples; n++)
    if (!isfinite(call->loss[n]) && !(feed && hd__skips_has(feed->split, hd__feed_sample(feed, 0, n))))
      return hd__fail(
          ctx, HD_E_NOTFINITE,
          "the loss '%s': expected a finite number for each sample, found %g for sample %lld of %lld; use a "
          "lower --lr, or a function that cannot overflow",
          is->name, call->loss[n], (long long)n, (long long)call->samples);
  for (int64_t i = 0; call->gradient && i < call->samples * call->width; i++)
    if (!isfinite(call->gradient[i]))
      return hd__fail(ctx, HD_E_NOTFINITE,
                      "the loss '%s': expected a finite gradient, found %g for sample %lld, output %lld; use a lower "
                      "--lr, or a function that cannot overflow",
                      is->name, (double)call->gradient[i], (long long)(i / call->width), (long long)(i % call->width));
  return HD_OK;
}

/* ---- The gradient of the first batch ---- */

static double step_of(float y) { return STEP * fmax(1, fabs((double)y)); }

/* Outputs that move: one of every `every`-th sample, by a step up or down. */
typedef struct move {
  int32_t column;
  int sign;
  int64_t every;
} move;

/* The losses with some outputs moved. */
static hd_status moved(double *loss, hd_program_loss *p, hd_ctx *ctx, const hd_custom_loss_call *call, move by) {
  hd_custom_loss_call at = *call;
  HD_OWNED float *outputs = hd__malloc((size_t)(call->samples * call->width) * sizeof *outputs);
  HD_TRY(HD_ALLOCATED(outputs, ctx, "out of memory for the check of a loss"));
  memcpy(outputs, call->outputs, (size_t)(call->samples * call->width) * sizeof *outputs);
  for (int64_t n = 0; n < call->samples; n += by.every) {
    float *y = &outputs[n * call->width + by.column];
    *y = (float)((double)*y + by.sign * step_of(*y));
  }
  at.outputs = outputs;
  at.loss = loss;
  at.gradient = NULL;
  HD_TRY(call_it(ctx, &p->is, "loss", &at));
  return check_finite(ctx, &p->is, &at, NULL);
}

static bool is_between(double value, double a, double b, double size) {
  const double tolerance = RELATIVE * fmax(fabs(value), fmax(fabs(a), fabs(b))) + ABSOLUTE * fmax(1, size);
  return value >= fmin(a, b) - tolerance && value <= fmax(a, b) + tolerance;
}

/* A function that bends at the output has any slope between those on both sides. */
static hd_status check_column(hd_program_loss *p, hd_ctx *ctx, const hd_custom_loss_call *call, int32_t column) {
  HD_TRY(moved(p->left, p, ctx, call, (move){column, -1, 1}));
  HD_TRY(moved(p->right, p, ctx, call, (move){column, 1, 1}));
  for (int64_t n = 0; n < call->samples; n++) {
    const float y = call->outputs[n * call->width + column];
    const double below = (double)y - (double)(float)((double)y - step_of(y));
    const double above = (double)(float)((double)y + step_of(y)) - (double)y;
    const double left = (call->loss[n] - p->left[n]) / below, right = (p->right[n] - call->loss[n]) / above;
    const double found = (double)call->gradient[n * call->width + column];
    if (!is_between(found, left, right, fabs(call->loss[n])))
      return hd__fail(ctx, HD_E_USAGE,
                      "the loss '%s': expected %.6g as the gradient of sample %lld by its output %d, by differences of "
                      "its losses, found %.6g; correct it: it is of each sample's own loss, not of a mean",
                      p->is.name, (left + right) / 2, (long long)n, (int)column, found);
  }
  return HD_OK;
}

/* Samples that do not move keep their losses. */
static hd_status check_apart(hd_program_loss *p, hd_ctx *ctx, const hd_custom_loss_call *call) {
  HD_TRY(moved(p->right, p, ctx, call, (move){0, 1, 2}));
  for (int64_t n = 1; n < call->samples; n += 2)
    if (fabs(p->right[n] - call->loss[n]) > 1e-6 * fmax(1, fabs(call->loss[n])))
      return hd__fail(ctx, HD_E_USAGE,
                      "the loss '%s': expected losses that each depend on their own sample, found that of sample %lld "
                      "change from %.6g to %.6g with the outputs of others; return one loss for each sample",
                      p->is.name, (long long)n, call->loss[n], p->right[n]);
  return HD_OK;
}

static hd_status check_gradient(hd_program_loss *p, hd_ctx *ctx, const hd_custom_loss_call *call) {
  const int32_t columns = call->width < COLUMNS ? call->width : COLUMNS;
  if (p->checked)
    return HD_OK;
  for (int32_t i = 0; i < columns; i++) /* spread over all of them */
    HD_TRY(check_column(p, ctx, call, (int32_t)((int64_t)i * call->width / columns)));
  HD_TRY(check_apart(p, ctx, call));
  p->checked = true;
  return HD_OK;
}

/* ---- In the place of kernels ---- */

static void take_rows(hd_program_loss *p, const hd_call *call) {
  const size_t bytes = (size_t)p->width * sizeof(float);
  for (int64_t n = 0; n < call->rows; n++) {
    const char *target = (const char *)call->in[1] + n * call->in_stride[1] * 4;
    memcpy(p->outputs + n * p->width, (const float *)call->in[0] + n * call->in_stride[0], bytes);
    if (p->labels)
      memcpy(&p->label[n], target, sizeof *p->label);
    else
      memcpy(p->targets + n * p->width, target, bytes);
  }
  p->first = call->in[1];
}

static hd_status ask(hd_program_loss *p, hd_ctx *ctx, int64_t rows) {
  hd_custom_loss_call call = {.samples = rows,
                              .width = p->width,
                              .outputs = p->outputs,
                              .labels = p->labels ? p->label : NULL,
                              .targets = p->labels ? NULL : p->targets,
                              .loss = p->loss,
                              .gradient = p->gradient};
  for (int64_t i = 0; i < rows * p->width; i++)
    if (!isfinite(p->outputs[i]))
      return hd__fail(ctx, HD_E_NOTFINITE, "expected finite outputs of the network, found NaN or infinity");
  HD_TRY(call_it(ctx, &p->is, "loss", &call));
  HD_TRY(check_finite(ctx, &p->is, &call, NULL));
  return check_gradient(p, ctx, &call);
}

/* The losses of all rows of a batch; after a failure they are no numbers, so the step does not count. */
static void run_loss(const hd_call *call) {
  hd_program_loss *p = call->g->custom.op->user;
  hd_ctx ctx = {0};
  take_rows(p, call);
  p->failure = ask(p, &ctx, call->rows);
  snprintf(p->why, sizeof p->why, "%.*s", (int)sizeof p->why - 1, ctx.message);
  for (int64_t n = 0; n < call->rows; n++)
    ((float *)call->out[0])[n * call->out_stride[0]] = p->failure == HD_OK ? (float)p->loss[n] : NAN;
}

static void run_gradient(const hd_call *call) {
  const hd_program_loss *p = call->g->custom.op->user;
  const int64_t first = ((const char *)call->in[1] - (const char *)p->first) / 4 / call->in_stride[1];
  for (int64_t n = 0; n < call->rows; n++)
    for (int32_t i = 0; i < p->width; i++)
      ((float *)call->out[0])[n * call->out_stride[0] + i] =
          p->failure == HD_OK ? p->gradient[(first + n) * p->width + i] / call->divisor : 0;
}

static hd_status failure(const hd_custom_op *self, hd_ctx *ctx) {
  const hd_program_loss *p = self->user;
  return p->failure == HD_OK ? HD_OK : hd__fail(ctx, p->failure, "%s", p->why);
}

/* ---- Its life ---- */

hd_status hd__program_check(hd_network *network, hd_ctx *ctx, const hd_config *config) {
  const hd_settings *is = hd__settings(config);
  const hd_target *target = &network->target;
  const char *found = target->places > 0                   ? "a label for each place"
                      : target->weight                     ? "weights of classes in its loss"
                      : target->ignored >= 0               ? "an ignored label in its loss"
                      : network->label_smoothing > 0       ? "label smoothing"
                      : is->accumulate > 1                 ? "--accumulate"
                      : is->precision == HD_PRECISION_BF16 ? "--precision bf16"
                                                           : NULL;
  if (target->heads > 0 && (hd__config_loss(config) || hd__config_metric(config)))
    return hd__fail(ctx, HD_E_UNSUPPORTED, "a loss or metric of the program expects a model with one loss, found %d",
                    target->heads);
  if (!hd__config_loss(config))
    return HD_OK;
  if (found)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "the loss '%s' of the program expects a model and options without, found %s",
                    hd__config_loss(config)->name, found);
  network->target.of_program = true;
  return HD_OK;
}

static hd_status allocate(hd_program_loss *p, hd_ctx *ctx, int64_t batch) {
  const size_t rows = (size_t)batch, all = rows * (size_t)p->width;
  p->outputs = hd__malloc(all * sizeof *p->outputs);
  p->targets = hd__malloc(all * sizeof *p->targets);
  p->gradient = hd__malloc(all * sizeof *p->gradient);
  p->label = hd__malloc(rows * sizeof *p->label);
  p->loss = hd__malloc(3 * rows * sizeof *p->loss);
  HD_TRY(HD_ALLOCATED(p->outputs && p->targets && p->gradient && p->label && p->loss, ctx,
                      "out of memory for the loss of the program"));
  p->left = p->loss + rows;
  p->right = p->left + rows;
  return HD_OK;
}

hd_status hd__program_loss_create(hd_program_loss **out, hd_ctx *ctx, const hd_config *config,
                                  const hd_network *network) {
  const hd_custom_loss *is = hd__config_loss(config);
  *out = NULL;
  if (!is)
    return HD_OK;
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for the loss of the program"));
  hd_program_loss *p = *out;
  p->is = *is;
  p->width = network->target.scores;
  p->labels = network->target.loss == HD_OP_cross_entropy && !network->target.of_classes;
  p->self = (hd_custom_op){.name = is->name, .user = p};
  p->plan = (hd_plan_program){.loss = run_loss, .gradient = run_gradient, .self = &p->self, .failure = failure};
  return HD_CREATED(allocate(p, ctx, hd__settings(config)->batch), out, hd__program_loss_destroy);
}

void hd__program_loss_destroy(hd_program_loss *p) {
  if (!p)
    return;
  hd__free(p->outputs);
  hd__free(p->targets);
  hd__free(p->gradient);
  hd__free(p->label);
  hd__free(p->loss);
  hd__free(p);
}

const hd_plan_program *hd__program_of(const hd_program_loss *p) { return p ? &p->plan : NULL; }

/* ---- Evaluations ---- */

/* Calls a function for all samples of a feed, whose scores are in `out`. */
static hd_status evaluate(hd_custom_loss_call *call, hd_ctx *ctx, const hd_custom_loss *is, const char *what,
                          const hd_target *target, const hd_feed *feed) {
  const bool labels = target->loss == HD_OP_cross_entropy && !target->of_classes;
  const int64_t width = labels ? 1 : target->scores;
  HD_OWNED int32_t *of_samples = hd__malloc((size_t)(feed->count * width) * sizeof *of_samples);
  HD_TRY(HD_ALLOCATED(of_samples, ctx, "out of memory for the targets of an evaluation"));
  for (int64_t i = 0; i < feed->count; i++)
    hd__feed_target(of_samples + i * width, feed, i, labels ? 0 : target->scores);
  call->samples = feed->count;
  call->width = target->scores;
  call->labels = labels ? of_samples : NULL;
  call->targets = labels ? NULL : (const float *)(const void *)of_samples;
  return call_it(ctx, is, what, call);
}

hd_status hd__program_losses(const hd_exec_outcome *out, hd_ctx *ctx, const hd_config *config, const hd_target *target,
                             const hd_feed *feed) {
  const hd_custom_loss *is = hd__config_loss(config);
  if (!is || feed->count == 0)
    return HD_OK;
  HD_OWNED double *loss = hd__malloc((size_t)feed->count * sizeof *loss);
  HD_TRY(HD_ALLOCATED(loss, ctx, "out of memory for the losses of an evaluation"));
  hd_custom_loss_call call = {.outputs = out->score, .loss = loss};
  HD_TRY(evaluate(&call, ctx, is, "loss", target, feed));
  HD_TRY(check_finite(ctx, is, &call, feed));
  for (int64_t i = 0; i < feed->count; i++)
    out->loss[i] = (float)loss[i];
  return HD_OK;
}

hd_status hd__program_metric(double *out, hd_ctx *ctx, const hd_config *config, const hd_target *target,
                             const hd_feed *feed, const hd_exec_outcome *outcome) {
  const hd_custom_loss *is = hd__config_metric(config);
  if (!is || feed->count == 0)
    return HD_OK;
  hd_custom_loss_call call = {.outputs = outcome->score, .loss = out};
  HD_TRY(evaluate(&call, ctx, is, "metric", target, feed));
  return isfinite(*out)
             ? HD_OK
             : hd__fail(ctx, HD_E_NOTFINITE, "the metric '%s': expected a finite number, found %g", is->name, *out);
}
