/* The executor's memory on a GPU: one block, divided once. It holds the whole batch at a time: an arena has a slot for
 * each sample, and gradients have a slot for each shard. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/gpu/gpu_executor_state.h"

enum { ALIGN_BYTES = 256, RESULT_BYTES = HD_CUDA_RESULTS * sizeof(hd_cuda_result) };
_Static_assert(RESULT_BYTES % ALIGN_BYTES == 0, "the results and the table of parameters are copied together");

/* Runs twice: first with base 0 to count, then to allocate. */
typedef struct bump {
  char *base;
  int64_t used;
  hd_cuda_bytes parts;
} bump;

static void *take(bump *b, hd_gpu_purpose purpose, int64_t bytes) {
  const int64_t whole = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
  void *at = b->base ? b->base + b->used : NULL;
  b->used += whole;
  b->parts.of[purpose] += bytes;
  return at;
}

static int64_t score_bytes(const hd_exec_cuda *x) { return x->settings.batch * x->plan->io.logits.row_bytes; }

static int64_t x_bytes(const hd_exec_cuda *x) { return x->data ? 0 : x->settings.batch * x->plan->io.input.row_bytes; }

/* What is copied for a step comes first. */
static void lay_out_inlet(hd_exec_cuda *x, cuda_samples *to, bump *b) {
  const int64_t step = (int64_t)sizeof *to->step, first = b->used;
  to->step = take(b, HD_GPU_TABLES, step);
  to->whole = x->share->exchanges > 0 ? take(b, HD_GPU_TABLES, step) : to->step;
  to->sample = take(b, HD_GPU_SAMPLES, x->data ? x->settings.batch * (int64_t)sizeof *to->sample : 0);
  if (x->data)
    x->inlet_bytes = b->used - first;
  to->target = take(b, HD_GPU_SAMPLES, x->settings.batch * x->plan->io.label.row_bytes);
  to->x = take(b, HD_GPU_SAMPLES, x_bytes(x));
  if (!x->data)
    x->inlet_bytes = b->used - first;
}

/* Enough for the host to be some steps ahead; two if their samples are large. */
static int inlets_of(const hd_exec_cuda *x, int most) {
  const int64_t most_bytes = 64 << 20;
  int inlets = x->plan->trains ? most : 1;
  while (inlets > 2 && inlets * x_bytes(x) > most_bytes)
    inlets /= 2;
  return inlets;
}

static int64_t bad_bytes(const hd_exec_cuda *x) { return x->plan->param_count * (int64_t)sizeof *x->bad; }

static void lay_out(hd_exec_cuda *x, bump *b) {
  const hd_plan *plan = x->plan;
  const int64_t batch = x->settings.batch, floats = (int64_t)sizeof(float);
  const cuda_share *share = x->share;
  const bool several = share->exchanges > 0;
  const int states = plan->trains ? x->store->directory->states : 0;
  for (int buffer = 0; buffer < 2; buffer++) {
    x->weights[buffer] = take(b, HD_GPU_WEIGHTS, plan->size.param_elems * floats);
    for (int s = 0; s < states; s++)
      x->state[buffer][s] = take(b, HD_GPU_OPTIMIZER, plan->size.trained_elems * floats);
  }
  for (int i = 0; i < x->inlets; i++)
    lay_out_inlet(x, &x->inlet[i].gpu, b);
  x->arena = take(b, HD_GPU_SAMPLES, plan->size.arena_bytes * batch);
  x->batch_memory = take(b, HD_GPU_SAMPLES, plan->size.batch_bytes * batch);
  x->losses = take(b, HD_GPU_SAMPLES, batch * floats);
  x->sums = take(b, HD_GPU_GRADIENTS, x->settings.shards * plan->size.direct_elems * floats);
  x->all_losses = several ? take(b, HD_GPU_SAMPLES, share->batch * floats) : x->losses;
  if (several) {
    x->partial_sums = take(b, HD_GPU_GRADIENTS, hd__cuda_share_gpu_elems(share, x->number) * floats);
    x->all_partial_sums = take(b, HD_GPU_GRADIENTS, hd__cuda_share_all_elems(share) * floats);
  }
  x->gathered = take(b, HD_GPU_GRADIENTS, plan->size.gathered_elems * floats);
  x->grad = x->settings.clip_norm > 0 ? take(b, HD_GPU_GRADIENTS, plan->size.trained_elems * floats) : NULL;
  for (int i = 0; i < 3; i++)
    x->native.bf16[i] = take(b, HD_GPU_LIBRARIES, x->native.bf16_bytes[i]);
  x->native.dense = take(b, HD_GPU_LIBRARIES, x->native.dense_bytes);
  x->native.workspace = take(b, HD_GPU_LIBRARIES, x->native.workspace_bytes);
  x->squares = take(b, HD_GPU_TABLES, plan->chunk_count * (int64_t)sizeof(double));
  x->constants = take(b, HD_GPU_TABLES, plan->size.const_elems * floats);
  x->chunk = take(b, HD_GPU_TABLES, plan->chunk_count * (int64_t)sizeof *x->chunk);
  x->use = take(b, HD_GPU_TABLES, plan->update.use_count * (int64_t)sizeof *x->use);
  x->flags = take(b, HD_GPU_TABLES, (int64_t)sizeof *x->flags);
  x->results = take(b, HD_GPU_TABLES, RESULT_BYTES);
  x->bad = take(b, HD_GPU_TABLES, bad_bytes(x));
}

