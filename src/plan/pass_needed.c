/* The pass that finds, for each node, the groups of parameters whose gradients depend on it. In steps that train none
 * of them its call is left out.
 *
 * Nodes that the loss, the scores or running statistics depend on are always needed. */
#include "base/alloc.h"
#include "plan/passes.h"

static uint64_t needed_itself(const hd_plan *plan, int v) {
  const hd_value *value = &plan->graph->values[v];
  if (v == plan->graph->loss || v == plan->graph->logits || value->kind == HD_VALUE_STATISTIC)
    return HD_NEEDED_ALWAYS;
  if (value->kind == HD_VALUE_PARAM_GRAD && plan->params[value->param].trained)
    return 1ull << plan->params[value->param].group;
  return 0;
}

hd_status hd__pass_needed(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  HD_OWNED uint64_t *readers = hd__calloc((size_t)plan->graph->value_count, sizeof *readers);
  HD_TRY(HD_ALLOCATED(readers, ctx, "out of memory while planning"));
  for (int i = plan->graph->node_count - 1; i >= 0; i--) {
    const hd_node *node = &plan->graph->nodes[i];
    uint64_t needed = 0;
    for (int k = 0; k < HD_MAX_OUT; k++)
      if (node->out[k] >= 0)
        needed |= readers[node->out[k]] | needed_itself(plan, node->out[k]);
    for (int k = 0; k < HD_MAX_IN; k++)
      if (node->in[k] >= 0)
        readers[node->in[k]] |= needed;
    plan->nodes[i].needed = settings->omit & HD_OMIT_NEEDED ? HD_NEEDED_ALWAYS : needed;
  }
  return HD_OK;
}
