/* Memory of recorded slices: see trace.h. */
#include "exec/trace.h"

#include <string.h>

#include "base/alloc.h"
#include "exec/exchange/cluster.h"

enum { EVENT_HALF = 512, ALIGN_BYTES = 128, LEAST_HALF = 8 };

static int64_t aligned(int64_t bytes) { return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES; }

static int64_t slice_buffer_bytes(int64_t half, int32_t room) {
  return aligned(2 * half * room * (int64_t)sizeof(hd_slice)) + aligned(2 * half * (int64_t)sizeof(int32_t));
}

/* Sets up a buffer with its memory at `at`. The memory is touched now, so that steps cause no page faults. */
static void place(hd_slice_buffer *buffer, char *at, int64_t half, int32_t room) {
  memset(at, 0, (size_t)slice_buffer_bytes(half, room));
  *buffer = (hd_slice_buffer){.half = (int32_t)half, .room = room, .slices_at = at - (char *)buffer};
  buffer->used_at = buffer->slices_at + aligned(2 * half * room * (int64_t)sizeof(hd_slice));
}

static void forget_hosts(hd_trace *t) {
  for (int h = 0; t->of_host && h < t->hosts; h++)
    if (t->of_host[h] != t->track)
      hd__free(t->of_host[h]);
  hd__free(t->of_host);
  hd__free(t->host_thread);
}

/* Allocates the tables of hosts. */
static hd_status list_hosts(hd_trace *t, hd_ctx *ctx, int hosts) {
  forget_hosts(t);
  t->of_host = hd__calloc((size_t)hosts, sizeof(hd_track *));
  t->host_thread = hd__calloc((size_t)hosts + 1, sizeof *t->host_thread);
  t->hosts = hosts;
  return t->of_host && t->host_thread ? HD_OK : hd__fail(ctx, HD_E_NOMEM, "out of memory for the profile");
}

static hd_status open_trace(hd_trace *t, hd_ctx *ctx, hd_local_group *local, const hd_trace_size *size) {
  const int threads = size->threads, all = size->all_threads ? size->all_threads : threads;
  const int64_t fitting = size->slices / all / size->room / 2, half = fitting < LEAST_HALF ? LEAST_HALF : fitting;
  const int64_t head = aligned((threads + 1) * (int64_t)sizeof(hd_track));
  const int64_t events = slice_buffer_bytes(EVENT_HALF, 1), steps = slice_buffer_bytes(half, size->room);
  HD_TRY(list_hosts(t, ctx, 1));
  HD_TRY(hd__local_group_memory(&t->memory, local, ctx, (size_t)(head + threads * (events + steps) + events),
                                "the profile"));
  t->threads = t->all_threads = t->host_thread[1] = threads;
  t->first = size->first;
  t->process_threads = size->process_threads;
  t->track = t->of_host[0] = t->memory.base;
  char *const buffers = (char *)t->memory.base + head;
  for (int l = size->first; l < size->first + size->process_threads; l++) {
    place(&t->track[l].events, buffers + l * (events + steps), EVENT_HALF, 1);
    place(&t->track[l].steps, buffers + l * (events + steps) + events, half, size->room);
  }
  if (size->first == 0)
    place(&t->track[threads].events, buffers + threads * (events + steps), EVENT_HALF, 1);
  HD_OWNED char *barrier = NULL;
  HD_TRY(HD_NEW_RAW(barrier, hd__cluster_ranks(local), ctx, "out of memory for the profile"));
  HD_TRY(hd__cluster_gather(barrier, local, ctx, "", 1));
  t->start_ns = hd__clock_ns();
  return HD_OK;
}

hd_status hd__trace_create(hd_trace **out, hd_ctx *ctx, hd_local_group *local, const hd_trace_size *size) {
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for the profile"));
  hd_trace *trace = *out;
  hd_status status = open_trace(trace, ctx, local, size);
  return HD_CREATED(status, out, hd__trace_destroy);
}

void hd__trace_destroy(hd_trace *trace) {
  if (!trace)
    return;
  forget_hosts(trace);
  hd__segment_destroy(&trace->memory);
  hd__free(trace);
}

