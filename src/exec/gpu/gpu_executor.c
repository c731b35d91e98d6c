/* Runs a plan's steps on GPUs.
 *
 * A step is recorded once for each buffer of the store and replayed. While the GPU computes, threads of the host
 * fetch the next step's samples into pinned memory, and the copy stream copies them to the GPU:
 *
 *     host       fetch 0 | fetch 1     | fetch 2     |             inlet 0, inlet 1, inlet 0
 *     copy               | copy 0      | copy 1      | copy 2
 *     compute                   | step 0      | step 1      | step 2
 *
 * With several GPUs (gpu_share.h) each has such a pair of streams, and a step is recorded in stretches, with an
 * exchange of partial sums between two stretches.
 *
 * The host fills an inlet again when the samples of two steps before have been copied from it; the copy to the GPU
 * waits until that step is done. The results of several steps are read back at once and received after as many more
 * steps have been launched, so that the GPU never waits for the host: the driver learns of a step up to `lookahead`
 * steps late. If a value is not finite, the GPU itself stops updating, so the last whole version stays valid
 * whatever was launched after it.
 *
 * At the end of a run the last whole version is copied to the host's store: checkpoints, digests and the CPU read
 * the same bytes wherever they were computed. */
#include "exec/gpu/gpu_executor.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "exec/exchange/cluster.h"
#include "exec/gpu/gpu_executor_state.h"
#include "exec/cpu/cpu_executor_state.h"
#include "platform/threads.h"
#include "reduce/reduction_tree.h"

/* ---- Creating ---- */

static hd_status refuse_custom_ops(hd_ctx *ctx, const hd_plan *plan) {
  for (int i = 0; i < plan->call_count; i++)
    if (plan->calls[i].op == HD_OP_custom || plan->calls[i].op == HD_OP_custom_dx)
      return hd__fail(ctx, HD_E_UNSUPPORTED,
                      "--device cuda expects operations that a GPU has, found '%s', a custom operation; use "
                      "--device cpu",
                      plan->graph->nodes[plan->calls[i].node].name);
  return HD_OK;
}

static hd_status create_events(hd_exec_cuda *x, hd_ctx *ctx) {
  cu_event *const all[] = {&x->inlet[0].copied, &x->inlet[0].used, &x->inlet[1].copied, &x->inlet[1].used,
                           &x->ready,           &x->taken,         &x->received};
  hd__cuda_use(x->cuda);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    HD_TRY(hd__cuda_check(x->cuda, ctx, x->cuda->driver.event_create(all[i], CU_EVENT_NO_TIMING), "starting"));
  return HD_OK;
}

hd_status hd__exec_cuda_cut(hd_exec_cuda *x, hd_ctx *ctx, int buffer) {
  HD_TRY(hd__cuda_recorded(&x->inlet[buffer].recorded[x->stretches++], x->cuda, ctx));
  return hd__cuda_record(x->cuda, ctx);
}

