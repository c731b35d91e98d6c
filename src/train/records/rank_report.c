/* Times of ranks: means over threads, and the rank that each rank waited for most; memory of GPUs. See
 * rank_report.h. */
#include "train/records/rank_report.h"

#include <string.h>

#include "base/alloc.h"
#include "exec/exchange/cluster.h"
#include "exec/exchange/thread_times.h"

static size_t sums_of(const hd_rank_times *t) { return (size_t)t->ranks * (size_t)(HD_SPENT_KINDS + t->ranks); }

hd_status hd__rank_times_init(hd_rank_times *t, hd_ctx *ctx, const hd_exec *exec, const hd_rank_place *place,
                              int ranks) {
  *t = (hd_rank_times){.exec = exec, .place = place, .ranks = ranks > 1 ? ranks : 0};
  t->now = hd__calloc(sums_of(t) + 1, sizeof *t->now);
  t->reported = hd__calloc(sums_of(t) + 1, sizeof *t->reported);
  t->time = hd__calloc((size_t)t->ranks + 1, sizeof *t->time);
  return HD_ALLOCATED(t->now && t->reported && t->time, ctx, "out of memory for the times of ranks");
}

void hd__rank_times_fini(hd_rank_times *t) {
  hd__free(t->now);
  hd__free(t->reported);
  hd__free(t->time);
  *t = (hd_rank_times){0};
}

/* The difference of two readings of a rank's sums. */
static hd_rank_time time_of(const int64_t *now, const int64_t *before, int ranks, int threads) {
  const double s = 1e-9 / threads;
  hd_rank_time time = {.data_s = s * (double)(now[HD_SPENT_DATA] - before[HD_SPENT_DATA]),
                       .compute_s = s * (double)(now[HD_SPENT_COMPUTE] - before[HD_SPENT_COMPUTE]),
                       .waiting_s = s * (double)(now[HD_SPENT_WAITING] - before[HD_SPENT_WAITING]),
                       .waited_for = -1};
  for (int r = 0; r < ranks; r++) {
    const double waited_s = s * (double)(now[HD_SPENT_KINDS + r] - before[HD_SPENT_KINDS + r]);
    if (waited_s <= time.waited_for_s)
      continue;
    time.waited_for_s = waited_s;
    time.waited_for = r;
  }
  return time;
}

/* `before` NULL: since the start. */
static void read_times(hd_rank_times *t, const int64_t *before) {
  const int each = HD_SPENT_KINDS + t->ranks;
  static const int64_t nothing[HD_SPENT_KINDS + HD_LOCAL_GROUP_MOST_RANKS];
  hd__exec_spent(t->now, t->exec);
  for (int r = 0; r < t->ranks; r++)
    t->time[r] = time_of(t->now + r * each, before ? before + r * each : nothing, t->ranks,
                         t->exec->device->threads_compute ? t->place[r].threads : 1); /* that waits for the device */
}

const hd_rank_time *hd__rank_times_whole(hd_rank_times *t) {
  if (t->ranks == 0)
    return NULL;
  read_times(t, NULL);
  return t->time;
}

json_t *hd__rank_times_interval(hd_rank_times *t) {
  if (t->ranks == 0)
    return NULL;
  json_t *list = json_array();
  read_times(t, t->reported);
  memcpy(t->reported, t->now, sums_of(t) * sizeof *t->now);
  for (int r = 0; r < t->ranks; r++) {
    const hd_rank_time *time = &t->time[r];
    json_array_append_new(list, json_pack("{s:f, s:f, s:f, s:i, s:f}", "data_s", time->data_s, "compute_s",
                                          time->compute_s, "waiting_s", time->waiting_s, "waited_for",
                                          (int)time->waited_for, "waited_for_s", time->waited_for_s));
  }
  return list;
}

/* ---- Memory of GPUs ---- */

_Static_assert(sizeof(hd_gpu_memory) <= HD_LOCAL_GROUP_GATHER_BYTES, "an account is gathered whole");

