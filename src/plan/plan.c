/* Runs the passes and lowers the graph to the kernel calls of the shards phases and the phases of a step. */
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/event_log.h"
#include "op/op.h"
#include "plan/check.h"
#include "plan/passes.h"

static const char NO_MEMORY[] = "out of memory while planning";

static bool emits_call(const hd_plan *plan, const hd_node *node) { return !node->view && !hd__plan_defers(plan, node); }

static hd_place place_of(const hd_plan *plan, int value) { return value < 0 ? (hd_place){0} : plan->place[value]; }

static void lower_call(hd_plan_call *call, const hd_plan *plan, int index) {
  const hd_node *node = &plan->graph->nodes[index];
  *call = (hd_plan_call){.op = node->op,
                         .class = hd__op_info(node->op)->class,
                         .geom = &node->geom,
                         .in_turn = hd__op_info(node->op)->rule->places == HD_PLACES_STATE,
                         .gathered = plan->nodes[index].gathered,
                         .flops = hd__op_flops(node->op, &node->geom),
                         .needed = plan->nodes[index].needed,
                         .written = (uint32_t)node->written,
                         .stage = plan->nodes[index].stage,
                         .node = index,
                         .name = node->name};
  const hd_kernels *kernels = hd_kernels_for(plan->kernels, node->op, &node->geom);
  call->per_shard = call->class != HD_CLASS_ROWS || kernels->per_shard[node->op];
  for (int i = 0; i < HD_MAX_IN; i++) {
    call->in[i] = place_of(plan, node->in[i]);
    if (call->in[i].where == HD_AT_DIRECT) {
      call->in[i].where = HD_AT_GATHERED;
      call->in[i].offset = call->in[i].gathered;
    }
  }
  for (int i = 0; i < HD_MAX_OUT; i++)
    call->out[i] = place_of(plan, node->out[i]);
}

static void lower_calls(hd_plan *plan) {
  for (int i = 0; i < plan->graph->node_count; i++) {
    const hd_node *node = &plan->graph->nodes[i];
    if (!emits_call(plan, node))
      continue;
    lower_call(&plan->calls[plan->call_count++], plan, i);
    const int64_t bytes = hd_scratch_bytes(plan->kernels, node->op, &node->geom);
    if (plan->size.scratch_bytes < bytes)
      plan->size.scratch_bytes = bytes;
  }
}

/* Padding between members is not compared. */
static bool is_same_geom(const hd_geom *a, const hd_geom *b) {
  bool same = !memcmp(a, b, offsetof(hd_geom, relu) + sizeof a->relu);
#define SAME(name) same = same && !memcmp(&a->name, &b->name, sizeof a->name);
  HD_GEOMS(SAME)
#undef SAME
  return same;
}

static int find_packed(const hd_plan *plan, const hd_plan_packed *wanted) {
  int i = 0;
  while (i < plan->packed_count && (plan->packed[i].param != wanted->param || plan->packed[i].op != wanted->op ||
                                    !is_same_geom(&plan->packed[i].geom, &wanted->geom)))
    i++;
  return i;
}

static void lower_packed(hd_plan *plan) {
  for (int i = 0; i < plan->call_count; i++) {
    const hd_node *node = &plan->graph->nodes[plan->calls[i].node];
    const int64_t elems = hd_packed_elems(plan->kernels, node->op, &node->geom);
    if (elems == 0)
      continue;
    hd_plan_packed copy = {.param = plan->graph->values[node->in[1]].param,
                           .op = node->op,
                           .geom = node->geom,
                           .offset = plan->size.packed_elems,
                           .elems = elems};
    const int found = find_packed(plan, &copy);
    if (found == plan->packed_count) {
      plan->packed[plan->packed_count++] = copy;
      plan->size.packed_elems += (elems + 15) / 16 * 16;
    }
    plan->calls[i].packed = (hd_place){.where = HD_AT_PACKED, .offset = plan->packed[found].offset, .elems = elems};
  }
}