static void lay_out_host(hd_exec_cuda *x, bump *b) {
  for (int i = 0; i < x->inlets; i++)
    lay_out_inlet(x, &x->inlet[i].host, b);
  x->host_results = take(b, HD_GPU_TABLES, RESULT_BYTES);
  x->host_bad = take(b, HD_GPU_TABLES, bad_bytes(x));
  x->host_scores = take(b, HD_GPU_TABLES, x->plan->trains ? 0 : score_bytes(x));
  x->host_losses = take(b, HD_GPU_TABLES, x->settings.batch * (int64_t)sizeof(float));
}

hd_status hd__exec_cuda_queue_results(const hd_exec_cuda *x, hd_ctx *ctx) {
  hd__cuda_use(x->cuda);
  return hd__exec_cuda_download(x, ctx, x->host_results, x->results, RESULT_BYTES + bad_bytes(x));
}

int32_t hd__exec_cuda_bad_param(const hd_exec_cuda *x, int at) {
  for (int32_t p = 0; p < x->plan->param_count; p++)
    if (x->host_bad[p] == at + 1)
      return p;
  return -1;
}

bool hd__exec_cuda_is_whole(const hd_exec_cuda *x, int at) {
  return !x->host_results[at].failed && hd__exec_cuda_bad_param(x, at) < 0;
}

/* Fails with a remedy: the largest batch that fits into three quarters of the free memory; a quarter is for evaluation.
 */
static hd_status too_little(const hd_exec_cuda *x, hd_ctx *ctx, int64_t bytes) {
  const double mib = 1 << 20;
  const int64_t samples = x->parts.of[HD_GPU_SAMPLES], available = hd__cuda_free_bytes(x->cuda);
  const int64_t each = samples / x->settings.batch + 1, here = (available * 3 / 4 - (bytes - samples)) / each;
  const int64_t whole = x->plan->trains ? x->share->batch : x->settings.batch;
  const int64_t fitting = here * whole / x->settings.batch; /* over all GPUs */
  char remedy[96] = "use a smaller model, or --device cpu", parts[HD_CUDA_BYTES_TEXT];
  int64_t batch = 1;
  while (2 * batch <= fitting && 2 * batch < whole)
    batch *= 2;
  if (fitting >= 1 && batch < whole)
    snprintf(remedy, sizeof remedy, "a batch of %lld would fit: use --batch %lld", (long long)batch, (long long)batch);
  return hd__fail(ctx, HD_E_NOMEM,
                  "GPU %d (%s) is out of memory: expected %.1f MiB free for a batch of %lld (%s), found %.1f of %.1f "
                  "MiB; %s",
                  x->cuda->index, x->cuda->name, (double)bytes / mib, (long long)whole,
                  hd__cuda_bytes_text(parts, &x->parts), (double)available / mib, (double)x->cuda->memory_bytes / mib,
                  remedy);
}

/* ---- Tables ---- */

static hd_status upload(const hd_exec_cuda *x, hd_ctx *ctx, void *to, const void *from, int64_t bytes) {
  HD_TRY(hd__exec_cuda_upload(x, ctx, to, from, bytes));
  return hd__exec_cuda_wait(x, ctx);
}

static hd_cuda_use use_of(const hd_exec_cuda *x, const hd_plan_use *use) {
  if (!use->form)
    return (hd_cuda_use){.at = use->direct, .is_sum = hd__exec_cuda_is_sum(x, use)};
  return (hd_cuda_use){.op = (int32_t)use->op,
                       .output = use->output,
                       .shift = use->geom->shifted_linear.shift,
                       .x = hd__exec_cuda_is_input(x, &use->x, x->plan->call_count) ? NULL
                                                                                    : hd__exec_cuda_at(x, &use->x),
                       .dy = hd__exec_cuda_at(x, &use->dy),
                       .x_stride = use->x.stride,
                       .dy_stride = use->dy.stride};
}

