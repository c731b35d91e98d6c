/* Memory of recorded slices: see trace.h. */
#include "exec/trace.h"

#include <string.h>

#include "base/alloc.h"

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

hd_status hd__trace_create(hd_trace **out, hd_ctx *ctx, hd_world *world, const hd_trace_size *size) {
  const int lanes = size->lanes;
  const int64_t fitting = size->slices / lanes / size->room / 2, half = fitting < LEAST_HALF ? LEAST_HALF : fitting;
  const int64_t head = aligned((lanes + 1) * (int64_t)sizeof(hd_track));
  const int64_t events = reel_bytes(EVENT_HALF, 1), steps = reel_bytes(half, size->room);
  *out = NULL;
  hd_trace *trace = hd__calloc(1, sizeof *trace);
  if (!trace)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the profile");
  hd_status status =
      hd__world_memory(&trace->memory, world, ctx, (size_t)(head + lanes * (events + steps) + events), "the profile");
  if (status != HD_OK) {
    hd__free(trace);
    return status;
  }
  trace->lanes = lanes;
  trace->first = size->first;
  trace->own = size->own;
  trace->track = trace->memory.base;
  char *const reels = (char *)trace->memory.base + head;
  for (int l = size->first; l < size->first + size->own; l++) {
    place(&trace->track[l].events, reels + l * (events + steps), EVENT_HALF, 1);
    place(&trace->track[l].steps, reels + l * (events + steps) + events, half, size->room);
  }
  if (size->first == 0)
    place(&trace->track[lanes].events, reels + lanes * (events + steps), EVENT_HALF, 1);
  trace->start_ns = hd__clock_ns();
  *out = trace;
  return HD_OK;
}

void hd__trace_destroy(hd_trace *trace) {
  if (!trace)
    return;
  hd__segment_destroy(&trace->memory);
  hd__free(trace);
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