/* Evaluation uses buffer 0 alone. */
static hd_status record(hd_exec_cuda *x, hd_ctx *ctx) {
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

static hd_status fill(hd_exec_cuda *x, hd_ctx *ctx) {
  x->fetch = hd__malloc_aligned((size_t)(hd__threads_count(x->threads) * x->settings.fetch_bytes) + 1);
  if (!x->fetch)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for fetching samples");
  HD_TRY(create_events(x, ctx));
  HD_TRY(hd__exec_cuda_native_plan(x, ctx));
  HD_TRY(hd__exec_cuda_memory(x, ctx));
  HD_TRY(hd__exec_cuda_warm_up(x, ctx));
  HD_TRY(hd__exec_cuda_tables(x, ctx));
  return record(x, ctx);
}

/* Adds the executor of one GPU. *out is set also on failure, except when out of memory. */
static hd_status add(hd_exec_cuda **out, hd_ctx *ctx, const hd_exec_cuda *like, hd_cuda *cuda) {
  hd_exec_cuda *x = *out = hd__calloc(1, sizeof *x);
  if (!x)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the executor");
  *x = *like;
  x->cuda = cuda;
  if (x->plan->trains) {
    x->settings.batch = hd__cuda_share_rows(x->share, x->number);
    x->settings.shards = hd__cuda_share_shards(x->share, x->number);
  }
  return fill(x, ctx);
}

static hd_status create(hd_exec_cuda **out, hd_ctx *ctx, hd_exec_cuda *like) {
  HD_TRY(refuse_custom_ops(ctx, like->plan));
  HD_TRY(hd__cuda_share_create(&like->share, ctx, like->plan, &like->settings));
  like->number = like->share->first_number;
  hd_status status = HD_OK;
  for (hd_cuda *cuda = like->settings.cuda; cuda && status == HD_OK; cuda = cuda->next) {
    status = add(out, ctx, like, cuda);
    like->number++;
    out = *out ? &(*out)->next : out;
  }
  return status;
}

hd_status hd__exec_cuda_create(hd_exec_cuda **out, hd_ctx *ctx, const hd_plan *plan, hd_store *store,
                               hd_threads *threads, const hd_exec_settings *settings) {
  hd_exec_cuda like = {.plan = plan, .store = store, .threads = threads, .settings = *settings};
  *out = NULL;
  const hd_status status = create(out, ctx, &like);
  if (*out)
    like.share->first = *out;
  if (status == HD_OK)
    return HD_OK;
  if (!*out)
    hd__cuda_share_destroy(like.share);
  hd__exec_cuda_destroy(*out);
  *out = NULL;
  return status;
}

static void destroy_events(const hd_exec_cuda *x) {
  cu_event const all[] = {x->inlet[0].copied, x->inlet[0].used, x->inlet[1].copied, x->inlet[1].used,
                          x->ready,           x->taken,         x->received};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i])
      x->cuda->driver.event_destroy(all[i]);
}

static void destroy_one(hd_exec_cuda *x) {
  hd__cuda_use(x->cuda);
  for (int buffer = 0; buffer < 2; buffer++) {
    for (int i = 0; x->inlet[buffer].recorded && i <= x->share->exchanges; i++)
      if (x->inlet[buffer].recorded[i])
        x->cuda->driver.graph_exec_destroy(x->inlet[buffer].recorded[i]);
    hd__free(x->inlet[buffer].recorded);
  }
  hd__exec_cuda_trace_end(x);
  destroy_events(x);
  hd__cuda_free(x->cuda, x->memory);
  hd__cuda_free(x->cuda, x->data);
  hd__cuda_free(x->cuda, x->labels);
  hd__cuda_free_host(x->cuda, x->host);
  hd__free(x->native.taken);
  hd__free(x->constant);
  hd__free(x->fetch);
  hd__free(x);
}

static void wait_for_streams(const hd_exec_cuda *first) {
  for (const hd_exec_cuda *x = first; x; x = x->next) {
    hd__cuda_use(x->cuda);
    x->cuda->driver.stream_wait(x->cuda->copy);
    x->cuda->driver.stream_wait(x->cuda->compute);
  }
}

/* Destroys the whole list from x on. */
void hd__exec_cuda_destroy(hd_exec_cuda *x) {
  cuda_share *share = x ? x->share : NULL;
  wait_for_streams(x);
  if (share && share->first)
    hd__cuda_share_forget(share);
  while (x) {
    hd_exec_cuda *next = x->next;
    destroy_one(x);
    x = next;
  }
  hd__cuda_share_destroy(share);
}

/* ---- Copies ---- */

static hd_status upload(const hd_exec_cuda *x, hd_ctx *ctx, void *to, const void *from, int64_t bytes,
                        cu_stream stream) {
  return bytes == 0 ? HD_OK
                    : hd__cuda_check(x->cuda, ctx,
                                     x->cuda->driver.upload((cu_pointer)(uintptr_t)to, from, (size_t)bytes, stream),
                                     "copying to the GPU");
}

hd_status hd__exec_cuda_upload(const hd_exec_cuda *x, hd_ctx *ctx, void *to, const void *from, int64_t bytes) {
  return upload(x, ctx, to, from, bytes, x->cuda->compute);
}

hd_status hd__exec_cuda_download(const hd_exec_cuda *x, hd_ctx *ctx, void *to, const void *from, int64_t bytes) {
  return bytes == 0 ? HD_OK
                    : hd__cuda_check(
                          x->cuda, ctx,
                          x->cuda->driver.download(to, (cu_pointer)(uintptr_t)from, (size_t)bytes, x->cuda->compute),
                          "copying from the GPU");
}

