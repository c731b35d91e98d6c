/* Lowers a plan's step to kernel launches, one after the other on the compute stream. Values that change from step to
 * step are in the GPU's memory, so the launches are recorded once for each buffer of the store and replayed. */
#include <string.h>

#include "base/alloc.h"
#include "exec/gpu/gpu_executor_state.h"

_Static_assert((int)HD_CUDA_GROUPS == (int)HD_MAX_GROUPS, "a step has the scalars of all groups");

#include "kernel/cuda/cuda_partial_sums.h"

_Static_assert((int)HD_CUDA_MAX_SUMS >= (int)HD_MAX_SUBTREES, "a thread reduces any range of shards");

/* ---- Places ---- */

static void *resolve(const hd_exec_cuda *x, const hd_place *place, int buffer) {
  const int64_t batch = x->settings.batch, floats = sizeof(float);
  const hd_origin origin[HD_WHERES] = {[HD_AT_ARENA] = {x->arena, .scale = batch},
                                       [HD_AT_BATCH] = {x->batch_memory, .scale = batch},
                                       [HD_AT_LABELS] = {.base = x->inlet[buffer].target},
                                       [HD_AT_LOSSES] = {.base = x->losses},
                                       [HD_AT_PARAM] = {x->weights[buffer], .scale = floats},
                                       [HD_AT_CONST] = {x->constants, .scale = floats},
                                       [HD_AT_DIRECT] = {x->sums, .scale = floats},
                                       [HD_AT_GATHERED] = {x->gathered, .scale = floats}};
  return hd__place_at(place, origin);
}

const float *hd__exec_cuda_scores(const hd_exec_cuda *x) { return resolve(x, &x->plan->logits, 0); }

/* ---- Shards ---- */

static hd_status launch_call(const hd_exec_cuda *x, hd_ctx *ctx, const hd_plan_call *planned, int buffer) {
  hd_cuda_call call = {.g = *planned->geom,
                       .sums_stride = x->plan->direct_elems,
                       .step = x->inlet[buffer].step,
                       .node = planned->written};
  for (int i = 0; i < HD_MAX_IN; i++) {
    call.in[i] = resolve(x, &planned->in[i], buffer);
    call.in_stride[i] = planned->in[i].stride;
  }
  for (int i = 0; i < HD_MAX_OUT; i++) {
    call.out[i] = resolve(x, &planned->out[i], buffer);
    call.out_stride[i] = planned->out[i].stride;
  }
  hd__cuda_label(x->cuda, planned->node);
  const hd_status status =
      hd__exec_cuda_native_takes(x, planned)
          ? hd__exec_cuda_native_launch(x, ctx, planned, &call, buffer)
          : hd__exec_cuda_launch(x->cuda, ctx, planned->op, x->settings.batch, x->settings.shards, &call);
  hd__cuda_label(x->cuda, HD_CUDA_NO_LABEL);
  return status;
}

/* A library must not load code while a step is recorded, so it computes each of its calls once before, on zeros. Calls
 * that it refuses here are left to heddle's kernels. */
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

/* From a GPU's shards to its partial sums; from the partial sums of all GPUs, or the shards of a single GPU, to one
 * sum. */
typedef enum sums_way { TO_PARTIAL_SUMS, FROM_PARTIAL_SUMS, FROM_SHARDS } sums_way;

static float *offset_of(float *base, int64_t offset) { return base ? base + offset : NULL; }

