/* A plan's step as launches of kernels, one after the other on the compute stream. What changes from step to step stands
 * in the GPU's memory, so the launches are recorded once for each half of the store and replayed. */
#include <string.h>

#include "exec/exec_cuda_state.h"
#include "graph/op.h"

_Static_assert((int)HD_CUDA_GROUPS == (int)HD_MAX_GROUPS, "a step has the scalars of all groups");

#include "kernel/cuda/cuda_cover.h"

_Static_assert((int)HD_CUDA_COVERS >= (int)HD_MAX_COVER, "a thread folds any range of shards");

/* ---- Places ---- */

static void *resolve(const hd_exec_cuda *x, int value, int half, float *direct) {
  const hd_place *place = &x->plan->place[value];
  switch (place->where) {
  case HD_AT_ARENA: return x->arena + place->offset * x->settings.batch;
  case HD_AT_BATCH: return x->batch_memory + place->offset * x->settings.batch;
  case HD_AT_LABELS: return x->inlet[half].target;
  case HD_AT_LOSSES: return x->losses;
  case HD_AT_PARAM: return x->weights[half] + x->plan->params[place->offset].offset;
  case HD_AT_CONST: return x->constants + x->constant[place->offset];
  case HD_AT_DIRECT: return direct + place->offset;
  case HD_AT_NOWHERE: break;
  }
  return NULL;
}

void *hd__exec_cuda_rows(const hd_exec_cuda *x, int value) { return resolve(x, value, 0, NULL); }

/* ---- Shards ---- */

/* A statistic or sum of the batch is one array: it has no stride. */
static int64_t stride_of(const hd_exec_cuda *x, int value) {
  return x->plan->place[value].where == HD_AT_DIRECT ? 0 : x->plan->place[value].stride;
}

static hd_status launch_call(const hd_exec_cuda *x, hd_ctx *ctx, const hd_plan_call *planned, int half) {
  const hd_node *node = &x->plan->graph->nodes[planned->node];
  hd_cuda_call call = {.g = node->geom,
                       .sums_stride = x->plan->direct_elems,
                       .step = x->inlet[half].step,
                       .node = (uint32_t)node->written};
  for (int i = 0; i < HD_MAX_IN; i++)
    if (node->in[i] >= 0) {
      call.in[i] = resolve(x, node->in[i], half, x->gathered);
      call.in_stride[i] = stride_of(x, node->in[i]);
    }
  for (int i = 0; i < HD_MAX_OUT; i++)
    if (node->out[i] >= 0) {
      call.out[i] = resolve(x, node->out[i], half, x->sums);
      call.out_stride[i] = stride_of(x, node->out[i]);
    }
  hd__cuda_label(x->cuda, planned->node);
  const hd_status status =
      hd__exec_cuda_native_takes(x, planned)
          ? hd__exec_cuda_native_launch(x, ctx, planned, &call, half)
          : hd__exec_cuda_launch(x->cuda, ctx, planned->op, x->settings.batch, x->settings.shards, &call);
  hd__cuda_label(x->cuda, HD_CUDA_NO_LABEL);
  return status;
}

/* While a step is recorded a library must not load code any more: it computes each of its calls once before, of zeros. What
 * it refuses only then, the own kernels compute, too. */
hd_status hd__exec_cuda_warm_up(hd_exec_cuda *x, hd_ctx *ctx) {
  for (int i = 0; i < x->plan->call_count; i++) {
    hd_ctx why = {0};
    if (!hd__exec_cuda_native_takes(x, &x->plan->calls[i]))
      continue;
    const hd_status status = launch_call(x, &why, &x->plan->calls[i], 0);
    x->native.taken[i] = status == HD_OK;
    if (status != HD_OK && status != HD_E_UNSUPPORTED)
      return hd__fail(ctx, status, "%s", why.message);
  }
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.stream_wait(x->cuda->compute), "starting the libraries");
}