hd_status hd__exec_cuda_wait(const hd_exec_cuda *x, hd_ctx *ctx) {
  return hd__cuda_nccl_wait(x->share->nccl, ctx, x->cuda, NULL);
}

static int64_t weight_bytes(const hd_exec_cuda *x) { return x->plan->param_elems * (int64_t)sizeof(float); }
static int64_t state_bytes(const hd_exec_cuda *x) { return x->plan->trained_elems * (int64_t)sizeof(float); }

/* Uploads both buffers: frozen parameters are in both. */
static hd_status upload_one(const hd_exec_cuda *x, hd_ctx *ctx) {
  const hd_store *store = x->store;
  const int32_t good = 0;
  hd__cuda_use(x->cuda);
  for (int buffer = 0; buffer < 2; buffer++) {
    HD_TRY(upload(x, ctx, x->weights[buffer], store->weights[buffer], weight_bytes(x), x->cuda->compute));
    for (int s = 0; s < store->directory->states && x->state[buffer][s]; s++)
      HD_TRY(upload(x, ctx, x->state[buffer][s], store->state[buffer][s], state_bytes(x), x->cuda->compute));
  }
  for (int p = 0; p < x->plan->param_count; p++)
    HD_TRY(upload(x, ctx, x->bad + p, &good, sizeof good, x->cuda->compute));
  HD_TRY(upload(x, ctx, &x->flags->failed, &good, sizeof good, x->cuda->compute));
  return hd__exec_cuda_wait(x, ctx);
}

static hd_status upload_store(hd_exec_cuda *x, hd_ctx *ctx) {
  x->version = hd__store_version(x->store);
  for (const hd_exec_cuda *each = x; each; each = each->next)
    HD_TRY(upload_one(each, ctx));
  x->uploaded = true;
  return HD_OK;
}

/* Every GPU has the whole store. */
static hd_status download_store(hd_exec_cuda *x, hd_ctx *ctx) {
  hd_store *store = x->store;
  const int buffer = (int)(x->version & 1);
  hd__cuda_use(x->cuda);
  HD_TRY(hd__exec_cuda_download(x, ctx, store->weights[buffer], x->weights[buffer], weight_bytes(x)));
  for (int s = 0; s < store->directory->states; s++)
    HD_TRY(hd__exec_cuda_download(x, ctx, store->state[buffer][s], x->state[buffer][s], state_bytes(x)));
  HD_TRY(hd__exec_cuda_wait(x, ctx));
  hd__store_set_version(store, x->version);
  return HD_OK;
}

/* Weights are never exchanged, so NCCL's sums must have the same bits on all GPUs. This check compares, over all
 * GPUs of all ranks, a hash of the last whole version, computed on the host. */
static hd_status sum_weights(uint64_t *sum, const hd_exec_cuda *x, hd_ctx *ctx, float *copy) {
  HD_TRY(hd__exec_cuda_download(x, ctx, copy, x->weights[x->share->first->version & 1], weight_bytes(x)));
  HD_TRY(hd__exec_cuda_wait(x, ctx));
  *sum = hd__xxh3(copy, (size_t)weight_bytes(x));
  return HD_OK;
}

static hd_status compare_process(uint64_t *sum, const hd_exec_cuda *first, hd_ctx *ctx, float *copy) {
  for (const hd_exec_cuda *x = first; x; x = x->next) {
    uint64_t one;
    hd__cuda_use(x->cuda);
    HD_TRY(sum_weights(&one, x, ctx, copy));
    if (x != first && one != *sum)
      return hd__cuda_nccl_differs(ctx, x->cuda, "the first one");
    *sum = one;
  }
  return HD_OK;
}

static hd_status compare_weights(const hd_exec_cuda *x, hd_ctx *ctx) {
  hd_local_group *local = x->share->local;
  const int ranks = hd__cluster_ranks(local);
  char other[32];
  if (!x->share->nccl)
    return HD_OK;
  uint64_t sum = 0, *all = hd__calloc((size_t)ranks, sizeof *all);
  float *copy = hd__malloc_aligned((size_t)weight_bytes(x));
  hd_status status = all && copy ? compare_process(&sum, x, ctx, copy)
                                 : hd__fail(ctx, HD_E_NOMEM, "out of memory for comparing the weights of GPUs");
  if (status == HD_OK)
    status = hd__cluster_gather(all, local, ctx, &sum, sizeof sum);
  for (int r = 0; r < ranks && status == HD_OK; r++)
    if (all[r] != sum) {
      snprintf(other, sizeof other, "rank %d", r);
      status = hd__cuda_nccl_differs(ctx, x->cuda, other);
    }
  hd__free(all);
  hd__free(copy);
  return status;
}

