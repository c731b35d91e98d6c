/* Recording what kernels compute: see recorder.h. */
#include "train/evidence/recorder.h"

#include <math.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "train/checkpoint/checkpoint.h"

static _Thread_local hd_recorder *here;

/* ---- Recording ---- */

/* The next float away from zero. */
static void plant(const void *at, int64_t stride_bytes, const hd_result *r) {
  char *memory = (char *)(size_t)at; /* of outputs, which kernels have written */
  const int64_t element = here->fault.element % (r->rows * r->elems);
  float *victim = (float *)(void *)(memory + element / r->elems * stride_bytes) + element % r->elems;
  *victim = nextafterf(*victim, signbit(*victim) ? -INFINITY : INFINITY);
  here->planted = *r;
}

static bool has_room(void) {
  if (here->count < here->room)
    return true;
  const int64_t room = 2 * here->room + 64;
  hd_result *more = hd__realloc(here->list, (size_t)room * sizeof *more);
  here->out_of_memory |= !more;
  if (more) {
    here->list = more;
    here->room = room;
  }
  return more != NULL;
}

/* Whether the fault is to be planted in this result: it is the requested one, or the next one of floats. */
static bool takes_fault(int64_t place, const hd_result *r) {
  return here->fault.step == here->step && here->fault.result <= place && here->planted.rows == 0 &&
         r->kind != HD_RESULT_INPUT && hd__result_is_float(here, r);
}

/* Adds a result, whose rows are stride_bytes apart. */
static void note(const void *at, int64_t stride_bytes, hd_result *r) {
  const size_t row_bytes = (size_t)(r->elems * r->elem_bytes);
  if (r->rows < 1 || r->elems < 1 || !has_room())
    return;
  const int64_t place = here->count++;
  if (takes_fault(place, r))
    plant(at, stride_bytes, r);
  for (int64_t i = 0; i < r->rows; i++)
    r->hash = r->hash * 0x9E3779B97F4A7C15u + hd__xxh3((const char *)at + i * stride_bytes, row_bytes);
  here->list[place] = *r;
  if (here->on_result)
    here->on_result(here->user, r, place, at, stride_bytes);
}

/* ---- Between the plan and its kernels ---- */

static const hd_plan_call *planned_call(int *index, const hd_geom *g) {
  for (*index = 0; here->plan->calls[*index].geom != g; (*index)++)
    ;
  return &here->plan->calls[*index];
}

static bool same_place(const hd_place *a, const hd_place *b) { return a->where == b->where && a->offset == b->offset; }

/* Rows of one of a call's places. */
typedef struct place_rows {
  const hd_place *place;
  const void *at;
  int64_t stride;
} place_rows;

/* A place that all samples share is one row. */
static void note_rows(const hd_call *call, const hd_plan_call *planned, hd_result_kind kind, int value,
                      place_rows rows) {
  const hd_place *place = rows.place;
  const bool shared = place->where >= HD_AT_PARAM || (kind == HD_RESULT_OUTPUT && planned->class == HD_CLASS_SHARD &&
                                                      !same_place(place, &planned->out[0]));
  const int bytes = hd__dtype_bytes(here->plan->graph->values[value].dtype);
  hd_result r = {.kind = kind,
                 .node = planned->node,
                 .of = value,
                 .shared = shared,
                 .elem_bytes = bytes,
                 .sample = (int64_t)call->draw.position - here->cursor,
                 .samples = call->rows,
                 .rows = shared ? 1 : call->rows,
                 .elems = place->elems};
  note(rows.at, rows.stride * bytes, &r);
}

static void note_inputs(const hd_call *call, const hd_plan_call *planned) {
  const hd_node *node = &here->plan->graph->nodes[planned->node];
  for (int i = 0; i < HD_MAX_IN; i++) {
    const hd_place *place = &planned->in[i];
    if (node->in[i] == here->plan->graph->input || place->where == HD_AT_LABELS)
      note_rows(call, planned, HD_RESULT_INPUT, node->in[i], (place_rows){place, call->in[i], call->in_stride[i]});
  }
}