/* Those of this process, in its own memory; *count: how many. */
static hd_status read_here(hd_gpu_memory **out, int32_t *count, hd_ctx *ctx, const hd_exec *exec) {
  *count = hd__exec_facts(NULL, exec, HD_FACT_MEMORY);
  HD_TRY(HD_NEW(*out, *count + 1, ctx, "out of memory for the accounts of GPUs"));
  hd__exec_facts(*out, exec, HD_FACT_MEMORY);
  for (int i = 0; i < *count; i++)
    (*out)[i].rank = hd__cluster_rank(exec->local);
  return HD_OK;
}

void hd__gpu_accounts_read(hd_gpu_accounts *a, const hd_exec *exec) {
  const int32_t rank = hd__cluster_rank(exec->local);
  const int count = hd__exec_facts(a->of ? a->of + a->first_here : NULL, exec, HD_FACT_MEMORY);
  for (int i = 0; a->of && i < count; i++)
    a->of[a->first_here + i].rank = rank;
}

/* The number of GPUs of each rank, and the sum. */
static hd_status count_all(int32_t *of_rank, hd_gpu_accounts *a, hd_ctx *ctx, hd_local_group *local, int32_t here) {
  HD_TRY(hd__cluster_gather(of_rank, local, ctx, &here, sizeof here));
  for (int r = 0; r < hd__cluster_ranks(local); r++) {
    a->first_here = r == hd__cluster_rank(local) ? a->count : a->first_here;
    a->count += of_rank[r];
  }
  return HD_OK;
}

/* Gathers each rank's first GPU, then each rank's second, and so on. */
static hd_status gather_all(hd_gpu_accounts *a, hd_ctx *ctx, hd_local_group *local, const hd_gpu_memory *here,
                            const int32_t *of_rank) {
  const int ranks = hd__cluster_ranks(local), rank = hd__cluster_rank(local);
  HD_OWNED hd_gpu_memory *all = hd__calloc((size_t)ranks, sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for the accounts of GPUs"));
  for (int round = 0, left = a->count; left > 0; round++) {
    const hd_gpu_memory *sent = &here[round < of_rank[rank] ? round : of_rank[rank]];
    HD_TRY(hd__cluster_gather(all, local, ctx, sent, sizeof *sent));
    for (int r = 0, before = 0; r < ranks; before += of_rank[r++])
      if (round < of_rank[r]) {
        a->of[before + round] = all[r];
        left--;
      }
  }
  return HD_OK;
}

/* Names are pointers to texts of the process that reported them: replaces them by this process's. */
static void name_parts(hd_gpu_accounts *a, const hd_gpu_memory *named) {
  for (int i = 0; i < a->count; i++)
    for (int p = 0; p < HD_GPU_PARTS; p++)
      a->of[i].part[p].name = named->part[p].name;
}

hd_status hd__gpu_accounts_gather(hd_gpu_accounts *a, hd_ctx *ctx, const hd_exec *exec) {
  HD_OWNED int32_t *of_rank = hd__calloc((size_t)hd__cluster_ranks(exec->local), sizeof *of_rank);
  HD_OWNED hd_gpu_memory *here = NULL;
  int32_t count;
  hd__gpu_accounts_fini(a);
  HD_TRY(HD_ALLOCATED(of_rank, ctx, "out of memory for the accounts of GPUs"));
  HD_TRY(read_here(&here, &count, ctx, exec));
  HD_TRY(count_all(of_rank, a, ctx, exec->local, count));
  if (a->count == 0)
    return HD_OK;
  HD_TRY(HD_NEW(a->of, a->count, ctx, "out of memory for the accounts of GPUs"));
  HD_TRY(gather_all(a, ctx, exec->local, here, of_rank));
  if (count > 0)
    name_parts(a, here);
  return HD_OK;
}

void hd__gpu_accounts_fini(hd_gpu_accounts *a) {
  hd__free(a->of);
  *a = (hd_gpu_accounts){0};
}