/* ---- Sums ---- */

/* From a GPU's shards to its covers; from all GPUs' covers, or from the shards of one alone, to one sum. */
typedef enum sums_way { TO_COVERS, FROM_COVERS, FROM_SHARDS } sums_way;

static float *crossing_at(float *base, int64_t offset) { return base ? base + offset : NULL; }

/* Of a node's output, which lies `offset` floats into what crosses; of a statistic also the next one's. */
static hd_cuda_meet meet_of(const hd_exec_cuda *x, const hd_node *node, int o, int64_t offset, int64_t elems, int half,
                            sums_way way) {
  const int second = hd__op_info(node->op)->class == HD_CLASS_STATS ? node->out[o + 1] : -1;
  const int64_t count = hd__shape_elems(&x->plan->graph->values[node->out[o]].shape);
  const bool crosses = way == FROM_COVERS, covers = way == TO_COVERS;
  return (hd_cuda_meet){.sums = crosses ? crossing_at(x->covers, offset) : resolve(x, node->out[o], half, x->sums),
                        .out = covers ? crossing_at(x->own, offset) : resolve(x, node->out[o], half, x->gathered),
                        .sums2 = second < 0 ? NULL
                                 : crosses  ? crossing_at(x->covers, offset + count)
                                            : resolve(x, second, half, x->sums),
                        .out2 = second < 0 ? NULL
                                : covers   ? crossing_at(x->own, offset + count)
                                           : resolve(x, second, half, x->gathered),
                        .sums_stride = crosses ? elems : x->plan->direct_elems,
                        .out_stride = elems,
                        .count = count,
                        .pixels = (int64_t)node->geom.hi * node->geom.wi,
                        .step = covers ? x->inlet[half].step : x->inlet[half].whole};
}

/* What a node's calls summed over shards. */
static hd_status launch_sums_of(const hd_exec_cuda *x, hd_ctx *ctx, const hd_node *node, int64_t *offset, int64_t elems,
                                int half, sums_way way) {
  const bool stats = hd__op_info(node->op)->class == HD_CLASS_STATS, covers = way == TO_COVERS;
  const int kernel = stats    ? (covers ? HD_CUDA_cover_stats : HD_CUDA_meet_stats)
                     : covers ? HD_CUDA_cover
                              : HD_CUDA_meet;
  for (int o = 0; o < (stats ? 1 : HD_MAX_OUT); o++) {
    if (node->out[o] < 0)
      continue;
    const hd_cuda_meet meet = meet_of(x, node, o, *offset, elems, half, way);
    HD_TRY(hd__cuda_launch(x->cuda, ctx, kernel, meet.count, 1, &meet));
    *offset += stats ? 2 * meet.count : meet.count;
  }
  return HD_OK;
}

/* Gradients come first in what crosses. */
static int64_t crossing_gradients(const hd_exec_cuda *x, const hd_phase *phase) {
  return phase == x->plan->phases + x->plan->segments - 1 ? x->plan->grad_elems : 0;
}

int64_t hd__exec_cuda_crossing(const hd_exec_cuda *x, const hd_phase *phase) {
  const hd_plan *plan = x->plan;
  int64_t elems = crossing_gradients(x, phase);
  if (phase->kind != HD_PHASE_SHARDS && phase->kind != HD_PHASE_OUTPUTS)
    return 0;
  for (int i = phase->call0; i < phase->call1; i++) {
    const hd_node *node = &plan->graph->nodes[plan->calls[i].node];
    for (int o = 0; o < HD_MAX_OUT && plan->gathered[plan->calls[i].node]; o++)
      elems += node->out[o] < 0 ? 0 : hd__shape_elems(&plan->graph->values[node->out[o]].shape);
  }
  return elems;
}