static void run(const hd_call *call) {
  int index;
  const hd_plan_call *planned = planned_call(&index, call->g);
  const hd_node *node = &here->plan->graph->nodes[planned->node];
  note_inputs(call, planned);
  here->run[index](call);
  for (int i = 0; i < HD_MAX_OUT; i++)
    if (call->out[i])
      note_rows(call, planned, HD_RESULT_OUTPUT, node->out[i],
                (place_rows){&planned->out[i], call->out[i], call->out_stride[i]});
}

static void run_outputs(const hd_call *call, int32_t j0, int32_t j1) {
  int index;
  const hd_plan_call *planned = planned_call(&index, call->g);
  if (j0 == 0)
    note_inputs(call, planned);
  here->run_outputs[index](call, j0, j1);
  hd_result r = {.kind = HD_RESULT_OUTPUT,
                 .node = planned->node,
                 .of = here->plan->graph->nodes[planned->node].out[0],
                 .elem_bytes = sizeof(float),
                 .sample = (int64_t)call->draw.position - here->cursor,
                 .samples = call->rows,
                 .first = j0,
                 .rows = call->rows,
                 .elems = j1 - j0};
  note((float *)call->out[0] + j0, call->out_stride[0] * (int64_t)sizeof(float), &r);
}

static void note_param(hd_result_kind kind, int param, int state, const float *at, int64_t first, int64_t count) {
  hd_result r = {.kind = kind,
                 .node = -1,
                 .of = param,
                 .state = state,
                 .shared = 1,
                 .elem_bytes = sizeof *at,
                 .first = first,
                 .rows = 1,
                 .elems = count};
  note(at, 0, &r);
}

static int update(const hd_update *u) {
  const hd_plan *plan = here->plan;
  const float *const *weights = (const float *const *)here->store->weights;
  const bool in_second = u->w >= weights[1] && u->w < weights[1] + plan->size.param_elems;
  const int64_t at = u->w - weights[in_second];
  int param = 0;
  while (at < plan->params[param].offset ||
         at >= plan->params[param].offset + plan->params[param].rows * plan->params[param].columns)
    param++;
  const int64_t first = at - plan->params[param].offset;
  note_param(HD_RESULT_GRADIENT, param, 0, u->g, first, u->count);
  const int bad = here->inner_update[u->hyper->op](u);
  note_param(HD_RESULT_WEIGHT, param, 0, u->w1, first, u->count);
  for (int s = 0; s < HD_MAX_STATES; s++)
    if (u->s1[s])
      note_param(HD_RESULT_STATE, param, s, u->s1[s], first, u->count);
  return bad;
}

hd_status hd__recorder_init(hd_recorder *r, hd_ctx *ctx, hd_plan *plan, const hd_store *store) {
  *r = (hd_recorder){.plan = plan, .store = store};
  HD_TRY(HD_NEW(r->run, plan->call_count + 1, ctx, "out of memory for a record of a step"));
  HD_TRY(HD_NEW(r->run_outputs, plan->call_count + 1, ctx, "out of memory for a record of a step"));
  r->table = *plan->kernels;
  for (int op = 0; op < HD_OP_COUNT; op++) {
    r->inner_update[op] = r->table.update[op];
    r->table.update[op] = r->inner_update[op] ? update : NULL;
  }
  hd__plan_set_kernels(plan, &r->table);
  for (int i = 0; i < plan->call_count; i++) {
    r->run[i] = plan->calls[i].run;
    r->run_outputs[i] = plan->calls[i].run_outputs;
    plan->calls[i].run = run;
    plan->calls[i].merges = false; /* each shard's sums are recorded */
    plan->calls[i].run_outputs = r->run_outputs[i] ? run_outputs : NULL;
  }
  return HD_OK;
}

void hd__recorder_fini(hd_recorder *r) {
  hd__free(r->run);
  hd__free(r->run_outputs);
  hd__free(r->list);
  *r = (hd_recorder){0};
}

void hd__recorder_enter(hd_recorder *r) { here = r; }
void hd__recorder_leave(void) { here = NULL; }

