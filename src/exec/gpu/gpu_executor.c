/* Runs a plan's steps on GPUs.
 *
 * A step is recorded once for each inlet and replayed. While the GPU computes, threads of the host fetch the next
 * steps' samples into pinned memory, and the copy stream copies them to the GPU, some steps ahead:
 *
 *     host       fetch 0 | fetch 1     | fetch 2     |             inlet 0, inlet 1, inlet 2
 *     copy               | copy 0      | copy 1      | copy 2
 *     compute                   | step 0      | step 1      | step 2
 *
 * With several GPUs (gpu_share.h) each has such a pair of streams, and a step is recorded in segments, with an
 * exchange of partial sums between two segments.
 *
 * The host fills an inlet again when the samples before have been copied from it; the copy to the GPU waits until the
 * step that read them is done. The results of several steps are read back at once and received after as many more
 * steps have been launched, so that the GPU never waits for the host: a step is reported up to `unreported` steps
 * late. If a value is not finite, the GPU itself stops updating, so the last whole version stays valid
 * whatever was launched after it.
 *
 * At the end of a run the last whole version is copied to the host's store: checkpoints, digests and the CPU read
 * the same bytes wherever they were computed. */
#include "exec/gpu/gpu_executor.h"

#include <string.h>

#include "base/alloc.h"
#include "exec/gpu/gpu_exchange.h"
#include "exec/gpu/gpu_executor_state.h"
#include "platform/threads.h"

/* ---- Creating ---- */

static hd_status refuse_custom_ops(hd_ctx *ctx, const hd_plan *plan) {
  for (int i = 0; i < plan->call_count; i++)
    if (plan->calls[i].op == HD_OP_custom || plan->calls[i].op == HD_OP_custom_dx)
      return hd__fail(ctx, HD_E_UNSUPPORTED,
                      "--device cuda expects operations that a GPU has, found '%s', a custom operation; use "
                      "--device cpu",
                      plan->calls[i].name);
  return HD_OK;
}

/* The number of events, each in all[]. */
enum { MOST_EVENTS = 2 * HD_CUDA_INLETS + 3 };
static int list_events(cu_event *all[MOST_EVENTS], hd_exec_cuda *x) {
  int count = 0;
  for (int i = 0; i < HD_CUDA_INLETS; i++) {
    all[count++] = &x->inlet[i].copied;
    all[count++] = &x->inlet[i].used;
  }
  all[count++] = &x->ready;
  all[count++] = &x->taken;
  all[count++] = &x->received;
  return count;
}

static hd_status create_events(hd_exec_cuda *x, hd_ctx *ctx) {
  cu_event *all[MOST_EVENTS];
  const int count = list_events(all, x);
  hd__cuda_use(x->cuda);
  for (int i = 0; i < count; i++)
    HD_TRY(hd__cuda_check(x->cuda, ctx, x->cuda->driver.event_create(all[i], CU_EVENT_NO_TIMING), "starting"));
  return HD_OK;
}

static hd_status fill(hd_exec_cuda *x, hd_ctx *ctx) {
  x->fetch = hd__malloc_aligned((size_t)(hd__threads_count(x->threads) * x->settings.fetch_bytes) + 1);
  HD_TRY(HD_ALLOCATED(x->fetch, ctx, "out of memory for fetching samples"));
  HD_TRY(create_events(x, ctx));
  HD_TRY(hd__exec_cuda_native_plan(x, ctx));
  HD_TRY(hd__exec_cuda_memory(x, ctx));
  HD_TRY(hd__exec_cuda_warm_up(x, ctx));
  HD_TRY(hd__exec_cuda_tables(x, ctx));
  return hd__exec_cuda_record(x, ctx);
}

