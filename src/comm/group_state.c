/* The error that ends a group, and where its ranks are: see group_state.h. */
#include "comm/group_state.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/status.h"
#include "exec/exchange/cluster.h"
#include "platform/thread_start.h"

bool hd__group_is_remote(const hd_group *g, int rank) {
  return g->hosts > 1 && hd__cluster_of(g->local, g->member[rank]) != hd__cluster_this_host(g->local);
}

void hd__group_break(hd_group *g, hd_status status, const char *format, ...) {
  unsigned runs = HD_GROUP_RUNS;
  if (!atomic_compare_exchange_strong(&g->end->state, &runs, HD_GROUP_ENDING))
    return;
  va_list args;
  va_start(args, format);
  vsnprintf(g->end->text, sizeof g->end->text, format, args);
  va_end(args);
  g->end->status = status;
  atomic_store(&g->end->state, HD_GROUP_ENDED);
}

hd_status hd__group_check_process(const hd_group *g, hd_ctx *ctx) {
  return g->process == hd__this_process()
             ? HD_OK
             : hd__fail(ctx, HD_E_USAGE,
                        "a group belongs to the process that joined it, and this is a child of it; join in the child");
}

hd_status hd__group_check(hd_group *g, hd_ctx *ctx) {
  HD_TRY(hd__local_group_check(g->local, ctx));
  if (atomic_load(&g->end->state) == HD_GROUP_RUNS)
    return HD_OK;
  hd__cluster_poll_faults(g->local);                       /* reports to other hosts which rank of this one has left */
  while (atomic_load(&g->end->state) == HD_GROUP_ENDING) { /* unless the rank that ends it is lost before it says how */
    HD_TRY(hd__local_group_check(g->local, ctx));
    sched_yield();
  }
  return hd__fail(ctx, (hd_status)g->end->status, "%s", g->end->text);
}

bool hd__group_has_left(hd_group *g, int rank) {
  hd__cluster_poll_faults(g->local);
  if (hd__local_group_check(g->local, NULL) != HD_OK) {
    hd__group_break(g, HD_E_PEER, "the group lost a rank");
    return false;
  }
  if (hd__group_is_remote(g, rank))
    return hd__cluster_has_left(g->local, g->member[rank]);
  return hd__local_group_view(g->local, hd__cluster_local(g->local, g->member[rank])).state == HD_RANK_LEFT;
}

void hd__group_break_left(hd_group *g, int rank) {
  hd__group_break(g, HD_E_PEER, "rank %d has left the group; do all ranks make the same calls?", rank);
}

void hd__group_check_rank(hd_group *g, int rank) {
  if (hd__group_has_left(g, rank))
    hd__group_break_left(g, rank);
}
