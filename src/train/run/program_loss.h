/* Losses and metrics of the program (heddle/custom_loss.h) in a session, and in the evaluation of a checkpoint. */
#pragma once

#include "data/feed/feed.h"
#include "exec/executor.h"
#include "heddle/custom_loss.h"
#include "train/settings/config.h"
#include "train/settings/model_source.h"

typedef struct hd_program_loss hd_program_loss;

/* HD_E_UNSUPPORTED: a model or settings that such functions do not fit. The network's losses are means over samples
 * then. Nothing is done without a function. */
hd_status hd__program_check(hd_network *network, hd_ctx *ctx, const hd_config *config);

/* The loss of the configuration for batches of this network; *out is NULL without one. */
hd_status hd__program_loss_create(hd_program_loss **out, hd_ctx *ctx, const hd_config *config,
                                  const hd_network *network);
void hd__program_loss_destroy(hd_program_loss *loss);

/* What a plan for training takes; NULL for none. Valid as long as the loss. */
const hd_plan_program *hd__program_of(const hd_program_loss *loss);

/* Replaces the losses of an evaluation by the function's, and finds the metric's value; each is left as it is without a
 * function. */
hd_status hd__program_losses(const hd_exec_outcome *out, hd_ctx *ctx, const hd_config *config, const hd_target *target,
                             const hd_feed *feed);
hd_status hd__program_metric(double *out, hd_ctx *ctx, const hd_config *config, const hd_target *target,
                             const hd_feed *feed, const hd_exec_outcome *outcome);
