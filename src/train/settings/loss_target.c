/* Checking targets against a loss: see model_source.h. */
#include "train/settings/model_source.h"

#include "base/alloc.h"
#include "data/loader/skipped_samples.h"
#include "op/op.h"

hd_status hd__target_init(hd_target *out, hd_ctx *ctx, const hd_graph *graph) {
  const hd_node *node = hd__graph_loss_node(graph);
  bool classes = node->op == HD_OP_cross_entropy;
  const float *weight = node->in[2] < 0 ? NULL : graph->values[node->in[2]].constant;
  *out = (hd_target){.loss = node->op, .scores = node->geom.ci, .ignored = -1};
  if (classes && node->geom.ignore_index >= 0)
    out->ignored = node->geom.ignore_index;
  if (!classes || !weight)
    return HD_OK;
  HD_TRY(HD_NEW_RAW(out->weight, out->scores, ctx, "out of memory for the weights of classes"));
  for (int32_t i = 0; i < out->scores; i++)
    out->weight[i] = (double)weight[i];
  return HD_OK;
}

void hd__target_fini(hd_target *target) {
  hd__free(target->weight);
  target->weight = NULL;
}

/* Class labels as targets: probabilities are 0 or 1. */
static hd_status check_labels(hd_ctx *ctx, const hd_target *target, const hd_dataset *split, const char *source,
                              const char *data_name) {
  const char *loss = hd__op_info(target->loss)->name;
  if (target->loss == HD_OP_cross_entropy) {
    if (target->scores < split->classes)
      return hd__fail(ctx, HD_E_SHAPE,
                      "%s: expected at least %d scores for the classes of %s, found %d; give the last layer 'out: %d'",
                      source, split->classes, data_name, target->scores, split->classes);
    return HD_OK;
  }
  if (target->scores != 1)
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected one output for the loss %s on the class labels of %s, found %d; give the last layer "
                    "'out: 1', use cross_entropy or data with float targets",
                    source, loss, data_name, target->scores);
  for (int64_t i = 0; target->loss == HD_OP_bce_with_logits && i < split->count; i++)
    if (split->labels[i] > 1)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected labels 0 and 1 in %s for the loss %s, found %d at index %lld; use cross_entropy",
                      source, data_name, loss, split->labels[i], (long long)i);
  return HD_OK;
}

static hd_status check_numbers(hd_ctx *ctx, const hd_target *target, const hd_dataset *split, const char *source,
                               const char *data_name) {
  const char *loss = hd__op_info(target->loss)->name;
  if (target->loss == HD_OP_cross_entropy && !target->of_classes)
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected class labels for the loss cross_entropy, found float targets in %s; use 'loss: mse', "
                    "l1, huber or bce_with_logits",
                    source, data_name);
  if (target->scores != split->outputs)
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected %d outputs for the targets of %s, found %d; give the last layer 'out: %d'", source,
                    split->outputs, data_name, target->scores, split->outputs);
  for (int64_t i = 0; target->loss == HD_OP_bce_with_logits && split->targets && i < split->count * split->outputs; i++)
    if (split->targets[i] < 0 || split->targets[i] > 1)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected targets from 0 to 1 in %s for the loss %s, found %g at index %lld; use mse", source,
                      data_name, loss, (double)split->targets[i], (long long)(i / split->outputs));
  return HD_OK;
}

hd_status hd__target_check(hd_ctx *ctx, const hd_target *target, const hd_dataset *split, const char *source,
                           const char *data_name) {
  return split->outputs ? check_numbers(ctx, target, split, source, data_name)
                        : check_labels(ctx, target, split, source, data_name);
}

int32_t hd__target_classes(const hd_target *target) {
  bool binary = target->loss == HD_OP_bce_with_logits && target->scores == 1;
  return target->loss == HD_OP_cross_entropy || target->of_classes ? target->scores : binary ? 2 : 0;
}

bool hd__target_numbers(const hd_target *target) {
  return target->loss != HD_OP_cross_entropy && target->loss != HD_OP_bce_with_logits && !target->of_classes;
}

bool hd__target_judges(const hd_target *target, const hd_dataset *split) {
  return split->labels && hd__target_classes(target) > 0;
}

bool hd__target_counts(const hd_target *target, const hd_dataset *split, int64_t sample) {
  return split->labels[sample] != target->ignored && !hd__skips_has(split, sample);
}
