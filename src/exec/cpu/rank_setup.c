/* Agreement between the executors of several ranks: numbers and speeds of their threads, the barrier of a host, time
 * accounts. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/exchange/cluster.h"
#include "exec/cpu/cpu_executor_state.h"

enum { EVEN_SPEED = 1000 };

/* The threads of one rank, as sent to all ranks. */
typedef struct offer {
  int32_t threads, cpus, sums_setting;
  int16_t has_speeds, speed[HD_MAX_THREADS];
} offer;

_Static_assert(sizeof(offer) <= HD_LOCAL_GROUP_GATHER_BYTES, "an offer fits into a gather");

static hd_status describe(offer *this_rank, hd_ctx *ctx, const hd_threads *threads) {
  const int32_t *speed = hd__threads_speeds(threads);
  const char *sums = getenv("HEDDLE_HOST_SUMS");
  *this_rank =
      (offer){.threads = hd__threads_count(threads), .cpus = hd__threads_cpus(threads), .has_speeds = speed != NULL};
  for (int i = 0; i < this_rank->threads; i++)
    this_rank->speed[i] = (int16_t)(speed ? speed[i] : EVEN_SPEED);
  if (!sums || !*sums)
    return HD_OK;
  this_rank->sums_setting = !strcmp(sums, "all-gather") ? 1 : !strcmp(sums, "owners") ? 2 : 0;
  return this_rank->sums_setting
             ? HD_OK
             : hd__fail(ctx, HD_E_USAGE, "HEDDLE_HOST_SUMS expects all-gather or owners, found '%.40s'", sums);
}

/* `all` is ordered by rank of the job; threads are numbered host after host. */
static hd_status take_numbers(hd_exec_cpu *exec, hd_ctx *ctx, const offer *all) {
  const hd_local_group *local = exec->settings.local;
  const int here = hd__cluster_first(local, exec->host);
  bool differ = false;
  for (int h = 0, threads = 0; h < exec->hosts; h++) {
    exec->host_thread[h] = threads;
    for (int place = hd__cluster_first(local, h); place < hd__cluster_first(local, h + 1); place++) {
      const offer *of = &all[hd__cluster_member(local, place)];
      if (h == exec->host)
        exec->rank_thread[place - here] = threads;
      threads += of->threads;
      differ |= of->has_speeds;
    }
    if (h == exec->host)
      exec->rank_thread[hd__local_group_ranks(local)] = threads;
    exec->host_thread[h + 1] = threads;
  }
  exec->thread_count = exec->host_thread[exec->hosts];
  exec->first_thread = exec->rank_thread[hd__local_group_rank(local)];
  exec->sums_setting = all[0].sums_setting;
  if (!differ)
    return HD_OK;
  exec->speed = hd__malloc((size_t)exec->thread_count * sizeof *exec->speed);
  if (!exec->speed)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d threads", exec->thread_count);
  for (int place = 0, thread = 0; place < hd__cluster_ranks(local); place++)
    for (int i = 0; i < all[hd__cluster_member(local, place)].threads; i++)
      exec->speed[thread++] = all[hd__cluster_member(local, place)].speed[i];
  return HD_OK;
}

hd_status hd__exec_number_threads(hd_exec_cpu *exec, hd_ctx *ctx) {
  hd_local_group *local = exec->settings.local;
  const int ranks = hd__cluster_ranks(local);
  offer this_rank, *all = hd__malloc((size_t)ranks * sizeof *all);
  exec->process_threads = hd__threads_count(exec->threads);
  exec->hosts = hd__cluster_count(local);
  exec->host = hd__cluster_this_host(local);
  exec->rank_thread = hd__calloc((size_t)hd__local_group_ranks(local) + 1, sizeof *exec->rank_thread);
  exec->host_thread = hd__calloc((size_t)exec->hosts + 1, sizeof *exec->host_thread);
  hd_status status = HD_OK;
  if (!all || !exec->rank_thread || !exec->host_thread)
    status = hd__fail(ctx, HD_E_NOMEM, "out of memory for the threads of %d ranks", ranks);
  if (status == HD_OK)
    status = describe(&this_rank, ctx, exec->threads);
  if (status == HD_OK)
    status = hd__cluster_gather(all, local, ctx, &this_rank, sizeof this_rank);
  if (status == HD_OK)
    status = take_numbers(exec, ctx, all);
  hd__free(all);
  return status;
}

