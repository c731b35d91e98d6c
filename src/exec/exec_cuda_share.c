/* Several GPUs: see exec_cuda_share.h. */
#include "exec/exec_cuda_share.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "comm/hosts.h"
#include "exec/exec_cuda_state.h"

/* ---- who has what ---- */

int32_t hd__cuda_share_shards(const cuda_share *s, int number) { return s->border[number + 1] - s->border[number]; }

int64_t hd__cuda_share_rows(const cuda_share *s, int number) {
  const int64_t shards = hd__cuda_share_shards(s, number), rows = (shards * s->batch + s->shards - 1) / s->shards;
  return rows > 0 ? rows : 1;
}

static int64_t most_covers(const cuda_share *s, int number) {
  const int32_t shards = hd__cuda_share_shards(s, number);
  return shards < HD_MAX_COVER ? shards : HD_MAX_COVER;
}

/* Whether NCCL makes one sum of a crossing. */
static bool is_summed(const cuda_share *s, int index) { return s->nccl && index == s->crossings - 1; }

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t hd__cuda_share_own_elems(const cuda_share *s, int number) {
  int64_t most = 0;
  for (int i = 0; i < s->crossings; i++)
    most = larger(most, s->elems[i] * (is_summed(s, i) ? 1 : most_covers(s, number)));
  return most;
}

/* Floats of the covers of all GPUs that cross, at most; NCCL's do not. */
static int64_t most_crossing(const cuda_share *s) {
  int64_t covers = 0, most = 0;
  for (int g = 0; g < s->count; g++)
    covers += most_covers(s, g);
  for (int i = 0; i < s->crossings; i++)
    most = larger(most, is_summed(s, i) ? 0 : s->elems[i] * covers);
  return most;
}

int64_t hd__cuda_share_all_elems(const cuda_share *s) {
  return s->nccl ? larger(most_crossing(s), s->elems[s->crossings - 1]) : most_crossing(s);
}

void hd__cuda_share_evaluates(int64_t *begin, int64_t *end, const cuda_share *s, int number, int64_t samples) {
  *begin = hd__tree_share(samples, NULL, s->count, number);
  *end = hd__tree_share(samples, NULL, s->count, number + 1);
}

bool hd__cuda_share_fetches(const cuda_share *s, int64_t samples, int64_t first, int64_t rows) {
  const int64_t begin = hd__tree_first_sample(samples, s->shards, s->border[s->own_first]);
  const int64_t end = hd__tree_first_sample(samples, s->shards, s->border[s->own_first + s->own]);
  return first < end && begin < first + rows;
}

static hd_fold fold_from(const hd_fold *fold, int64_t first) {
  hd_fold local = *fold;
  for (int32_t k = 0; k < local.count; k++) {
    local.step[k].row0 -= (int32_t)first;
    local.step[k].row1 -= (int32_t)first;
  }
  return local;
}

void hd__cuda_share_lay(cuda_share *s, int64_t samples) {
  if (s->samples == samples)
    return;
  const hd_part part = hd__tree_part(samples, s->shards, 1, 0);
  hd_subtree piece[HD_MAX_SHARDS];
  int32_t pieces = 0;
  s->samples = samples;
  for (int g = 0; g < s->count; g++) {
    hd_range_plan range;
    hd__tree_range(&range, &part, s->border[g], s->border[g + 1]);
    s->row[g] = hd__tree_first_sample(samples, s->shards, s->border[g]);
    s->cover[g] = pieces;
    for (int32_t c = 0; c < range.covers; c++)
      piece[pieces++] = range.cover[c];
    if (g >= s->own_first && g < s->own_first + s->own)
      s->local[g - s->own_first] = fold_from(&range.pushes, s->row[g]);
  }
  s->row[s->count] = samples;
  s->cover[s->count] = pieces;
  hd__tree_fold_covers(&s->whole, &part, piece, pieces);
  for (int32_t p = 0; p < pieces; p++) {
    s->whole.step[p].row0 = (int32_t)hd__tree_first_sample(samples, s->shards, piece[p].start);
    s->whole.step[p].row1 = (int32_t)hd__tree_first_sample(samples, s->shards, piece[p].start + piece[p].size);
  }
  if (s->count == 1)
    s->whole = s->local[0];
}

/* ---- creating ---- */

/* What a rank tells of its GPUs. */
typedef struct own_gpus {
  int32_t count;
  cu_uuid first;
} own_gpus;

