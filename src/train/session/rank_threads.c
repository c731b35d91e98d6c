/* Placing the threads of all ranks of a host: see thread_count.h. */
#include "train/session/thread_count.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "platform/cpu_set.h"

/* The placement that rank 0 writes for all; the threads of rank r are [r * threads, (r + 1) * threads), its workers
 * likewise. */
typedef struct places {
  int32_t threads, workers, cpus; /* of a rank, of a rank, CPUs that may be busy at once */
  hd_binding thread[HD_MAX_THREADS], worker[HD_MAX_THREADS];
} places;

/* Whether all ranks may use the same CPUs. */
static hd_status compare_masks(bool *same, hd_ctx *ctx, hd_local_group *local) {
  hd_cpu_set this_rank;
  HD_OWNED hd_cpu_set *all = hd__malloc((size_t)hd__local_group_ranks(local) * sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for the CPUs of %d ranks", hd__local_group_ranks(local)));
  hd__cpu_set_read(&this_rank);
  HD_TRY(hd__local_group_gather(all, local, ctx, &this_rank, sizeof this_rank));
  *same = true;
  for (int r = 1; r < hd__local_group_ranks(local); r++)
    *same &= memcmp(&all[r], &all[0], sizeof this_rank) == 0;
  return HD_OK;
}

/* The number of threads of each rank where none is given: its share of what one process would take. */
static hd_status threads_per_rank(int32_t *threads, hd_ctx *ctx, const hd_placement_request *request, int ranks) {
  hd_placement *alone;
  const char *omp = getenv("OMP_NUM_THREADS");
  const bool said = request->threads > 0 || (ctx && ctx->threads > 0) || (omp && *omp);
  HD_TRY(hd__threads_place(&alone, ctx, request));
  *threads = said ? alone->threads : alone->threads / ranks > 0 ? alone->threads / ranks : 1;
  hd_placement_destroy(alone);
  return HD_OK;
}

static hd_status place_all(places *out, hd_ctx *ctx, const hd_placement_request *request, int ranks) {
  hd_placement_request whole = *request;
  hd_placement *place;
  HD_TRY(threads_per_rank(&out->threads, ctx, request, ranks));
  if ((int64_t)out->threads * ranks > HD_MAX_THREADS || (int64_t)request->workers * ranks > HD_MAX_THREADS)
    return hd__fail(ctx, HD_E_USAGE, "expected at most %d threads in all ranks, found %d ranks of %d; use fewer",
                    HD_MAX_THREADS, ranks, out->threads);
  whole.threads = out->threads * ranks;
  whole.workers = request->workers * ranks;
  HD_TRY(hd__threads_place(&place, ctx, &whole));
  out->workers = request->workers;
  out->cpus = place->cpus;
  memcpy(out->thread, place->thread, (size_t)place->threads * sizeof *out->thread);
  if (place->workers > 0)
    memcpy(out->worker, place->worker, (size_t)place->workers * sizeof *out->worker);
  hd_placement_destroy(place);
  return HD_OK;
}

hd_status hd__rank_threads_open(hd_threads **out, hd_ctx *ctx, hd_local_group *local,
                                const hd_placement_request *request) {
  const int ranks = hd__local_group_ranks(local), rank = hd__local_group_rank(local);
  HD_RELEASED(hd__segment_destroy) hd_segment memory = {0};
  bool same = true;
  *out = NULL;
  if (ranks == 1)
    return hd__threads_open(out, ctx, request);
  HD_TRY(compare_masks(&same, ctx, local));
  if (!same)
    return hd__threads_open(out, ctx, request);
  HD_TRY(hd__local_group_memory(&memory, local, ctx, sizeof(places), "the places of threads"));
  places *all = memory.base;
  if (rank == 0)
    HD_TRY(place_all(all, ctx, request, ranks));
  HD_TRY(hd__local_group_barrier(local, ctx));
  const hd_placement this_rank = {.threads = all->threads,
                                  .workers = all->workers,
                                  .thread = all->thread + rank * all->threads,
                                  .worker = all->worker + rank * all->workers,
                                  .cpus = all->cpus};
  return hd__threads_open_at(out, ctx, &this_rank);
}