/* The rank of a thread; both counted from the host's first. */
static int rank_of(const hd_exec_cpu *exec, int thread) {
  int rank = 0;
  while (exec->rank_thread[rank + 1] <= hd__exec_host_first(exec) + thread)
    rank++;
  return rank;
}

static void report_late(void *self, int thread, int64_t waited_ns) {
  const hd_exec_cpu *exec = self;
  hd__local_group_late(exec->settings.local, rank_of(exec, thread), waited_ns);
}

/* The barrier groups threads by cache where this host's threads have several. */
hd_status hd__exec_open_barrier(hd_exec_cpu *exec, hd_ctx *ctx) {
  hd_local_group *local = exec->settings.local;
  const int first = exec->first_thread - hd__exec_host_first(exec);
  const int threads = hd__exec_host_threads(exec), crowded = threads > hd__threads_cpus(exec->threads);
  if (local)
    exec->watch = (hd_barrier_watch){.broken = hd__local_group_broken_word(local), .late = report_late, .self = exec};
  hd__barrier_join(&exec->barrier, exec->lines, threads, crowded, local ? &exec->watch : NULL);
  for (int l = 0; l < exec->process_threads; l++)
    hd__barrier_set_cache(exec->lines, first + l, hd__threads_cache(exec->threads, l));
  HD_TRY(hd__local_group_barrier(local, ctx));
  hd__barrier_join_caches(&exec->barrier);
  return HD_OK;
}

/* The rank in the job of rank `rank` of this host. */
static int rank_in_job(const hd_exec_cpu *exec, int rank) {
  const hd_local_group *local = exec->settings.local;
  return hd__cluster_member(local, hd__cluster_first(local, exec->host) + rank);
}

uint32_t hd__exec_barrier(const thread_at *at, uint32_t flags) {
  hd_exec_cpu *exec = at->exec;
  hd_tally *tally = at->thread->tally;
  const int local_index = at->index - hd__exec_host_first(exec);
  if (!tally)
    return hd__barrier_wait(&exec->barrier, local_index, flags);
  hd__tally_end(tally, HD_SPENT_COMPUTE);
  const hd_barrier_stamp this_rank = {.ns = tally->since_ns, .thread = local_index, .more = at->thread->waited_for};
  at->thread->waited_for = -1;
  const uint32_t all = hd__barrier_wait_with_stamp(&exec->barrier, local_index, flags, &this_rank);
  if (all & HD_BARRIER_BROKEN)
    return all;
  const hd_barrier_stamp last = hd__barrier_latest(&exec->barrier, local_index);
  hd__tally_waited(tally, last.thread == local_index ? -1
                          : last.more >= 0           ? last.more
                                                     : rank_in_job(exec, rank_of(exec, last.thread)));
  return all;
}

void hd__exec_cpu_spent(int64_t *sums, const void *self) {
  const hd_exec_cpu *exec = self;
  const hd_local_group *local = exec->settings.local;
  const int ranks = hd__cluster_ranks(local), each = HD_SPENT_KINDS + ranks;
  const int here = hd__cluster_first(local, exec->host);
  for (int place = 0; place < ranks && ranks > 1; place++) {
    int64_t *of = sums + hd__cluster_member(local, place) * each;
    const int r = place - here;
    if (r < 0 || r >= hd__local_group_ranks(local)) /* there are several hosts */
      memcpy(of, exec->host_spent + place * each, (size_t)each * sizeof *of);
    else
      hd__exec_spent_here(of, exec, r);
  }
}

void hd__exec_spent_here(int64_t *sum, const hd_exec_cpu *exec, int rank) {
  const int ranks = hd__cluster_ranks(exec->settings.local);
  memset(sum, 0, (size_t)(HD_SPENT_KINDS + ranks) * sizeof *sum);
  for (int l = exec->rank_thread[rank]; l < exec->rank_thread[rank + 1]; l++)
    hd__tally_add(sum, exec->thread[l].tally, ranks);
}