/* Where each rank was shown GPUs of its own, they may be the same. */
static hd_status check_apart(const cuda_share *s, hd_ctx *ctx, const own_gpus *all) {
  for (int h = 0; h < s->hosts; h++)
    for (int a = hd__hosts_first(s->world, h); a < hd__hosts_first(s->world, h + 1); a++)
      for (int b = hd__hosts_first(s->world, h); b < a; b++) {
        const int rank = hd__hosts_member(s->world, a), other = hd__hosts_member(s->world, b);
        if (!memcmp(&all[rank].first, &all[other].first, sizeof all->first))
          return hd__fail(
              ctx, HD_E_UNSUPPORTED,
              "--device expects a GPU for each rank of a host, since two on one would only take turns, found "
              "that ranks %d and %d have the same; show them others by CUDA_VISIBLE_DEVICES, or start fewer",
              other, rank);
      }
  return HD_OK;
}

static hd_status number(cuda_share *s, hd_ctx *ctx, const hd_cuda *own) {
  const int ranks = hd__hosts_ranks(s->world);
  own_gpus *all = hd__calloc((size_t)ranks, sizeof *all), mine = {.count = s->own};
  s->hosts = hd__hosts_count(s->world);
  s->host = hd__hosts_mine(s->world);
  s->host_first = hd__calloc((size_t)s->hosts + 1, sizeof *s->host_first);
  if (!all || !s->host_first) {
    hd__free(all);
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the GPUs of %d ranks", ranks);
  }
  hd_status status =
      hd__cuda_check(own, ctx, own->driver.device_uuid(&mine.first, own->device), "asking for the GPU's name");
  if (status == HD_OK)
    status = hd__hosts_gather(all, s->world, ctx, &mine, sizeof mine);
  if (status == HD_OK)
    status = check_apart(s, ctx, all);
  for (int h = 0; h < s->hosts && status == HD_OK; h++) {
    s->host_first[h] = s->count;
    for (int place = hd__hosts_first(s->world, h); place < hd__hosts_first(s->world, h + 1); place++) {
      const int member = hd__hosts_member(s->world, place);
      if (member == hd__hosts_rank(s->world))
        s->own_first = s->count;
      s->count += all[member].count;
    }
    s->host_first[h + 1] = s->count;
  }
  hd__free(all);
  return status;
}

/* Numbers in an account of a rank's time. */
static int64_t spent_each(const cuda_share *s) { return HD_SPENT_KINDS + hd__hosts_ranks(s->world); }

static hd_status take_tables(cuda_share *s, hd_ctx *ctx, const hd_plan *plan) {
  const size_t gpus = (size_t)s->count;
  s->border = hd__calloc(gpus + 1, sizeof *s->border);
  s->row = hd__calloc(gpus + 1, sizeof *s->row);
  s->cover = hd__calloc(gpus + 1, sizeof *s->cover);
  s->local = hd__calloc((size_t)s->own, sizeof *s->local);
  s->elems = hd__calloc((size_t)plan->phase_count + 1, sizeof *s->elems);
  s->chosen = hd__calloc((size_t)s->batch, sizeof *s->chosen);
  s->block_bytes = hd__calloc(4 * (size_t)s->hosts, sizeof *s->block_bytes);
  s->spent = hd__calloc((size_t)(hd__hosts_ranks(s->world) * spent_each(s)), sizeof *s->spent);
  return s->border && s->row && s->cover && s->local && s->elems && s->chosen && s->block_bytes && s->spent
             ? HD_OK
             : hd__fail(ctx, HD_E_NOMEM, "out of memory for %d GPUs", s->count);
}

static void list_crossings(cuda_share *s, const hd_plan *plan) {
  const hd_exec_cuda x = {.plan = plan};
  for (int i = 0; i < plan->phase_count && plan->trains && s->count > 1; i++) {
    const int64_t elems = hd__exec_cuda_crossing(&x, &plan->phases[i]);
    if (elems == 0)
      continue;
    s->elems[s->crossings++] = elems;
  }
}

/* What crosses last are gradients alone, unless a network has something to tell there that is no sum. */
static hd_status begin_nccl(cuda_share *s, hd_ctx *ctx, const hd_plan *plan, const hd_exec_settings *settings) {
  if (!settings->native || s->crossings == 0 || s->elems[s->crossings - 1] != plan->grad_elems)
    return HD_OK;
  return hd__cuda_nccl_begin(&s->nccl, s->why, ctx, s->world, settings->cuda, s->own_first, s->count);
}

/* What ranks share: when each came to the two meetings of a crossing, flags of all hosts and those that were agreed on,
 * whom this host's leader waited for (-1: nobody), losses, covers. */
