/* From a configuration to numbers; see run_plan.h. */
#include "train/placement/run_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/param_rules.h"
#include "kernel/native/native.h"
#include "platform/segment.h"
#include "tensor/blas.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/saver.h"
#include "train/placement/omissions.h"
#include "reduce/reduction_tree.h"

/* The table of floats. */
static hd_status select_kernels(const hd_kernels **out, hd_ctx *ctx, const hd_omissions *omissions) {
  const char *why = NULL, *isa = omissions->plain ? "reference" : getenv("HEDDLE_ISA");
  *out = hd__kernels_select(isa, &why);
  if (*out)
    return HD_OK;
  return hd__fail(
      ctx, HD_E_UNSUPPORTED,
      "HEDDLE_ISA expects an instruction set that this build and CPU have, found '%s': %s; unset it for the best", isa,
      why);
}

hd_status hd__planned_kernels(const hd_kernels **out, hd_ctx *ctx) {
  hd_omissions omissions;
  HD_TRY(hd__omissions_read(&omissions, ctx));
  HD_TRY(select_kernels(out, ctx, &omissions));
  return hd__omissions_kernels(out, ctx, hd__kernels_reference(), &omissions);
}

static bool is_native(const hd_config *config) { return hd__settings(config)->arithmetic == HD_ARITHMETIC_NATIVE; }

const char *hd__planned_library(const hd_config *config) {
  return is_native(config) && hd__blas() ? hd__blas()->name : "";
}

static hd_status check_library(hd_ctx *ctx) {
  if (hd__blas())
    return HD_OK;
  return hd__fail(ctx, HD_E_UNSUPPORTED,
                  "--arithmetic native expects OpenBLAS, found none that can be used; install it (Debian: "
                  "libopenblas0), name it in HEDDLE_BLAS, or use --arithmetic portable");
}

const hd_kernels *hd__planned_native_kernels(const hd_kernels *of_threads, int64_t batch, int32_t shards) {
  const hd_blas *blas = hd__blas();
  const char *core = blas ? strrchr(blas->name, ' ') : NULL;
  return blas && batch > 0 ? hd__kernels_native(of_threads, blas->sgemm, core ? core + 1 : "", batch / shards)
                           : of_threads;
}

hd_status hd__planned_run_kernels(const hd_kernels **out, hd_ctx *ctx, const hd_config *config) {
  hd_omissions omissions;
  HD_TRY(hd__omissions_read(&omissions, ctx));
  HD_TRY(select_kernels(out, ctx, &omissions));
  if (is_native(config))
    HD_TRY(check_library(ctx));
  const hd_kernels *reference = hd__kernels_reference();
  if (hd__settings(config)->precision == HD_PRECISION_BF16) {
    *out = hd__kernels_bf16(*out, omissions.plain ? NULL : getenv("HEDDLE_ISA"));
    reference = hd__kernels_bf16(reference, NULL);
  }
  return hd__omissions_kernels(out, ctx, reference, &omissions);
}

hd_status hd__planned_shards(int32_t *out, hd_ctx *ctx, const hd_config *c) {
  int64_t batch = hd__settings(c)->batch, micro_batches = hd__settings(c)->accumulate;
  int32_t fitting = hd__tree_default_shards(batch);
  *out = hd__settings(c)->shards > 0 ? (int32_t)hd__settings(c)->shards : fitting;
  if (*out > batch)
    return hd__fail(ctx, HD_E_USAGE, "batch %lld is smaller than %d shards; use --shards %d or a larger --batch",
                    (long long)batch, *out, fitting);
  if (micro_batches > *out)
    return hd__fail(
        ctx, HD_E_USAGE,
        "--accumulate expects at most the %d shards of a batch, found %lld; use a smaller number or more --shards",
        *out, (long long)micro_batches);
  return HD_OK;
}

hd_status hd__planned_rules(hd_graph *graph, hd_ctx *ctx, const char *text) {
  if (!*text)
    return HD_OK;
  HD_YAML_OWNED *yaml = NULL;
  HD_TRY(hd__yaml_parse(&yaml, ctx, text, strlen(text), "--parameters"));
  const hd_status status = hd__param_rules_apply(graph, ctx, hd__yaml_root(yaml));
  return status == HD_E_FORMAT ? HD_E_USAGE : status;
}

int64_t hd__planned_second_stage(const hd_config *config) {
  return *hd__settings(config)->unfreeze ? hd__settings(config)->unfreeze_epoch : INT64_MAX;
}