void hd__recorder_step(hd_recorder *r, int64_t step, int64_t cursor) {
  r->step = step;
  r->cursor = cursor;
  r->count = 0;
}

/* ---- In words ---- */

bool hd__result_is_float(const hd_recorder *w, const hd_result *r) {
  return r->node < 0 || w->plan->graph->values[r->of].dtype == HD_F32;
}

/* "conv1 forward", "conv1 dw, conv1.bias.grad, samples 8 to 11". */
static void name_output(char *text, size_t bytes, const hd_graph *graph, const hd_result *r) {
  const hd_node *node = &graph->nodes[r->node];
  const bool first = r->of == node->out[0];
  const size_t at = (size_t)snprintf(text, bytes, "%s %s%s%s", node->name, hd__graph_direction(graph, r->node),
                                     first ? "" : ", ", first ? "" : graph->values[r->of].name);
  if (r->shared && at < bytes)
    snprintf(text + at, bytes - at, ", samples %lld to %lld", (long long)r->sample,
             (long long)(r->sample + r->samples - 1));
}

static hd_op update_of(const hd_recorder *w, int param) {
  return w->plan->update.groups[w->plan->params[param].group].update;
}

void hd__result_name(char *text, size_t bytes, const hd_recorder *w, const hd_result *r) {
  const hd_graph *graph = w->plan->graph;
  const char *param = w->plan->param_count > 0 && r->node < 0 ? w->plan->params[r->of].name : "";
  switch (r->kind) {
  case HD_RESULT_INPUT: snprintf(text, bytes, "%s", r->of == graph->input ? "samples" : "targets"); break;
  case HD_RESULT_OUTPUT: name_output(text, bytes, graph, r); break;
  case HD_RESULT_GRADIENT: snprintf(text, bytes, "%s, gradient", param); break;
  case HD_RESULT_WEIGHT: snprintf(text, bytes, "%s, update", param); break;
  case HD_RESULT_STATE:
    snprintf(text, bytes, "%s, %s", param, hd__tensors_state_suffix(update_of(w, r->of), r->state));
    break;
  }
}

/* The shape of a parameter or a value in file order, with channels slowest. */
int64_t hd__result_file_place(const hd_recorder *w, const hd_result *r, int64_t element) {
  const hd_graph *graph = w->plan->graph;
  const int param = r->node < 0 ? r->of : graph->values[r->of].param;
  const hd_value *value = &graph->values[r->of];
  const int64_t at = r->first + element % r->elems;
  if (param >= 0)
    return hd__param_file_index(&graph->params[param], at / hd__param_columns(&graph->params[param]),
                                at % hd__param_columns(&graph->params[param]));
  const hd_shape *image = value->shape.rank == 3 ? &value->shape : value->order.rank == 3 ? &value->order : NULL;
  if (!image)
    return at;
  return at % image->dim[0] * image->dim[1] * image->dim[2] + at / image->dim[0];
}

void hd__result_index(char *text, size_t bytes, const hd_recorder *w, const hd_result *r, int64_t element) {
  const hd_graph *graph = w->plan->graph;
  const int param = r->node < 0 ? r->of : graph->values[r->of].param;
  const hd_shape *shape = &graph->values[param >= 0 ? graph->params[param].value : r->of].shape;
  int64_t place = hd__result_file_place(w, r, element), index[HD_MAX_DIMS];
  for (int d = shape->rank - 1; d >= 0; d--) {
    index[d] = place % shape->dim[d];
    place /= shape->dim[d];
  }
  size_t at = (size_t)snprintf(text, bytes, "[");
  if (!r->shared)
    at += (size_t)snprintf(text + at, bytes - at, "%lld", (long long)(r->sample + element / r->elems));
  for (int d = 0; d < shape->rank && at < bytes; d++)
    at += (size_t)snprintf(text + at, bytes - at, "%s%lld", at > 1 ? ", " : "", (long long)index[d]);
  snprintf(text + at, at < bytes ? bytes - at : 0, "]");
}