/* Adds the executor of one GPU. *out is set also on failure, except when out of memory. */
static hd_status add(hd_exec_cuda **out, hd_ctx *ctx, const hd_exec_cuda *like, hd_cuda *cuda) {
  hd_exec_cuda *x = *out = hd__calloc(1, sizeof *x);
  HD_TRY(HD_ALLOCATED(x, ctx, "out of memory for the executor"));
  *x = *like;
  x->cuda = cuda;
  if (x->plan->trains) {
    x->settings.batch = hd__cuda_share_rows(x->share, x->number);
    x->settings.shards = hd__cuda_share_shards(x->share, x->number);
  }
  return fill(x, ctx);
}

static hd_status add_all(hd_exec_cuda **out, hd_ctx *ctx, hd_exec_cuda *like) {
  HD_TRY(refuse_custom_ops(ctx, like->plan));
  HD_TRY(hd__cuda_share_create(&like->share, ctx, like->plan, &like->settings));
  like->number = like->share->exchange.first;
  hd_status status = HD_OK;
  for (hd_cuda *cuda = like->settings.own; cuda && status == HD_OK; cuda = cuda->next) {
    status = add(out, ctx, like, cuda);
    like->number++;
    out = *out ? &(*out)->next : out;
  }
  return status;
}

static void destroy_events(hd_exec_cuda *x) {
  cu_event *all[MOST_EVENTS];
  const int count = list_events(all, x);
  for (int i = 0; i < count; i++)
    if (*all[i])
      x->cuda->driver.event_destroy(*all[i]);
}

static void destroy_one(hd_exec_cuda *x) {
  hd__cuda_use(x->cuda);
  for (int i = 0; i < x->inlets; i++) {
    for (int s = 0; x->inlet[i].recorded && s <= x->share->exchanges; s++)
      if (x->inlet[i].recorded[s])
        x->cuda->driver.graph_exec_destroy(x->inlet[i].recorded[s]);
    hd__free(x->inlet[i].recorded);
  }
  hd__exec_cuda_trace_end(x);
  destroy_events(x);
  hd__cuda_free(x->cuda, x->memory);
  hd__cuda_free(x->cuda, x->data);
  hd__cuda_free(x->cuda, x->labels);
  hd__cuda_free_host(x->cuda, x->host);
  hd__free(x->native.taken);
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
static void destroy(void *self) {
  hd_exec_cuda *x = self;
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

static hd_status create(void **self, hd_ctx *ctx, const hd_plan *plan, hd_store *store, hd_threads *threads,
                        const hd_exec_settings *settings) {
  if (plan->update.averages)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "--device cuda expects a run without --ema and --lookahead, found one; use --device cpu");
  for (const hd_plan_group *g = plan->update.groups;
       g < plan->update.groups + plan->update.group_count && plan->muon.matrix_count > 0; g++)
    if (g->optimizer->matrices)
      return hd__fail(ctx, HD_E_UNSUPPORTED,
                      "--device cuda expects a run without the optimizer %s, found one; use --device cpu",
                      g->optimizer->name);
  hd_exec_cuda like = {.plan = plan, .store = store, .threads = threads, .settings = *settings}, *first = NULL;
  const hd_status status = add_all(&first, ctx, &like);
  *self = first;
  if (first)
    like.share->first = first;
  if (status == HD_OK)
    return HD_OK;
  if (!first)
    hd__cuda_share_destroy(like.share);
  destroy(first);
  return status;
}

/* ---- Training ---- */

/* Waits until the host may fill the inlet again. */
static hd_status wait_for_inlet(const hd_exec_cuda *x, hd_ctx *ctx, const cuda_inlet *inlet) {
  return hd__cuda_nccl_wait(x->share->nccl, ctx, x->cuda, inlet->copied);
}

/* Describes the step for each GPU of this process. */
static void describe_all(const hd_exec_cuda *first, const hd_step *step, int at) {
  const cuda_share *s = first->share;
  for (const hd_exec_cuda *x = first; x; x = x->next) {
    const cuda_samples *inlet = &x->inlet[at].host;
    const int64_t row0 = s->sums.row[x->number], rows = s->sums.row[x->number + 1] - row0;
    hd__exec_cuda_describe(inlet->step, step, row0, rows, step->samples,
                           &s->sums.range[x->number - s->exchange.first].pushes);
    if (inlet->whole != inlet->step)
      hd__exec_cuda_describe(inlet->whole, step, 0, step->samples, step->samples, &s->sums.reduction);
    inlet->step->result = inlet->whole->result = (int32_t)(first->launched % HD_CUDA_RESULTS);
  }
}

/* Reports the steps before `end`, whose results have been read back. With several ranks a step was closed
 * before it counted. */
static void report_steps(hd_exec_cuda *x, hd_exec_caller *caller, int64_t end, uint32_t *flags) {
  const bool ranked = hd__cuda_share_is_ranked(x->share);
  for (; x->reported < end; x->reported++) {
    const int at = (int)(x->reported % HD_CUDA_RESULTS);
    const double loss_sum = x->host_results[at].loss_sum;
    if (!hd__exec_cuda_is_whole(x, at)) {
      x->bad_param = hd__exec_cuda_bad_param(x, at);
      x->reported = x->launched;
      *flags |= HD_FLAG_NOT_FINITE;
      return;
    }
    x->version++;
    hd__exec_cuda_write_times(x, x->reported);
    if (!ranked)
      *flags |= caller->report(caller->source->self, &x->step[at], loss_sum, false);
    caller->report(caller->source->self, &x->step[at], loss_sum, true);
  }
}

static hd_status read_results(const hd_exec_cuda *x, hd_ctx *ctx) {
  HD_TRY(hd__exec_cuda_queue_results(x, ctx));
  return hd__exec_cuda_wait(x, ctx);
}

/* Requests the results of all launched steps; later steps do not wait for the copy. */
static hd_status request_results(hd_exec_cuda *x, hd_ctx *ctx) {
  HD_TRY(hd__exec_cuda_queue_results(x, ctx));
  x->requested = x->launched;
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.event_record(x->received, x->cuda->compute), "reading results");
}

