/* Prints a plan, for the tests of the passes and for users. */
#include "op/op.h"
#include "plan/passes.h"

static const char *where_text(hd_where where) {
  static const char *text[HD_WHERES] = {"nowhere", "arena",  "batch", "labels", "losses",
                                        "param",   "packed", "const", "direct", "gathered"};
  return text[where];
}

static const char *phase_text(hd_phase_kind kind) {
  static const char *text[] = {[HD_PHASE_SHARDS] = "shards",
                               [HD_PHASE_OUTPUTS] = "outputs",
                               [HD_PHASE_WHOLE] = "whole batch",
                               [HD_PHASE_REDUCE_UPDATE] = "chunks: reduce, update",
                               [HD_PHASE_REDUCE_NORM] = "chunks: reduce, norm",
                               [HD_PHASE_UPDATE] = "chunks: update",
                               [HD_PHASE_MATRICES] = "matrices"};
  return text[kind];
}

/* The groups that need a call, if not every step does. */
static void print_needed(const hd_plan *plan, const hd_plan_call *call, FILE *to) {
  const char *before = "  for groups ";
  for (int g = 0; g < plan->update.group_count && plan->update.group_count > 1 && !(call->needed & HD_NEEDED_ALWAYS);
       g++)
    if (call->needed >> g & 1) {
      fprintf(to, "%s%d", before, g);
      before = " ";
    }
}

static void print_calls(const hd_plan *plan, const hd_phase *phase, FILE *to) {
  for (int i = phase->call0; i < phase->call1; i++) {
    const hd_plan_call *call = &plan->calls[i];
    fprintf(to, "  %-16s %-10s", hd__op_info(call->op)->name, call->name);
    for (int k = 0; k < HD_MAX_OUT; k++) {
      if (plan->graph->nodes[call->node].out[k] < 0)
        continue;
      const hd_place *place = &call->out[k];
      fprintf(to, " -> %s", where_text(place->where));
      if (place->where == HD_AT_ARENA || place->where == HD_AT_BATCH || place->where == HD_AT_DIRECT)
        fprintf(to, "+%lld", (long long)place->offset);
    }
    fprintf(to, "%s", call->per_shard ? "  per shard" : "");
    print_needed(plan, call, to);
    if (plan->pipeline.stages.count > 1)
      fprintf(to, "  stage %d", call->stage);
    fprintf(to, "\n");
  }
}

static void print_params(const hd_plan *plan, FILE *to) {
  for (int p = 0; p < plan->param_count; p++) {
    const hd_plan_param *param = &plan->params[p];
    char text[HD_SHAPE_TEXT_BYTES];
    fprintf(to, "param %-14s %-12s chunks %d of %d rows%s", param->name,
            hd__shape_text(text, sizeof text, param->shape), param->chunks, param->chunk_rows,
            !plan->trains       ? ""
            : param->is_running ? ", running"
            : !param->trained   ? ", frozen"
            : param->deferred   ? ", gradient deferred"
                                : ", gradient per shard");
    if (param->uses > 1)
      fprintf(to, ", of %d uses", param->uses);
    fprintf(to, "\n");
  }
}

void hd__plan_print(const hd_plan *plan, FILE *to) {
  hd__graph_print(plan->graph, to);
  for (int i = 0; i < plan->phase_count; i++) {
    fprintf(to, "phase %d: %s\n", i, phase_text(plan->phases[i].kind));
    print_calls(plan, &plan->phases[i], to);
  }
  print_params(plan, to);
  fprintf(to, "per sample: arena %lld bytes, batch %lld bytes\n", (long long)plan->size.arena_bytes,
          (long long)plan->size.batch_bytes);
}
