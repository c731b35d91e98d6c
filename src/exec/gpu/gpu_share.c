/* Several GPUs: see gpu_share.h. */
#include "exec/gpu/gpu_share.h"

#include <string.h>

#include "base/alloc.h"
#include "exec/exchange/cluster.h"
#include "exec/gpu/gpu_executor_state.h"

/* ---- layout ---- */

int32_t hd__cuda_share_shards(const cuda_share *s, int number) { return s->border[number + 1] - s->border[number]; }

int64_t hd__cuda_share_rows(const cuda_share *s, int number) {
  const int64_t shards = hd__cuda_share_shards(s, number), rows = (shards * s->batch + s->shards - 1) / s->shards;
  return rows > 0 ? rows : 1;
}

/* Whether NCCL reduces exchange `index`. */
static bool is_summed(const cuda_share *s, int index) { return s->nccl && index == s->exchanges - 1; }

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t hd__cuda_share_gpu_elems(const cuda_share *s, int number) {
  int64_t most = 0;
  for (int i = 0; i < s->exchanges; i++)
    most = larger(most, s->elems[i] * (is_summed(s, i) ? 1 : hd__tree_most_sums(hd__cuda_share_shards(s, number))));
  return most;
}

/* The most floats of partial sums of all GPUs in an exchange, except the one by NCCL. */
static int64_t most_exchanged(const cuda_share *s) {
  int64_t partial_sums = 0, most = 0;
  for (int g = 0; g < s->count; g++)
    partial_sums += hd__tree_most_sums(hd__cuda_share_shards(s, g));
  for (int i = 0; i < s->exchanges; i++)
    most = larger(most, is_summed(s, i) ? 0 : s->elems[i] * partial_sums);
  return most;
}

int64_t hd__cuda_share_all_elems(const cuda_share *s) {
  return s->nccl ? larger(most_exchanged(s), s->elems[s->exchanges - 1]) : most_exchanged(s);
}

void hd__cuda_share_evaluates(int64_t *begin, int64_t *end, const cuda_share *s, int number, int64_t samples) {
  *begin = hd__tree_share(samples, NULL, s->count, number);
  *end = hd__tree_share(samples, NULL, s->count, number + 1);
}

bool hd__cuda_share_fetches(const cuda_share *s, int64_t samples, int64_t first, int64_t rows) {
  const int32_t *border = s->border + s->first_number;
  return hd__tree_holds(samples, s->shards, 1, border[0], border[s->process_gpus], first, rows);
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
  if (s->count == 1)
    s->sums.reduction = s->sums.range->pushes;
}

/* ---- creating ---- */

/* The GPUs of a rank, as sent to all ranks. */
typedef struct rank_gpus {
  int32_t count;
  cu_uuid first;
} rank_gpus;

/* If CUDA_VISIBLE_DEVICES shows each rank one GPU, several ranks may see the same one. */
static hd_status check_apart(const cuda_share *s, hd_ctx *ctx, const rank_gpus *all) {
  for (int h = 0; h < s->hosts; h++)
    for (int a = hd__cluster_first(s->local, h); a < hd__cluster_first(s->local, h + 1); a++)
      for (int b = hd__cluster_first(s->local, h); b < a; b++) {
        const int rank = hd__cluster_member(s->local, a), other = hd__cluster_member(s->local, b);
        if (!memcmp(&all[rank].first, &all[other].first, sizeof all->first))
          return hd__fail(
              ctx, HD_E_UNSUPPORTED,
              "--device expects a GPU for each rank of a host, since two on one would only take turns, found "
              "that ranks %d and %d have the same; show them others by CUDA_VISIBLE_DEVICES, or start fewer",
              other, rank);
      }
  return HD_OK;
}