/* ---- several hosts ---- */

static void shift_times(hd_slice_buffer *buffer, int64_t ns) {
  for (int64_t n = 0; n < buffer->count; n++) {
    const int64_t block = hd__slice_buffer_block(buffer, n);
    for (int i = 0; block >= 0 && i < *hd__slice_buffer_used(buffer, block); i++) {
      hd__slice_buffer_slices(buffer, block)[i].begin_ns += ns;
      hd__slice_buffer_slices(buffer, block)[i].end_ns += ns;
    }
  }
}

/* Bounds for the difference between another host's clock and host 0's: an exchange ends on each of the two hosts after
 * it has begun on both. Computed from the exchanges that the first threads of both hosts recorded in a step. */
typedef struct bounds {
  int64_t least_ns, most_ns; /* to add to the other host's times */
} bounds;

static const hd_slice *exchange_of(const hd_slice_buffer *buffer, int64_t step, int n) {
  const int64_t block = hd__slice_buffer_block(buffer, step);
  for (int i = 0; block >= 0 && i < *hd__slice_buffer_used(buffer, block); i++) {
    const hd_slice *slice = &hd__slice_buffer_slices(buffer, block)[i];
    if (slice->kind == HD_SLICE_EXCHANGE && n-- == 0)
      return slice;
  }
  return NULL;
}

static bounds compare_clocks(const hd_slice_buffer *here, const hd_slice_buffer *other) {
  bounds b = {INT64_MIN, INT64_MAX};
  for (int64_t step = 0; step < here->count && step < other->count; step++)
    for (int n = 0;; n++) {
      const hd_slice *a = exchange_of(here, step, n), *o = exchange_of(other, step, n);
      if (!a || !o)
        break;
      b.least_ns = a->begin_ns - o->end_ns > b.least_ns ? a->begin_ns - o->end_ns : b.least_ns;
      b.most_ns = a->end_ns - o->begin_ns < b.most_ns ? a->end_ns - o->begin_ns : b.most_ns;
    }
  return b;
}

/* Without exchanges: both hosts started recording at about the same time. */
static int64_t clock_apart(const hd_track *here, const hd_track *other, int64_t began_apart_ns) {
  const bounds b = compare_clocks(&here->steps, &other->steps);
  const bool found = b.least_ns != INT64_MIN && b.least_ns <= b.most_ns;
  return found ? b.least_ns + (b.most_ns - b.least_ns) / 2 : began_apart_ns;
}

/* The data of a host, as sent by its ranks. */
typedef struct host_part {
  int64_t bytes, start_ns;
  int32_t threads;
  int32_t is_ready; /* it has memory for what it receives */
} host_part;

/* The transfers of all tracks to the first host, and there the memory for them; false: out of memory. */
static bool prepare_hosts(hd_cluster_exchange **out, hd_trace *t, hd_local_group *local, const host_part *all) {
  const int this_host = hd__cluster_this_host(local), hosts = hd__cluster_count(local);
  hd_cluster_exchange *m = *out = hd__cluster_exchange(local, hosts);
  if (!m || list_hosts(t, NULL, hosts) != HD_OK)
    return false;
  if (this_host > 0)
    m->part[m->count++] =
        (hd_transfer_part){t->track, (int64_t)t->memory.bytes, hd__cluster_member(local, 0), HD_TAG_HOSTS, 0};
  t->of_host[this_host] = t->track;
  for (int h = 0; h < hosts; h++) {
    const int leader = hd__cluster_member(local, hd__cluster_first(local, h));
    t->host_thread[h + 1] = t->host_thread[h] + all[leader].threads;
    if (this_host > 0 || h == 0)
      continue;
    t->of_host[h] = hd__malloc_aligned((size_t)all[leader].bytes);
    if (!t->of_host[h])
      return false;
    m->part[m->count++] = (hd_transfer_part){t->of_host[h], all[leader].bytes, leader, HD_TAG_HOSTS, 1};
  }
  return true;
}