/* Sums that the calls of a phase leave become one, where later phases read them. */
static hd_status launch_sums(const hd_exec_cuda *x, hd_ctx *ctx, const hd_phase *phase, int half, sums_way way) {
  const hd_plan *plan = x->plan;
  const int64_t elems = hd__exec_cuda_crossing(x, phase), gradients = crossing_gradients(x, phase);
  int64_t offset = gradients;
  const hd_cuda_meet cover = {.sums = x->sums,
                              .out = x->own,
                              .sums_stride = plan->direct_elems,
                              .out_stride = elems,
                              .count = gradients,
                              .as_one = x->share->nccl != NULL,
                              .step = x->inlet[half].step};
  if (way == TO_COVERS && gradients > 0)
    HD_TRY(hd__cuda_launch(x->cuda, ctx, HD_CUDA_cover, gradients, 1, &cover));
  for (int i = phase->call0; i < phase->call1; i++)
    if (plan->gathered[plan->calls[i].node])
      HD_TRY(launch_sums_of(x, ctx, &plan->graph->nodes[plan->calls[i].node], &offset, elems, half, way));
  return HD_OK;
}

static hd_status lower_shards(hd_exec_cuda *x, hd_ctx *ctx, const hd_phase *phase, int half) {
  const hd_plan *plan = x->plan;
  for (int i = phase->call0; i < phase->call1; i++)
    HD_TRY(launch_call(x, ctx, &plan->calls[i], half));
  if (x->share->crossings == 0)
    return launch_sums(x, ctx, phase, half, FROM_SHARDS);
  if (hd__exec_cuda_crossing(x, phase) == 0)
    return HD_OK;
  HD_TRY(launch_sums(x, ctx, phase, half, TO_COVERS));
  HD_TRY(hd__exec_cuda_cut(x, ctx, half));
  return launch_sums(x, ctx, phase, half, FROM_COVERS);
}

/* ---- Chunks ---- */

static hd_status lower_running(const hd_exec_cuda *x, hd_ctx *ctx, int half) {
  const hd_plan *plan = x->plan;
  for (int p = 0; p < plan->param_count; p++) {
    const hd_param *param = &plan->graph->params[p];
    if (!param->running || plan->params[p].chunks == 0)
      continue;
    const hd_node *stats = &plan->graph->nodes[plan->graph->values[param->statistic].producer];
    const hd_cuda_running running = {.batch = resolve(x, param->statistic, half, x->gathered),
                                     .old = x->weights[half] + plan->params[p].offset,
                                     .now = x->weights[1 - half] + plan->params[p].offset,
                                     .count = hd__param_elems(param),
                                     .pixels = (int64_t)stats->geom.hi * stats->geom.wi,
                                     .momentum = param->momentum,
                                     .unbias = param->statistic == stats->out[1],
                                     .step = x->inlet[half].whole,
                                     .state = x->flags};
    HD_TRY(hd__cuda_launch(x->cuda, ctx, HD_CUDA_running, running.count, 1, &running));
  }
  return HD_OK;
}

static hd_cuda_chunks chunks_of(const hd_exec_cuda *x, int half) {
  const hd_plan *plan = x->plan;
  const bool several = x->share->crossings > 0;
  return (hd_cuda_chunks){.chunk = x->chunk,
                          .use = x->use,
                          .chunks = plan->chunk_count,
                          .params = plan->param_count,
                          .sums = several ? x->covers : x->sums,
                          .sums_stride = several ? x->share->elems[x->share->crossings - 1] : plan->direct_elems,
                          .grad = x->grad,
                          .squares = x->squares,
                          .clip_norm = x->settings.clip_norm,
                          .w = x->weights[half],
                          .m = x->state[half][0],
                          .v = x->state[half][1],
                          .w1 = x->weights[1 - half],
                          .m1 = x->state[1 - half][0],
                          .v1 = x->state[1 - half][1],
                          .bad = x->bad,
                          .losses = x->all_losses,
                          .state = x->flags,
                          .result = x->results,
                          .step = x->inlet[half].whole};
}

