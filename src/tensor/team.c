/* The lanes of a context: opened by its first large operation, ended with it.
 *
 * A context is used by one thread at a time, and so are its lanes. A team that could not be opened is not asked for
 * again until the number of threads changes. */
#include "tensor/eager.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "sys/fpmode.h"
#include "sys/lanes.h"

/* Opening a region costs some microseconds: as much as this many elements. */
enum { ELEMS_WORTH_A_TEAM = 32 * 1024 };

typedef struct hd_team {
  int wanted; /* by hd_tensor_set_threads; 0: as many as the context says */
  int asked;  /* what lanes were asked for */
  bool alone; /* no lanes are needed, or to be had */
  hd_lanes *lanes;
} hd_team;

static void end_team(void *service) {
  hd_team *team = service;
  hd__lanes_destroy(team->lanes);
  hd__free(team);
}

static hd_status team_of(hd_team **out, hd_ctx *ctx) {
  if (!ctx->service) {
    hd_team *team = hd__calloc(1, sizeof *team);
    if (!team)
      return hd__fail(ctx, HD_E_NOMEM, "out of memory for the threads of a context");
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
  hd__lanes_destroy(team->lanes);
  *team = (hd_team){.wanted = threads};
  return HD_OK;
}

typedef struct shares {
  hd_parts_fn *work;
  void *arg;
  int64_t parts;
  int lanes;
} shares;

/* The lane's range of the parts; the first ones are longer by one where they do not divide. */
static void run_share(void *arg, int lane) {
  const shares *all = arg;
  const int64_t each = all->parts / all->lanes, more = all->parts % all->lanes;
  const int64_t first = lane * each + (lane < more ? lane : more), count = each + (lane < more);
  if (count > 0)
    all->work(all->arg, first, first + count);
}

static void run_alone(hd_parts_fn *work, void *arg, int64_t parts) {
  const uint64_t mode = hd__fpmode_enter();
  work(arg, 0, parts);
  hd__fpmode_leave(mode);
}

/* Lanes for the number that counts now, which may have changed since they were opened. */
static hd_status ready_lanes(hd_team *team, hd_ctx *ctx) {
  const int ask = team->wanted ? team->wanted : ctx->threads;
  if (ask == team->asked && (team->lanes || team->alone))
    return HD_OK;
  hd__lanes_destroy(team->lanes);
  *team = (hd_team){.wanted = team->wanted, .asked = ask, .alone = ask == 1};
  if (team->alone)
    return HD_OK;
  hd_status status = hd__lanes_open(&team->lanes, ctx, &(hd_placement_request){.threads = ask});
  if (status == HD_E_SYSTEM) { /* the system refuses threads */
    team->alone = true;
    return HD_OK;
  }
  HD_TRY(status);
  hd__lanes_unbind(team->lanes);
  return HD_OK;
}

hd_status hd__team_run(hd_ctx *ctx, int64_t parts, int64_t elems, hd_parts_fn *work, void *arg) {
  hd_team *team = NULL;
  if (parts == 0)
    return HD_OK;
  if (ctx && parts > 1 && elems >= ELEMS_WORTH_A_TEAM) {
    HD_TRY(team_of(&team, ctx));
    HD_TRY(ready_lanes(team, ctx));
  }
  if (team && team->lanes) {
    shares all = {.work = work, .arg = arg, .parts = parts, .lanes = hd__lanes_count(team->lanes)};
    if (hd__lanes_run(team->lanes, NULL, run_share, &all) == HD_OK)
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
