/* The pass that divides parameters into chunks and decides how the chunk's owner gets each gradient.
 *
 * A chunk is a run of whole rows of one parameter, about CHUNK_ELEMS elements: small, so that few parameters
 * still occupy many threads; owners work on neighbouring chunks at once. Chunks depend on shapes alone; a frozen
 * parameter has none. A gradient that has a form function (of linear layers, of wide convolutions with few pixels) is
 * deferred: it never exists as an array, the owner forms it from x and dy, shard after shard. The others are summed per
 * shard by the thread that runs the shard and passed to the owner as partial sums. */
#include "base/alloc.h"
#include "plan/passes.h"

enum { CHUNK_ELEMS = 2048, PAD_ELEMS = 16 };

static int64_t padded(int64_t elems) { return (elems + PAD_ELEMS - 1) / PAD_ELEMS * PAD_ELEMS; }

/* Gradient nodes follow the network, the last node's first: so a parameter's uses are in reverse order of the nodes. */
static void find_uses(hd_plan *plan, int p) {
  hd_plan_param *way = &plan->params[p];
  way->first_use = plan->update.use_count;
  for (int i = 0; i < plan->graph->node_count; i++)
    for (int k = 0; k < HD_MAX_OUT; k++) {
      int value = plan->graph->nodes[i].out[k];
      if (value < 0 || plan->graph->values[value].kind != HD_VALUE_PARAM_GRAD || plan->graph->values[value].param != p)
        continue;
      const hd_node *node = &plan->graph->nodes[i];
      hd_plan_use *use = &plan->update.uses[plan->update.use_count++];
      *use = (hd_plan_use){.node = i,
                           .stage = plan->nodes[i].stage,
                           .op = node->op,
                           .output = k,
                           .offset = way->offset,
                           .geom = &node->geom,
                           .x = plan->place[node->in[0]]};
      if (node->in[1] >= 0)
        use->dy = plan->place[node->in[1]];
      way->uses++;
    }
}

/* Sums over one shard: gradients, then statistics; those that are gathered also have a place for the whole sum. */
static int64_t place_sum(hd_plan *plan, int value) {
  const int64_t elems = hd__shape_elems(&plan->graph->values[value].shape), offset = plan->size.direct_elems;
  plan->place[value] =
      (hd_place){.where = HD_AT_DIRECT, .offset = offset, .gathered = plan->size.gathered_elems, .elems = elems};
  plan->size.direct_elems += padded(elems);
  if (plan->nodes[plan->graph->values[value].producer].gathered)
    plan->size.gathered_elems += padded(elems);
  return offset;
}

/* Either all gradients of a parameter are deferred or none, see hd__plan_defers(). */
static hd_status choose_way(hd_plan *plan, hd_ctx *ctx, int p) {
  hd_plan_param *way = &plan->params[p];
  int64_t elems = padded(hd__param_elems(&plan->graph->params[p]));
  find_uses(plan, p);
  if (way->uses == 0)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "the plan has no gradient for '%s', which is trained; nothing was trained: please report the model "
                    "as a bug of heddle",
                    way->name);
  way->deferred = hd__plan_defers(plan, &plan->graph->nodes[plan->update.uses[way->first_use].node]);
  for (int u = way->first_use; u < plan->update.use_count; u++) {
    hd_plan_use *use = &plan->update.uses[u];
    if (u > way->first_use) {
      use->offset = plan->size.grad_elems;
      plan->size.grad_elems += elems;
    }
    if (!way->deferred)
      use->direct = place_sum(plan, plan->graph->nodes[use->node].out[use->output]);
  }
  return HD_OK;
}

/* Statistics are summed per shard like gradients and placed after them, as are gradients of frozen parameters that
 * other nodes read. */
static void place_statistics(hd_plan *plan) {
  for (int v = 0; v < plan->graph->value_count; v++) {
    const hd_value *value = &plan->graph->values[v];
    bool idle = value->kind == HD_VALUE_PARAM_GRAD && value->producer >= 0 &&
                !hd__param_trains(&plan->graph->params[value->param]);
    if (value->kind == HD_VALUE_STATISTIC || idle)
      place_sum(plan, v);
  }
}

/* Parameters with gradients and states, in any stage of the run, come first. That depends on the graph alone:
 * evaluation finds weights where training put them. */
static void place_params(hd_plan *plan, bool trained) {
  for (int p = 0; p < plan->param_count; p++)
    if (hd__param_ever_trains(&plan->graph->params[p]) == trained) {
      plan->params[p].offset = plan->place[plan->graph->params[p].value].offset = plan->size.param_elems;
      plan->size.param_elems += padded(hd__param_elems(&plan->graph->params[p]));
    }
}

/* Relative cost of an element of a deferred gradient: forming multiplies for every sample, and its windows. */
static int64_t forming_weight(const hd_plan *plan, int p) {
  const hd_geom *g = plan->update.uses[plan->params[p].first_use].geom;
  return 3 + (int64_t)g->ho * g->wo;
}

/* Relative cost of a row, for each use; reducing adds for every partial sum. */
static int64_t row_weight(const hd_plan *plan, int p) {
  int64_t columns = hd__param_columns(&plan->graph->params[p]);
  return columns * (plan->params[p].deferred ? forming_weight(plan, p) : 1) *
             (plan->params[p].uses > 1 ? plan->params[p].uses : 1) +
         16;
}

static void cut(hd_plan *plan, int p) {
  hd_plan_param *way = &plan->params[p];
  const hd_param *param = &plan->graph->params[p];
  for (int32_t j = 0; j < param->rows; j += way->chunk_rows) {
    int32_t end = j + way->chunk_rows < param->rows ? j + way->chunk_rows : param->rows;
    plan->chunks[plan->chunk_count++] =
        (hd_chunk){.param = p, .j0 = j, .j1 = end, .weight = (end - j) * row_weight(plan, p)};
  }
}

hd_status hd__pass_chunks(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  int chunks = 0;
  HD_TRY(HD_NEW(plan->update.uses, plan->graph->node_count * HD_MAX_OUT, ctx, "out of memory while cutting chunks"));
  place_params(plan, true);
  plan->size.trained_elems = plan->size.grad_elems = plan->size.param_elems;
  place_params(plan, false);
  for (int p = 0; p < plan->param_count; p++) {
    const hd_param *param = &plan->graph->params[p];
    hd_plan_param *way = &plan->params[p];
    int64_t rows = CHUNK_ELEMS / hd__param_columns(param);
    way->chunk_rows = rows < 1 ? 1 : rows > param->rows ? param->rows : (int32_t)rows;
    way->first_chunk = chunks;
    way->chunks = param->frozen ? 0 : (param->rows + way->chunk_rows - 1) / way->chunk_rows;
    chunks += way->chunks;
    if (way->trained)
      HD_TRY(choose_way(plan, ctx, p));
  }
  if (plan->trains)
    place_statistics(plan);
  HD_TRY(HD_NEW(plan->chunks, chunks, ctx, "out of memory while cutting chunks"));
  for (int p = 0; p < plan->param_count; p++)
    if (plan->params[p].chunks > 0)
      cut(plan, p);
  return HD_OK;
}