static void lower_params(hd_plan *plan) {
  const hd_graph *graph = plan->graph;
  for (int p = 0; p < plan->param_count; p++) {
    const hd_param *from = &graph->params[p];
    hd_plan_param *to = &plan->params[p];
    to->name = graph->values[from->value].name;
    to->op = from->op;
    to->shape = &graph->values[from->value].shape;
    to->rows = from->rows;
    to->c = from->c;
    to->h = from->h;
    to->w = from->w;
    to->columns = hd__param_columns(from);
    to->frozen = from->frozen;
    to->later = from->later;
    to->is_running = from->running;
    to->stage = hd__plan_stage_of(plan, from->written);
    if (!from->running || from->frozen || !plan->trains)
      continue;
    const hd_node *stats = &graph->nodes[graph->values[from->statistic].producer];
    to->running = (hd_plan_running){.batch = plan->place[from->statistic].gathered,
                                    .pixels = (int64_t)stats->geom.hi * stats->geom.wi,
                                    .momentum = from->momentum,
                                    .unbias = from->statistic == stats->out[1]};
  }
}

/* Samples, targets, scores, and the model's numbers. */
static hd_status lower_values(hd_plan *plan, hd_ctx *ctx) {
  const hd_graph *graph = plan->graph;
  plan->io.input = plan->place[graph->input];
  plan->io.label = plan->place[graph->label];
  plan->io.logits = plan->place[graph->logits];
  plan->alias_count = graph->alias_count;
  const hd_value *label = &graph->values[graph->label];
  plan->io.weighs = graph->weighs;
  if (label->shape.rank > 0 && !(graph->weighs && label->dtype == HD_I32))
    plan->io.target_outputs = (int32_t)plan->io.label.elems - graph->weighs;
  plan->io.places = label->dtype == HD_I32 ? plan->io.target_outputs : 0;
  const hd_node *loss = hd__graph_loss_node(graph);
  plan->io.ignored = loss->geom.cross_entropy.ignore_index;
  plan->io.is_log_odds = loss->op == HD_OP_bce_with_logits && plan->io.logits.elems == 1 && !graph->of_classes;
  plan->constants = hd__malloc_aligned((size_t)plan->size.const_elems * sizeof *plan->constants + 1);
  HD_TRY(HD_ALLOCATED(plan->constants, ctx, NO_MEMORY));
  for (int v = 0; v < graph->value_count; v++)
    if (graph->values[v].constant)
      memcpy(plan->constants + plan->place[v].offset, graph->values[v].constant, (size_t)plan->place[v].row_bytes);
  return HD_OK;
}

void hd__plan_set_kernels(hd_plan *plan, const hd_kernels *kernels) {
  plan->kernels = kernels;
  for (int i = 0; i < plan->call_count; i++) {
    hd_plan_call *call = &plan->calls[i];
    const hd_kernels *of = hd_kernels_for(kernels, call->op, call->geom);
    call->run = of->run[call->op];
    call->merges = of->merges[call->op] && of->merges[call->op](call->geom);
    call->run_outputs = plan->nodes[call->node].by_outputs ? kernels->run_outputs[call->op] : NULL;
    const hd_op_info *info = hd__op_info(call->op);
    if (plan->program && info->rule && info->rule->loss)
      call->run = info->role == HD_ROLE_FORWARD ? plan->program->loss : plan->program->gradient;
  }
  for (int i = 0; i < plan->packed_count; i++) {
    hd_plan_packed *packed = &plan->packed[i];
    packed->pack = hd_kernels_for(kernels, packed->op, &packed->geom)->pack[packed->op];
  }
  for (int u = 0; u < plan->update.use_count; u++) {
    hd_plan_use *use = &plan->update.uses[u];
    use->form = hd__plan_defers(plan, &plan->graph->nodes[use->node]) ? hd_form_for(kernels, use->op, use->geom) : NULL;
  }
}

/* Adds stage ranges without calls, as if each stage on the way back to `stage` had some; returns the end. */
static int add_empty_stage_ranges(hd_plan *plan, int end, int stage, int call) {
  for (int s = end > 0 ? plan->pipeline.ranges[end - 1].stage - 1 : -1; s > stage; s--)
    plan->pipeline.ranges[end++] = (hd_stage_range){.stage = s, .call0 = call, .call1 = call};
  return end;
}

