/* Memory of recorded slices: see trace.h. */
#include "exec/trace.h"

#include <string.h>

#include "base/alloc.h"
#include "comm/hosts.h"

enum { EVENT_HALF = 512, ALIGN_BYTES = 128, LEAST_HALF = 8 };

static int64_t aligned(int64_t bytes) { return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES; }

static int64_t reel_bytes(int64_t half, int32_t room) {
  return aligned(2 * half * room * (int64_t)sizeof(hd_slice)) + aligned(2 * half * (int64_t)sizeof(int32_t));
}

/* The reel's memory is at `at`. It is touched now, so that no step takes the first touch of a page. */
static void place(hd_reel *reel, char *at, int64_t half, int32_t room) {
  memset(at, 0, (size_t)reel_bytes(half, room));
  *reel = (hd_reel){.half = (int32_t)half, .room = room, .slices_at = at - (char *)reel};
  reel->used_at = reel->slices_at + aligned(2 * half * room * (int64_t)sizeof(hd_slice));
}

static void forget_hosts(hd_trace *t) {
  for (int h = 0; t->of_host && h < t->hosts; h++)
    if (t->of_host[h] != t->track)
      hd__free(t->of_host[h]);
  hd__free(t->of_host);
  hd__free(t->host_lane);
}

/* Room for what is known of hosts. */
static hd_status list_hosts(hd_trace *t, hd_ctx *ctx, int hosts) {
  forget_hosts(t);
  t->of_host = hd__calloc((size_t)hosts, sizeof(hd_track *));
  t->host_lane = hd__calloc((size_t)hosts + 1, sizeof *t->host_lane);
  t->hosts = hosts;
  return t->of_host && t->host_lane ? HD_OK : hd__fail(ctx, HD_E_NOMEM, "out of memory for the profile");
}

static hd_status open_trace(hd_trace *t, hd_ctx *ctx, hd_world *world, const hd_trace_size *size) {
  const int lanes = size->lanes, all = size->all_lanes ? size->all_lanes : lanes;
  const int64_t fitting = size->slices / all / size->room / 2, half = fitting < LEAST_HALF ? LEAST_HALF : fitting;
  const int64_t head = aligned((lanes + 1) * (int64_t)sizeof(hd_track));
  const int64_t events = reel_bytes(EVENT_HALF, 1), steps = reel_bytes(half, size->room);
  HD_TRY(list_hosts(t, ctx, 1));
  HD_TRY(hd__world_memory(&t->memory, world, ctx, (size_t)(head + lanes * (events + steps) + events), "the profile"));
  t->lanes = t->all_lanes = t->host_lane[1] = lanes;
  t->first = size->first;
  t->own = size->own;
  t->track = t->of_host[0] = t->memory.base;
  char *const reels = (char *)t->memory.base + head;
  for (int l = size->first; l < size->first + size->own; l++) {
    place(&t->track[l].events, reels + l * (events + steps), EVENT_HALF, 1);
    place(&t->track[l].steps, reels + l * (events + steps) + events, half, size->room);
  }
  if (size->first == 0)
    place(&t->track[lanes].events, reels + lanes * (events + steps), EVENT_HALF, 1);
  char *met = hd__malloc((size_t)hd__hosts_ranks(world));
  hd_status status =
      met ? hd__hosts_gather(met, world, ctx, "", 1) : hd__fail(ctx, HD_E_NOMEM, "out of memory for the profile");
  hd__free(met);
  t->start_ns = hd__clock_ns();
  return status;
}

hd_status hd__trace_create(hd_trace **out, hd_ctx *ctx, hd_world *world, const hd_trace_size *size) {
  *out = NULL;
  hd_trace *trace = hd__calloc(1, sizeof *trace);
  if (!trace)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the profile");
  hd_status status = open_trace(trace, ctx, world, size);
  if (status == HD_OK)
    *out = trace;
  else
    hd__trace_destroy(trace);
  return status;
}

void hd__trace_destroy(hd_trace *trace) {
  if (!trace)
    return;
  forget_hosts(trace);
  hd__segment_destroy(&trace->memory);
  hd__free(trace);
}

/* ---- several hosts ---- */

static void shift_reel(hd_reel *reel, int64_t ns) {
  for (int64_t n = 0; n < reel->count; n++) {
    const int64_t block = hd__reel_block(reel, n);
    for (int i = 0; block >= 0 && i < *hd__reel_used(reel, block); i++) {
      hd__reel_slices(reel, block)[i].begin_ns += ns;
      hd__reel_slices(reel, block)[i].end_ns += ns;
    }
  }
}

/* Sums of a host can only be there when both have begun to move them: what this says of another host's clock, beside
 * host 0's, for the crossings that two leaders recorded in one step. */
typedef struct bounds {
  int64_t least_ns, most_ns; /* to add to the other one's times */
} bounds;

static const hd_slice *crossing_of(const hd_reel *reel, int64_t step, int n) {
  const int64_t block = hd__reel_block(reel, step);
  for (int i = 0; block >= 0 && i < *hd__reel_used(reel, block); i++) {
    const hd_slice *slice = &hd__reel_slices(reel, block)[i];
    if (slice->kind == HD_SLICE_CROSS && n-- == 0)
      return slice;
  }
  return NULL;
}