hd_status hd__planned_freeze(hd_graph *graph, hd_ctx *ctx, const hd_config *config, bool second_stage) {
  const hd_settings *is = hd__settings(config);
  const char *at = strrchr(is->unfreeze, '@');
  char patterns[256];
  HD_TRY(hd__param_rules_freeze(graph, ctx, is->freeze, *is->head ? hd__graph_head(graph) : NULL, "--freeze"));
  if (!at)
    return HD_OK;
  snprintf(patterns, sizeof patterns, "%.*s", (int)(at - is->unfreeze), is->unfreeze);
  return hd__param_rules_unfreeze(graph, ctx, patterns, second_stage, "--unfreeze");
}

hd_plan_settings hd__planned_passes(const hd_config *config, bool train) {
  hd_plan_settings passes = {.train = train,
                             .batch = hd__settings(config)->batch,
                             .clip_norm = hd__config_has(config, HD_OPT_CLIP_GRAD_NORM),
                             .stages.count = train ? hd__settings(config)->stage_count : 1,
                             .recompute = train,
                             .may_shift = hd__settings(config)->precision != HD_PRECISION_BF16};
  hd_omissions omissions;
  hd_ctx unknown = {0}; /* an error of HEDDLE_PLAN is reported with the kernels */
  if (hd__omissions_read(&omissions, &unknown) == HD_OK) {
    passes.omit = omissions.passes;
    passes.guard = omissions.plain;
    passes.check = omissions.check;
  }
  hd__config_updates(&passes.update, config);
  if (train && hd__config_has(config, HD_OPT_EMA))
    passes.averages = HD_AVERAGES_EMA;
  else if (train && hd__settings(config)->lookahead > 0)
    passes.averages = HD_AVERAGES_LOOKAHEAD;
  return passes;
}

hd_exec_settings hd__planned_training(const hd_config *config, int32_t shards, const hd_run_device *device) {
  return (hd_exec_settings){.executor = device->executor,
                            .own = device->own,
                            .batch = hd__settings(config)->batch,
                            .shards = shards,
                            .micro_batches = (int32_t)hd__settings(config)->accumulate,
                            .clip_norm = hd__settings(config)->clip_grad_norm};
}

hd_exec_settings hd__planned_evaluation(const hd_plan *plan, const hd_run_device *device) {
  const int64_t most = 1024,
                fitting = device->executor->evaluates_bytes / (plan->size.arena_bytes + plan->size.batch_bytes + 1);
  const int32_t units = plan->pipeline.stages.count > 1 ? 16 : 1; /* that may be in stages at the same time */
  const int64_t samples = fitting < most ? fitting : most, least = 64 * units;
  return (hd_exec_settings){.executor = device->executor,
                            .own = device->own,
                            .batch = samples > least ? samples : least,
                            .shards = units,
                            .micro_batches = 1};
}

static int64_t sum_of(const hd_exec_memory *m) { return m->activations + m->fetch + m->gradients + m->bookkeeping; }

hd_status hd__planned_memory(hd_memory *out, hd_ctx *ctx, const hd_planned *p) {
  hd_exec_memory train, eval;
  HD_TRY(hd__exec_measure(&train, ctx, p->plan, p->threads, &p->train));
  HD_TRY(hd__exec_measure(&eval, ctx, p->eval_plan, p->threads, &p->eval));
  int64_t version = p->plan->size.param_elems * (int64_t)sizeof(float), store = hd__store_bytes(p->plan);
  *out =
      (hd_memory){.weights_bytes = 2 * version,
                  .optimizer_bytes = 2 * p->plan->size.trained_elems * (int64_t)sizeof(float) * p->plan->update.states,
                  .packed_bytes = p->plan->size.packed_elems * (int64_t)sizeof(float),
                  .activations_bytes = train.activations,
                  .samples_bytes = train.fetch,
                  .gradients_bytes = train.gradients,
                  .evaluation_bytes = sum_of(&eval),
                  .checkpoint_bytes = hd__saver_bytes(p->plan)};
  const bool ema = p->plan->update.averages == HD_AVERAGES_EMA;
  const int64_t average = ema ? (int64_t)hd__segment_bytes((size_t)hd__store_bytes(p->eval_plan)) : 0;
  out->total_bytes =
      average + (int64_t)hd__segment_bytes((size_t)store) + train.mapped + eval.mapped + out->checkpoint_bytes;
  out->other_bytes = out->total_bytes - out->weights_bytes - out->optimizer_bytes - out->packed_bytes -
                     out->activations_bytes - out->samples_bytes - out->gradients_bytes - out->evaluation_bytes -
                     out->checkpoint_bytes;
  return HD_OK;
}
