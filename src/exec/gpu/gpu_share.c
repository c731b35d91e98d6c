/* Several GPUs: see gpu_share.h. */
#include "exec/gpu/gpu_share.h"

#include <string.h>

#include "base/alloc.h"
#include "exec/gpu/gpu_executor_state.h"

/* ---- layout ---- */

int32_t hd__cuda_share_shards(const cuda_share *s, int number) { return s->border[number + 1] - s->border[number]; }

int64_t hd__cuda_share_rows(const cuda_share *s, int number) {
  const int64_t shards = hd__cuda_share_shards(s, number), rows = (shards * s->batch + s->shards - 1) / s->shards;
  return rows > 0 ? rows : 1;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t hd__cuda_share_gpu_elems(const cuda_share *s, int number) {
  const int64_t sums = hd__tree_most_sums(s->border[number], s->border[number + 1]);
  int64_t most = 0;
  for (int i = 0; i < s->exchanges; i++)
    most = larger(most, s->elems[i] * (hd__cuda_share_is_summed(s, i) ? 1 : sums));
  return most;
}

/* The most floats of partial sums of all GPUs in an exchange, except the one by NCCL. */
static int64_t most_exchanged(const cuda_share *s) {
  int64_t partial_sums = 0, most = 0;
  for (int g = 0; g < s->exchange.count; g++)
    partial_sums += hd__tree_most_sums(s->border[g], s->border[g + 1]);
  for (int i = 0; i < s->exchanges; i++)
    most = larger(most, hd__cuda_share_is_summed(s, i) ? 0 : s->elems[i] * partial_sums);
  return most;
}

int64_t hd__cuda_share_all_elems(const cuda_share *s) {
  return s->nccl ? larger(most_exchanged(s), s->elems[s->exchanges - 1]) : most_exchanged(s);
}

void hd__cuda_share_evaluates(int64_t *begin, int64_t *end, const cuda_share *s, int number, int64_t samples) {
  *begin = hd__tree_share(samples, NULL, s->exchange.count, number);
  *end = hd__tree_share(samples, NULL, s->exchange.count, number + 1);
}

bool hd__cuda_share_fetches(const cuda_share *s, int64_t samples, int64_t first, int64_t rows) {
  const int32_t *border = s->border + s->exchange.first;
  return hd__tree_holds(samples, s->shards, 1, (hd_shard_range){border[0], border[s->exchange.here]}, first, rows);
}

/* The additions of a GPU count samples from its first. */
void hd__cuda_share_lay_out(cuda_share *s, int64_t samples) {
  if (s->samples == samples)
    return;
  const hd_micro_batch whole_batch = hd__tree_micro_batch(samples, s->shards, 1, 0);
  s->samples = samples;
  hd__tree_lay_out(&s->sums, &whole_batch, s->border);
  for (int g = s->sums.begin; g < s->sums.end; g++) {
    hd_reduction *pushes = &s->sums.range[g - s->sums.begin].pushes;
    for (int32_t k = 0; k < pushes->count; k++) {
      pushes->step[k].row0 -= (int32_t)s->sums.row[g];
      pushes->step[k].row1 -= (int32_t)s->sums.row[g];
    }
  }
  if (s->exchange.count == 1)
    s->sums.reduction = s->sums.range->pushes;
}

/* ---- creating ---- */

/* If CUDA_VISIBLE_DEVICES shows each rank one GPU, several ranks may see the same one: `all` has each one's first. */
static hd_status check_apart(const cuda_share *s, hd_ctx *ctx, const cu_uuid *all) {
  for (int h = 0; h < s->exchange.hosts; h++)
    for (int a = hd__cluster_first(s->local, h); a < hd__cluster_first(s->local, h + 1); a++)
      for (int b = hd__cluster_first(s->local, h); b < a; b++) {
        const int rank = hd__cluster_member(s->local, a), other = hd__cluster_member(s->local, b);
        if (!memcmp(&all[rank], &all[other], sizeof *all))
          return hd__fail(
              ctx, HD_E_UNSUPPORTED,
              "--device expects a GPU for each rank of a host, since two on one would only take turns, but ranks %d "
              "and %d have the same; give them different ones with CUDA_VISIBLE_DEVICES, or start fewer ranks",
              other, rank);
      }
  return HD_OK;
}

static hd_status number_gpus(cuda_share *s, hd_ctx *ctx, hd_cuda *gpus) {
  const int ranks = hd__cluster_ranks(s->local);
  int here = 0;
  for (const hd_cuda *cuda = gpus; cuda; cuda = cuda->next)
    here++;
  HD_TRY(hd__exchange_begin(&s->exchange, ctx, s->local, here, true));
  cu_uuid *all = hd__calloc((size_t)ranks, sizeof *all), first;
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for the GPUs of %d ranks", ranks));
  hd_status status =
      hd__cuda_check(gpus, ctx, gpus->driver.device_uuid(&first, gpus->device), "asking for the GPU's name");
  HD_THEN(status, hd__cluster_gather(all, s->local, ctx, &first, sizeof first));
  HD_THEN(status, check_apart(s, ctx, all));
  hd__free(all);
  return status;
}

static hd_status take_tables(cuda_share *s, hd_ctx *ctx, const hd_plan *plan) {
  const size_t gpus = (size_t)s->exchange.count;
  s->border = hd__calloc(gpus + 1, sizeof *s->border);
  s->sums.row = hd__calloc(gpus + 1, sizeof *s->sums.row);
  s->sums.first = hd__calloc(gpus + 1, sizeof *s->sums.first);
  s->sums.range = hd__calloc((size_t)s->exchange.here, sizeof *s->sums.range);
  s->sums.ranges = s->exchange.count;
  s->sums.begin = s->exchange.first;
  s->sums.end = s->exchange.first + s->exchange.here;
  s->elems = hd__calloc((size_t)plan->phase_count + 1, sizeof *s->elems);
  s->chosen = hd__calloc((size_t)s->batch, sizeof *s->chosen);
  return s->border && s->sums.row && s->sums.first && s->sums.range && s->elems && s->chosen
             ? HD_OK
             : hd__fail(ctx, HD_E_NOMEM, "out of memory for %d GPUs", s->exchange.count);
}

static void list_exchanges(cuda_share *s, const hd_plan *plan) {
  for (int i = 0; i < plan->phase_count && plan->trains && s->exchange.count > 1; i++) {
    const int64_t elems = plan->phases[i].gradients + plan->phases[i].gathered;
    if (elems > 0)
      s->elems[s->exchanges++] = elems;
  }
}

/* NCCL reduces the last exchange if it has gradients alone; some networks add statistics, which are not sums. */
static hd_status begin_nccl(cuda_share *s, hd_ctx *ctx, const hd_plan *plan, const hd_exec_settings *settings) {
  hd_cuda *first = settings->own;
  if (!first->native || s->exchanges == 0 || s->elems[s->exchanges - 1] != plan->size.grad_elems)
    return HD_OK;
  return hd__cuda_nccl_begin(&s->nccl, s->why, ctx, s->local, first, s->exchange.first, s->exchange.count);
}

/* A buffer of an exchange, shared by the ranks of a host: losses, partial sums. */
static int64_t buffer_bytes(const cuda_share *s) { return ((s->batch + most_exchanged(s)) * 4 + 4095) / 4096 * 4096; }

float *hd__cuda_share_buffer(const cuda_share *s, uint64_t number) {
  return (float *)(void *)((char *)s->memory.base + (int64_t)(number & 1) * buffer_bytes(s));
}

/* Pinned memory is copied at full speed and asynchronously; without pinning the results are the same. */
static hd_status take_memory(cuda_share *s, hd_ctx *ctx, hd_cuda *cuda, bool trains) {
  hd_exchange *x = &s->exchange;
  const int64_t buffers = trains ? 2 * buffer_bytes(s) : 0, bytes = buffers + hd__exchange_lay_out(x, NULL);
  HD_TRY(hd__local_group_memory(&s->memory, s->local, ctx, (size_t)bytes, "exchanges between GPUs"));
  hd__exchange_lay_out(x, (char *)s->memory.base + buffers);
  s->tally = hd__exchange_tally(x, hd__exchange_first_thread(x));
  hd__cuda_use(cuda);
  s->pinned = trains && cuda->driver.pin(s->memory.base, (size_t)buffers, CU_PIN_FOR_ALL) == CU_DONE;
  return hd__exchange_open(x, ctx, NULL, true);
}

static hd_status create(cuda_share *s, hd_ctx *ctx, const hd_plan *plan, const hd_exec_settings *settings) {
  HD_TRY(number_gpus(s, ctx, settings->own));
  if (plan->trains && s->exchange.count > s->shards)
    return hd__fail(
        ctx, HD_E_UNSUPPORTED,
        "--device expects no more GPUs than a batch has shards, found %d GPUs and %d shards; use fewer GPUs, "
        "a larger --batch or more --shards",
        s->exchange.count, s->shards);
  HD_TRY(take_tables(s, ctx, plan));
  hd__tree_distribute(s->border, s->shards, NULL, s->exchange.count);
  list_exchanges(s, plan);
  HD_TRY(begin_nccl(s, ctx, plan, settings));
  return hd__cuda_share_is_ranked(s) ? take_memory(s, ctx, settings->own, plan->trains) : HD_OK;
}

hd_status hd__cuda_share_create(cuda_share **out, hd_ctx *ctx, const hd_plan *plan, const hd_exec_settings *settings) {
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for the GPUs of a run"));
  cuda_share *s = *out;
  s->local = settings->local;
  s->shards = settings->shards > 0 ? settings->shards : 1;
  s->batch = settings->batch;
  const hd_status status = create(s, ctx, plan, settings);
  return HD_CREATED(status, out, hd__cuda_share_destroy);
}

void hd__cuda_share_forget(cuda_share *s) {
  hd__cuda_nccl_end(s->nccl);
  s->nccl = NULL;
  hd__cuda_use(s->first->cuda);
  if (s->pinned)
    s->first->cuda->driver.unpin(s->memory.base);
  s->pinned = false;
  s->first = NULL;
}

void hd__cuda_share_destroy(cuda_share *s) {
  if (!s)
    return;
  hd__cuda_nccl_end(s->nccl);
  hd__segment_destroy(&s->memory);
  hd__exchange_end(&s->exchange);
  hd__free(s->border);
  hd__free(s->sums.row);
  hd__free(s->sums.first);
  hd__free(s->sums.range);
  hd__free(s->elems);
  hd__free(s->chosen);
  hd__free(s);
}

/* ---- exchange ---- */

hd_status hd__cuda_share_wait(cuda_share *s, hd_ctx *ctx, uint32_t *flags, bool reports) {
  hd_exchange *x = &s->exchange;
  const uint32_t all = hd__exchange_all(x, hd__exchange_first_thread(x), *flags, reports);
  if (all & HD_BARRIER_BROKEN)
    return hd__local_group_check(s->local, ctx);
  *flags = all;
  return HD_OK;
}

/* ---- evaluation ---- */

hd_status hd__cuda_share_outcome(cuda_share *s, hd_ctx *ctx, const hd_exec_outcome *out, int64_t samples,
                                 const hd_plan_io *io, uint32_t *flags) {
  const hd_exchange *x = &s->exchange;
  int64_t first[HD_LOCAL_GROUP_MOST_RANKS + 1];
  if (!hd__cuda_share_is_ranked(s))
    return HD_OK;
  for (int h = 0; h <= x->hosts; h++)
    first[h] = hd__tree_share(samples, NULL, x->count, x->host_first[h]);
  if (hd__cluster_leads(s->local))
    hd__exec_publish_outcome(&s->exchange, out, first, io);
  return hd__cuda_share_wait(s, ctx, flags, false);
}