static hd_status number_gpus(cuda_share *s, hd_ctx *ctx, const hd_cuda *cuda) {
  const int ranks = hd__cluster_ranks(s->local);
  rank_gpus *all = hd__calloc((size_t)ranks, sizeof *all), this_rank = {.count = s->process_gpus};
  s->hosts = hd__cluster_count(s->local);
  s->host = hd__cluster_this_host(s->local);
  s->host_first = hd__calloc((size_t)s->hosts + 1, sizeof *s->host_first);
  if (!all || !s->host_first) {
    hd__free(all);
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the GPUs of %d ranks", ranks);
  }
  hd_status status =
      hd__cuda_check(cuda, ctx, cuda->driver.device_uuid(&this_rank.first, cuda->device), "asking for the GPU's name");
  if (status == HD_OK)
    status = hd__cluster_gather(all, s->local, ctx, &this_rank, sizeof this_rank);
  if (status == HD_OK)
    status = check_apart(s, ctx, all);
  for (int h = 0; h < s->hosts && status == HD_OK; h++) {
    s->host_first[h] = s->count;
    for (int place = hd__cluster_first(s->local, h); place < hd__cluster_first(s->local, h + 1); place++) {
      const int member = hd__cluster_member(s->local, place);
      if (member == hd__cluster_rank(s->local))
        s->first_number = s->count;
      s->count += all[member].count;
    }
    s->host_first[h + 1] = s->count;
  }
  hd__free(all);
  return status;
}

/* Numbers in an account of a rank's time. */
static int64_t spent_each(const cuda_share *s) { return HD_SPENT_KINDS + hd__cluster_ranks(s->local); }

static hd_status take_tables(cuda_share *s, hd_ctx *ctx, const hd_plan *plan) {
  const size_t gpus = (size_t)s->count;
  s->border = hd__calloc(gpus + 1, sizeof *s->border);
  s->sums.row = hd__calloc(gpus + 1, sizeof *s->sums.row);
  s->sums.first = hd__calloc(gpus + 1, sizeof *s->sums.first);
  s->sums.range = hd__calloc((size_t)s->process_gpus, sizeof *s->sums.range);
  s->sums.ranges = s->count;
  s->sums.begin = s->first_number;
  s->sums.end = s->first_number + s->process_gpus;
  s->elems = hd__calloc((size_t)plan->phase_count + 1, sizeof *s->elems);
  s->chosen = hd__calloc((size_t)s->batch, sizeof *s->chosen);
  s->block_bytes = hd__calloc(4 * (size_t)s->hosts, sizeof *s->block_bytes);
  s->spent = hd__calloc((size_t)(hd__cluster_ranks(s->local) * spent_each(s)), sizeof *s->spent);
  return s->border && s->sums.row && s->sums.first && s->sums.range && s->elems && s->chosen && s->block_bytes &&
                 s->spent
             ? HD_OK
             : hd__fail(ctx, HD_E_NOMEM, "out of memory for %d GPUs", s->count);
}

static void list_exchanges(cuda_share *s, const hd_plan *plan) {
  for (int i = 0; i < plan->phase_count && plan->trains && s->count > 1; i++) {
    const int64_t elems = plan->phases[i].gradients + plan->phases[i].gathered;
    if (elems > 0)
      s->elems[s->exchanges++] = elems;
  }
}

/* NCCL reduces the last exchange if it has gradients alone; some networks add statistics, which are not sums. */
static hd_status begin_nccl(cuda_share *s, hd_ctx *ctx, const hd_plan *plan, const hd_exec_settings *settings) {
  if (!settings->native || s->exchanges == 0 || s->elems[s->exchanges - 1] != plan->grad_elems)
    return HD_OK;
  return hd__cuda_nccl_begin(&s->nccl, s->why, ctx, s->local, settings->cuda, s->first_number, s->count);
}

/* Memory of an exchange, shared by the ranks of a host: arrival times of each rank at the two barriers, flags of all
 * hosts, the agreed flags, the rank that this host's first rank waited for (-1: none), losses, partial sums. */
typedef struct exchange_buffer {
  int64_t *came_ns[2];
  uint32_t *flags, *agreed;
  int32_t *waited_for;
  float *losses, *partial_sums;
} exchange_buffer;

static int64_t buffer_bytes(const cuda_share *s) {
  const int64_t words = 4 * hd__local_group_ranks(s->local) + s->hosts + 2 + s->batch + most_exchanged(s);
  return (words * 4 + 4095) / 4096 * 4096;
}