/* Waits for the results requested last and reports them. */
static hd_status receive_results(hd_exec_cuda *x, hd_ctx *ctx, hd_exec_caller *caller, uint32_t *flags) {
  HD_TRY(hd__cuda_nccl_wait(x->share->nccl, ctx, x->cuda, x->received));
  report_steps(x, caller, x->requested, flags);
  return HD_OK;
}

/* Keeps the number of unreported steps at most `most`; results are requested for half of them at a time. */
static hd_status keep_up(hd_exec_cuda *x, hd_ctx *ctx, hd_exec_caller *caller, int32_t most, uint32_t *flags) {
  if (x->launched - x->requested >= (most > 1 ? most / 2 : 1)) {
    if (x->reported < x->requested)
      HD_TRY(receive_results(x, ctx, caller, flags));
    HD_TRY(request_results(x, ctx));
  }
  return x->launched - x->reported < most ? HD_OK : receive_results(x, ctx, caller, flags);
}

/* Reads back the results of all launched steps and reports them. */
static hd_status collect(hd_exec_cuda *x, hd_ctx *ctx, hd_exec_caller *caller, uint32_t *flags) {
  if (x->reported == x->launched)
    return HD_OK;
  HD_TRY(read_results(x, ctx));
  report_steps(x, caller, x->launched, flags);
  return HD_OK;
}

/* With several ranks, after the last exchange of a step: earlier steps have counted, and this step's losses are known.
 * The caller's state of the next version is therefore noted before any GPU can have that version. Flags raised here are
 * sent with the next step's sums, so all ranks receive them in the same step. */
static void close_ranked(hd_exec_cuda *x, hd_exec_caller *caller, const hd_step *step, uint32_t *flags) {
  report_steps(x, caller, x->launched, flags);
  if (!*flags)
    x->share->carried |= caller->report(caller->source->self, step, x->share->loss_sum, false);
}

