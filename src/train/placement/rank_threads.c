/* Comparing the requests of a host's ranks for threads, and placing the threads of all of them: see rank_threads.h. */
#include "train/placement/rank_threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "exec/exchange/cluster.h"
#include "heddle/config.h"
#include "platform/cpu_set.h"
#include "platform/openmp_binding.h"

/* ---- The request of a rank ---- */

enum { ASKED_BYTES = 96 };

/* The two parts of a request: the number of threads, and their places. */
typedef struct asked {
  uint64_t value;
  char text[ASKED_BYTES]; /* as a user would write it */
  bool given;             /* else it is what the rank would have by default */
} asked;

typedef struct wish {
  hd_cpu_set cpus; /* that the rank may use */
  int32_t workers;
  asked threads, place;
} wish;

_Static_assert(sizeof(wish) <= HD_LOCAL_GROUP_GATHER_BYTES, "a wish fits into a gather");

/* If no number of threads is given, a rank has its share of what one process would take. */
static hd_status ask_threads(asked *out, hd_ctx *ctx, const hd_placement_request *request, int ranks) {
  hd_placement *alone;
  const char *omp = getenv("OMP_NUM_THREADS");
  const char *by = request->threads > 0      ? "--threads"
                   : ctx && ctx->threads > 0 ? "hd_set_num_threads"
                   : omp && *omp             ? "OMP_NUM_THREADS"
                                             : NULL;
  HD_TRY(hd__threads_place(&alone, ctx, request));
  const int share = alone->threads / ranks > 0 ? alone->threads / ranks : 1, threads = by ? alone->threads : share;
  hd_placement_destroy(alone);
  *out = (asked){.value = (uint64_t)threads, .given = by != NULL};
  snprintf(out->text, sizeof out->text, "%d by %s", threads, by ? by : "default");
  return HD_OK;
}

/* The policy, or a hash of the list: as many threads as there may be take its CPUs in turns, however it is written. */
static hd_status ask_place(asked *out, hd_ctx *ctx, const hd_placement_request *request) {
  hd_placement_request most = *request;
  hd_placement *place;
  out->given = request->cpus || request->policy_given;
  out->value = (uint64_t)request->policy;
  snprintf(out->text, sizeof out->text, "--placement %s", hd_choice_name(HD_OPT_PLACEMENT, (int)request->policy));
  if (!request->cpus)
    return HD_OK;
  most.threads = HD_MAX_THREADS;
  HD_TRY(hd__threads_place(&place, ctx, &most));
  out->value = hd__xxh3(place->thread, HD_MAX_THREADS * sizeof *place->thread);
  snprintf(out->text, sizeof out->text, "--cpus %.80s", request->cpus);
  hd_placement_destroy(place);
  return HD_OK;
}

static hd_status make_wish(wish *out, hd_ctx *ctx, const hd_placement_request *request, int ranks) {
  memset(out, 0, sizeof *out);
  hd__openmp_unbound(&out->cpus);
  out->workers = request->workers;
  HD_TRY(ask_threads(&out->threads, ctx, request, ranks));
  return ask_place(&out->place, ctx, request);
}

/* ---- The requests of all ranks ---- */

/* Whether all ranks may use the same CPUs. */
static bool same_cpus(const wish *all, int ranks) {
  bool same = true;
  for (int r = 1; r < ranks; r++)
    same &= memcmp(&all[r].cpus, &all[0].cpus, sizeof all->cpus) == 0;
  return same;
}

/* The number of the CPUs of all ranks. */
static int count_cpus(const wish *all, int ranks) {
  hd_cpu_set joined = {{0}};
  for (int r = 0; r < ranks; r++)
    hd__cpu_set_join(&joined, &all[r].cpus);
  return hd__cpu_set_count(&joined);
}

/* The most loader workers of a rank. */
static int32_t most_workers(const wish *all, int ranks) {
  int32_t most = 0;
  for (int r = 0; r < ranks; r++)
    most = all[r].workers > most ? all[r].workers : most;
  return most;
}

/* Refuses the request of local rank `r` unless it equals that of the host's first rank. */
static hd_status compare_asked(hd_ctx *ctx, const hd_local_group *local, const char *what, const asked *first, int r,
                               const asked *other) {
  const int place = hd__cluster_first(local, hd__cluster_this_host(local));
  if (!other->given || other->value == first->value)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "the ranks of a host must have the same %s: rank %d has '%s', and rank %d on the same host has '%s'; "
                  "give all the same, or bind each rank to other CPUs",
                  what, hd__cluster_member(local, place), first->text, hd__cluster_member(local, place + r),
                  other->text);
}