static exchange_buffer buffer_of(const cuda_share *s, uint64_t number) {
  int64_t *came_ns = (int64_t *)(void *)((char *)s->memory.base + (int64_t)(number & 1) * buffer_bytes(s));
  const int ranks = hd__local_group_ranks(s->local);
  uint32_t *words = (uint32_t *)(came_ns + 2 * ranks);
  float *losses = (float *)(words + s->hosts + 2);
  return (exchange_buffer){{came_ns, came_ns + ranks},      words,  words + s->hosts,
                           (int32_t *)words + s->hosts + 1, losses, losses + s->batch};
}

/* ---- time accounts ---- */

/* Of rank `rank` of this host. */
static hd_tally *tally_of(const cuda_share *s, int rank) {
  const int64_t bytes = hd__tally_bytes(hd__cluster_ranks(s->local));
  return (hd_tally *)(void *)((char *)s->memory.base + 2 * buffer_bytes(s) + rank * bytes);
}

/* Writes the accounts of this host's ranks to `sums`, which has those of all ranks, host after host. */
static void add_spent(int64_t *sums, const cuda_share *s) {
  const int first = hd__cluster_first(s->local, s->host);
  for (int r = 0; r < hd__local_group_ranks(s->local); r++) {
    int64_t *sum = sums + (first + r) * spent_each(s);
    memset(sum, 0, (size_t)spent_each(s) * sizeof *sum);
    hd__tally_add(sum, tally_of(s, r), hd__cluster_ranks(s->local));
  }
}

void hd__cuda_share_spent(int64_t *sums, const cuda_share *s) {
  const int64_t each = spent_each(s);
  if (!s->memory.base)
    return;
  add_spent(s->spent, s);
  for (int place = 0; place < hd__cluster_ranks(s->local); place++)
    memcpy(sums + hd__cluster_member(s->local, place) * each, s->spent + place * each, (size_t)each * sizeof *sums);
}

/* Charges this rank's waiting to the last rank to arrive at barrier `second` of an exchange, or to the rank that the
 * last one waited for. */
static void count_waiting(const cuda_share *s, const exchange_buffer *place, int second) {
  const int64_t *came_ns = place->came_ns[second];
  int last = 0;
  for (int r = 1; r < hd__local_group_ranks(s->local); r++)
    last = came_ns[r] > came_ns[last] ? r : last;
  const int rank = hd__cluster_member(s->local, hd__cluster_first(s->local, s->host) + last);
  const int other = second && last == 0 ? *place->waited_for : -1;
  hd__tally_waited(s->tally, last == hd__local_group_rank(s->local) ? -1 : other >= 0 ? other : rank);
}

/* Pinned memory is copied at full speed and asynchronously; without pinning the results are the same. */
static hd_status take_memory(cuda_share *s, hd_ctx *ctx, hd_cuda *cuda) {
  const int ranks = hd__local_group_ranks(s->local);
  const int64_t bytes = 2 * buffer_bytes(s) + ranks * hd__tally_bytes(hd__cluster_ranks(s->local));
  HD_TRY(hd__local_group_memory(&s->memory, s->local, ctx, (size_t)bytes, "exchanges between GPUs"));
  s->tally = tally_of(s, hd__local_group_rank(s->local));
  hd__cuda_use(cuda);
  s->pinned = cuda->driver.pin(s->memory.base, (size_t)(2 * buffer_bytes(s)), CU_PIN_FOR_ALL) == CU_DONE;
  return HD_OK;
}

static hd_status create(cuda_share *s, hd_ctx *ctx, const hd_plan *plan, const hd_exec_settings *settings) {
  for (const hd_cuda *cuda = settings->cuda; cuda; cuda = cuda->next)
    s->process_gpus++;
  HD_TRY(number_gpus(s, ctx, settings->cuda));
  if (plan->trains && s->count > s->shards)
    return hd__fail(
        ctx, HD_E_UNSUPPORTED,
        "--device expects no more GPUs than a batch has shards, found %d GPUs and %d shards; use fewer GPUs, "
        "a larger --batch or more --shards",
        s->count, s->shards);
  HD_TRY(take_tables(s, ctx, plan));
  hd__tree_distribute(s->border, s->shards, NULL, s->count);
  list_exchanges(s, plan);
  HD_TRY(begin_nccl(s, ctx, plan, settings));
  return plan->trains && hd__cuda_share_is_ranked(s) ? take_memory(s, ctx, settings->cuda) : HD_OK;
}