static bounds compare_clocks(const hd_reel *own, const hd_reel *other) {
  bounds b = {INT64_MIN, INT64_MAX};
  for (int64_t step = 0; step < own->count && step < other->count; step++)
    for (int n = 0;; n++) {
      const hd_slice *a = crossing_of(own, step, n), *o = crossing_of(other, step, n);
      if (!a || !o)
        break;
      b.least_ns = a->begin_ns - o->end_ns > b.least_ns ? a->begin_ns - o->end_ns : b.least_ns;
      b.most_ns = a->end_ns - o->begin_ns < b.most_ns ? a->end_ns - o->begin_ns : b.most_ns;
    }
  return b;
}

/* Without crossings: both began at about the same moment. */
static int64_t clock_apart(const hd_track *own, const hd_track *other, int64_t began_apart_ns) {
  const bounds b = compare_clocks(&own->steps, &other->steps);
  const bool found = b.least_ns != INT64_MIN && b.least_ns <= b.most_ns;
  return found ? b.least_ns + (b.most_ns - b.least_ns) / 2 : began_apart_ns;
}

/* What a rank says of its host. */
typedef struct part {
  int64_t bytes, start_ns;
  int32_t lanes;
} part;

static hd_status collect(hd_trace *t, hd_ctx *ctx, hd_world *world, const part *all) {
  const int own = hd__hosts_mine(world);
  const bool gets = own == 0;
  HD_TRY(list_hosts(t, ctx, hd__hosts_count(world)));
  hd_movement *m = hd__hosts_movement(world, t->hosts);
  bool enough = m != NULL;
  for (int h = 0; h < t->hosts; h++) {
    const int leader = hd__hosts_member(world, hd__hosts_first(world, h));
    t->host_lane[h + 1] = t->host_lane[h] + all[leader].lanes;
    t->of_host[h] = h == own ? t->track : gets && enough ? hd__malloc_aligned((size_t)all[leader].bytes) : NULL;
    enough &= t->of_host[h] || !gets;
    if (enough && gets && h > 0)
      m->part[m->count++] = (hd_transfer_part){t->of_host[h], all[leader].bytes, leader, HD_TAG_HOSTS, 1};
  }
  if (enough && !gets)
    m->part[m->count++] =
        (hd_transfer_part){t->track, (int64_t)t->memory.bytes, hd__hosts_member(world, 0), HD_TAG_HOSTS, 0};
  int late;
  if (enough)
    HD_TRY(hd__hosts_move_within(&late, world, ctx, m, hd__world_patience(world)));
  else
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the profile of %d hosts", t->hosts);
  t->all_lanes = t->host_lane[t->hosts];
  for (int h = 1; h < t->hosts && gets; h++) {
    const int leader = hd__hosts_member(world, hd__hosts_first(world, h));
    const int64_t apart_ns = clock_apart(t->track, t->of_host[h], t->start_ns - all[leader].start_ns);
    for (int l = 0; l < t->host_lane[h + 1] - t->host_lane[h]; l++) {
      shift_reel(&t->of_host[h][l].steps, apart_ns);
      shift_reel(&t->of_host[h][l].events, apart_ns);
    }
  }
  return HD_OK;
}

hd_status hd__trace_collect(hd_trace *t, hd_ctx *ctx, hd_world *world) {
  if (hd__hosts_count(world) == 1)
    return hd__world_meet(world, ctx);
  const part mine = {(int64_t)t->memory.bytes, t->start_ns, t->lanes};
  part *all = hd__malloc((size_t)hd__hosts_ranks(world) * sizeof *all);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the profile");
  hd_status status = hd__hosts_gather(all, world, ctx, &mine, sizeof mine);
  if (status == HD_OK && hd__world_rank(world) == 0) {
    status = collect(t, ctx, world, all);
    if (status != HD_OK && list_hosts(t, ctx, 1) == HD_OK) { /* what this host did is better than nothing */
      t->of_host[0] = t->track;
      t->all_lanes = t->host_lane[1] = t->lanes;
    }
  }
  hd__free(all);
  return status;
}

int hd__trace_host(const hd_trace *t, int lane) {
  int h = 0;
  while (h + 1 < t->hosts && t->host_lane[h + 1] <= lane)
    h++;
  return h;
}

hd_track *hd__trace_track(const hd_trace *t, int lane) {
  if (lane == t->all_lanes)
    return &t->track[t->lanes];
  const int h = hd__trace_host(t, lane);
  return &t->of_host[h][lane - t->host_lane[h]];
}

static int64_t block_of(const hd_reel *reel, int64_t n) {
  return n < reel->half ? n : reel->half + (n - reel->half) % reel->half;
}

int64_t hd__reel_block(const hd_reel *reel, int64_t n) {
  const bool kept = n < reel->count && (n < reel->half || n >= reel->count - reel->half);
  return kept ? block_of(reel, n) : -1;
}

static int64_t begin(hd_reel *reel) {
  int64_t block = block_of(reel, reel->count++);
  *hd__reel_used(reel, block) = 0;
  return block;
}

void hd__trace_step(hd_track *track) {
  if (track)
    track->block = begin(&track->steps);
}

void hd__trace_event(hd_track *track, hd_slice_kind kind, int32_t of, int64_t begin_ns) {
  if (!track)
    return;
  int64_t block = begin(&track->events);
  *hd__reel_slices(&track->events, block) =
      (hd_slice){.begin_ns = begin_ns, .end_ns = hd__clock_ns(), .kind = (int32_t)kind, .of = of};
  *hd__reel_used(&track->events, block) = 1;
}