/* Samples for all GPUs of this process. */
static hd_status fetch_all(uint32_t *flags, hd_exec_cuda *first, hd_ctx *ctx, hd_exec_caller *caller,
                           const hd_step *step, int inlet) {
  const cuda_share *s = first->share;
  if (first->settings.samples)
    *flags |= hd__exec_fetch(caller, step, 0, step->samples, &(hd_slots){.sample = s->chosen});
  for (hd_exec_cuda *x = first; x; x = x->next) {
    const int64_t row0 = s->sums.row[x->number], rows = s->sums.row[x->number + 1] - row0;
    const cuda_step_rows from = {step, row0, rows};
    HD_TRY(wait_for_inlet(x, ctx, &x->inlet[inlet]));
    hd__trace_leaf(hd__exec_cuda_host_track(x), HD_SLICE_INLET, 0);
    if (x->data)
      memcpy(x->inlet[inlet].host.sample, s->chosen + row0, (size_t)rows * sizeof *s->chosen);
    else
      HD_TRY(hd__exec_cuda_fetch(flags, x, ctx, caller, &from, &x->inlet[inlet]));
  }
  return HD_OK;
}

/* Queues a step on all GPUs. If a flag is set, the step was abandoned before any update. */
static hd_status launch_step(hd_exec_cuda *first, hd_ctx *ctx, hd_exec_caller *caller, const hd_step *step, int inlet,
                             uint32_t *flags) {
  cuda_share *s = first->share;
  s->reports = step->reports;
  describe_all(first, step, inlet);
  for (hd_exec_cuda *x = first; x; x = x->next)
    HD_TRY(hd__exec_cuda_launch_step(x, ctx, &x->inlet[inlet]));
  for (int i = 0; i < s->exchanges && !*flags; i++) {
    HD_TRY(hd__gpu_exchange(s, ctx, i, flags));
    if (!*flags && i == s->exchanges - 1 && hd__cuda_share_is_ranked(s))
      close_ranked(first, caller, step, flags);
    for (const hd_exec_cuda *x = first; x && !*flags; x = x->next)
      HD_TRY(hd__exec_cuda_launch_segment(x, ctx, &x->inlet[inlet], i + 1));
  }
  for (const hd_exec_cuda *x = first; x; x = x->next)
    HD_TRY(hd__exec_cuda_mark_used(x, ctx, &x->inlet[inlet]));
  return HD_OK;
}

static hd_status run_steps(hd_exec_cuda *x, hd_ctx *ctx, hd_exec_caller *caller, uint32_t *flags) {
  const int32_t most = x->settings.unreported < HD_CUDA_RESULTS ? x->settings.unreported : HD_CUDA_RESULTS;
  const bool ranked = hd__cuda_share_is_ranked(x->share);
  uint64_t version = x->version;
  x->requested = x->launched;
  hd_track *host = hd__exec_cuda_host_track(x);
  hd__tally_start(x->share->tally);
  HD_TRY(hd__exec_cuda_time_region(x, ctx));
  for (hd_step step; !*flags && caller->source->next(caller->source->self, &step); version++) {
    const int inlet = (int)(version % (uint64_t)x->inlets);
    uint32_t raised = 0;
    hd__trace_step(host);
    const int whole = hd__trace_open(host, HD_SLICE_STEP, (int32_t)step.samples);
    hd__cuda_share_lay_out(x->share, step.samples);
    hd__tally_end(x->share->tally, HD_SPENT_COMPUTE);
    HD_TRY(fetch_all(&raised, x, ctx, caller, &step, inlet));
    hd__tally_end(x->share->tally, HD_SPENT_DATA);
    hd__trace_leaf(host, HD_SLICE_FETCH, 0);
    *flags |= ranked ? 0 : raised;
    x->share->carried |= ranked ? raised : 0;
    if (!*flags)
      HD_TRY(launch_step(x, ctx, caller, &step, inlet, flags));
    if (*flags)
      break;
    hd__trace_leaf(host, HD_SLICE_LAUNCH, 0);
    x->step[x->launched++ % HD_CUDA_RESULTS] = step;
    if (!ranked)
      HD_TRY(keep_up(x, ctx, caller, most, flags));
    else if (x->launched - x->reported >= most)
      HD_TRY(collect(x, ctx, caller, flags));
    hd__trace_leaf(host, HD_SLICE_COLLECT, 0);
    hd__trace_close(host, whole);
  }
  const hd_status status = collect(x, ctx, caller, flags);
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
  for (; x->reported < whole && hd__exec_cuda_is_whole(x, (int)(x->reported % HD_CUDA_RESULTS)); x->reported++)
    x->version++;
  hd__exec_cuda_download_store(x, &quiet);
}