static hd_status upload_chunks(hd_exec_cuda *x, hd_ctx *ctx) {
  const hd_plan *plan = x->plan;
  hd_cuda_chunk *chunk = hd__calloc((size_t)plan->chunk_count + 1, sizeof *chunk);
  hd_cuda_use *use = hd__calloc((size_t)plan->update.use_count + 1, sizeof *use);
  hd_status status = HD_OK;
  if (!chunk || !use)
    status = hd__fail(ctx, HD_E_NOMEM, "out of memory for the GPU's chunks");
  for (int c = 0; status == HD_OK && c < plan->chunk_count; c++) {
    const hd_chunk *from = &plan->chunks[c];
    const hd_plan_param *way = &plan->params[from->param];
    chunk[c] = (hd_cuda_chunk){.row = from->j0,
                               .columns = cuda_divisor((int32_t)way->columns),
                               .first = way->offset + from->j0 * way->columns,
                               .inside = from->j0 * way->columns,
                               .count = way->is_running ? 0 : (int32_t)((from->j1 - from->j0) * way->columns),
                               .param = from->param,
                               .group = way->group,
                               .first_use = way->first_use,
                               .uses = way->uses};
  }
  for (int u = 0; status == HD_OK && u < plan->update.use_count; u++)
    use[u] = use_of(x, &plan->update.uses[u]);
  HD_THEN(status, upload(x, ctx, x->chunk, chunk, plan->chunk_count * (int64_t)sizeof *chunk));
  HD_THEN(status, upload(x, ctx, x->use, use, plan->update.use_count * (int64_t)sizeof *use));
  hd__free(chunk);
  hd__free(use);
  return status;
}

/* All memory for evaluation is reported as one part. */
static hd_cuda_bytes parts_of(const hd_exec_cuda *x, const bump *gpu) {
  hd_cuda_bytes parts = {{0}};
  for (int p = 0; p < HD_GPU_PURPOSES; p++)
    parts.of[x->plan->trains ? p : HD_GPU_EVALUATION] += gpu->parts.of[p];
  return parts;
}

static void free_data(hd_exec_cuda *x) {
  hd__cuda_free(x->cuda, x->data);
  hd__cuda_free(x->cuda, x->labels);
  x->data = x->labels = 0;
}

/* If memory is short, samples are fetched, into fewer inlets, and evaluation takes fewer samples at a time; no result
 * depends on that. */
static hd_status take_memory(hd_exec_cuda *x, hd_ctx *ctx) {
  for (int inlets = HD_CUDA_INLETS;;) {
    bump gpu = {0};
    hd_ctx quiet = {0};
    x->inlets = inlets_of(x, inlets);
    lay_out(x, &gpu);
    x->parts = parts_of(x, &gpu);
    const hd_status status = hd__cuda_take(&x->memory, x->cuda, &quiet, gpu.used, &x->parts);
    if (status == HD_OK)
      return HD_OK;
    if (status != HD_E_NOMEM)
      return hd__fail(ctx, status, "%s", quiet.message);
    if (x->data)
      free_data(x);
    else if (x->inlets > 2)
      inlets = x->inlets / 2;
    else if (!x->plan->trains && x->settings.batch > 1)
      x->settings.batch /= 2;
    else
      return too_little(x, ctx, gpu.used);
  }
}

/* Puts resident samples on the GPU if they fit into half of the free memory; else samples are fetched. */
static hd_status take_data(hd_exec_cuda *x, hd_ctx *ctx) {
  const hd_sample_table *data = x->settings.samples;
  const int64_t bytes = data ? data->count * data->elems * (data->bytes ? 1 : (int64_t)sizeof(float)) : 0;
  const int64_t labels = data ? data->count * (int64_t)sizeof *data->labels : 0;
  if (!data || bytes + labels > hd__cuda_free_bytes(x->cuda) / 2)
    return HD_OK;
  hd_status status = hd__cuda_take_for(&x->labels, x->cuda, ctx, labels, HD_GPU_DATA);
  HD_THEN(status, hd__cuda_take_for(&x->data, x->cuda, ctx, bytes, HD_GPU_DATA));
  if (status == HD_E_NOMEM) {
    free_data(x);
    return HD_OK;
  }
  HD_TRY(status);
  HD_TRY(upload(x, ctx, (void *)(uintptr_t)x->labels, data->labels, labels));
  return upload(x, ctx, (void *)(uintptr_t)x->data, data->data, bytes);
}

hd_status hd__exec_cuda_memory(hd_exec_cuda *x, hd_ctx *ctx) {
  bump host = {0};
  HD_TRY(take_data(x, ctx));
  HD_TRY(take_memory(x, ctx));
  lay_out_host(x, &host);
  HD_TRY(hd__cuda_take_host(&x->host, x->cuda, ctx, host.used));
  memset(x->host, 0, (size_t)host.used);
  lay_out(x, &(bump){.base = (char *)(uintptr_t)x->memory});
  lay_out_host(x, &(bump){.base = x->host});
  return x->native.taken
             ? hd__cuda_native_workspace(x->cuda->native, ctx, x->native.workspace, x->native.workspace_bytes)
             : HD_OK;
}

hd_status hd__exec_cuda_tables(hd_exec_cuda *x, hd_ctx *ctx) {
  x->input_calls = hd__exec_cuda_input_calls(x->plan);
  if (x->plan->trains)
    HD_TRY(upload_chunks(x, ctx));
  return upload(x, ctx, x->constants, x->plan->constants, x->plan->size.const_elems * (int64_t)sizeof(float));
}