hd_status hd__cuda_share_create(cuda_share **out, hd_ctx *ctx, const hd_plan *plan, const hd_exec_settings *settings) {
  *out = NULL;
  cuda_share *s = hd__calloc(1, sizeof *s);
  if (!s)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the GPUs of a run");
  s->local = settings->local;
  s->shards = settings->shards > 0 ? settings->shards : 1;
  s->batch = settings->batch;
  const hd_status status = create(s, ctx, plan, settings);
  if (status == HD_OK)
    *out = s;
  else
    hd__cuda_share_destroy(s);
  return status;
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
  hd__free(s->host_first);
  hd__free(s->border);
  hd__free(s->sums.row);
  hd__free(s->sums.first);
  hd__free(s->sums.range);
  hd__free(s->elems);
  hd__free(s->chosen);
  hd__free(s->block_bytes);
  hd__free(s->spent);
  hd__free(s);
}

/* ---- exchange inside a process ---- */

static hd_status copy_across(const hd_exec_cuda *to, const hd_exec_cuda *from, hd_ctx *ctx, float *there,
                             const float *here, int64_t elems) {
  if (elems == 0)
    return HD_OK;
  const cu_pointer target = (cu_pointer)(uintptr_t)there, source = (cu_pointer)(uintptr_t)here;
  return hd__cuda_check(to->cuda, ctx,
                        to->cuda->driver.move_across(target, to->cuda->context, source, from->cuda->context,
                                                     (size_t)elems * sizeof *here, to->cuda->compute),
                        "copying from another GPU");
}

/* Floats of a partial sum that this exchange copies. */
static int64_t moved_elems(const cuda_share *s, int index) { return is_summed(s, index) ? 0 : s->elems[index]; }

/* Copies the partial sums of all GPUs to GPU x. */
static hd_status take_from_all(const cuda_share *s, hd_exec_cuda *x, hd_ctx *ctx, int index) {
  const int64_t elems = moved_elems(s, index);
  for (const hd_exec_cuda *from = s->first; from; from = from->next) {
    const int g = from->number;
    if (from != x)
      HD_TRY(hd__cuda_check(x->cuda, ctx, x->cuda->driver.stream_after(x->cuda->compute, from->ready, 0),
                            "waiting for another GPU"));
    HD_TRY(copy_across(x, from, ctx, x->all_partial_sums + s->sums.first[g] * elems, from->partial_sums,
                       (s->sums.first[g + 1] - s->sums.first[g]) * elems));
    if (index == s->exchanges - 1)
      HD_TRY(
          copy_across(x, from, ctx, x->all_losses + s->sums.row[g], from->losses, s->sums.row[g + 1] - s->sums.row[g]));
  }
  return HD_OK;
}

static hd_status mark(const hd_exec_cuda *x, hd_ctx *ctx, cu_event event) {
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.event_record(event, x->cuda->compute), "ordering GPUs");
}

/* No GPU continues before all GPUs have copied: only then may a GPU overwrite its partial sums. */
static hd_status exchange_in_process(cuda_share *s, hd_ctx *ctx, int index) {
  for (hd_exec_cuda *x = s->first; x; x = x->next) {
    hd__cuda_use(x->cuda);
    HD_TRY(mark(x, ctx, x->ready));
  }
  for (hd_exec_cuda *x = s->first; x; x = x->next) {
    hd__cuda_use(x->cuda);
    HD_TRY(take_from_all(s, x, ctx, index));
    HD_TRY(mark(x, ctx, x->taken));
  }
  for (hd_exec_cuda *x = s->first; x; x = x->next) {
    hd__cuda_use(x->cuda);
    for (const hd_exec_cuda *other = s->first; other; other = other->next)
      if (other != x)
        HD_TRY(hd__cuda_check(x->cuda, ctx, x->cuda->driver.stream_after(x->cuda->compute, other->taken, 0),
                              "waiting for another GPU"));
  }
  return HD_OK;
}

/* ---- exchange between ranks ---- */