/* Ranks of a host share the store: the first fills it. */
static hd_status fill_store(hd_exec_cuda *x, hd_ctx *ctx) {
  hd_local_group *local = x->share->local;
  if (!hd__cuda_share_is_ranked(x->share))
    return download_store(x, ctx);
  if (hd__local_group_rank(local) == 0)
    HD_TRY(download_store(x, ctx));
  return hd__local_group_barrier(local, ctx);
}

/* ---- Samples ---- */

typedef struct fetching {
  const hd_exec_cuda *exec;
  const cuda_inlet *inlet;
  const hd_driver *driver;
  const hd_step *step;
  int64_t first, rows;
  uint32_t flags[HD_MAX_THREADS];
} fetching;

static void fetch_thread(void *arg, int thread) {
  fetching *f = arg;
  const hd_exec_cuda *x = f->exec;
  const hd_plan *plan = x->plan;
  const hd_value *label = &plan->graph->values[plan->graph->label];
  const hd_place *to_x = &plan->place[plan->graph->input], *to_target = &plan->place[plan->graph->label];
  const int threads = hd__threads_count(x->threads);
  const int64_t begin = hd__tree_share(f->rows, NULL, threads, thread),
                end = hd__tree_share(f->rows, NULL, threads, thread + 1);
  const hd_slots slots = {.x = (float *)f->inlet->host_x + begin * to_x->stride,
                          .x_stride = to_x->stride,
                          .target = f->inlet->host_target + begin * to_target->stride * hd__dtype_bytes(label->dtype),
                          .target_stride = to_target->stride,
                          .outputs = label->dtype == HD_F32 ? (int32_t)hd__shape_elems(&label->shape) : 0,
                          .scratch = x->fetch + thread * x->settings.fetch_bytes};
  f->flags[thread] =
      end > begin ? f->driver->fetch(f->driver->self, f->step, f->first + begin, end - begin, &slots) : 0;
}

/* Fetches samples [first, first + rows) of the step into the inlet's host memory. */
static hd_status fetch(uint32_t *flags, hd_exec_cuda *x, hd_ctx *ctx, const hd_driver *driver, const hd_step *step,
                       int64_t first, int64_t rows, const cuda_inlet *inlet) {
  fetching f = {.exec = x, .inlet = inlet, .driver = driver, .step = step, .first = first, .rows = rows};
  HD_TRY(hd__threads_run(x->threads, ctx, fetch_thread, &f));
  for (int l = 0; l < hd__threads_count(x->threads); l++)
    *flags |= f.flags[l];
  return HD_OK;
}

/* The samples [first, first + rows) of the step, `samples` of the batch. */
static void describe(hd_cuda_step *to, const hd_step *step, int64_t first, int64_t rows, int64_t samples,
                     const hd_reduction *reduction) {
  to->seed = step->seed;
  to->epoch = step->epoch;
  to->position = (uint32_t)(step->cursor + first);
  to->divisor = step->divisor;
  memcpy(to->hyper, step->hyper, sizeof to->hyper);
  if (to->rows == rows && to->samples == samples)
    return; /* the same shards */
  to->rows = rows;
  to->samples = samples;
  to->reduction = *reduction;
}

/* Describes the step for each GPU of this process. */
static void describe_all(const hd_exec_cuda *first, const hd_step *step, int buffer) {
  const cuda_share *s = first->share;
  for (const hd_exec_cuda *x = first; x; x = x->next) {
    const cuda_inlet *inlet = &x->inlet[buffer];
    const int64_t row0 = s->row[x->number], rows = s->row[x->number + 1] - row0;
    describe(inlet->host_step, step, row0, rows, step->samples, &s->gpu_reduction[x->number - s->first_number]);
    describe(inlet->host_whole, step, 0, step->samples, step->samples, &s->whole);
    inlet->host_step->result = inlet->host_whole->result = (int32_t)(first->launched % HD_CUDA_RESULTS);
  }
}