static hd_status compare_wishes(hd_ctx *ctx, const hd_local_group *local, const wish *all) {
  for (int r = 1; r < hd__local_group_ranks(local); r++) {
    HD_TRY(compare_asked(ctx, local, "number of threads", &all[0].threads, r, &all[r].threads));
    HD_TRY(compare_asked(ctx, local, "placement of threads", &all[0].place, r, &all[r].place));
  }
  return HD_OK;
}

/* ---- Places ---- */

/* The placement that the first rank writes for all; the threads of rank r are [r * threads, (r + 1) * threads), its
 * workers likewise. */
typedef struct places {
  int32_t threads, workers, cpus; /* of a rank, of the rank with the most, CPUs that may be busy at once */
  hd_binding thread[HD_MAX_THREADS], worker[HD_MAX_THREADS];
} places;

/* `request`: of a rank. */
static hd_status place_all(places *out, hd_ctx *ctx, const hd_placement_request *request, int ranks) {
  hd_placement_request whole = *request;
  hd_placement *place;
  if ((int64_t)request->threads * ranks > HD_MAX_THREADS || (int64_t)request->workers * ranks > HD_MAX_THREADS)
    return hd__fail(ctx, HD_E_USAGE, "expected at most %d threads in all ranks, found %d ranks of %d; use fewer",
                    HD_MAX_THREADS, ranks, request->threads);
  whole.threads = request->threads * ranks;
  whole.workers = request->workers * ranks;
  HD_TRY(hd__threads_place(&place, ctx, &whole));
  out->threads = request->threads;
  out->workers = request->workers;
  out->cpus = place->cpus;
  memcpy(out->thread, place->thread, (size_t)place->threads * sizeof *out->thread);
  if (place->workers > 0)
    memcpy(out->worker, place->worker, (size_t)place->workers * sizeof *out->worker);
  hd_placement_destroy(place);
  return HD_OK;
}

/* For ranks that were bound to other CPUs: each places its threads on its own, at most `most` in all. */
static hd_status open_bound(hd_threads **out, hd_ctx *ctx, hd_local_group *local, const hd_placement_request *request,
                            int most) {
  HD_OWNED int32_t *all = hd__malloc((size_t)hd__local_group_ranks(local) * sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for the CPUs of %d ranks", hd__local_group_ranks(local)));
  HD_TRY(hd__threads_open(out, ctx, request));
  const int32_t this_rank = hd__threads_cpus(*out);
  const hd_status status = hd__local_group_gather(all, local, ctx, &this_rank, sizeof this_rank);
  int cpus = 0;
  for (int r = 0; status == HD_OK && r < hd__local_group_ranks(local); r++)
    cpus += all[r];
  hd__threads_set_cpus(*out, cpus < most ? cpus : most);
  return HD_CREATED(status, out, hd__threads_destroy);
}

/* For ranks that share their CPUs; `workers`: room for those of any rank. */
static hd_status open_shared(hd_threads **out, hd_ctx *ctx, hd_local_group *local, const hd_placement_request *request,
                             int32_t threads, int32_t workers) {
  const int rank = hd__local_group_rank(local);
  HD_RELEASED(hd__segment_destroy) hd_segment memory = {0};
  hd_placement_request each = *request;
  each.threads = threads;
  each.workers = workers;
  HD_TRY(hd__local_group_memory(&memory, local, ctx, sizeof(places), "the places of threads"));
  places *all = memory.base;
  if (rank == 0)
    HD_TRY(place_all(all, ctx, &each, hd__local_group_ranks(local)));
  HD_TRY(hd__local_group_barrier(local, ctx));
  const hd_placement this_rank = {.threads = all->threads,
                                  .workers = request->workers,
                                  .thread = all->thread + rank * all->threads,
                                  .worker = all->worker + rank * all->workers,
                                  .cpus = all->cpus};
  return hd__threads_open_at(out, ctx, &this_rank);
}

hd_status hd__rank_threads_open(hd_threads **out, hd_ctx *ctx, hd_local_group *local,
                                const hd_placement_request *request) {
  const int ranks = hd__local_group_ranks(local);
  wish this_rank;
  *out = NULL;
  if (ranks == 1)
    return hd__threads_open(out, ctx, request);
  HD_OWNED wish *all = hd__malloc((size_t)ranks * sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for the settings of %d ranks", ranks));
  HD_TRY(make_wish(&this_rank, ctx, request, ranks));
  HD_TRY(hd__local_group_gather(all, local, ctx, &this_rank, sizeof this_rank));
  if (!same_cpus(all, ranks))
    return open_bound(out, ctx, local, request, count_cpus(all, ranks));
  HD_TRY(compare_wishes(ctx, local, all));
  return open_shared(out, ctx, local, request, (int32_t)all[0].threads.value, most_workers(all, ranks));
}
