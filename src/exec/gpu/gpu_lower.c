/* Lowers a plan's step to kernel launches, one after the other on the compute stream, except the sum of the losses,
 * which runs beside the gradients. Values that change from step to step are in the GPU's memory, so the launches are
 * recorded once for each inlet and replayed. A launch costs more than most kernels of a small batch compute, so two
 * calls of the plan become one where a kernel can: a loss with its gradient, the gradient of a ReLU with that of the
 * layer behind it. */
#include <string.h>

#include "base/alloc.h"
#include "exec/gpu/gpu_executor_state.h"

_Static_assert((int)HD_CUDA_GROUPS == (int)HD_MAX_GROUPS, "a step has the scalars of all groups");

#include "kernel/cuda/cuda_partial_sums.h"

_Static_assert((int)HD_CUDA_MAX_SUMS >= (int)HD_MAX_SUBTREES, "a thread reduces any range of shards");

/* ---- Places ---- */

static void *resolve(const hd_exec_cuda *x, const hd_place *place, int inlet) {
  const int64_t batch = x->settings.batch, floats = sizeof(float);
  const hd_origin origin[HD_WHERES] = {[HD_AT_ARENA] = {x->arena, .scale = batch},
                                       [HD_AT_BATCH] = {x->batch_memory, .scale = batch},
                                       [HD_AT_LABELS] = {.base = x->inlet[inlet].gpu.target},
                                       [HD_AT_LOSSES] = {.base = x->losses},
                                       [HD_AT_PARAM] = {x->weights[inlet % 2], .scale = floats},
                                       [HD_AT_CONST] = {x->constants, .scale = floats},
                                       [HD_AT_DIRECT] = {x->sums, .scale = floats},
                                       [HD_AT_GATHERED] = {x->gathered, .scale = floats}};
  return hd__place_at(place, origin);
}

void *hd__exec_cuda_at(const hd_exec_cuda *x, const hd_place *place) { return resolve(x, place, 0); }

static bool is_same(const hd_place *a, const hd_place *b) {
  return a->where == b->where && a->offset == b->offset && a->stride == b->stride;
}

bool hd__exec_cuda_is_input(const hd_exec_cuda *x, const hd_place *place, int call) {
  return !x->data && call < x->input_calls && is_same(place, &x->plan->io.input);
}

int hd__exec_cuda_input_calls(const hd_plan *plan) {
  const hd_place *input = &plan->io.input;
  for (int i = 0; i < plan->call_count; i++)
    for (int o = 0; o < HD_MAX_OUT; o++) {
      const hd_place *out = &plan->calls[i].out[o];
      if (out->where == input->where && out->offset < input->offset + input->row_bytes &&
          input->offset < out->offset + out->row_bytes)
        return i + 1;
    }
  return plan->call_count + 1;
}

/* ---- Shards ---- */

static hd_cuda_call arguments_of(const hd_exec_cuda *x, const hd_plan_call *planned, int inlet) {
  const int number = (int)(planned - x->plan->calls);
  hd_cuda_call call = {.g = *planned->geom,
                       .sums_stride = x->plan->size.direct_elems,
                       .step = x->inlet[inlet].gpu.step,
                       .node = planned->written};
  for (int i = 0; i < HD_MAX_IN; i++) {
    const hd_place *in = &planned->in[i];
    const bool of_all = in->where == HD_AT_PARAM || in->where == HD_AT_CONST || in->where == HD_AT_GATHERED;
    call.in[i] = hd__exec_cuda_is_input(x, in, number) ? x->inlet[inlet].gpu.x : resolve(x, in, inlet);
    call.in_stride[i] = of_all ? 0 : in->stride; /* a sample reads what belongs to all where the first does */
  }
  for (int i = 0; i < HD_MAX_OUT; i++) {
    call.out[i] = resolve(x, &planned->out[i], inlet);
    call.out_stride[i] = planned->out[i].stride;
  }
  return call;
}

/* Adds the plan's next call to this one if one kernel computes both; whether it does. The operation of a loss's
 * gradient follows that of the loss. */
static bool absorb(hd_cuda_call *call, const hd_exec_cuda *x, const hd_plan_call *planned, int inlet) {
  const hd_plan_call *next = planned + 1;
  const bool gates = planned->op == HD_OP_linear_dx || planned->op == HD_OP_conv2d_dx;
  if (planned->out[0].where == HD_AT_LOSSES && next->op == planned->op + 1 &&
      hd__exec_cuda_has_blocks(x->cuda, planned->op, planned->geom, x->settings.batch, x->settings.shards)) {
    call->out[1] = resolve(x, &next->out[0], inlet);
    call->out_stride[1] = next->out[0].stride;
    return true;
  }
  if (!gates || next->op != HD_OP_relu_dx || !is_same(&next->in[0], &planned->out[0]) ||
      !is_same(&next->out[0], &planned->out[0]))
    return false;
  call->gate = resolve(x, &next->in[1], inlet);
  call->gate_stride = next->in[1].stride;
  return true;
}