static hd_status publish(const cuda_share *s, hd_ctx *ctx, int index, const exchange_buffer *place) {
  const int64_t elems = moved_elems(s, index), floats = (int64_t)sizeof(float);
  for (const hd_exec_cuda *x = s->first; x; x = x->next) {
    const int g = x->number;
    if (!s->pinned) /* the driver blocks while copying unpinned memory and would not check for lost ranks */
      HD_TRY(hd__exec_cuda_wait(x, ctx));
    hd__cuda_use(x->cuda);
    HD_TRY(hd__exec_cuda_download(x, ctx, place->partial_sums + s->sums.first[g] * elems, x->partial_sums,
                                  (s->sums.first[g + 1] - s->sums.first[g]) * elems * floats));
    if (index == s->exchanges - 1)
      HD_TRY(hd__exec_cuda_download(x, ctx, place->losses + s->sums.row[g], x->losses,
                                    (s->sums.row[g + 1] - s->sums.row[g]) * floats));
  }
  if (index == s->exchanges - 1) { /* the results of earlier steps */
    hd__cuda_use(s->first->cuda);
    HD_TRY(hd__exec_cuda_download(s->first, ctx, s->first->host_results, s->first->results,
                                  (int64_t)(HD_CUDA_RESULTS * sizeof *s->first->results)));
  }
  for (const hd_exec_cuda *x = s->first; x; x = x->next) {
    hd__cuda_use(x->cuda);
    HD_TRY(hd__exec_cuda_wait(x, ctx));
  }
  return HD_OK;
}

static hd_status fetch_sums(const cuda_share *s, hd_ctx *ctx, int index, const exchange_buffer *place) {
  const int64_t floats = (int64_t)sizeof(float);
  for (const hd_exec_cuda *x = s->first; x; x = x->next) {
    hd__cuda_use(x->cuda);
    HD_TRY(hd__exec_cuda_upload(x, ctx, x->all_partial_sums, place->partial_sums,
                                s->sums.first[s->count] * moved_elems(s, index) * floats));
    if (index == s->exchanges - 1)
      HD_TRY(hd__exec_cuda_upload(x, ctx, x->all_losses, place->losses, s->samples * floats));
  }
  return HD_OK;
}

/* Barrier 0 or 1 (`second`) of an exchange, for this host's ranks; *flags becomes the OR of their flags. */
static hd_status wait_for_ranks(const cuda_share *s, hd_ctx *ctx, const exchange_buffer *place, int second,
                                uint32_t *flags) {
  uint32_t all[HD_LOCAL_GROUP_MOST_RANKS];
  hd__tally_end(s->tally, HD_SPENT_COMPUTE);
  place->came_ns[second][hd__local_group_rank(s->local)] = s->tally->since_ns;
  HD_TRY(hd__local_group_gather(all, s->local, ctx, flags, sizeof *flags));
  count_waiting(s, place, second);
  for (int r = 0; r < hd__local_group_ranks(s->local); r++)
    *flags |= all[r];
  return HD_OK;
}

/* Run by a host's first rank: receives the partial sums and losses of the other hosts. If the step reports, the first
 * host also receives the time accounts of their ranks. */
static hd_status exchange_with_hosts(const cuda_share *s, hd_ctx *ctx, int index, const exchange_buffer *place,
                                     uint32_t flags) {
  const int64_t floats = (int64_t)sizeof(float);
  int64_t *of_flags = s->block_bytes, *of_sums = of_flags + s->hosts, *of_losses = of_sums + s->hosts;
  int64_t *of_spent = of_losses + s->hosts;
  const bool is_last = index == s->exchanges - 1;
  int waited_for;
  for (int h = 0; h < s->hosts; h++) {
    const int begin = s->host_first[h], end = s->host_first[h + 1];
    of_flags[h] = (int64_t)sizeof *place->flags;
    of_sums[h] = (s->sums.first[end] - s->sums.first[begin]) * moved_elems(s, index) * floats;
    of_losses[h] = (s->sums.row[end] - s->sums.row[begin]) * floats;
    of_spent[h] = (hd__cluster_first(s->local, h + 1) - hd__cluster_first(s->local, h)) * spent_each(s) *
                  (int64_t)sizeof *s->spent;
  }
  if (s->reports)
    add_spent(s->spent, s);
  place->flags[s->host] = flags;
  const hd_blocks blocks[] = {{.data = place->flags, .bytes = of_flags},
                              {.data = place->partial_sums, .bytes = of_sums},
                              {.data = place->losses, .bytes = of_losses},
                              {.data = s->spent, .bytes = of_spent, .to_first = true}};
  const int count = is_last ? 3 + s->reports : 2;
  hd__tally_end(s->tally, HD_SPENT_COMPUTE);
  HD_TRY(hd__cluster_join_blocks(&waited_for, s->local, ctx, blocks, count, NULL));
  hd__tally_waited(s->tally, waited_for);
  *place->waited_for = waited_for;
  *place->agreed = 0;
  for (int h = 0; h < s->hosts; h++)
    *place->agreed |= place->flags[h];
  return HD_OK;
}

