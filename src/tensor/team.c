/* The threads of a context: started by its first large operation, ended with the context.
 *
 * A context is used by one thread at a time, and so are its threads. If threads could not be started, this is not
 * tried again until the number of threads changes. */
#include "tensor/eager.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "platform/fpmode.h"
#include "platform/threads.h"

/* Opening a region costs some microseconds: as much as this many elements. */
enum { ELEMS_WORTH_A_TEAM = 32 * 1024 };

typedef struct hd_team {
  int wanted; /* by hd_tensor_set_threads; 0: the number of the context */
  int asked;  /* the number that was last requested */
  bool alone; /* no threads are needed, or available */
  hd_threads *threads;
} hd_team;

static void end_team(void *service) {
  hd_team *team = service;
  hd__threads_destroy(team->threads);
  hd__free(team);
}

static hd_status team_of(hd_team **out, hd_ctx *ctx) {
  if (!ctx->service) {
    hd_team *team = hd__calloc(1, sizeof *team);
    HD_TRY(HD_ALLOCATED(team, ctx, "out of memory for the threads of a context"));
    ctx->service = team;
    ctx->end_service = end_team;
  }
  *out = ctx->service;
  return HD_OK;
}

hd_status hd_tensor_set_threads(hd_ctx *ctx, int threads) {
  hd_team *team = NULL;
  if (!ctx)
    return HD_E_USAGE;
  if (threads < 0 || threads > HD_TENSOR_MAX_THREADS)
    return hd__fail(ctx, HD_E_USAGE, "expected 0 to %d threads, found %d", HD_TENSOR_MAX_THREADS, threads);
  HD_TRY(team_of(&team, ctx));
  hd__threads_destroy(team->threads);
  *team = (hd_team){.wanted = threads};
  return HD_OK;
}

typedef struct shares {
  hd_parts_fn *work;
  void *arg;
  int64_t parts;
  int threads;
} shares;

/* The thread's range of the parts; the first ones are longer by one where they do not divide. */
static void run_share(void *arg, int thread) {
  const shares *all = arg;
  const int64_t each = all->parts / all->threads, more = all->parts % all->threads;
  const int64_t first = thread * each + (thread < more ? thread : more), count = each + (thread < more);
  if (count > 0)
    all->work(all->arg, first, first + count);
}

static void run_alone(hd_parts_fn *work, void *arg, int64_t parts) {
  const uint64_t mode = hd__fpmode_enter();
  work(arg, 0, parts);
  hd__fpmode_leave(mode);
}

/* Starts threads for the current number, which may have changed since they were started. */
static hd_status ready_threads(hd_team *team, hd_ctx *ctx) {
  const int ask = team->wanted ? team->wanted : ctx->threads;
  if (ask == team->asked && (team->threads || team->alone))
    return HD_OK;
  hd__threads_destroy(team->threads);
  *team = (hd_team){.wanted = team->wanted, .asked = ask, .alone = ask == 1};
  if (team->alone)
    return HD_OK;
  hd_status status = hd__threads_open(&team->threads, ctx, &(hd_placement_request){.threads = ask});
  if (status == HD_E_SYSTEM) { /* the system refuses threads */
    team->alone = true;
    return HD_OK;
  }
  HD_TRY(status);
  hd__threads_unbind(team->threads);
  return HD_OK;
}

hd_status hd__team_run(hd_ctx *ctx, int64_t parts, int64_t elems, hd_parts_fn *work, void *arg) {
  hd_team *team = NULL;
  if (parts == 0)
    return HD_OK;
  if (ctx && parts > 1 && elems >= ELEMS_WORTH_A_TEAM) {
    HD_TRY(team_of(&team, ctx));
    HD_TRY(ready_threads(team, ctx));
  }
  if (team && team->threads) {
    shares all = {.work = work, .arg = arg, .parts = parts, .threads = hd__threads_count(team->threads)};
    if (hd__threads_run(team->threads, NULL, run_share, &all) == HD_OK)
      return HD_OK;
  }
  run_alone(work, arg, parts);
  return HD_OK;
}

static const hd_kernels *kernels;

static void select_kernels(void) {
  const char *why;
  kernels = hd__kernels_select(getenv("HEDDLE_ISA"), &why);
  if (!kernels)
    kernels = hd__kernels_select(NULL, &why);
}

const hd_kernels *hd__tensor_kernels(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, select_kernels);
  return kernels;
}