/* *calls: the number of the plan's calls that are launched, at most `most`. */
static hd_status launch_call(int *calls, const hd_exec_cuda *x, hd_ctx *ctx, const hd_plan_call *planned, int most,
                             int inlet) {
  hd_cuda_call call = arguments_of(x, planned, inlet);
  const bool native = hd__exec_cuda_native_takes(x, planned);
  *calls = !native && most > 1 && absorb(&call, x, planned, inlet) ? 2 : 1;
  hd__cuda_label(x->cuda, planned->node);
  const hd_status status =
      native ? hd__exec_cuda_native_launch(x, ctx, planned, &call, inlet)
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
    int calls;
    const hd_status status = launch_call(&calls, x, &why, &x->plan->calls[i], 1, 0);
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

/* The sums of a phase: floats of a partial sum, the inlet. */
typedef struct phase_sums {
  int64_t elems;
  int inlet;
  sums_way way;
} phase_sums;

static float *offset_of(float *base, int64_t offset) { return base ? base + offset : NULL; }

/* The reduction of a call's output, at float `offset` of the exchange; for a statistic also of the next output. */
static hd_cuda_reduce sums_of(const hd_exec_cuda *x, const hd_plan_call *call, int o, int64_t offset,
                              const phase_sums *of) {
  const hd_place *first = &call->out[o], *second = call->class == HD_CLASS_STATS ? first + 1 : NULL;
  const bool after_exchange = of->way == FROM_PARTIAL_SUMS, before_exchange = of->way == TO_PARTIAL_SUMS;
  return (hd_cuda_reduce){.sums = after_exchange ? offset_of(x->all_partial_sums, offset) : x->sums + first->offset,
                          .out = before_exchange ? offset_of(x->partial_sums, offset) : x->gathered + first->gathered,
                          .sums2 = !second          ? NULL
                                   : after_exchange ? offset_of(x->all_partial_sums, offset + first->elems)
                                                    : x->sums + second->offset,
                          .out2 = !second           ? NULL
                                  : before_exchange ? offset_of(x->partial_sums, offset + first->elems)
                                                    : x->gathered + second->gathered,
                          .sums_stride = after_exchange ? of->elems : x->plan->size.direct_elems,
                          .out_stride = of->elems,
                          .count = first->elems,
                          .pixels = (int64_t)call->geom->hi * call->geom->wi,
                          .step = before_exchange ? x->inlet[of->inlet].gpu.step : x->inlet[of->inlet].gpu.whole};
}

/* Launches the reductions of a call's sums over shards. */
static hd_status launch_sums_of(const hd_exec_cuda *x, hd_ctx *ctx, const hd_plan_call *call, int64_t *offset,
                                const phase_sums *of) {
  const bool stats = call->class == HD_CLASS_STATS, before_exchange = of->way == TO_PARTIAL_SUMS;
  const int kernel = stats             ? (before_exchange ? HD_CUDA_partial_stats : HD_CUDA_reduce_stats)
                     : before_exchange ? HD_CUDA_partial_sums
                                       : HD_CUDA_reduce;
  for (int o = 0; o < (stats ? 1 : HD_MAX_OUT); o++) {
    if (call->out[o].where == HD_AT_NOWHERE)
      continue;
    const hd_cuda_reduce sums = sums_of(x, call, o, *offset, of);
    HD_TRY(hd__cuda_launch(x->cuda, ctx, kernel, sums.count, 1, &sums));
    *offset += stats ? 2 * sums.count : sums.count;
  }
  return HD_OK;
}

/* Reduces the sums of a phase's calls that later phases read. */
static hd_status launch_sums(const hd_exec_cuda *x, hd_ctx *ctx, const hd_phase *phase, int inlet, sums_way way) {
  const hd_plan *plan = x->plan;
  const int64_t gradients = phase->gradients, elems = gradients + phase->gathered;
  int64_t offset = gradients;
  const hd_cuda_reduce sums = {.sums = x->sums,
                               .out = x->partial_sums,
                               .sums_stride = plan->size.direct_elems,
                               .out_stride = elems,
                               .count = gradients,
                               .as_one = x->share->nccl != NULL,
                               .step = x->inlet[inlet].gpu.step};
  if (way == TO_PARTIAL_SUMS && gradients > 0)
    HD_TRY(hd__cuda_launch(x->cuda, ctx, HD_CUDA_partial_sums, gradients, 1, &sums));
  for (int i = phase->call0; i < phase->call1; i++)
    if (plan->calls[i].gathered)
      HD_TRY(launch_sums_of(x, ctx, &plan->calls[i], &offset, &(phase_sums){elems, inlet, way}));
  return HD_OK;
}

/* Ends the recording of a segment, and begins the next one. */
static hd_status next_segment(hd_exec_cuda *x, hd_ctx *ctx, int inlet) {
  HD_TRY(hd__cuda_recorded(&x->inlet[inlet].recorded[x->segments++], x->cuda, ctx));
  return hd__cuda_record(x->cuda, ctx);
}

/* ---- Chunks ---- */

static hd_status lower_running(const hd_exec_cuda *x, hd_ctx *ctx, int inlet) {
  const hd_plan *plan = x->plan;
  for (int p = 0; p < plan->param_count; p++) {
    const hd_plan_param *param = &plan->params[p];
    if (!param->is_running || param->chunks == 0)
      continue;
    const hd_cuda_running running = {.batch = x->gathered + param->running.batch,
                                     .old = x->weights[inlet % 2] + param->offset,
                                     .now = x->weights[1 - inlet % 2] + param->offset,
                                     .count = param->rows * param->columns,
                                     .pixels = param->running.pixels,
                                     .momentum = param->running.momentum,
                                     .unbias = param->running.unbias,
                                     .step = x->inlet[inlet].gpu.whole,
                                     .state = x->flags};
    HD_TRY(hd__cuda_launch(x->cuda, ctx, HD_CUDA_running, running.count, 1, &running));
  }
  return HD_OK;
}

static hd_cuda_chunks chunks_of(const hd_exec_cuda *x, int inlet) {
  const hd_plan *plan = x->plan;
  const bool several = x->share->exchanges > 0;
  hd_cuda_chunks chunks = {.chunk = x->chunk,
                           .use = x->use,
                           .chunks = plan->chunk_count,
                           .params = plan->param_count,
                           .sums = several ? x->all_partial_sums : x->sums,
                           .sums_stride = several ? x->share->elems[x->share->exchanges - 1] : plan->size.direct_elems,
                           .grad = x->grad,
                           .squares = x->squares,
                           .clip_norm = x->settings.clip_norm,
                           .w = x->weights[inlet % 2],
                           .w1 = x->weights[1 - inlet % 2],
                           .bad = x->bad,
                           .losses = x->all_losses,
                           .input = (const float *)(const void *)x->inlet[inlet].gpu.x,
                           .state = x->flags,
                           .result = x->results,
                           .step = x->inlet[inlet].gpu.whole};
  for (int i = 0; i < HD_MAX_STATES; i++) {
    chunks.s[i] = x->state[inlet % 2][i];
    chunks.s1[i] = x->state[1 - inlet % 2][i];
  }
  return chunks;
}

/* Threads for each chunk: a quarter of the elements of the largest, see op/update_gpu.h. */
static int64_t largest_chunk(const hd_plan *plan) {
  int64_t most = 1;
  for (int c = 0; c < plan->chunk_count; c++) {
    const int64_t elems = (plan->chunks[c].j1 - plan->chunks[c].j0) * plan->params[plan->chunks[c].param].columns;
    most = elems > most ? elems : most;
  }
  return (most + 3) / 4;
}

/* A launch for each optimizer that a group has. */
static hd_status lower_updates(const hd_exec_cuda *x, hd_ctx *ctx, const hd_cuda_chunks *chunks) {
  const hd_plan_group *group = x->plan->update.groups;
  for (int g = 0; g < x->plan->update.group_count; g++) {
    int first = 0;
    while (group[first].update != group[g].update)
      first++;
    if (first == g)
      HD_TRY(hd__cuda_launch(x->cuda, ctx, (int)group[g].update, largest_chunk(x->plan), chunks->chunks, chunks));
  }
  return HD_OK;
}

/* The losses of this GPU's samples are added beside the gradients, those of several GPUs once all are here. */
static hd_status settle_losses(const hd_exec_cuda *x, hd_ctx *ctx, const hd_cuda_chunks *chunks) {
  return x->share->exchanges == 0 ? hd__cuda_join(x->cuda, ctx)
                                  : hd__cuda_launch(x->cuda, ctx, HD_CUDA_losses, HD_CUDA_BLOCK, 1, chunks);
}

static hd_status lower_shards(hd_exec_cuda *x, hd_ctx *ctx, const hd_phase *phase, int inlet) {
  const hd_plan *plan = x->plan;
  const hd_cuda_chunks chunks = chunks_of(x, inlet);
  for (int i = phase->call0, calls; i < phase->call1; i += calls) {
    HD_TRY(launch_call(&calls, x, ctx, &plan->calls[i], phase->call1 - i, inlet));
    if (plan->trains && x->share->exchanges == 0 && plan->calls[i].out[0].where == HD_AT_LOSSES)
      HD_TRY(hd__cuda_launch_beside(x->cuda, ctx, HD_CUDA_losses, HD_CUDA_BLOCK, 1, &chunks));
  }
  if (x->share->exchanges == 0)
    return launch_sums(x, ctx, phase, inlet, FROM_SHARDS);
  if (phase->gradients + phase->gathered == 0)
    return HD_OK;
  HD_TRY(launch_sums(x, ctx, phase, inlet, TO_PARTIAL_SUMS));
  HD_TRY(next_segment(x, ctx, inlet));
  return launch_sums(x, ctx, phase, inlet, FROM_PARTIAL_SUMS);
}

static hd_status lower_phase(hd_exec_cuda *x, hd_ctx *ctx, const hd_phase *phase, int inlet) {
  const hd_cuda_chunks chunks = chunks_of(x, inlet);
  const int64_t elems = largest_chunk(x->plan);
  switch (phase->kind) {
  case HD_PHASE_SHARDS:
  case HD_PHASE_OUTPUTS: return lower_shards(x, ctx, phase, inlet);
  case HD_PHASE_WHOLE: return hd__fail(ctx, HD_E_UNSUPPORTED, "expected no loss of the program on a GPU, found one");
  case HD_PHASE_REDUCE_NORM:
    HD_TRY(settle_losses(x, ctx, &chunks));
    HD_TRY(hd__cuda_launch(x->cuda, ctx, HD_CUDA_gradients, elems, chunks.chunks, &chunks));
    HD_TRY(hd__cuda_launch(x->cuda, ctx, HD_CUDA_squares, (int64_t)chunks.chunks * HD_CUDA_BLOCK, 1, &chunks));
    return hd__cuda_launch(x->cuda, ctx, HD_CUDA_clip_norm, HD_CUDA_BLOCK, 1, &chunks);
  case HD_PHASE_REDUCE_UPDATE: HD_TRY(settle_losses(x, ctx, &chunks)); break;
  case HD_PHASE_UPDATE: break;
  case HD_PHASE_MATRICES: return HD_OK; /* refused when the executor is created */
  }
  HD_TRY(lower_updates(x, ctx, &chunks));
  return lower_running(x, ctx, inlet);
}

/* ---- Samples ---- */

static hd_status lower_gather(const hd_exec_cuda *x, hd_ctx *ctx, int inlet) {
  const hd_plan *plan = x->plan;
  const hd_sample_table *data = x->settings.samples;
  hd_cuda_gather gather = {.data = (const void *)(uintptr_t)x->data,
                           .labels = (const int32_t *)(uintptr_t)x->labels,
                           .sample = x->inlet[inlet].gpu.sample,
                           .x = resolve(x, &plan->io.input, inlet),
                           .label = resolve(x, &plan->io.label, inlet),
                           .x_stride = plan->io.input.stride,
                           .label_stride = plan->io.label.stride,
                           .elems = data->elems,
                           .plane = data->plane,
                           .channels = cuda_divisor((int32_t)(data->elems / data->plane)),
                           .bytes = data->bytes,
                           .step = x->inlet[inlet].gpu.step};
  memcpy(gather.scale, data->scale, sizeof gather.scale);
  memcpy(gather.shift, data->shift, sizeof gather.shift);
  return hd__cuda_launch(x->cuda, ctx, HD_CUDA_gather, data->elems, x->settings.batch, &gather);
}

hd_status hd__exec_cuda_lower(hd_exec_cuda *x, hd_ctx *ctx, int inlet) {
  if (x->data)
    HD_TRY(lower_gather(x, ctx, inlet));
  for (int i = 0; i < x->plan->phase_count; i++)
    HD_TRY(lower_phase(x, ctx, &x->plan->phases[i], inlet));
  return HD_OK;
}

hd_status hd__exec_cuda_record(hd_exec_cuda *x, hd_ctx *ctx) {
  for (int i = 0; i < x->inlets; i++) {
    x->segments = 0;
    x->inlet[i].recorded = hd__calloc((size_t)x->share->exchanges + 1, sizeof *x->inlet[i].recorded);
    HD_TRY(HD_ALLOCATED(x->inlet[i].recorded, ctx, "out of memory for a recorded step"));
    HD_TRY(hd__cuda_record(x->cuda, ctx));
    const hd_status status = hd__exec_cuda_lower(x, ctx, i);
    hd_ctx quiet = {0};
    const hd_status ended =
        hd__cuda_recorded(&x->inlet[i].recorded[x->segments], x->cuda, status == HD_OK ? ctx : &quiet);
    HD_TRY(status);
    HD_TRY(ended);
  }
  return HD_OK;
}