static hd_status launch_stretch(const hd_exec_cuda *x, hd_ctx *ctx, const cuda_inlet *inlet, int stretch) {
  hd__cuda_use(x->cuda);
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.graph_launch(inlet->recorded[stretch], x->cuda->compute),
                        "launching a step");
}

/* Copies an inlet to the GPU and launches the first stretch of the step that reads it. */
static hd_status launch(hd_exec_cuda *x, hd_ctx *ctx, const cuda_inlet *inlet) {
  const hd_cuda *cuda = x->cuda;
  hd__cuda_use(cuda);
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.stream_after(cuda->copy, inlet->used, 0), "ordering copies"));
  HD_TRY(hd__exec_cuda_time_copies(x, ctx, true));
  HD_TRY(upload(x, ctx, inlet->x, inlet->host_x, hd__exec_cuda_x_bytes(x), cuda->copy));
  if (x->data)
    HD_TRY(upload(x, ctx, inlet->sample, inlet->host_sample, inlet->host_step->rows * (int64_t)sizeof(int32_t),
                  cuda->copy));
  else
    HD_TRY(upload(x, ctx, inlet->target, inlet->host_target, hd__exec_cuda_target_bytes(x), cuda->copy));
  HD_TRY(upload(x, ctx, inlet->step, inlet->host_step, (int64_t)sizeof *inlet->step, cuda->copy));
  if (inlet->whole != inlet->step)
    HD_TRY(upload(x, ctx, inlet->whole, inlet->host_whole, (int64_t)sizeof *inlet->whole, cuda->copy));
  HD_TRY(hd__exec_cuda_time_copies(x, ctx, false));
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.event_record(inlet->copied, cuda->copy), "ordering copies"));
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.stream_after(cuda->compute, inlet->copied, 0), "ordering steps"));
  return x->timing && x->plan->trains ? hd__exec_cuda_time_step(x, ctx, (int)(inlet - x->inlet))
                                      : launch_stretch(x, ctx, inlet, 0);
}

/* Marks the end of the queued step, the last reader of the inlet. */
static hd_status mark_used(const hd_exec_cuda *x, hd_ctx *ctx, const cuda_inlet *inlet) {
  hd__cuda_use(x->cuda);
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.event_record(inlet->used, x->cuda->compute), "ordering steps");
}

/* Waits until the host may fill the inlet again. */
static hd_status wait_for_inlet(const hd_exec_cuda *x, hd_ctx *ctx, const cuda_inlet *inlet) {
  return hd__cuda_nccl_wait(x->share->nccl, ctx, x->cuda, inlet->copied);
}

/* ---- Training ---- */

/* Reports to the driver the steps before `end`, whose results have been read back. With several ranks a step was closed
 * before it counted. */
static void report_steps(hd_exec_cuda *x, const hd_driver *driver, int64_t end, uint32_t *flags) {
  const bool ranked = hd__cuda_share_is_ranked(x->share);
  for (; x->reported < end; x->reported++) {
    const int at = (int)(x->reported % HD_CUDA_RESULTS);
    const hd_step_result result = {.loss_sum = x->host_results[at].loss_sum};
    if (x->host_results[at].failed) {
      x->bad_param = x->host_results[at].bad_param;
      x->reported = x->launched;
      *flags |= HD_FLAG_NOT_FINITE;
      return;
    }
    x->version++;
    hd__exec_cuda_write_times(x, x->reported);
    if (driver->closing && !ranked)
      *flags |= driver->closing(driver->self, &x->step[at], &result);
    driver->done(driver->self, &x->step[at], &result);
  }
}

static hd_status queue_results(const hd_exec_cuda *x, hd_ctx *ctx) {
  hd__cuda_use(x->cuda);
  return hd__exec_cuda_download(x, ctx, x->host_results, x->results, (int64_t)(HD_CUDA_RESULTS * sizeof *x->results));
}

static hd_status read_results(const hd_exec_cuda *x, hd_ctx *ctx) {
  HD_TRY(queue_results(x, ctx));
  return hd__exec_cuda_wait(x, ctx);
}

/* Requests the results of all launched steps; later steps do not wait for the copy. */
static hd_status request_results(hd_exec_cuda *x, hd_ctx *ctx) {
  HD_TRY(queue_results(x, ctx));
  x->requested = x->launched;
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.event_record(x->received, x->cuda->compute), "reading results");
}