/* Cuts a phase's calls where the stage changes. */
static void add_stage_ranges(hd_plan *plan, hd_phase *phase) {
  const hd_phase *before = phase > plan->phases ? phase - 1 : NULL;
  int end = phase->range0 = before ? before->range1 : 0;
  for (int i = phase->call0; i < phase->call1; i++) {
    end = add_empty_stage_ranges(plan, end, plan->calls[i].stage, i);
    if (end == phase->range0 || plan->pipeline.ranges[end - 1].stage != plan->calls[i].stage)
      plan->pipeline.ranges[end++] = (hd_stage_range){.stage = plan->calls[i].stage, .call0 = i};
    plan->pipeline.ranges[end - 1].call1 = i + 1;
  }
  if (plan->trains && plan->phase_count == plan->segments)
    end = add_empty_stage_ranges(plan, end, -1, phase->call1);
  phase->range1 = end;
}

static void add_phase(hd_plan *plan, hd_phase_kind kind, int call0, int call1) {
  hd_phase *phase = &plan->phases[plan->phase_count++];
  *phase = (hd_phase){.kind = kind, .call0 = call0, .call1 = call1};
  phase->gradients = plan->phase_count == plan->segments ? plan->size.grad_elems : 0;
  for (int i = call0; i < call1; i++)
    for (int o = 0; o < HD_MAX_OUT && plan->calls[i].gathered; o++)
      phase->gathered += plan->calls[i].out[o].elems;
  add_stage_ranges(plan, phase);
}

static void add_matrix_phase(hd_plan *plan, hd_matrix_stage stage, int round) {
  add_phase(plan, HD_PHASE_MATRICES, 0, 0);
  plan->phases[plan->phase_count - 1].stage = stage;
  plan->phases[plan->phase_count - 1].round = round;
}

static void add_matrix_phases(hd_plan *plan) {
  if (plan->muon.matrix_count == 0)
    return;
  add_matrix_phase(plan, HD_STAGE_SCALE, 0);
  for (int round = 0; round < hd__plan_matrix_rounds(plan); round++)
    for (hd_matrix_stage stage = HD_STAGE_GRAM; stage <= HD_STAGE_APPLY; stage++)
      add_matrix_phase(plan, stage, round);
  add_matrix_phase(plan, HD_STAGE_WRITE, 0);
}

static void lower_phases(hd_plan *plan, const hd_plan_settings *settings) {
  for (int s = 0, call = 0, end; s < plan->segments; s++, call = end) {
    for (end = call; end < plan->call_count && plan->nodes[plan->calls[end].node].segment == s;)
      end++;
    const hd_plan_node *first = end > call ? &plan->nodes[plan->calls[call].node] : NULL;
    const bool by_outputs = first && first->by_outputs, whole = first && first->whole;
    add_phase(plan, whole ? HD_PHASE_WHOLE : by_outputs ? HD_PHASE_OUTPUTS : HD_PHASE_SHARDS, call, end);
  }
  if (settings->train && settings->clip_norm) {
    add_phase(plan, HD_PHASE_REDUCE_NORM, 0, 0);
    add_phase(plan, HD_PHASE_UPDATE, 0, 0);
  } else if (settings->train) {
    add_phase(plan, HD_PHASE_REDUCE_UPDATE, 0, 0);
  }
  add_matrix_phases(plan);
}

static hd_status lower(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  HD_TRY(HD_NEW(plan->calls, plan->graph->node_count, ctx, NO_MEMORY));
  HD_TRY(HD_NEW(plan->pipeline.ranges, plan->graph->node_count + plan->pipeline.stages.count, ctx, NO_MEMORY));
  HD_TRY(HD_NEW(plan->packed, plan->graph->node_count, ctx, NO_MEMORY));
  HD_TRY(HD_NEW(plan->phases, plan->segments + 4 + 3 * hd__plan_matrix_rounds(plan), ctx, NO_MEMORY));
  lower_calls(plan);
  lower_packed(plan);
  lower_phases(plan, settings);
  lower_params(plan);
  hd__plan_set_kernels(plan, plan->kernels);
  return lower_values(plan, ctx);
}

void hd__pass_evaluation(hd_graph *graph) {
  for (int i = 0; i < graph->node_count; i++) {
    graph->nodes[i].view |= hd__op_drops(graph->nodes[i].op);
    graph->nodes[i].geom.attention.dropout = 0;
  }
}

static hd_status evaluate_only(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  if (!settings->train)
    hd__pass_evaluation(plan->graph);
  return HD_OK;
}