/* Threads for each chunk: an element each of the largest. */
static int64_t largest_chunk(const hd_plan *plan) {
  int64_t most = 1;
  for (int c = 0; c < plan->chunk_count; c++) {
    const hd_param *param = &plan->graph->params[plan->chunks[c].param];
    const int64_t elems = (plan->chunks[c].j1 - plan->chunks[c].j0) * hd__param_columns(param);
    most = elems > most ? elems : most;
  }
  return most;
}

static hd_status lower_phase(hd_exec_cuda *x, hd_ctx *ctx, const hd_phase *phase, int half) {
  const hd_cuda_chunks chunks = chunks_of(x, half);
  const int64_t elems = largest_chunk(x->plan);
  switch (phase->kind) {
  case HD_PHASE_SHARDS:
  case HD_PHASE_OUTPUTS: return lower_shards(x, ctx, phase, half);
  case HD_PHASE_FOLD_NORM:
    HD_TRY(hd__cuda_launch(x->cuda, ctx, HD_CUDA_fold, elems, chunks.chunks, &chunks));
    HD_TRY(hd__cuda_launch(x->cuda, ctx, HD_CUDA_squares, (int64_t)chunks.chunks * HD_CUDA_BLOCK, 1, &chunks));
    return hd__cuda_launch(x->cuda, ctx, HD_CUDA_clip, HD_CUDA_BLOCK, 1, &chunks);
  case HD_PHASE_FOLD_UPDATE:
  case HD_PHASE_UPDATE: break;
  }
  HD_TRY(hd__cuda_launch(x->cuda, ctx, (int)x->settings.update, elems, chunks.chunks, &chunks));
  HD_TRY(lower_running(x, ctx, half));
  return hd__cuda_launch(x->cuda, ctx, HD_CUDA_close, HD_CUDA_BLOCK, 1, &chunks);
}

/* ---- Samples ---- */

static hd_status lower_gather(const hd_exec_cuda *x, hd_ctx *ctx, int half) {
  const hd_plan *plan = x->plan;
  const hd_resident *data = x->settings.resident;
  hd_cuda_gather gather = {.data = (const void *)(uintptr_t)x->data,
                           .labels = (const int32_t *)(uintptr_t)x->labels,
                           .sample = x->inlet[half].sample,
                           .x = resolve(x, plan->graph->input, half, NULL),
                           .label = resolve(x, plan->graph->label, half, NULL),
                           .x_stride = plan->place[plan->graph->input].stride,
                           .label_stride = plan->place[plan->graph->label].stride,
                           .elems = data->elems,
                           .plane = data->plane,
                           .bytes = data->bytes,
                           .step = x->inlet[half].step};
  memcpy(gather.scale, data->scale, sizeof gather.scale);
  memcpy(gather.shift, data->shift, sizeof gather.shift);
  return hd__cuda_launch(x->cuda, ctx, HD_CUDA_gather, data->elems, x->settings.batch, &gather);
}

/* From the inlet to where the plan has its input. */
static hd_status lower_copy(const hd_exec_cuda *x, hd_ctx *ctx, int half) {
  const cu_pointer to = (cu_pointer)(uintptr_t)resolve(x, x->plan->graph->input, half, NULL);
  return hd__cuda_check(x->cuda, ctx,
                        x->cuda->driver.move(to, (cu_pointer)(uintptr_t)x->inlet[half].x,
                                             (size_t)hd__exec_cuda_x_bytes(x), x->cuda->compute),
                        "copying samples");
}

hd_status hd__exec_cuda_lower(hd_exec_cuda *x, hd_ctx *ctx, int half) {
  HD_TRY(x->data ? lower_gather(x, ctx, half) : lower_copy(x, ctx, half));
  for (int i = 0; i < x->plan->phase_count; i++)
    HD_TRY(lower_phase(x, ctx, &x->plan->phases[i], half));
  return HD_OK;
}