/* Waits for the results requested last and reports them. */
static hd_status receive_results(hd_exec_cuda *x, hd_ctx *ctx, const hd_driver *driver, uint32_t *flags) {
  HD_TRY(hd__cuda_nccl_wait(x->share->nccl, ctx, x->cuda, x->received));
  report_steps(x, driver, x->requested, flags);
  return HD_OK;
}

/* Keeps the number of unreported steps at most `most`; results are requested for half of them at a time. */
static hd_status keep_up(hd_exec_cuda *x, hd_ctx *ctx, const hd_driver *driver, int32_t most, uint32_t *flags) {
  if (x->launched - x->requested >= (most > 1 ? most / 2 : 1)) {
    if (x->reported < x->requested)
      HD_TRY(receive_results(x, ctx, driver, flags));
    HD_TRY(request_results(x, ctx));
  }
  return x->launched - x->reported < most ? HD_OK : receive_results(x, ctx, driver, flags);
}

/* Reads back the results of all launched steps and reports them. */
static hd_status collect(hd_exec_cuda *x, hd_ctx *ctx, const hd_driver *driver, uint32_t *flags) {
  if (x->reported == x->launched)
    return HD_OK;
  HD_TRY(read_results(x, ctx));
  report_steps(x, driver, x->launched, flags);
  return HD_OK;
}

/* With several ranks, after the last exchange of a step: earlier steps have counted, and this step's losses are known.
 * The driver's state of the next version is therefore noted before any GPU can have that version. Flags raised here are
 * sent with the next step's sums, so all ranks receive them in the same step. */
static void close_ranked(hd_exec_cuda *x, const hd_driver *driver, const hd_step *step, uint32_t *flags) {
  const hd_step_result result = {.loss_sum = x->share->loss_sum};
  report_steps(x, driver, x->launched, flags);
  if (!*flags && driver->closing)
    x->share->carried |= driver->closing(driver->self, step, &result);
}

/* Samples for all GPUs of this process. */
static hd_status fetch_all(uint32_t *flags, hd_exec_cuda *first, hd_ctx *ctx, const hd_driver *driver,
                           const hd_step *step, int buffer) {
  const cuda_share *s = first->share;
  if (first->settings.resident)
    driver->choose(driver->self, step, s->chosen);
  for (hd_exec_cuda *x = first; x; x = x->next) {
    const int64_t row0 = s->row[x->number], rows = s->row[x->number + 1] - row0;
    HD_TRY(wait_for_inlet(x, ctx, &x->inlet[buffer]));
    hd__trace_leaf(hd__exec_cuda_host_track(x), HD_SLICE_INLET, 0);
    if (x->data)
      memcpy(x->inlet[buffer].host_sample, s->chosen + row0, (size_t)rows * sizeof *s->chosen);
    else
      HD_TRY(fetch(flags, x, ctx, driver, step, row0, rows, &x->inlet[buffer]));
  }
  return HD_OK;
}

/* Queues a step on all GPUs. If a flag is set, the step was abandoned before any update. */
static hd_status launch_step(hd_exec_cuda *first, hd_ctx *ctx, const hd_driver *driver, const hd_step *step, int buffer,
                             uint32_t *flags) {
  cuda_share *s = first->share;
  s->reports = step->reports;
  describe_all(first, step, buffer);
  for (hd_exec_cuda *x = first; x; x = x->next)
    HD_TRY(launch(x, ctx, &x->inlet[buffer]));
  for (int i = 0; i < s->exchanges && !*flags; i++) {
    HD_TRY(hd__cuda_share_exchange(s, ctx, i, flags));
    if (!*flags && i == s->exchanges - 1 && hd__cuda_share_is_ranked(s))
      close_ranked(first, driver, step, flags);
    for (const hd_exec_cuda *x = first; x && !*flags; x = x->next)
      HD_TRY(launch_stretch(x, ctx, &x->inlet[buffer], i + 1));
  }
  for (const hd_exec_cuda *x = first; x; x = x->next)
    HD_TRY(mark_used(x, ctx, &x->inlet[buffer]));
  return HD_OK;
}