typedef struct meeting_place {
  int64_t *came_ns[2];
  uint32_t *flags, *agreed;
  int32_t *held_by;
  float *losses, *covers;
} meeting_place;

static int64_t place_bytes(const cuda_share *s) {
  const int64_t words = 4 * hd__world_ranks(s->world) + s->hosts + 2 + s->batch + most_crossing(s);
  return (words * 4 + 4095) / 4096 * 4096;
}

static meeting_place place_of(const cuda_share *s, uint64_t crossing) {
  int64_t *came_ns = (int64_t *)(void *)((char *)s->memory.base + (int64_t)(crossing & 1) * place_bytes(s));
  const int ranks = hd__world_ranks(s->world);
  uint32_t *words = (uint32_t *)(came_ns + 2 * ranks);
  float *losses = (float *)(words + s->hosts + 2);
  return (meeting_place){{came_ns, came_ns + ranks},      words,  words + s->hosts,
                         (int32_t *)words + s->hosts + 1, losses, losses + s->batch};
}

/* ---- whose time went where ---- */

/* Of rank `rank` of this host. */
static hd_tally *tally_of(const cuda_share *s, int rank) {
  const int64_t bytes = hd__tally_bytes(hd__hosts_ranks(s->world));
  return (hd_tally *)(void *)((char *)s->memory.base + 2 * place_bytes(s) + rank * bytes);
}

/* The accounts of this host's ranks, to `sums` of all ranks, host after host. */
static void add_spent(int64_t *sums, const cuda_share *s) {
  const int first = hd__hosts_first(s->world, s->host);
  for (int r = 0; r < hd__world_ranks(s->world); r++) {
    int64_t *sum = sums + (first + r) * spent_each(s);
    memset(sum, 0, (size_t)spent_each(s) * sizeof *sum);
    hd__tally_add(sum, tally_of(s, r), hd__hosts_ranks(s->world));
  }
}

void hd__cuda_share_spent(int64_t *sums, const cuda_share *s) {
  const int64_t each = spent_each(s);
  if (!s->memory.base)
    return;
  add_spent(s->spent, s);
  for (int place = 0; place < hd__hosts_ranks(s->world); place++)
    memcpy(sums + hd__hosts_member(s->world, place) * each, s->spent + place * each, (size_t)each * sizeof *sums);
}

/* This rank waited for the one that came last to a crossing's meeting `second`; or for whom that one waited. */
static void count_waiting(const cuda_share *s, const meeting_place *place, int second) {
  const int64_t *came_ns = place->came_ns[second];
  int last = 0;
  for (int r = 1; r < hd__world_ranks(s->world); r++)
    last = came_ns[r] > came_ns[last] ? r : last;
  const int named = hd__hosts_member(s->world, hd__hosts_first(s->world, s->host) + last);
  const int other = second && last == 0 ? *place->held_by : -1;
  hd__tally_waited(s->tally, last == hd__world_rank(s->world) ? -1 : other >= 0 ? other : named);
}

/* Pinned memory is copied at full speed, and while the host does something else; other memory does as well. */
static hd_status take_memory(cuda_share *s, hd_ctx *ctx, hd_cuda *cuda) {
  const int ranks = hd__world_ranks(s->world);
  const int64_t bytes = 2 * place_bytes(s) + ranks * hd__tally_bytes(hd__hosts_ranks(s->world));
  HD_TRY(hd__world_memory(&s->memory, s->world, ctx, (size_t)bytes, "what GPUs tell each other"));
  s->tally = tally_of(s, hd__world_rank(s->world));
  hd__cuda_use(cuda);
  s->pinned = cuda->driver.pin(s->memory.base, (size_t)(2 * place_bytes(s)), CU_PIN_FOR_ALL) == CU_DONE;
  return HD_OK;
}

static hd_status create(cuda_share *s, hd_ctx *ctx, const hd_plan *plan, const hd_exec_settings *settings) {
  for (const hd_cuda *cuda = settings->cuda; cuda; cuda = cuda->next)
    s->own++;
  HD_TRY(number(s, ctx, settings->cuda));
  if (plan->trains && s->count > s->shards)
    return hd__fail(
        ctx, HD_E_UNSUPPORTED,
        "--device expects no more GPUs than a batch has shards, found %d GPUs and %d shards; use fewer GPUs, "
        "a larger --batch or more --shards",
        s->count, s->shards);
  HD_TRY(take_tables(s, ctx, plan));
  hd__tree_deal(s->border, s->shards, NULL, s->count);
  list_crossings(s, plan);
  HD_TRY(begin_nccl(s, ctx, plan, settings));
  return plan->trains && hd__cuda_share_is_ranked(s) ? take_memory(s, ctx, settings->cuda) : HD_OK;
}

