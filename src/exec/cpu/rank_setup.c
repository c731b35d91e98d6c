/* Agreement between the executors of several ranks: numbers, ranks and speeds of their threads. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
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
             : hd__fail(ctx, HD_E_USAGE,
                        "HEDDLE_HOST_SUMS expects all-gather or owners, found '%.40s'; unset it for the faster one",
                        sums);
}

/* `all` is ordered by rank of the job; threads are numbered host after host. */
static hd_status take_offers(hd_exec_cpu *exec, hd_ctx *ctx, const offer *all) {
  const hd_local_group *local = exec->settings.local;
  const size_t threads = (size_t)exec->exchange.count;
  bool differ = false;
  for (int r = 0; r < exec->exchange.ranks; r++)
    differ |= all[r].has_speeds;
  exec->hosts.setting = all[0].sums_setting;
  exec->division.rank_of = hd__malloc(threads * sizeof *exec->division.rank_of);
  exec->division.speed = differ ? hd__malloc(threads * sizeof *exec->division.speed) : NULL;
  if (!exec->division.rank_of || (differ && !exec->division.speed))
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d threads", exec->exchange.count);
  for (int place = 0, thread = 0; place < exec->exchange.ranks; place++) {
    const int rank = hd__cluster_member(local, place);
    for (int i = 0; i < all[rank].threads; i++, thread++) {
      exec->division.rank_of[thread] = rank;
      if (differ)
        exec->division.speed[thread] = all[rank].speed[i];
    }
  }
  return HD_OK;
}

hd_status hd__exec_number_threads(hd_exec_cpu *exec, hd_ctx *ctx) {
  hd_local_group *local = exec->settings.local;
  const int ranks = hd__cluster_ranks(local);
  HD_OWNED offer *all = NULL;
  offer this_rank;
  HD_TRY(HD_NEW_RAW(all, ranks, ctx, "out of memory for the threads of %d ranks", ranks));
  HD_TRY(describe(&this_rank, ctx, exec->threads));
  HD_TRY(hd__exchange_begin(&exec->exchange, ctx, local, this_rank.threads, false));
  HD_TRY(hd__cluster_gather(all, local, ctx, &this_rank, sizeof this_rank));
  return take_offers(exec, ctx, all);
}