static hd_status fuse(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  hd__pass_fuse(plan->graph, !(settings->omit & HD_OMIT_RELU));
  return HD_OK;
}

static hd_status shift(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  plan->shifts = settings->may_shift && hd__pass_shift(plan->graph, settings->shift);
  return HD_OK;
}

static hd_status add_gradients(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  if (!settings->train)
    return HD_OK;
  HD_TRY(hd__pass_batch_statistics(plan->graph, ctx));
  return hd__pass_grad(plan->graph, ctx);
}

static hd_status weigh(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  return settings->train && plan->graph->weighs ? hd__pass_weigh(plan->graph, ctx) : HD_OK;
}

static hd_status segments(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  hd__pass_segments(plan, settings);
  return HD_OK;
}

static hd_status recompute(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  return settings->recompute && !(settings->omit & HD_OMIT_RECOMPUTE) ? hd__pass_recompute(plan, ctx) : HD_OK;
}

static hd_status groups(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  plan->param_count = plan->graph->param_count;
  HD_TRY(HD_NEW(plan->params, plan->param_count, ctx, NO_MEMORY));
  return hd__pass_groups(plan, ctx, settings);
}

static const struct {
  const char *name;
  hd_status (*run)(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings);
} passes[] = {{"evaluation", evaluate_only},
              {"fuse", fuse},
              {"shift", shift},
              {"gradients", add_gradients},
              {"weigh", weigh},
              {"stages", hd__pass_stages},
              {"segments", segments},
              {"recompute", recompute},
              {"groups", groups},
              {"needed", hd__pass_needed},
              {"matrices", hd__pass_matrices},
              {"memory", hd__pass_memory},
              {"cut edges", hd__pass_cut_edges},
              {"chunks", hd__pass_chunks},
              {"lower", lower}};

static hd_status run_passes(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
    HD_TRY(passes[i].run(plan, ctx, settings));
    HD_LOG(PLAN, "pass %s: nodes %d, values %d, calls %d", passes[i].name, plan->graph->node_count,
           plan->graph->value_count, plan->call_count);
    if (settings->check)
      HD_TRY(hd__check_pass(plan, ctx, passes[i].name));
  }
  return HD_OK;
}

hd_status hd__plan_create(hd_plan **out, hd_ctx *ctx, hd_graph *graph, const hd_kernels *kernels,
                          const hd_plan_settings *settings) {
  hd_plan *plan = hd__calloc(1, sizeof *plan);
  *out = NULL;
  if (!plan) {
    hd__graph_destroy(graph);
    return hd__fail(ctx, HD_E_NOMEM, NO_MEMORY);
  }
  plan->graph = graph;
  plan->kernels = kernels;
  plan->trains = settings->train;
  plan->update.averages = settings->averages;
  plan->guarded = settings->guard;
  plan->program = settings->train ? settings->program : NULL;
  if (plan->program)
    graph->nodes[graph->values[graph->loss].producer].geom.custom.op = plan->program->self;
  hd_status status = run_passes(plan, ctx, settings);
  if (status != HD_OK) {
    hd__plan_destroy(plan);
    return status;
  }
  *out = plan;
  HD_LOG(PLAN, "%s: calls %d, phases %d; per sample %lld bytes of a thread's memory and %lld of the batch's",
         plan->trains ? "step" : "evaluation", plan->call_count, plan->phase_count, (long long)plan->size.arena_bytes,
         (long long)plan->size.batch_bytes);
  return HD_OK;
}

void hd__plan_destroy(hd_plan *plan) {
  if (!plan)
    return;
  hd__graph_destroy(plan->graph);
  hd__free(plan->calls);
  hd__free(plan->pipeline.ranges);
  hd__free(plan->pipeline.cut_edges);
  hd__free(plan->place);
  hd__free(plan->params);
  hd__free(plan->update.uses);
  hd__free(plan->muon.matrices);
  hd__free(plan->packed);
  hd__free(plan->chunks);
  hd__free(plan->phases);
  hd__free(plan->nodes);
  hd__free(plan->constants);
  hd__free(plan);
}

const char *hd__plan_alias(int *param, const hd_plan *plan, int index) {
  *param = plan->graph->aliases[index].param;
  return plan->graph->aliases[index].name;
}
