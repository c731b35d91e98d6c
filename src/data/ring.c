/* The ring's workers, its claims and its waits; see ring.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "data/ring.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "sys/clock.h"
#include "sys/cpu_set.h"
#include "sys/fpmode.h"
#include "sys/relax.h"
#include "sys/segment.h"

enum { PARTS = 16, SPINS = 1000 };

/* A part's state is 0, or that of the last batch that claimed it: the batch's number and how it goes. */
enum { FILLED = 1, FAILED = 2, FILLING = 3, STATES = 4 };

typedef struct worker {
  hd_ring *ring;
  pthread_t thread;
  hd_ctx *ctx;
  void *scratch;
  int cpu; /* -1: anywhere */
  int64_t filled;
} worker;

/* What went wrong in a slot, at its first row that failed. */
typedef struct failure {
  int32_t part; /* -1: nothing */
  hd_status status;
  char message[HD_MESSAGE_BYTES];
} failure;

struct hd_ring {
  hd_ring_settings is;
  hd_ring_source source;
  int64_t part_rows;
  int32_t parts; /* of a batch */
  hd_segment memory;
  bool loose;
  atomic_llong *state; /* of each slot's parts */
  int32_t *awaited;    /* of each slot's parts: takers asleep */
  failure *failed;     /* of each slot */
  worker *workers;
  void *scratch; /* of all of them */
  int32_t started;

  pthread_mutex_t lock;
  pthread_cond_t room, there, still; /* for workers, for takers, for who seeks */
  int64_t batch, end;                /* where the next claim is */
  int32_t part, busy;
  bool closing;
  int32_t takers;        /* asleep */
  atomic_int sleepers;   /* workers without room */
  atomic_llong returned; /* batches below are given back */
  atomic_llong waited_ns;
};

/* Where a part's state is. */
static int64_t place_of(const hd_ring *r, int64_t batch, int64_t part) {
  return batch % r->is.batches * r->parts + part;
}

static atomic_llong *state_of(const hd_ring *r, int64_t batch, int64_t part) {
  return &r->state[place_of(r, batch, part)];
}

static char *row_at(const hd_ring *r, int64_t batch, int64_t row) {
  return (char *)r->memory.base + (batch % r->is.batches * r->is.rows + row) * r->is.row_bytes;
}

/* The lock is held. Of a batch that was given back a part may still be in a worker's hands: nobody took rows behind the
 * end of a short one. */
static bool has_room(hd_ring *r) {
  return r->batch < r->end && r->batch < atomic_load(&r->returned) + r->is.batches &&
         atomic_load_explicit(state_of(r, r->batch, r->part), memory_order_relaxed) % STATES != FILLING;
}

/* Waits for a part to fill. The lock is held. False: the ring closes. */
static bool claim(int64_t *batch, int32_t *part, hd_ring *r) {
  atomic_fetch_add(&r->sleepers, 1); /* before the look for room: who gives back looks for sleepers after */
  while (!r->closing && !has_room(r))
    pthread_cond_wait(&r->room, &r->lock);
  atomic_fetch_sub(&r->sleepers, 1);
  *batch = r->batch;
  *part = r->part;
  if (r->closing)
    return false;
  atomic_store_explicit(state_of(r, *batch, *part), *batch * STATES + FILLING, memory_order_relaxed);
  r->part = (r->part + 1) % r->parts;
  r->batch += r->part == 0;
  r->busy++;
  return true;
}

/* The lock is held. */
static void note_failure(hd_ring *r, int64_t batch, int32_t part, hd_status status, const char *message) {
  failure *f = &r->failed[batch % r->is.batches];
  if (f->part >= 0 && f->part < part)
    return;
  f->part = part;
  f->status = status;
  snprintf(f->message, sizeof f->message, "%s", message);
}

static void *work(void *arg) {
  worker *w = arg;
  hd_ring *r = w->ring;
  int64_t batch;
  int32_t part;
  const uint64_t mode = hd__fpmode_enter();
  pthread_mutex_lock(&r->lock);
  while (claim(&batch, &part, r)) {
    if (part == 0)
      r->failed[batch % r->is.batches].part = -1;
    pthread_mutex_unlock(&r->lock);
    const int64_t first = part * r->part_rows, left = r->is.rows - first;
    const hd_status status = r->source.fill(r->source.self, w->ctx, w->scratch, batch, first,
                                            left < r->part_rows ? left : r->part_rows, row_at(r, batch, first));
    pthread_mutex_lock(&r->lock);
    if (status != HD_OK)
      note_failure(r, batch, part, status, w->ctx->message);
    atomic_store_explicit(state_of(r, batch, part), batch * STATES + (status == HD_OK ? FILLED : FAILED),
                          memory_order_release);
    w->filled++;
    r->busy--;
    if (r->batch == batch + r->is.batches && r->part == part)
      pthread_cond_broadcast(&r->room); /* what the others waited for */
    if (r->awaited[place_of(r, batch, part)] > 0)
      pthread_cond_broadcast(&r->there);
    if (r->busy == 0)
      pthread_cond_broadcast(&r->still);
  }
  pthread_mutex_unlock(&r->lock);
  hd__fpmode_leave(mode);
  return NULL;
}

