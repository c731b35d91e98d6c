/* The executor's memory on a GPU: one block, cut up once. The whole batch is there at a time: an arena has a slot for
 * each of its samples, and gradients have one for each shard. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/exec_cuda_state.h"
#include "graph/op.h"

enum { ALIGN_BYTES = 256 };

/* Runs twice: first with base 0 to count, then to hand out. */
typedef struct bump {
  char *base;
  int64_t used;
} bump;

static void *take(bump *b, int64_t *use, int64_t bytes) {
  const int64_t whole = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
  void *at = b->base ? b->base + b->used : NULL;
  b->used += whole;
  if (!b->base)
    *use += whole;
  return at;
}

int64_t hd__exec_cuda_x_bytes(const hd_exec_cuda *x) {
  return x->data ? 0 : x->settings.batch * x->plan->place[x->plan->graph->input].stride * (int64_t)sizeof(float);
}

int64_t hd__exec_cuda_target_bytes(const hd_exec_cuda *x) {
  const int label = x->plan->graph->label;
  return x->settings.batch * x->plan->place[label].stride * hd__dtype_bytes(x->plan->graph->values[label].dtype);
}

static int64_t constant_elems(const hd_exec_cuda *x) {
  int64_t elems = 0;
  for (int v = 0; v < x->plan->graph->value_count; v++)
    if (x->plan->graph->values[v].kind == HD_VALUE_CONST)
      elems += hd__shape_elems(&x->plan->graph->values[v].shape);
  return elems;
}

static int64_t score_bytes(const hd_exec_cuda *x) {
  return x->settings.batch * x->plan->place[x->plan->graph->logits].stride * (int64_t)sizeof(float);
}

static void lay_out(hd_exec_cuda *x, bump *b) {
  const hd_plan *plan = x->plan;
  const int64_t batch = x->settings.batch, floats = (int64_t)sizeof(float);
  const int states = plan->trains ? x->store->directory->states : 0;
  for (int half = 0; half < 2; half++) {
    x->weights[half] = take(b, &x->bytes.weights, plan->param_elems * floats);
    for (int s = 0; s < states; s++)
      x->state[half][s] = take(b, &x->bytes.state, plan->trained_elems * floats);
    x->inlet[half].x = take(b, &x->bytes.samples, hd__exec_cuda_x_bytes(x));
    x->inlet[half].target = take(b, &x->bytes.samples, hd__exec_cuda_target_bytes(x));
    x->inlet[half].sample = take(b, &x->bytes.samples, x->data ? batch * (int64_t)sizeof(int32_t) : 0);
    x->inlet[half].step = take(b, &x->bytes.tables, (int64_t)sizeof(hd_cuda_step));
  }
  x->arena = take(b, &x->bytes.samples, plan->arena_bytes * batch);
  x->batch_memory = take(b, &x->bytes.samples, plan->batch_bytes * batch);
  x->losses = take(b, &x->bytes.samples, batch * floats);
  x->sums = take(b, &x->bytes.gradients, x->settings.shards * plan->direct_elems * floats);
  x->gathered = take(b, &x->bytes.gradients, (plan->gathers ? plan->direct_elems : 0) * floats);
  x->grad = x->settings.clip_norm > 0 ? take(b, &x->bytes.gradients, plan->trained_elems * floats) : NULL;
  for (int i = 0; i < 3; i++)
    x->native.half[i] = take(b, &x->bytes.libraries, x->native.half_bytes[i]);
  x->native.dense = take(b, &x->bytes.libraries, x->native.dense_bytes);
  x->native.workspace = take(b, &x->bytes.libraries, x->native.workspace_bytes);
  x->squares = take(b, &x->bytes.tables, plan->chunk_count * (int64_t)(16 * sizeof(double)));
  x->constants = take(b, &x->bytes.tables, constant_elems(x) * floats);
  x->chunk = take(b, &x->bytes.tables, plan->chunk_count * (int64_t)sizeof *x->chunk);
  x->use = take(b, &x->bytes.tables, plan->use_count * (int64_t)sizeof *x->use);
  x->bad = take(b, &x->bytes.tables, plan->param_count * (int64_t)sizeof *x->bad);
  x->flags = take(b, &x->bytes.tables, (int64_t)sizeof *x->flags);
  x->results = take(b, &x->bytes.tables, (int64_t)(HD_CUDA_RESULTS * sizeof *x->results));
}