/* The first GPU has all sums, also those of a GPU that was lost meanwhile: none may be, before its weights count. */
static hd_status wait_for_all(const hd_exec_cuda *first, hd_ctx *ctx) {
  for (const hd_exec_cuda *x = first; x; x = x->next) {
    hd__cuda_use(x->cuda);
    HD_TRY(hd__exec_cuda_wait(x, ctx));
  }
  return HD_OK;
}

static hd_status run(void *self, hd_ctx *ctx, hd_exec_caller *caller, uint32_t *flags) {
  hd_exec_cuda *x = self;
  *flags = 0;
  if (!x->uploaded || x->version != hd__store_version(x->store))
    HD_TRY(hd__exec_cuda_upload_store(x, ctx));
  hd_status status = run_steps(x, ctx, caller, flags);
  HD_THEN(status, wait_for_all(x, ctx));
  if (status != HD_OK)
    hd__cuda_nccl_abort(x->share->nccl);
  if (status == HD_E_PEER)
    save_for_peers(x);
  if (status != HD_OK) {
    x->uploaded = false;
    return status; /* a GPU is lost: the store has what was trained before this run */
  }
  HD_TRY(hd__exec_cuda_compare_weights(x, ctx));
  HD_TRY(hd__exec_cuda_fill_store(x, ctx));
  if (*flags & HD_FLAG_NOT_FINITE) {
    x->uploaded = false;
    return hd__exec_not_finite(ctx, x->plan, x->bad_param);
  }
  return HD_OK;
}

/* ---- The table ---- */

static bool fetches(const void *self, int64_t samples, int64_t first, int64_t rows) {
  const hd_exec_cuda *x = self;
  return hd__cuda_share_fetches(x->share, samples, first, rows);
}

static int facts(void *out, const void *self, hd_fact fact) {
  const cuda_share *s = ((const hd_exec_cuda *)self)->share;
  int count = fact == HD_FACT_SUMS && s->exchange.count > 1 ? 1 : 0;
  if (count > 0 && out)
    *(hd_sums_fact *)out = (hd_sums_fact){s->nccl ? hd__cuda_nccl_name(s->nccl) : "", s->why};
  for (const hd_exec_cuda *x = self; x && fact == HD_FACT_MEMORY; x = x->next, count++)
    if (out)
      hd__cuda_memory((hd_gpu_memory *)out + count, x->cuda);
  return count;
}

/* Of a rank's host thread, which waits for its GPU. */
static void spent(int64_t *sums, const void *self) {
  hd__exchange_spent(sums, &((const hd_exec_cuda *)self)->share->exchange);
}

const hd_executor hd__gpu_executor = {.evaluates_bytes = 256 << 20,
                                      .create = create,
                                      .destroy = destroy,
                                      .run = run,
                                      .evaluate = hd__exec_cuda_evaluate,
                                      .fetches = fetches,
                                      .facts = facts,
                                      .trace = hd__exec_cuda_trace,
                                      .trace_size = hd__exec_cuda_trace_size,
                                      .spent = spent};
