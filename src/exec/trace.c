/* Memory of recorded slices: see trace.h. */
#include "exec/trace.h"

#include <string.h>

#include "base/alloc.h"

enum { EVENT_HALF = 512, ALIGN_BYTES = 128, LEAST_HALF = 8 };

static int64_t aligned(int64_t bytes) { return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES; }

static int64_t reel_bytes(int64_t half, int32_t room) {
  return aligned(2 * half * room * (int64_t)sizeof(hd_slice)) + aligned(2 * half * (int64_t)sizeof(int32_t));
}

/* Cuts a reel off the memory at `at`; returns what is behind it. */
static char *place(hd_reel *reel, char *at, int64_t half, int32_t room) {
  *reel = (hd_reel){.slice = (hd_slice *)(void *)at, .half = (int32_t)half, .room = room};
  reel->used = (int32_t *)(void *)(at + aligned(2 * half * room * (int64_t)sizeof(hd_slice)));
  return at + reel_bytes(half, room);
}

hd_status hd__trace_create(hd_trace **out, hd_ctx *ctx, int lanes, int32_t room, int64_t slices) {
  *out = NULL;
  int64_t half = slices / lanes / room / 2;
  half = half < LEAST_HALF ? LEAST_HALF : half;
  hd_trace *trace = hd__calloc(1, sizeof *trace);
  int64_t head = aligned((lanes + 1) * (int64_t)sizeof *trace->track);
  int64_t bytes = head + lanes * reel_bytes(half, room) + (lanes + 1) * reel_bytes(EVENT_HALF, 1);
  if (!trace)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the profile");
  hd_status status = hd__segment_create(&trace->memory, ctx, (size_t)bytes, "the profile");
  if (status != HD_OK) {
    hd__free(trace);
    return status;
  }
  memset(trace->memory.base, 0, (size_t)bytes); /* so that no step takes the first touch of a page */
  trace->lanes = lanes;
  trace->track = trace->memory.base;
  char *at = (char *)trace->memory.base + head;
  for (int l = 0; l <= lanes; l++) {
    at = place(&trace->track[l].events, at, EVENT_HALF, 1);
    if (l < lanes)
      at = place(&trace->track[l].steps, at, half, room);
  }
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
  return n < reel->half || n >= reel->count - reel->half ? block_of(reel, n) : -1;
}

static int64_t begin(hd_reel *reel) {
  int64_t block = block_of(reel, reel->count++);
  reel->used[block] = 0;
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
  track->events.slice[block] =
      (hd_slice){.begin_ns = begin_ns, .end_ns = hd__clock_ns(), .kind = (int32_t)kind, .of = of};
  track->events.used[block] = 1;
}