static hd_status run_steps(hd_exec_cuda *x, hd_ctx *ctx, const hd_driver *driver, uint32_t *flags) {
  const int32_t most = x->settings.lookahead < HD_CUDA_RESULTS ? x->settings.lookahead : HD_CUDA_RESULTS;
  const bool ranked = hd__cuda_share_is_ranked(x->share);
  uint64_t version = x->version;
  x->requested = x->launched;
  hd_track *host = hd__exec_cuda_host_track(x);
  hd__tally_start(x->share->tally);
  HD_TRY(hd__exec_cuda_time_region(x, ctx));
  for (hd_step step; !*flags && driver->next(driver->self, &step); version++) {
    const int buffer = (int)(version & 1);
    uint32_t raised = 0;
    hd__trace_step(host);
    const int whole = hd__trace_open(host, HD_SLICE_STEP, (int32_t)step.samples);
    hd__cuda_share_lay_out(x->share, step.samples);
    hd__tally_end(x->share->tally, HD_SPENT_COMPUTE);
    HD_TRY(fetch_all(&raised, x, ctx, driver, &step, buffer));
    hd__tally_end(x->share->tally, HD_SPENT_DATA);
    hd__trace_leaf(host, HD_SLICE_FETCH, 0);
    *flags |= ranked ? 0 : raised;
    x->share->carried |= ranked ? raised : 0;
    if (!*flags)
      HD_TRY(launch_step(x, ctx, driver, &step, buffer, flags));
    if (*flags)
      break;
    hd__trace_leaf(host, HD_SLICE_LAUNCH, 0);
    x->step[x->launched++ % HD_CUDA_RESULTS] = step;
    if (!ranked)
      HD_TRY(keep_up(x, ctx, driver, most, flags));
    else if (x->launched - x->reported >= most)
      HD_TRY(collect(x, ctx, driver, flags));
    hd__trace_leaf(host, HD_SLICE_COLLECT, 0);
    hd__trace_close(host, whole);
  }
  const hd_status status = collect(x, ctx, driver, flags);
  hd__tally_end(x->share->tally, HD_SPENT_COMPUTE);
  return status;
}

/* After the loss of another rank: copies the last whole version of this rank's GPUs to the store, from where it is
 * saved. A step whose gradients NCCL was adding does not count. */
static void save_for_peers(hd_exec_cuda *x) {
  const int64_t whole = x->launched - hd__cuda_nccl_is_torn(x->share->nccl);
  hd_ctx quiet = {0};
  if (read_results(x, &quiet) != HD_OK)
    return;
  for (; x->reported < whole && !x->host_results[x->reported % HD_CUDA_RESULTS].failed; x->reported++)
    x->version++;
  download_store(x, &quiet);
}

hd_status hd__exec_cuda_run(hd_exec_cuda *x, hd_ctx *ctx, const hd_driver *driver, uint32_t *flags) {
  *flags = 0;
  if (!x->uploaded || x->version != hd__store_version(x->store))
    HD_TRY(upload_store(x, ctx));
  hd_status status = run_steps(x, ctx, driver, flags);
  if (status != HD_OK)
    hd__cuda_nccl_abort(x->share->nccl);
  if (status == HD_E_PEER)
    save_for_peers(x);
  if (status != HD_OK) {
    x->uploaded = false;
    return status; /* a GPU is lost: the store has what was trained before this run */
  }
  HD_TRY(compare_weights(x, ctx));
  HD_TRY(fill_store(x, ctx));
  if (*flags & HD_FLAG_NOT_FINITE) {
    x->uploaded = false;
    return hd__exec_not_finite(ctx, x->plan, x->bad_param);
  }
  return HD_OK;
}

/* ---- Evaluation ---- */

static hd_status begin_group(uint32_t *flags, hd_exec_cuda *x, hd_ctx *ctx, const hd_driver *driver,
                             const hd_step *step, int64_t first, int64_t rows) {
  cuda_inlet *inlet = &x->inlet[0];
  const hd_micro_batch whole_batch = hd__tree_micro_batch(rows, x->share->shards, 1, 0);
  hd_range_plan whole;
  hd__tree_range(&whole, &whole_batch, 0, x->share->shards);
  HD_TRY(fetch(flags, x, ctx, driver, step, first, rows, inlet));
  if (*flags & HD_FLAG_NO_DATA)
    return HD_OK;
  describe(inlet->host_step, step, 0, rows, rows, &whole.pushes);
  HD_TRY(launch(x, ctx, inlet));
  return mark_used(x, ctx, inlet);
}