hd_status hd__cuda_share_create(cuda_share **out, hd_ctx *ctx, const hd_plan *plan, const hd_exec_settings *settings) {
  *out = NULL;
  cuda_share *s = hd__calloc(1, sizeof *s);
  if (!s)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the GPUs of a run");
  s->world = settings->world;
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
  hd__free(s->row);
  hd__free(s->cover);
  hd__free(s->local);
  hd__free(s->elems);
  hd__free(s->chosen);
  hd__free(s->block_bytes);
  hd__free(s->spent);
  hd__free(s);
}

/* ---- crossing inside a process ---- */

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

/* Floats of each cover that this crossing moves. */
static int64_t moved_elems(const cuda_share *s, int index) { return is_summed(s, index) ? 0 : s->elems[index]; }

/* GPU x takes what all have. */
static hd_status take_from_all(const cuda_share *s, hd_exec_cuda *x, hd_ctx *ctx, int index) {
  const int64_t elems = moved_elems(s, index);
  for (const hd_exec_cuda *from = s->first; from; from = from->next) {
    const int g = from->number;
    if (from != x)
      HD_TRY(hd__cuda_check(x->cuda, ctx, x->cuda->driver.stream_after(x->cuda->compute, from->ready, 0),
                            "waiting for another GPU"));
    HD_TRY(
        copy_across(x, from, ctx, x->covers + s->cover[g] * elems, from->own, (s->cover[g + 1] - s->cover[g]) * elems));
    if (index == s->crossings - 1)
      HD_TRY(copy_across(x, from, ctx, x->all_losses + s->row[g], from->losses, s->row[g + 1] - s->row[g]));
  }
  return HD_OK;
}

static hd_status mark(const hd_exec_cuda *x, hd_ctx *ctx, cu_event event) {
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.event_record(event, x->cuda->compute), "ordering GPUs");
}