/* The reduction of a call's output, at float `offset` of the exchange; for a statistic also of the next output. */
static hd_cuda_reduce sums_of(const hd_exec_cuda *x, const hd_plan_call *call, int o, int64_t offset, int64_t elems,
                              int buffer, sums_way way) {
  const hd_place *first = &call->out[o], *second = call->class == HD_CLASS_STATS ? first + 1 : NULL;
  const bool after_exchange = way == FROM_PARTIAL_SUMS, before_exchange = way == TO_PARTIAL_SUMS;
  return (hd_cuda_reduce){.sums = after_exchange ? offset_of(x->all_partial_sums, offset) : x->sums + first->offset,
                          .out = before_exchange ? offset_of(x->partial_sums, offset) : x->gathered + first->gathered,
                          .sums2 = !second          ? NULL
                                   : after_exchange ? offset_of(x->all_partial_sums, offset + first->elems)
                                                    : x->sums + second->offset,
                          .out2 = !second           ? NULL
                                  : before_exchange ? offset_of(x->partial_sums, offset + first->elems)
                                                    : x->gathered + second->gathered,
                          .sums_stride = after_exchange ? elems : x->plan->direct_elems,
                          .out_stride = elems,
                          .count = first->elems,
                          .pixels = (int64_t)call->geom->hi * call->geom->wi,
                          .step = before_exchange ? x->inlet[buffer].step : x->inlet[buffer].whole};
}

/* Launches the reductions of a call's sums over shards. */
static hd_status launch_sums_of(const hd_exec_cuda *x, hd_ctx *ctx, const hd_plan_call *call, int64_t *offset,
                                int64_t elems, int buffer, sums_way way) {
  const bool stats = call->class == HD_CLASS_STATS, before_exchange = way == TO_PARTIAL_SUMS;
  const int kernel = stats             ? (before_exchange ? HD_CUDA_partial_stats : HD_CUDA_reduce_stats)
                     : before_exchange ? HD_CUDA_partial_sums
                                       : HD_CUDA_reduce;
  for (int o = 0; o < (stats ? 1 : HD_MAX_OUT); o++) {
    if (call->out[o].where == HD_AT_NOWHERE)
      continue;
    const hd_cuda_reduce sums = sums_of(x, call, o, *offset, elems, buffer, way);
    HD_TRY(hd__cuda_launch(x->cuda, ctx, kernel, sums.count, 1, &sums));
    *offset += stats ? 2 * sums.count : sums.count;
  }
  return HD_OK;
}

/* Reduces the sums of a phase's calls that later phases read. */
static hd_status launch_sums(const hd_exec_cuda *x, hd_ctx *ctx, const hd_phase *phase, int buffer, sums_way way) {
  const hd_plan *plan = x->plan;
  const int64_t gradients = phase->gradients, elems = gradients + phase->gathered;
  int64_t offset = gradients;
  const hd_cuda_reduce sums = {.sums = x->sums,
                               .out = x->partial_sums,
                               .sums_stride = plan->direct_elems,
                               .out_stride = elems,
                               .count = gradients,
                               .as_one = x->share->nccl != NULL,
                               .step = x->inlet[buffer].step};
  if (way == TO_PARTIAL_SUMS && gradients > 0)
    HD_TRY(hd__cuda_launch(x->cuda, ctx, HD_CUDA_partial_sums, gradients, 1, &sums));
  for (int i = phase->call0; i < phase->call1; i++)
    if (plan->calls[i].gathered)
      HD_TRY(launch_sums_of(x, ctx, &plan->calls[i], &offset, elems, buffer, way));
  return HD_OK;
}

/* Ends the recording of a stretch, and begins the next one. */
static hd_status next_stretch(hd_exec_cuda *x, hd_ctx *ctx, int buffer) {
  HD_TRY(hd__cuda_recorded(&x->inlet[buffer].recorded[x->stretches++], x->cuda, ctx));
  return hd__cuda_record(x->cuda, ctx);
}

static hd_status lower_shards(hd_exec_cuda *x, hd_ctx *ctx, const hd_phase *phase, int buffer) {
  const hd_plan *plan = x->plan;
  for (int i = phase->call0; i < phase->call1; i++)
    HD_TRY(launch_call(x, ctx, &plan->calls[i], buffer));
  if (x->share->exchanges == 0)
    return launch_sums(x, ctx, phase, buffer, FROM_SHARDS);
  if (phase->gradients + phase->gathered == 0)
    return HD_OK;
  HD_TRY(launch_sums(x, ctx, phase, buffer, TO_PARTIAL_SUMS));
  HD_TRY(next_stretch(x, ctx, buffer));
  return launch_sums(x, ctx, phase, buffer, FROM_PARTIAL_SUMS);
}