static void lay_out_host(hd_exec_cuda *x, bump *b) {
  int64_t unused = 0;
  for (int half = 0; half < 2; half++) {
    x->inlet[half].host_x = take(b, &unused, hd__exec_cuda_x_bytes(x));
    x->inlet[half].host_target = take(b, &unused, hd__exec_cuda_target_bytes(x));
    x->inlet[half].host_sample = take(b, &unused, x->settings.batch * (int64_t)sizeof(int32_t));
    x->inlet[half].host_step = take(b, &unused, (int64_t)sizeof(hd_cuda_step));
  }
  x->host_results = take(b, &unused, (int64_t)(HD_CUDA_RESULTS * sizeof *x->host_results));
  x->host_scores = take(b, &unused, x->plan->trains ? 0 : score_bytes(x));
  x->host_losses = take(b, &unused, x->settings.batch * (int64_t)sizeof(float));
}

/* What would fit into what is free, and leave a quarter of it for evaluating: a batch of which size. */
static hd_status too_little(hd_exec_cuda *x, hd_ctx *ctx, int64_t bytes) {
  const double mib = 1 << 20;
  const int64_t available = hd__cuda_free_bytes(x->cuda), fixed = bytes - x->bytes.samples;
  const int64_t each = x->bytes.samples / x->settings.batch + 1, fitting = (available * 3 / 4 - fixed) / each;
  char remedy[96] = "use a smaller model, or --device cpu";
  int64_t batch = 1;
  while (2 * batch <= fitting && 2 * batch < x->settings.batch)
    batch *= 2;
  if (fitting >= 1 && batch < x->settings.batch)
    snprintf(remedy, sizeof remedy, "a batch of %lld would fit: use --batch %lld", (long long)batch, (long long)batch);
  return hd__fail(ctx, HD_E_NOMEM,
                  "GPU %d (%s) is out of memory: expected %.1f MiB free for a batch of %lld (weights %.1f, optimizer "
                  "%.1f, samples and activations %.1f, gradients %.1f MiB), found %.1f of %.1f MiB; %s",
                  x->cuda->index, x->cuda->name, (double)bytes / mib, (long long)x->settings.batch,
                  (double)x->bytes.weights / mib, (double)x->bytes.state / mib, (double)x->bytes.samples / mib,
                  (double)x->bytes.gradients / mib, (double)available / mib, (double)x->cuda->memory_bytes / mib,
                  remedy);
}

/* ---- Tables ---- */

static hd_status upload(const hd_exec_cuda *x, hd_ctx *ctx, void *to, const void *from, int64_t bytes) {
  if (bytes == 0)
    return HD_OK;
  HD_TRY(hd__cuda_check(x->cuda, ctx,
                        x->cuda->driver.upload((cu_pointer)(uintptr_t)to, from, (size_t)bytes, x->cuda->compute),
                        "copying to the GPU"));
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.stream_wait(x->cuda->compute), "copying to the GPU");
}

