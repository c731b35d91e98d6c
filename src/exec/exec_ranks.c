/* What executors of several ranks settle among themselves: whose lanes are which, how fast they are, and who knows why
 * samples could not be had. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "comm/hosts.h"
#include "exec/exec_cuda.h"
#include "exec/exec_state.h"

enum { EVEN_SPEED = 1000, WHY_BYTES = 1600 };

/* The lanes that a rank brings. */
typedef struct offer {
  int32_t lanes, cpus, said_owners;
  int16_t has_speeds, speed[HD_MAX_THREADS];
} offer;

_Static_assert(sizeof(offer) <= HD_WORLD_GATHER_BYTES, "an offer fits into a gather");

static hd_status describe(offer *mine, hd_ctx *ctx, const hd_lanes *lanes) {
  const int32_t *speed = hd__lanes_speeds(lanes);
  const char *sums = getenv("HEDDLE_HOST_SUMS");
  *mine = (offer){.lanes = hd__lanes_count(lanes), .cpus = hd__lanes_cpus(lanes), .has_speeds = speed != NULL};
  for (int i = 0; i < mine->lanes; i++)
    mine->speed[i] = (int16_t)(speed ? speed[i] : EVEN_SPEED);
  if (!sums || !*sums)
    return HD_OK;
  mine->said_owners = !strcmp(sums, "everybody") ? 1 : !strcmp(sums, "owners") ? 2 : 0;
  return mine->said_owners
             ? HD_OK
             : hd__fail(ctx, HD_E_USAGE, "HEDDLE_HOST_SUMS expects everybody or owners, found '%.40s'", sums);
}

/* `all` is in the order of the job's ranks, lanes are numbered host after host. */
static hd_status take_numbers(hd_exec *exec, hd_ctx *ctx, const offer *all) {
  const hd_world *world = exec->settings.world;
  const int here = hd__hosts_first(world, exec->host);
  bool differ = false;
  for (int h = 0, lanes = 0; h < exec->hosts; h++) {
    exec->host_lane[h] = lanes;
    for (int place = hd__hosts_first(world, h); place < hd__hosts_first(world, h + 1); place++) {
      const offer *of = &all[hd__hosts_member(world, place)];
      if (h == exec->host)
        exec->rank_lane[place - here] = lanes;
      lanes += of->lanes;
      differ |= of->has_speeds;
    }
    if (h == exec->host)
      exec->rank_lane[hd__world_ranks(world)] = lanes;
    exec->host_lane[h + 1] = lanes;
  }
  exec->lane_count = exec->host_lane[exec->hosts];
  exec->first_lane = exec->rank_lane[hd__world_rank(world)];
  exec->said_owners = all[0].said_owners;
  if (!differ)
    return HD_OK;
  exec->speed = hd__malloc((size_t)exec->lane_count * sizeof *exec->speed);
  if (!exec->speed)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d lanes", exec->lane_count);
  for (int place = 0, lane = 0; place < hd__hosts_ranks(world); place++)
    for (int i = 0; i < all[hd__hosts_member(world, place)].lanes; i++)
      exec->speed[lane++] = all[hd__hosts_member(world, place)].speed[i];
  return HD_OK;
}

hd_status hd__exec_number_lanes(hd_exec *exec, hd_ctx *ctx) {
  hd_world *world = exec->settings.world;
  const int ranks = hd__hosts_ranks(world);
  offer mine, *all = hd__malloc((size_t)ranks * sizeof *all);
  exec->own_lanes = hd__lanes_count(exec->lanes);
  exec->hosts = hd__hosts_count(world);
  exec->host = hd__hosts_mine(world);
  exec->rank_lane = hd__calloc((size_t)hd__world_ranks(world) + 1, sizeof *exec->rank_lane);
  exec->host_lane = hd__calloc((size_t)exec->hosts + 1, sizeof *exec->host_lane);
  hd_status status = HD_OK;
  if (!all || !exec->rank_lane || !exec->host_lane)
    status = hd__fail(ctx, HD_E_NOMEM, "out of memory for the lanes of %d ranks", ranks);
  if (status == HD_OK)
    status = describe(&mine, ctx, exec->lanes);
  if (status == HD_OK)
    status = hd__hosts_gather(all, world, ctx, &mine, sizeof mine);
  if (status == HD_OK)
    status = take_numbers(exec, ctx, all);
  hd__free(all);
  return status;
}

/* Of a lane of this host, counted from its first. */
static int rank_of(const hd_exec *exec, int lane) {
  int rank = 0;
  while (exec->rank_lane[rank + 1] <= hd__exec_host_first(exec) + lane)
    rank++;
  return rank;
}

