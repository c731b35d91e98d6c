/* An evaluation of the mean of the scores of several views of each sample (sample_views.h).
 *
 * The views are evaluated one after the other, on the device, by all ranks. A mean is a chain from +0 over the views
 * in their order: acc = acc + share * score. Each rank then finds losses and guesses of the means by itself, with
 * the kernel of the loss. */
#pragma once

#include "exec/executor.h"
#include "data/feed/feed.h"

typedef struct hd_view_evaluation {
  hd_tta_choice tta;
  const hd_plan *plan; /* of the evaluation */
  const hd_kernels *kernels;
  /* Receives the results of one view after the other, scores included, from all ranks of the host; NULL: this process
   * is alone. */
  const hd_exec_outcome *views;
} hd_view_evaluation;

/* Makes a feed read views from now on; call it before the executor gets its memory. HD_E_USAGE for samples that are
 * rows of numbers; `data_name` is for that message. */
hd_status hd__views_open(hd_feed *feed, hd_ctx *ctx, hd_tta_choice tta, const char *data_name);

/* As hd__exec_evaluate, over all positions of the feed. With views out->score must not be NULL. */
hd_status hd__evaluate_views(const hd_exec_outcome *out, hd_exec *exec, hd_ctx *ctx, hd_feed *feed,
                             const hd_view_evaluation *settings);