/* ---- Chunks ---- */

static hd_status lower_running(const hd_exec_cuda *x, hd_ctx *ctx, int buffer) {
  const hd_plan *plan = x->plan;
  for (int p = 0; p < plan->param_count; p++) {
    const hd_plan_param *param = &plan->params[p];
    if (!param->is_running || param->chunks == 0)
      continue;
    const hd_cuda_running running = {.batch = x->gathered + param->running.batch,
                                     .old = x->weights[buffer] + param->offset,
                                     .now = x->weights[1 - buffer] + param->offset,
                                     .count = param->rows * param->columns,
                                     .pixels = param->running.pixels,
                                     .momentum = param->running.momentum,
                                     .unbias = param->running.unbias,
                                     .step = x->inlet[buffer].whole,
                                     .state = x->flags};
    HD_TRY(hd__cuda_launch(x->cuda, ctx, HD_CUDA_running, running.count, 1, &running));
  }
  return HD_OK;
}

static hd_cuda_chunks chunks_of(const hd_exec_cuda *x, int buffer) {
  const hd_plan *plan = x->plan;
  const bool several = x->share->exchanges > 0;
  return (hd_cuda_chunks){.chunk = x->chunk,
                          .use = x->use,
                          .chunks = plan->chunk_count,
                          .params = plan->param_count,
                          .sums = several ? x->all_partial_sums : x->sums,
                          .sums_stride = several ? x->share->elems[x->share->exchanges - 1] : plan->direct_elems,
                          .grad = x->grad,
                          .squares = x->squares,
                          .clip_norm = x->settings.clip_norm,
                          .w = x->weights[buffer],
                          .m = x->state[buffer][0],
                          .v = x->state[buffer][1],
                          .w1 = x->weights[1 - buffer],
                          .m1 = x->state[1 - buffer][0],
                          .v1 = x->state[1 - buffer][1],
                          .bad = x->bad,
                          .losses = x->all_losses,
                          .state = x->flags,
                          .result = x->results,
                          .step = x->inlet[buffer].whole};
}

/* Threads for each chunk: the elements of the largest. */
static int64_t largest_chunk(const hd_plan *plan) {
  int64_t most = 1;
  for (int c = 0; c < plan->chunk_count; c++) {
    const int64_t elems = (plan->chunks[c].j1 - plan->chunks[c].j0) * plan->params[plan->chunks[c].param].columns;
    most = elems > most ? elems : most;
  }
  return most;
}

/* A launch for each optimizer that a group has. */
static hd_status lower_updates(const hd_exec_cuda *x, hd_ctx *ctx, const hd_cuda_chunks *chunks) {
  const hd_plan_group *group = x->plan->groups;
  for (int g = 0; g < x->plan->group_count; g++) {
    int first = 0;
    while (group[first].update != group[g].update)
      first++;
    if (first == g)
      HD_TRY(hd__cuda_launch(x->cuda, ctx, (int)group[g].update, largest_chunk(x->plan), chunks->chunks, chunks));
  }
  return HD_OK;
}

