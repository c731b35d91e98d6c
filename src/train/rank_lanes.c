/* Placing the lanes of all ranks at once: see rank_lanes.h. */
#include "train/rank_lanes.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sys/cpu_set.h"

/* What rank 0 writes for all; the lanes of rank r are [r * lanes, (r + 1) * lanes), its workers likewise. */
typedef struct places {
  int32_t lanes, workers, cpus; /* of a rank, of a rank, that may be busy at once */
  hd_binding lane[HD_MAX_THREADS], worker[HD_MAX_THREADS];
} places;

/* Whether all ranks may use the same CPUs. */
static hd_status compare_masks(bool *same, hd_ctx *ctx, hd_world *world) {
  hd_cpu_set mine, *all = hd__malloc((size_t)hd__world_ranks(world) * sizeof *all);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the CPUs of %d ranks", hd__world_ranks(world));
  hd__cpu_set_read(&mine);
  hd_status status = hd__world_gather(all, world, ctx, &mine, sizeof mine);
  *same = true;
  for (int r = 1; r < hd__world_ranks(world) && status == HD_OK; r++)
    *same &= memcmp(&all[r], &all[0], sizeof mine) == 0;
  hd__free(all);
  return status;
}

/* How many lanes each rank gets where nobody says it: its part of what one process would take. */
static hd_status lanes_per_rank(int32_t *lanes, hd_ctx *ctx, const hd_placement_request *request, int ranks) {
  hd_placement *alone;
  const char *omp = getenv("OMP_NUM_THREADS");
  const bool said = request->threads > 0 || (ctx && ctx->threads > 0) || (omp && *omp);
  HD_TRY(hd__lanes_place(&alone, ctx, request));
  *lanes = said ? alone->lanes : alone->lanes / ranks > 0 ? alone->lanes / ranks : 1;
  hd_placement_destroy(alone);
  return HD_OK;
}

static hd_status place_all(places *out, hd_ctx *ctx, const hd_placement_request *request, int ranks) {
  hd_placement_request whole = *request;
  hd_placement *place;
  HD_TRY(lanes_per_rank(&out->lanes, ctx, request, ranks));
  if ((int64_t)out->lanes * ranks > HD_MAX_THREADS || (int64_t)request->workers * ranks > HD_MAX_THREADS)
    return hd__fail(ctx, HD_E_USAGE, "expected at most %d threads in all ranks, found %d ranks of %d; use fewer",
                    HD_MAX_THREADS, ranks, out->lanes);
  whole.threads = out->lanes * ranks;
  whole.workers = request->workers * ranks;
  HD_TRY(hd__lanes_place(&place, ctx, &whole));
  out->workers = request->workers;
  out->cpus = place->cpus;
  memcpy(out->lane, place->lane, (size_t)place->lanes * sizeof *out->lane);
  if (place->workers > 0)
    memcpy(out->worker, place->worker, (size_t)place->workers * sizeof *out->worker);
  hd_placement_destroy(place);
  return HD_OK;
}

hd_status hd__rank_lanes_open(hd_lanes **out, hd_ctx *ctx, hd_world *world, const hd_placement_request *request) {
  const int ranks = hd__world_ranks(world), rank = hd__world_rank(world);
  hd_segment memory;
  bool same = true;
  *out = NULL;
  if (ranks == 1)
    return hd__lanes_open(out, ctx, request);
  HD_TRY(compare_masks(&same, ctx, world));
  if (!same)
    return hd__lanes_open(out, ctx, request);
  HD_TRY(hd__world_memory(&memory, world, ctx, sizeof(places), "the places of lanes"));
  places *all = memory.base;
  hd_status status = rank == 0 ? place_all(all, ctx, request, ranks) : HD_OK;
  if (status == HD_OK)
    status = hd__world_meet(world, ctx);
  if (status == HD_OK) {
    hd_placement mine = {.lanes = all->lanes,
                         .workers = all->workers,
                         .lane = all->lane + rank * all->lanes,
                         .worker = all->worker + rank * all->workers,
                         .cpus = all->cpus};
    status = hd__lanes_open_at(out, ctx, &mine);
  }
  hd__segment_destroy(&memory);
  return status;
}