static hd_status wait_for_all(const cuda_share *s, hd_ctx *ctx, int index, const exchange_buffer *place,
                              uint32_t *flags) {
  HD_TRY(wait_for_ranks(s, ctx, place, 0, flags));
  if (s->hosts == 1)
    return HD_OK;
  if (hd__local_group_rank(s->local) == 0)
    HD_TRY(exchange_with_hosts(s, ctx, index, place, *flags));
  uint32_t none = 0;
  HD_TRY(wait_for_ranks(s, ctx, place, 1, &none));
  *flags = *place->agreed;
  return HD_OK;
}

static hd_status exchange_between_ranks(cuda_share *s, hd_ctx *ctx, int index, uint32_t *flags) {
  const exchange_buffer place = buffer_of(s, s->exchanges_done++);
  HD_TRY(publish(s, ctx, index, &place));
  if (index == 0) { /* before anything is updated */
    *flags |= s->carried;
    s->carried = 0;
  }
  HD_TRY(wait_for_all(s, ctx, index, &place, flags));
  if (*flags)
    return HD_OK;
  s->loss_sum = 0;
  for (int64_t i = 0; i < s->samples && index == s->exchanges - 1; i++)
    s->loss_sum += (double)place.losses[i];
  return fetch_sums(s, ctx, index, &place);
}

hd_status hd__cuda_share_exchange(cuda_share *s, hd_ctx *ctx, int index, uint32_t *flags) {
  HD_TRY(hd__cuda_share_is_ranked(s) ? exchange_between_ranks(s, ctx, index, flags)
                                     : exchange_in_process(s, ctx, index));
  return is_summed(s, index) && !*flags ? hd__cuda_nccl_sum(s->nccl, ctx, s->first, s->elems[index]) : HD_OK;
}

/* ---- evaluation ---- */

static hd_status join_outcome(const cuda_share *s, hd_ctx *ctx, const hd_exec_outcome *out, int64_t samples) {
  void *const array[] = {out->loss, out->guess, out->probability};
  hd_blocks blocks[3];
  int count = 0;
  for (int h = 0; h < s->hosts; h++)
    s->block_bytes[h] = 4 * (hd__tree_share(samples, NULL, s->count, s->host_first[h + 1]) -
                             hd__tree_share(samples, NULL, s->count, s->host_first[h]));
  for (int i = 0; i < 3; i++)
    if (array[i])
      blocks[count++] = (hd_blocks){.data = array[i], .bytes = s->block_bytes};
  return hd__cluster_join_blocks(NULL, s->local, ctx, blocks, count, NULL);
}

/* Flags are gathered over all ranks; the gather is also a barrier. */
hd_status hd__cuda_share_outcome(cuda_share *s, hd_ctx *ctx, const hd_exec_outcome *out, int64_t samples,
                                 uint32_t *flags) {
  if (!hd__cuda_share_is_ranked(s))
    return HD_OK;
  const int ranks = hd__cluster_ranks(s->local);
  uint32_t *all = hd__calloc((size_t)ranks, sizeof *all);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the flags of %d ranks", ranks);
  hd_status status = hd__cluster_gather(all, s->local, ctx, flags, sizeof *flags);
  for (int r = 0; r < ranks && status == HD_OK; r++)
    *flags |= all[r];
  hd__free(all);
  HD_TRY(status);
  if (s->hosts == 1)
    return HD_OK;
  if (hd__local_group_rank(s->local) == 0)
    HD_TRY(join_outcome(s, ctx, out, samples));
  return hd__local_group_barrier(s->local, ctx);
}