static void late(void *self, int lane, int64_t waited_ns) {
  const hd_exec *exec = self;
  hd__world_late(exec->settings.world, rank_of(exec, lane), waited_ns);
}

/* By caches, where the lanes of this host live under several. */
hd_status hd__exec_open_meeting(hd_exec *exec, hd_ctx *ctx) {
  hd_world *world = exec->settings.world;
  const int own = exec->first_lane - hd__exec_host_first(exec);
  const int lanes = hd__exec_host_lanes(exec), crowded = lanes > hd__lanes_cpus(exec->lanes);
  if (world)
    exec->watch = (hd_meeting_watch){.broken = hd__world_broken_word(world), .late = late, .self = exec};
  hd__meeting_join(&exec->meeting, exec->lines, lanes, crowded, world ? &exec->watch : NULL);
  for (int l = 0; l < exec->own_lanes; l++)
    hd__meeting_live(exec->lines, own + l, hd__lanes_cache(exec->lanes, l));
  HD_TRY(hd__world_meet(world, ctx));
  hd__meeting_join_caches(&exec->meeting);
  return HD_OK;
}

/* A rank of this host, as the job calls it. */
static int named(const hd_exec *exec, int rank) {
  const hd_world *world = exec->settings.world;
  return hd__hosts_member(world, hd__hosts_first(world, exec->host) + rank);
}

uint32_t hd__exec_meet(const lane_at *at, uint32_t flags) {
  hd_exec *exec = at->exec;
  hd_tally *tally = at->lane->tally;
  const int own = at->index - hd__exec_host_first(exec);
  if (!tally)
    return hd__meeting_come(&exec->meeting, own, flags);
  hd__tally_end(tally, HD_SPENT_COMPUTE);
  const hd_meeting_stamp mine = {.ns = tally->since_ns, .lane = own, .more = at->lane->held_by};
  at->lane->held_by = -1;
  const uint32_t all = hd__meeting_come_at(&exec->meeting, own, flags, &mine);
  if (all & HD_MEETING_BROKEN)
    return all;
  const hd_meeting_stamp last = hd__meeting_latest(&exec->meeting, own);
  hd__tally_waited(tally, last.lane == own ? -1 : last.more >= 0 ? last.more : named(exec, rank_of(exec, last.lane)));
  return all;
}

void hd__exec_spent(int64_t *sums, const hd_exec *exec) {
  const hd_world *world = exec->settings.world;
  const int ranks = hd__hosts_ranks(world), each = HD_SPENT_KINDS + ranks;
  const int here = hd__hosts_first(world, exec->host);
  memset(sums, 0, (size_t)ranks * (size_t)each * sizeof *sums);
  if (exec->cuda)
    hd__exec_cuda_spent(sums, exec->cuda);
  for (int place = 0; place < ranks && ranks > 1 && !exec->cuda; place++) {
    int64_t *of = sums + hd__hosts_member(world, place) * each;
    const int r = place - here;
    if (r < 0 || r >= hd__world_ranks(world)) /* there are several hosts */
      memcpy(of, exec->host_spent + place * each, (size_t)each * sizeof *of);
    else
      hd__exec_spent_here(of, exec, r);
  }
}

void hd__exec_spent_here(int64_t *sum, const hd_exec *exec, int rank) {
  const int ranks = hd__hosts_ranks(exec->settings.world);
  memset(sum, 0, (size_t)(HD_SPENT_KINDS + ranks) * sizeof *sum);
  for (int l = exec->rank_lane[rank]; l < exec->rank_lane[rank + 1]; l++)
    hd__tally_add(sum, exec->lane[l].tally, ranks);
}

typedef struct reason {
  int32_t status;
  char text[WHY_BYTES];
} reason;

hd_status hd__exec_why(hd_exec *exec, hd_ctx *ctx, const hd_driver *driver) {
  hd_world *world = exec->settings.world;
  const int ranks = hd__hosts_ranks(world);
  hd_status status = driver->why(driver->self, ctx);
  if (ranks == 1)
    return status;
  reason mine = {.status = status}, *all = hd__malloc((size_t)ranks * sizeof *all);
  snprintf(mine.text, sizeof mine.text, "%s", status == HD_OK ? "" : ctx->message);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the reasons of %d ranks", ranks);
  status = hd__hosts_gather(all, world, ctx, &mine, sizeof mine);
  for (int r = 0; r < ranks && status == HD_OK; r++)
    if (all[r].status != HD_OK)
      status = hd__fail(ctx, (hd_status)all[r].status, "%s", all[r].text);
  hd__free(all);
  return status;
}