static hd_status move_tracks(hd_trace *t, hd_ctx *ctx, hd_local_group *local, hd_cluster_exchange *m,
                             const host_part *all) {
  int late;
  HD_TRY(hd__cluster_exchange_within(&late, local, ctx, m, hd__local_group_timeout(local), NULL));
  t->all_threads = t->host_thread[t->hosts];
  for (int h = 1; h < t->hosts && hd__cluster_this_host(local) == 0; h++) {
    const int leader = hd__cluster_member(local, hd__cluster_first(local, h));
    const int64_t apart_ns = clock_apart(t->track, t->of_host[h], t->start_ns - all[leader].start_ns);
    for (int l = 0; l < t->host_thread[h + 1] - t->host_thread[h]; l++) {
      shift_times(&t->of_host[h][l].steps, apart_ns);
      shift_times(&t->of_host[h][l].events, apart_ns);
    }
  }
  return HD_OK;
}

/* All ranks know that all leaders are ready before one of them sends anything. */
static hd_status collect_hosts(hd_trace *t, hd_ctx *ctx, hd_local_group *local, host_part *all) {
  host_part this_rank = {(int64_t)t->memory.bytes, t->start_ns, t->threads, true};
  hd_cluster_exchange *m = NULL;
  HD_TRY(hd__cluster_gather(all, local, ctx, &this_rank, sizeof this_rank));
  if (hd__cluster_leads(local))
    this_rank.is_ready = prepare_hosts(&m, t, local, all);
  hd_status status = hd__cluster_gather(all, local, ctx, &this_rank, sizeof this_rank);
  for (int r = 0; status == HD_OK && r < hd__cluster_ranks(local); r++)
    if (!all[r].is_ready)
      status = hd__fail(ctx, HD_E_NOMEM, "out of memory for the profile of all hosts, in rank %d", r);
  if (status == HD_OK && m)
    return move_tracks(t, ctx, local, m, all);
  if (m)
    hd__cluster_keep_exchange(local, m);
  return status;
}

hd_status hd__trace_collect(hd_trace *t, hd_ctx *ctx, hd_local_group *local) {
  if (hd__cluster_is_one_host(local))
    return hd__local_group_barrier(local, ctx);
  HD_OWNED host_part *all = NULL;
  HD_TRY(HD_NEW_RAW(all, hd__cluster_ranks(local), ctx, "out of memory for the profile"));
  const hd_status status = collect_hosts(t, ctx, local, all);
  if (status != HD_OK && list_hosts(t, ctx, 1) == HD_OK) { /* keep this host's tracks */
    t->of_host[0] = t->track;
    t->all_threads = t->host_thread[1] = t->threads;
  }
  return status;
}

int hd__trace_host(const hd_trace *t, int thread) {
  int h = 0;
  while (h + 1 < t->hosts && t->host_thread[h + 1] <= thread)
    h++;
  return h;
}

hd_track *hd__trace_track(const hd_trace *t, int thread) {
  if (thread == t->all_threads)
    return &t->track[t->threads];
  const int h = hd__trace_host(t, thread);
  return &t->of_host[h][thread - t->host_thread[h]];
}

static int64_t block_of(const hd_slice_buffer *buffer, int64_t n) {
  return n < buffer->half ? n : buffer->half + (n - buffer->half) % buffer->half;
}

int64_t hd__slice_buffer_block(const hd_slice_buffer *buffer, int64_t n) {
  const bool kept = n < buffer->count && (n < buffer->half || n >= buffer->count - buffer->half);
  return kept ? block_of(buffer, n) : -1;
}

static int64_t begin(hd_slice_buffer *buffer) {
  int64_t block = block_of(buffer, buffer->count++);
  *hd__slice_buffer_used(buffer, block) = 0;
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
  *hd__slice_buffer_slices(&track->events, block) =
      (hd_slice){.begin_ns = begin_ns, .end_ns = hd__clock_ns(), .kind = (int32_t)kind, .of = of};
  *hd__slice_buffer_used(&track->events, block) = 1;
}