/* Nobody goes on before all have copied: a GPU's covers are its own again then. */
static hd_status cross_here(cuda_share *s, hd_ctx *ctx, int index) {
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

/* ---- crossing between ranks ---- */

static hd_status lay_down(const cuda_share *s, hd_ctx *ctx, int index, const meeting_place *place) {
  const int64_t elems = moved_elems(s, index), floats = (int64_t)sizeof(float);
  for (const hd_exec_cuda *x = s->first; x; x = x->next) {
    const int g = x->number;
    if (!s->pinned) /* what is not pinned the driver copies while it waits, and it looks at nobody */
      HD_TRY(hd__exec_cuda_wait(x, ctx));
    hd__cuda_use(x->cuda);
    HD_TRY(hd__exec_cuda_download(x, ctx, place->covers + s->cover[g] * elems, x->own,
                                  (s->cover[g + 1] - s->cover[g]) * elems * floats));
    if (index == s->crossings - 1)
      HD_TRY(
          hd__exec_cuda_download(x, ctx, place->losses + s->row[g], x->losses, (s->row[g + 1] - s->row[g]) * floats));
  }
  if (index == s->crossings - 1) { /* what came of the steps before */
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

static hd_status pick_up(const cuda_share *s, hd_ctx *ctx, int index, const meeting_place *place) {
  const int64_t floats = (int64_t)sizeof(float);
  for (const hd_exec_cuda *x = s->first; x; x = x->next) {
    hd__cuda_use(x->cuda);
    HD_TRY(hd__exec_cuda_upload(x, ctx, x->covers, place->covers, s->cover[s->count] * moved_elems(s, index) * floats));
    if (index == s->crossings - 1)
      HD_TRY(hd__exec_cuda_upload(x, ctx, x->all_losses, place->losses, s->samples * floats));
  }
  return HD_OK;
}

/* This host's ranks meet, for the first or the second time in a crossing; what they raised. */
static hd_status meet(const cuda_share *s, hd_ctx *ctx, const meeting_place *place, int second, uint32_t *flags) {
  uint32_t all[HD_WORLD_MOST_RANKS];
  hd__tally_end(s->tally, HD_SPENT_COMPUTE);
  place->came_ns[second][hd__world_rank(s->world)] = s->tally->since_ns;
  HD_TRY(hd__world_gather(all, s->world, ctx, flags, sizeof *flags));
  count_waiting(s, place, second);
  for (int r = 0; r < hd__world_ranks(s->world); r++)
    *flags |= all[r];
  return HD_OK;
}

/* A host's leader gets what other hosts laid down; the first one where their ranks' time went, too, if the step reports. */
static hd_status join_hosts(const cuda_share *s, hd_ctx *ctx, int index, const meeting_place *place, uint32_t flags) {
  const int64_t floats = (int64_t)sizeof(float);
  int64_t *of_flags = s->block_bytes, *of_covers = of_flags + s->hosts, *of_losses = of_covers + s->hosts;
  int64_t *of_spent = of_losses + s->hosts;
  const bool is_last = index == s->crossings - 1;
  int waited_for;
  for (int h = 0; h < s->hosts; h++) {
    const int begin = s->host_first[h], end = s->host_first[h + 1];
    of_flags[h] = (int64_t)sizeof *place->flags;
    of_covers[h] = (s->cover[end] - s->cover[begin]) * moved_elems(s, index) * floats;
    of_losses[h] = (s->row[end] - s->row[begin]) * floats;
    of_spent[h] =
        (hd__hosts_first(s->world, h + 1) - hd__hosts_first(s->world, h)) * spent_each(s) * (int64_t)sizeof *s->spent;
  }
  if (s->reports)
    add_spent(s->spent, s);
  place->flags[s->host] = flags;
  const hd_blocks blocks[] = {{.data = place->flags, .bytes = of_flags},
                              {.data = place->covers, .bytes = of_covers},
                              {.data = place->losses, .bytes = of_losses},
                              {.data = s->spent, .bytes = of_spent, .to_first = true}};
  const int count = is_last ? 3 + s->reports : 2;
  hd__tally_end(s->tally, HD_SPENT_COMPUTE);
  HD_TRY(hd__hosts_join_blocks(&waited_for, s->world, ctx, blocks, count, NULL));
  hd__tally_waited(s->tally, waited_for);
  *place->held_by = waited_for;
  *place->agreed = 0;
  for (int h = 0; h < s->hosts; h++)
    *place->agreed |= place->flags[h];
  return HD_OK;
}

static hd_status meet_all(const cuda_share *s, hd_ctx *ctx, int index, const meeting_place *place, uint32_t *flags) {
  HD_TRY(meet(s, ctx, place, 0, flags));
  if (s->hosts == 1)
    return HD_OK;
  if (hd__world_rank(s->world) == 0)
    HD_TRY(join_hosts(s, ctx, index, place, *flags));
  uint32_t none = 0;
  HD_TRY(meet(s, ctx, place, 1, &none));
  *flags = *place->agreed;
  return HD_OK;
}

static hd_status cross_ranks(cuda_share *s, hd_ctx *ctx, int index, uint32_t *flags) {
  const meeting_place place = place_of(s, s->crossed++);
  HD_TRY(lay_down(s, ctx, index, &place));
  if (index == 0) { /* before anything is updated */
    *flags |= s->carried;
    s->carried = 0;
  }
  HD_TRY(meet_all(s, ctx, index, &place, flags));
  if (*flags)
    return HD_OK;
  s->loss_sum = 0;
  for (int64_t i = 0; i < s->samples && index == s->crossings - 1; i++)
    s->loss_sum += (double)place.losses[i];
  return pick_up(s, ctx, index, &place);
}

hd_status hd__cuda_share_cross(cuda_share *s, hd_ctx *ctx, int index, uint32_t *flags) {
  HD_TRY(hd__cuda_share_is_ranked(s) ? cross_ranks(s, ctx, index, flags) : cross_here(s, ctx, index));
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
  return hd__hosts_join_blocks(NULL, s->world, ctx, blocks, count, NULL);
}

/* Flags go with a gather over all ranks, which is a meeting of its own. */
hd_status hd__cuda_share_outcome(cuda_share *s, hd_ctx *ctx, const hd_exec_outcome *out, int64_t samples,
                                 uint32_t *flags) {
  if (!hd__cuda_share_is_ranked(s))
    return HD_OK;
  const int ranks = hd__hosts_ranks(s->world);
  uint32_t *all = hd__calloc((size_t)ranks, sizeof *all);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the flags of %d ranks", ranks);
  hd_status status = hd__hosts_gather(all, s->world, ctx, flags, sizeof *flags);
  for (int r = 0; r < ranks && status == HD_OK; r++)
    *flags |= all[r];
  hd__free(all);
  HD_TRY(status);
  if (s->hosts == 1)
    return HD_OK;
  if (hd__world_rank(s->world) == 0)
    HD_TRY(join_outcome(s, ctx, out, samples));
  return hd__world_meet(s->world, ctx);
}