/* FILLED, FAILED, or 0 while the part is not there. */
static int look(const atomic_llong *state, int64_t batch) {
  const long long seen = atomic_load_explicit(state, memory_order_acquire);
  return seen / STATES == batch && seen % STATES != FILLING ? (int)(seen % STATES) : 0; /* batch 0's own are not 0 */
}

static int wait_for(hd_ring *r, int64_t batch, int64_t part) {
  const int64_t began_ns = hd__clock_ns();
  const atomic_llong *state = state_of(r, batch, part);
  int32_t *awaited = &r->awaited[place_of(r, batch, part)];
  int seen = 0;
  for (int i = 0; i < SPINS && !(seen = look(state, batch)); i++)
    hd__relax();
  if (!seen) {
    pthread_mutex_lock(&r->lock);
    r->takers++;
    ++*awaited;
    while (!(seen = look(state, batch)))
      pthread_cond_wait(&r->there, &r->lock);
    --*awaited;
    r->takers--;
    pthread_mutex_unlock(&r->lock);
  }
  atomic_fetch_add_explicit(&r->waited_ns, hd__clock_ns() - began_ns, memory_order_relaxed);
  return seen;
}

/* From the last part on: workers begin with the first, so who has slept until the last is there finds the others. */
const char *hd__ring_take(hd_ring *r, int64_t batch, int64_t first, int64_t rows) {
  bool whole = true;
  for (int64_t part = (first + rows - 1) / r->part_rows; part >= first / r->part_rows; part--) {
    const int seen = look(state_of(r, batch, part), batch);
    whole &= (seen ? seen : wait_for(r, batch, part)) == FILLED;
  }
  return whole ? row_at(r, batch, first) : NULL;
}

void hd__ring_give_back(hd_ring *r, int64_t batch) {
  atomic_store(&r->returned, batch + 1);
  if (atomic_load(&r->sleepers) == 0)
    return;
  pthread_mutex_lock(&r->lock);
  pthread_cond_broadcast(&r->room);
  pthread_mutex_unlock(&r->lock);
}

void hd__ring_seek(hd_ring *r, int64_t first, int64_t end) {
  pthread_mutex_lock(&r->lock);
  r->end = r->batch; /* no further claims */
  while (r->busy > 0)
    pthread_cond_wait(&r->still, &r->lock);
  for (int64_t i = 0; i < (int64_t)r->is.batches * r->parts; i++)
    atomic_store(&r->state[i], 0);
  for (int32_t i = 0; i < r->is.batches; i++)
    r->failed[i].part = -1;
  r->batch = first;
  r->part = 0;
  r->end = end;
  atomic_store(&r->returned, first);
  pthread_cond_broadcast(&r->room);
  pthread_mutex_unlock(&r->lock);
}

hd_status hd__ring_failure(hd_ring *r, hd_ctx *ctx, int64_t batch) {
  for (int32_t p = 0; p < r->parts; p++) /* an earlier part may fail later */
    if (!look(state_of(r, batch, p), batch))
      wait_for(r, batch, p);
  pthread_mutex_lock(&r->lock);
  const failure f = r->failed[batch % r->is.batches];
  pthread_mutex_unlock(&r->lock);
  return f.part < 0 ? HD_OK : hd__fail(ctx, f.status, "%s", f.message);
}

int32_t hd__ring_workers(const hd_ring *r) { return r->started; }

bool hd__ring_is_loose(const hd_ring *r) { return r->loose; }

int64_t hd__ring_waited_ns(const hd_ring *r) { return atomic_load_explicit(&r->waited_ns, memory_order_relaxed); }

int64_t hd__ring_filled(hd_ring *r, int32_t index) {
  pthread_mutex_lock(&r->lock);
  int64_t filled = r->workers[index].filled;
  pthread_mutex_unlock(&r->lock);
  return filled;
}

int32_t hd__ring_sleeping(hd_ring *r) {
  pthread_mutex_lock(&r->lock);
  int32_t sleeping = r->takers;
  pthread_mutex_unlock(&r->lock);
  return sleeping;
}

