/* Losses and metrics of the program: functions of a network's outputs and targets.
 *
 *     static int squares(const hd_custom_loss_call *c, char why[HD_CUSTOM_WHY_BYTES]) {
 *       for (int64_t n = 0; n < c->samples; n++) {
 *         double d = (double)c->outputs[n] - (double)c->targets[n];
 *         c->loss[n] = d * d;
 *         if (c->gradient)
 *           c->gradient[n] = (float)(2 * d);
 *       }
 *       return 0;
 *     }
 *     static const hd_custom_loss loss = {.struct_bytes = sizeof loss, .name = "squares", .loss = squares};
 *     hd_config_set_loss(config, ctx, &loss);
 *
 * Such a loss takes the place of the model's own in training and evaluation. The model's loss still says what targets
 * are, labels (cross_entropy) or numbers, and what predictions are. The mean of losses is over samples, or over their
 * weights. One thread, which trains or evaluates, calls the function for all samples of a batch at once, and for all
 * samples of an evaluation, in their order; so the layout does not change a bit as long as the function gives the same
 * numbers for the same arrays. At the first step its gradient is compared with differences of its losses, and a loss of
 * one sample that changes with the outputs of another is refused.
 *
 * The run's record has the function's name. What computes losses of such a run expects a configuration with a loss of
 * that name: resuming it, evaluating it; predictions do not need it. It cannot be certified or verified.
 *
 * Not with: several ranks, stages, accumulation, a GPU, bf16; models with a label or outputs for each place, or whose
 * loss has weights, label smoothing or an ignored label. */
#ifndef HEDDLE_CUSTOM_LOSS_H
#define HEDDLE_CUSTOM_LOSS_H

#include <stddef.h>
#include <stdint.h>

#include "heddle/config.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_CUSTOM_WHY_BYTES = 256 };

/* Samples, one after the other. */
typedef struct hd_custom_loss_call {
  int64_t samples;
  int32_t width;         /* outputs of a sample */
  const float *outputs;  /* samples x width: scores before a softmax, or numbers */
  const int32_t *labels; /* samples, or NULL: */
  const float *targets;  /* samples x width */
  double *loss;          /* to be filled: of each sample; of a metric one number. It must be finite */
  float *gradient;       /* to be filled: samples x width, the derivative of a sample's loss by its outputs; or NULL */
  void *user;            /* the function's */
} hd_custom_loss_call;

/* Returns 0; or anything else after a failure, which ends the run with `why` in its message. */
typedef int hd_custom_loss_fn(const hd_custom_loss_call *call, char why[HD_CUSTOM_WHY_BYTES]);

typedef struct hd_custom_loss {
  size_t struct_bytes; /* sizeof(hd_custom_loss) */
  const char *name;    /* 1 to 32 letters, digits and '_' */
  hd_custom_loss_fn *loss;
  void *user; /* passed on */
} hd_custom_loss;

/* Sets the loss of sessions and evaluations of this configuration; or their metric, in the place of the option metric:
 * a number of all samples of an evaluation, larger being better. NULL removes it. The struct is copied; what it points
 * to must outlive the configuration and what is made with it. HD_E_USAGE: an unfit name, no function. */
HD_API hd_status hd_config_set_loss(hd_config *config, hd_ctx *ctx, const hd_custom_loss *loss);
HD_API hd_status hd_config_set_metric(hd_config *config, hd_ctx *ctx, const hd_custom_loss *metric);

#ifdef __cplusplus
}
#endif
#endif