static hd_status upload_chunks(hd_exec_cuda *x, hd_ctx *ctx) {
  const hd_plan *plan = x->plan;
  hd_cuda_chunk *chunk = hd__calloc((size_t)plan->chunk_count + 1, sizeof *chunk);
  int64_t *use = hd__calloc((size_t)plan->use_count + 1, sizeof *use);
  hd_status status = HD_OK;
  if (!chunk || !use)
    status = hd__fail(ctx, HD_E_NOMEM, "out of memory for the GPU's chunks");
  for (int c = 0; status == HD_OK && c < plan->chunk_count; c++) {
    const hd_chunk *from = &plan->chunks[c];
    const hd_plan_param *way = &plan->params[from->param];
    const hd_param *param = &plan->graph->params[from->param];
    const int64_t columns = hd__param_columns(param);
    chunk[c] = (hd_cuda_chunk){.first = way->offset + from->j0 * columns,
                               .inside = from->j0 * columns,
                               .count = param->running ? 0 : (int32_t)((from->j1 - from->j0) * columns),
                               .param = from->param,
                               .group = way->group,
                               .first_use = way->first_use,
                               .uses = way->uses};
  }
  for (int u = 0; status == HD_OK && u < plan->use_count; u++)
    use[u] = plan->uses[u].direct;
  if (status == HD_OK)
    status = upload(x, ctx, x->chunk, chunk, plan->chunk_count * (int64_t)sizeof *chunk);
  if (status == HD_OK)
    status = upload(x, ctx, x->use, use, plan->use_count * (int64_t)sizeof *use);
  hd__free(chunk);
  hd__free(use);
  return status;
}

static hd_status upload_constants(hd_exec_cuda *x, hd_ctx *ctx) {
  const hd_graph *graph = x->plan->graph;
  int64_t at = 0;
  x->constant = hd__calloc((size_t)graph->value_count, sizeof *x->constant);
  if (!x->constant)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the model's constants");
  for (int v = 0; v < graph->value_count; v++) {
    const hd_value *value = &graph->values[v];
    if (value->kind != HD_VALUE_CONST)
      continue;
    const int64_t elems = hd__shape_elems(&value->shape);
    x->constant[v] = at;
    HD_TRY(upload(x, ctx, x->constants + at, value->constant, elems * (int64_t)sizeof(float)));
    at += elems;
  }
  return HD_OK;
}

/* Evaluation takes fewer samples at a time where memory is short: nothing depends on their number. */
static hd_status take_memory(hd_exec_cuda *x, hd_ctx *ctx) {
  for (;; x->settings.batch /= 2) {
    bump gpu = {0};
    hd_ctx quiet = {0};
    x->bytes = (cuda_bytes){0};
    lay_out(x, &gpu);
    const hd_status status = hd__cuda_take(&x->memory, x->cuda, &quiet, gpu.used, "a run");
    if (status == HD_E_NOMEM && !x->plan->trains && x->settings.batch > 1)
      continue;
    return status == HD_E_NOMEM ? too_little(x, ctx, gpu.used)
           : status == HD_OK    ? HD_OK
                                : hd__fail(ctx, status, "%s", quiet.message);
  }
}

/* Half of what is free is left for the rest. Where it does not fit, samples are fetched. */
static hd_status take_data(hd_exec_cuda *x, hd_ctx *ctx) {
  const hd_resident *data = x->settings.resident;
  const int64_t bytes = data ? data->count * data->elems * (data->bytes ? 1 : (int64_t)sizeof(float)) : 0;
  const int64_t labels = data ? data->count * (int64_t)sizeof *data->labels : 0;
  if (!data || bytes + labels > hd__cuda_free_bytes(x->cuda) / 2)
    return HD_OK;
  hd_status status = hd__cuda_take(&x->labels, x->cuda, ctx, labels, "the labels of the data set");
  if (status == HD_OK)
    status = hd__cuda_take(&x->data, x->cuda, ctx, bytes, "the data set");
  if (status == HD_E_NOMEM)
    return HD_OK;
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
  if (x->native.taken)
    HD_TRY(hd__cuda_native_workspace(x->cuda->native, ctx, x->native.workspace, x->native.workspace_bytes));
  if (x->plan->trains)
    HD_TRY(upload_chunks(x, ctx));
  return upload_constants(x, ctx);
}