/* A place that the system refuses is none: the worker runs anywhere. Signals are for the program's own threads, but
 * that of a mapped file that became shorter: it is for who reads there, and blocked it would end the process
 * unheard. */
static int start_worker(worker *w) {
  sigset_t all, before;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  if (w->cpu >= 0) {
    hd_cpu_set set;
    hd__cpu_set_one(&set, w->cpu);
    pthread_attr_setaffinity_np(&attr, sizeof set, (const cpu_set_t *)&set);
  }
  sigfillset(&all);
  sigdelset(&all, SIGBUS);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&w->thread, &attr, work, w);
  if (error && w->cpu >= 0)
    error = pthread_create(&w->thread, NULL, work, w);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attr);
  return error;
}

static hd_status start_workers(hd_ring *r, hd_ctx *ctx) {
  for (int32_t i = 0; i < r->is.workers; i++) {
    worker *w = &r->workers[i];
    w->ring = r;
    w->cpu = r->is.place ? r->is.place[i].cpu : -1;
    if (hd_ctx_create(&w->ctx) != HD_OK)
      return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d loader workers", r->is.workers);
    const int error = start_worker(w);
    if (error) {
      hd_ctx_destroy(w->ctx);
      return hd__fail(ctx, HD_E_SYSTEM, "cannot start loader worker %d of %d: %s; use fewer --workers", i + 1,
                      r->is.workers, strerror(error));
    }
    r->started++;
  }
  return HD_OK;
}

static hd_status take_memory(hd_ring *r, hd_ctx *ctx) {
  const size_t bytes = (size_t)r->is.batches * (size_t)r->is.rows * (size_t)r->is.row_bytes;
  r->state = hd__calloc((size_t)r->is.batches * (size_t)r->parts, sizeof *r->state);
  r->awaited = hd__calloc((size_t)r->is.batches * (size_t)r->parts, sizeof *r->awaited);
  r->failed = hd__calloc((size_t)r->is.batches, sizeof *r->failed);
  r->workers = hd__calloc((size_t)r->is.workers, sizeof *r->workers);
  if (!r->state || !r->awaited || !r->failed || !r->workers)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a ring of %d batches", r->is.batches);
  HD_TRY(hd__segment_create(&r->memory, ctx, bytes, "the loader's ring of batches"));
  const size_t scratch = ((size_t)r->is.scratch_bytes / HD_ALIGNED_BYTES + 1) * HD_ALIGNED_BYTES;
  r->scratch = hd__malloc_aligned((size_t)r->is.workers * scratch);
  if (!r->scratch)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d loader workers", r->is.workers);
  for (int32_t i = 0; i < r->is.workers; i++)
    r->workers[i].scratch = (char *)r->scratch + (size_t)i * scratch;
  r->loose = r->is.pin && mlock(r->memory.base, r->memory.bytes) != 0;
  return HD_OK;
}

hd_status hd__ring_create(hd_ring **out, hd_ctx *ctx, const hd_ring_settings *settings, const hd_ring_source *source) {
  *out = NULL;
  hd_ring *r = hd__calloc(1, sizeof *r);
  if (!r)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the loader's ring");
  r->is = *settings;
  r->source = *source;
  r->part_rows = (settings->rows + PARTS - 1) / PARTS;
  r->parts = (int32_t)((settings->rows + r->part_rows - 1) / r->part_rows);
  pthread_mutex_init(&r->lock, NULL);
  pthread_cond_init(&r->room, NULL);
  pthread_cond_init(&r->there, NULL);
  pthread_cond_init(&r->still, NULL);
  hd_status status = take_memory(r, ctx);
  if (status == HD_OK)
    status = start_workers(r, ctx);
  if (status != HD_OK)
    hd__ring_destroy(r);
  else
    *out = r;
  return status;
}

void hd__ring_destroy(hd_ring *r) {
  if (!r)
    return;
  pthread_mutex_lock(&r->lock);
  r->closing = true;
  pthread_cond_broadcast(&r->room);
  pthread_mutex_unlock(&r->lock);
  for (int32_t i = 0; i < r->started; i++) {
    pthread_join(r->workers[i].thread, NULL);
    hd_ctx_destroy(r->workers[i].ctx);
  }
  pthread_cond_destroy(&r->room);
  pthread_cond_destroy(&r->there);
  pthread_cond_destroy(&r->still);
  pthread_mutex_destroy(&r->lock);
  hd__segment_destroy(&r->memory);
  hd__free(r->workers);
  hd__free(r->scratch);
  hd__free(r->failed);
  hd__free(r->awaited);
  hd__free(r->state);
  hd__free(r);
}