static hd_status end_group(hd_exec_cuda *x, hd_ctx *ctx, int64_t first, int64_t rows, const hd_exec_outcome *out) {
  const hd_graph *graph = x->plan->graph;
  const int64_t stride = x->plan->place[graph->logits].stride;
  const int32_t classes = graph->values[graph->logits].shape.dim[0];
  hd__cuda_use(x->cuda);
  HD_TRY(hd__exec_cuda_download(x, ctx, x->host_scores, hd__exec_cuda_rows(x, graph->logits),
                                rows * stride * (int64_t)sizeof(float)));
  HD_TRY(hd__exec_cuda_download(x, ctx, x->host_losses, x->losses, rows * (int64_t)sizeof(float)));
  HD_TRY(hd__exec_cuda_wait(x, ctx));
  memcpy(out->loss + first, x->host_losses, (size_t)rows * sizeof *out->loss);
  for (int64_t r = 0; r < rows; r++)
    hd__exec_write_outcome(out, first + r, x->host_scores + r * stride, classes);
  return HD_OK;
}

/* Group `group` of the samples that a GPU evaluates; false: there is none. */
static bool group_of(int64_t *first, int64_t *rows, const hd_exec_cuda *x, int64_t samples, int64_t group) {
  int64_t begin, end;
  hd__cuda_share_evaluates(&begin, &end, x->share, x->number, samples);
  *first = begin + group * x->settings.batch;
  *rows = end - *first < x->settings.batch ? end - *first : x->settings.batch;
  return *first < end;
}

/* All GPUs compute at the same time; *more: whether any GPU had a group. */
static hd_status evaluate_groups(bool *more, hd_exec_cuda *all, hd_ctx *ctx, const hd_driver *driver,
                                 const hd_step *step, int64_t group, const hd_exec_outcome *out, uint32_t *flags) {
  int64_t first, rows;
  *more = false;
  for (hd_exec_cuda *x = all; x; x = x->next)
    if (group_of(&first, &rows, x, step->samples, group))
      HD_TRY(begin_group(flags, x, ctx, driver, step, first, rows));
  for (hd_exec_cuda *x = all; x && !*flags; x = x->next)
    if (group_of(&first, &rows, x, step->samples, group)) {
      HD_TRY(end_group(x, ctx, first, rows, out));
      *more = true;
    }
  return HD_OK;
}

hd_status hd__exec_cuda_evaluate(hd_exec_cuda *all, hd_ctx *ctx, const hd_driver *driver, int64_t samples,
                                 const hd_exec_outcome *out, uint32_t *flags) {
  const hd_step step = {.samples = samples, .divisor = 1};
  const int64_t began_ns = hd__clock_ns();
  *flags = 0;
  for (const hd_exec_cuda *x = all; x; x = x->next) {
    hd__cuda_use(x->cuda);
    HD_TRY(hd__exec_cuda_upload(x, ctx, x->weights[0], x->store->weights[hd__store_buffer(x->store)], weight_bytes(x)));
    HD_TRY(hd__exec_cuda_wait(x, ctx));
  }
  bool more = true;
  for (int64_t group = 0; more && !*flags; group++)
    HD_TRY(evaluate_groups(&more, all, ctx, driver, &step, group, out, flags));
  HD_TRY(hd__cuda_share_outcome(all->share, ctx, out, samples, flags));
  hd__trace_event(hd__exec_cuda_host_track(all), HD_SLICE_EVALUATE, (int32_t)samples, began_ns);
  return HD_OK;
}

const char *hd__exec_cuda_sums(const hd_exec_cuda *x) {
  const cuda_share *s = x->share;
  return s->count == 1 ? "" : s->nccl ? hd__cuda_nccl_name(s->nccl) : "tree";
}

void hd__exec_cuda_spent(int64_t *sums, const hd_exec_cuda *x) { hd__cuda_share_spent(sums, x->share); }

const char *hd__exec_cuda_sums_why(const hd_exec_cuda *x) { return x->share->why; }

bool hd__exec_cuda_fetches(const hd_exec_cuda *x, int64_t samples, int64_t first, int64_t rows) {
  return hd__cuda_share_fetches(x->share, samples, first, rows);
}
