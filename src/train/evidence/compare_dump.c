/* Comparing a run with another program's results: see compare_dump.h. */
#include "train/evidence/compare_dump.h"

#include <math.h>
#include <string.h>

#include "base/safetensors.h"
#include "train/evidence/replay.h"

typedef struct comparison {
  hd_bisection *out;
  const hd_recorder *recorder;
  const hd_st_list *dump;
  double tolerance;
  int64_t compared; /* elements */
  bool differs;
} comparison;

/* The dump's tensor of a result, NULL: it has none, or a number of no sample. */
static const hd_st_tensor *tensor_of(const comparison *c, const hd_result *r) {
  const hd_graph *graph = c->recorder->plan->graph;
  const bool forward = r->kind == HD_RESULT_OUTPUT && !r->shared && !hd__graph_is_gradient(graph, r->node);
  char name[256];
  if ((!forward && r->kind != HD_RESULT_GRADIENT && r->kind != HD_RESULT_WEIGHT) ||
      !hd__result_is_float(c->recorder, r))
    return NULL;
  snprintf(name, sizeof name, "%lld/%s%s", (long long)c->out->step,
           forward ? graph->values[r->of].name : c->recorder->plan->params[r->of].name,
           r->kind == HD_RESULT_GRADIENT ? ".grad" : "");
  const hd_st_tensor *t = hd__st_find(c->dump, name);
  return t && t->type == HD_ST_F32 && t->shape.rank > 0 ? t : NULL;
}

static float element_of(const hd_st_tensor *t, int64_t at) {
  float value = NAN;
  if (at >= 0 && (size_t)at < t->length / sizeof value)
    memcpy(&value, (const char *)t->bytes + at * (int64_t)sizeof value, sizeof value);
  return value;
}

static double largest_of(const hd_st_tensor *t) {
  double largest = 0;
  for (int64_t i = 0; (size_t)i < t->length / sizeof(float); i++)
    largest = fmax(largest, fabs((double)element_of(t, i)));
  return largest;
}

static void on_result(void *user, const hd_result *r, int64_t place, const void *at, int64_t stride_bytes) {
  comparison *c = user;
  const hd_st_tensor *t = c->differs ? NULL : tensor_of(c, r);
  const double largest = t ? largest_of(t) : 0;
  const int64_t elems = t ? r->rows * r->elems : 0,
                row = r->shared || !t ? 0 : hd__shape_elems(&t->shape) / t->shape.dim[0];
  for (int64_t i = 0; i < elems && !c->differs; i++) {
    const float *mine = (const float *)(const void *)((const char *)at + i / r->elems * stride_bytes) + i % r->elems;
    const float other =
        element_of(t, (r->shared ? 0 : r->sample + i / r->elems) * row + hd__result_file_place(c->recorder, r, i));
    c->compared++;
    if (fabs((double)*mine - (double)other) <= c->tolerance * largest)
      continue;
    c->differs = true;
    c->out->result = place;
    c->out->value[0] = (double)*mine;
    c->out->value[1] = (double)other;
    hd__result_name(c->out->what, sizeof c->out->what, c->recorder, r);
    hd__result_index(c->out->index, sizeof c->out->index, c->recorder, r, i);
  }
}

/* A loss differs, but no result does: the dump's results are not those from which the loss was computed. */
static void compare_loss(comparison *c, const hd_st_tensor *losses, double mine) {
  double other;
  memcpy(&other, (const char *)losses->bytes + (c->out->step - 1) * (int64_t)sizeof other, sizeof other);
  if (fabs(mine - other) <= c->tolerance * fabs(other))
    return;
  if (c->out->loss_step == 0)
    c->out->loss_step = c->out->step;
  if (c->differs)
    return;
  c->differs = true;
  c->out->value[0] = mine;
  c->out->value[1] = other;
  snprintf(c->out->what, sizeof c->out->what, "loss of the batch");
  snprintf(c->out->index, sizeof c->out->index, "[]");
}

static hd_status compare(comparison *c, hd_ctx *ctx, hd_replay *replay, const hd_bisect_request *request) {
  const hd_st_tensor *losses = hd__st_find(c->dump, "losses");
  if (!losses || losses->type != HD_ST_F64)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected a tensor 'losses' of F64, found none; make it by torch_dump.py",
                    request->b);
  const int64_t steps = (int64_t)(losses->length / sizeof(double));
  c->recorder = &replay->recorder;
  replay->recorder.on_result = on_result;
  replay->recorder.user = c;
  while (!c->differs && replay->step < steps) {
    c->out->step = replay->step + 1;
    HD_TRY(hd__replay_step(replay, ctx));
    compare_loss(c, losses, replay->loss_sum);
    if (request->progress && request->progress(request->user, replay->step, steps))
      return hd__fail(ctx, HD_E_INTERRUPTED, "stopped before the first difference was found");
  }
  c->out->verdict = c->differs ? HD_RUNS_DIFFER : HD_RUNS_EQUAL;
  snprintf(c->out->why, sizeof c->out->why, "%lld steps and %lld elements are equal within %g of the largest",
           (long long)replay->step, (long long)c->compared, c->tolerance);
  return HD_OK;
}

hd_status hd__compare_dump(hd_bisection *out, hd_ctx *ctx, const hd_config *layout, const hd_bisect_request *request) {
  HD_MAPPED file = {0};
  HD_ST_OWNED list = {0};
  HD_CONFIG_OWNED *config = NULL;
  json_auto_t *record = NULL;
  comparison c = {.out = out, .dump = &list, .tolerance = request->tolerance > 0 ? request->tolerance : 1e-3};
  hd_replay replay = {0};
  HD_TRY(hd__file_map(&file, ctx, request->b));
  HD_TRY(hd__st_parse(&list, ctx, request->b, file.bytes, file.length));
  HD_TRY(hd__checkpoint_record(&record, ctx, request->a));
  HD_TRY(hd__replay_configure(&config, ctx, layout, record, ""));
  out->replays = 1;
  out->ulps = -1;
  hd_status status = hd__replay_open(&replay, ctx, config);
  HD_THEN(status, compare(&c, ctx, &replay, request));
  hd__replay_close(&replay);
  return status;
}