static hd_status lower_phase(hd_exec_cuda *x, hd_ctx *ctx, const hd_phase *phase, int buffer) {
  const hd_cuda_chunks chunks = chunks_of(x, buffer);
  const int64_t elems = largest_chunk(x->plan);
  switch (phase->kind) {
  case HD_PHASE_SHARDS:
  case HD_PHASE_OUTPUTS: return lower_shards(x, ctx, phase, buffer);
  case HD_PHASE_REDUCE_NORM:
    HD_TRY(hd__cuda_launch(x->cuda, ctx, HD_CUDA_gradients, elems, chunks.chunks, &chunks));
    HD_TRY(hd__cuda_launch(x->cuda, ctx, HD_CUDA_squares, (int64_t)chunks.chunks * HD_CUDA_BLOCK, 1, &chunks));
    return hd__cuda_launch(x->cuda, ctx, HD_CUDA_clip, HD_CUDA_BLOCK, 1, &chunks);
  case HD_PHASE_REDUCE_UPDATE:
  case HD_PHASE_UPDATE: break;
  case HD_PHASE_MATRICES: return HD_OK; /* refused when the executor is created */
  }
  HD_TRY(lower_updates(x, ctx, &chunks));
  HD_TRY(lower_running(x, ctx, buffer));
  return hd__cuda_launch(x->cuda, ctx, HD_CUDA_close, HD_CUDA_BLOCK, 1, &chunks);
}

/* ---- Samples ---- */

static hd_status lower_gather(const hd_exec_cuda *x, hd_ctx *ctx, int buffer) {
  const hd_plan *plan = x->plan;
  const hd_resident *data = x->settings.resident;
  hd_cuda_gather gather = {.data = (const void *)(uintptr_t)x->data,
                           .labels = (const int32_t *)(uintptr_t)x->labels,
                           .sample = x->inlet[buffer].sample,
                           .x = resolve(x, &plan->input, buffer),
                           .label = resolve(x, &plan->label, buffer),
                           .x_stride = plan->input.stride,
                           .label_stride = plan->label.stride,
                           .elems = data->elems,
                           .plane = data->plane,
                           .bytes = data->bytes,
                           .step = x->inlet[buffer].step};
  memcpy(gather.scale, data->scale, sizeof gather.scale);
  memcpy(gather.shift, data->shift, sizeof gather.shift);
  return hd__cuda_launch(x->cuda, ctx, HD_CUDA_gather, data->elems, x->settings.batch, &gather);
}

/* Copies the inlet's samples to the plan's input. */
static hd_status lower_copy(const hd_exec_cuda *x, hd_ctx *ctx, int buffer) {
  const cu_pointer to = (cu_pointer)(uintptr_t)resolve(x, &x->plan->input, buffer);
  return hd__cuda_check(x->cuda, ctx,
                        x->cuda->driver.move(to, (cu_pointer)(uintptr_t)x->inlet[buffer].x,
                                             (size_t)hd__exec_cuda_x_bytes(x), x->cuda->compute),
                        "copying samples");
}

hd_status hd__exec_cuda_lower(hd_exec_cuda *x, hd_ctx *ctx, int buffer) {
  HD_TRY(x->data ? lower_gather(x, ctx, buffer) : lower_copy(x, ctx, buffer));
  for (int i = 0; i < x->plan->phase_count; i++)
    HD_TRY(lower_phase(x, ctx, &x->plan->phases[i], buffer));
  return HD_OK;
}

/* Evaluation uses buffer 0 alone. */
hd_status hd__exec_cuda_record(hd_exec_cuda *x, hd_ctx *ctx) {
  for (int buffer = 0; buffer < (x->plan->trains ? 2 : 1); buffer++) {
    x->stretches = 0;
    x->inlet[buffer].recorded = hd__calloc((size_t)x->share->exchanges + 1, sizeof *x->inlet[buffer].recorded);
    if (!x->inlet[buffer].recorded)
      return hd__fail(ctx, HD_E_NOMEM, "out of memory for a recorded step");
    HD_TRY(hd__cuda_record(x->cuda, ctx));
    const hd_status status = hd__exec_cuda_lower(x, ctx, buffer);
    hd_ctx quiet = {0};
    HD_TRY(hd__cuda_recorded(&x->inlet[buffer].recorded[x->stretches], x->cuda, status == HD_OK ? ctx : &quiet));
    HD_TRY(status);
  }
  return HD_OK;
}
