/* The ring's workers, its claims and its waits; see batch_ring.h. */
#include "data/loader/batch_ring.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/event_log.h"
#include "platform/clock.h"
#include "platform/cpu_set.h"
#include "platform/fpmode.h"
#include "platform/wait.h"
#include "platform/segment.h"
#include "platform/thread_start.h"

enum { BLOCKS = 16 };

/* A block's state is 0, or that of the last batch that claimed it: the batch's number and its progress. */
enum { FILLED = 1, FAILED = 2, FILLING = 3, STATES = 4 };

typedef struct worker {
  hd_ring *ring;
  hd_thread thread;
  hd_ctx *ctx;
  void *scratch;
  int cpu; /* -1: anywhere */
  int64_t filled;
} worker;

/* The failure of a slot's first failed row. */
typedef struct failure {
  int32_t block; /* -1: none */
  hd_status status;
  char message[HD_MESSAGE_BYTES];
} failure;

struct hd_ring {
  hd_ring_settings is;
  int64_t block_rows;
  int32_t blocks; /* of a batch */
  hd_segment memory;
  bool unpinned;
  atomic_llong *state; /* of each slot's blocks */
  int32_t *awaited;    /* of each slot's blocks: sleeping takers */
  failure *failed;     /* of each slot */
  worker *workers;
  void *scratch; /* of all of them */
  int32_t started;

  pthread_mutex_t lock;
  pthread_cond_t room, there, still; /* for workers, for takers, for hd__ring_seek */
  int64_t batch, end;                /* the next claim */
  int32_t block, busy;
  bool closing;
  int32_t takers;        /* asleep */
  atomic_int sleepers;   /* workers without room */
  atomic_llong returned; /* lower batches have been released */
  atomic_llong waited_ns;
};

/* A block's state. */
static int64_t place_of(const hd_ring *r, int64_t batch, int64_t block) {
  return batch % r->is.batches * r->blocks + block;
}

static atomic_llong *state_of(const hd_ring *r, int64_t batch, int64_t block) {
  return &r->state[place_of(r, batch, block)];
}

static char *row_at(const hd_ring *r, int64_t batch, int64_t row) {
  return (char *)r->memory.base + (batch % r->is.batches * r->is.rows + row) * r->is.row_bytes;
}

/* The lock is held. A worker may still be filling a block of a released batch: the rows past the end of a short
 * batch are never taken. */
static bool has_room(hd_ring *r) {
  return r->batch < r->end && r->batch < atomic_load(&r->returned) + r->is.batches &&
         atomic_load_explicit(state_of(r, r->batch, r->block), memory_order_relaxed) % STATES != FILLING;
}

/* Waits for a block to fill. The lock is held. False: the ring closes. */
static bool claim(int64_t *batch, int32_t *block, hd_ring *r) {
  atomic_fetch_add(&r->sleepers, 1); /* before the check for room: hd__ring_release checks for sleepers afterwards */
  while (!r->closing && !has_room(r))
    pthread_cond_wait(&r->room, &r->lock);
  atomic_fetch_sub(&r->sleepers, 1);
  *batch = r->batch;
  *block = r->block;
  if (r->closing)
    return false;
  atomic_store_explicit(state_of(r, *batch, *block), *batch * STATES + FILLING, memory_order_relaxed);
  r->block = (r->block + 1) % r->blocks;
  r->batch += r->block == 0;
  r->busy++;
  return true;
}

/* The lock is held. */
static void note_failure(hd_ring *r, int64_t batch, int32_t block, hd_status status, const char *message) {
  failure *f = &r->failed[batch % r->is.batches];
  if (f->block >= 0 && f->block < block)
    return;
  f->block = block;
  f->status = status;
  snprintf(f->message, sizeof f->message, "%s", message);
}

static void *work(void *arg) {
  worker *w = arg;
  hd_ring *r = w->ring;
  int64_t batch;
  int32_t block;
  const uint64_t mode = hd__fpmode_enter();
  hd_cpu_set set;
  hd__log_thread("loader", (int)(w - r->workers));
  hd__cpu_set_one(&set, w->cpu);
  if (w->cpu >= 0)
    hd__cpu_set_bind(&set); /* else, and where that fails, it runs on any CPU */
  pthread_mutex_lock(&r->lock);
  while (claim(&batch, &block, r)) {
    if (block == 0)
      r->failed[batch % r->is.batches].block = -1;
    pthread_mutex_unlock(&r->lock);
    const int64_t first = block * r->block_rows, left = r->is.rows - first;
    const hd_status status = r->is.fill(r->is.self, w->ctx, w->scratch, batch, first,
                                        left < r->block_rows ? left : r->block_rows, row_at(r, batch, first));
    pthread_mutex_lock(&r->lock);
    if (status != HD_OK)
      note_failure(r, batch, block, status, w->ctx->message);
    atomic_store_explicit(state_of(r, batch, block), batch * STATES + (status == HD_OK ? FILLED : FAILED),
                          memory_order_release);
    w->filled++;
    r->busy--;
    if (r->batch == batch + r->is.batches && r->block == block)
      pthread_cond_broadcast(&r->room); /* wakes the other workers */
    if (r->awaited[place_of(r, batch, block)] > 0)
      pthread_cond_broadcast(&r->there);
    if (r->busy == 0)
      pthread_cond_broadcast(&r->still);
  }
  pthread_mutex_unlock(&r->lock);
  hd__fpmode_leave(mode);
  return NULL;
}

/* FILLED, FAILED, or 0 while the block is not complete. */
static int look(const atomic_llong *state, int64_t batch) {
  const long long seen = atomic_load_explicit(state, memory_order_acquire);
  return seen / STATES == batch && seen % STATES != FILLING ? (int)(seen % STATES) : 0; /* batch 0's states are not 0 */
}

static int wait_for(hd_ring *r, int64_t batch, int64_t block) {
  const int64_t began_ns = hd__clock_ns();
  const atomic_llong *state = state_of(r, batch, block);
  int32_t *awaited = &r->awaited[place_of(r, batch, block)];
  int seen = 0;
  for (hd_wait wait = hd__wait_batch(); !(seen = look(state, batch)) && hd__wait_turn(&wait);)
    ;
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

/* False in a child of the process that created the ring: it has no workers, and the lock may be held for ever. */
static bool is_here(const hd_ring *r) { return r->started == 0 || hd__thread_is_here(&r->workers[0].thread); }

/* From the last block to the first: workers begin with the first, so after a wait for the last one the others are
 * usually complete. */
const char *hd__ring_take(hd_ring *r, int64_t batch, int64_t first, int64_t rows) {
  bool whole = is_here(r);
  for (int64_t block = (first + rows - 1) / r->block_rows; is_here(r) && block >= first / r->block_rows; block--) {
    const int seen = look(state_of(r, batch, block), batch);
    whole &= (seen ? seen : wait_for(r, batch, block)) == FILLED;
  }
  return whole ? row_at(r, batch, first) : NULL;
}

void hd__ring_release(hd_ring *r, int64_t batch) {
  atomic_store(&r->returned, batch + 1);
  if (atomic_load(&r->sleepers) == 0 || !is_here(r))
    return;
  pthread_mutex_lock(&r->lock);
  pthread_cond_broadcast(&r->room);
  pthread_mutex_unlock(&r->lock);
}

void hd__ring_seek(hd_ring *r, int64_t first, int64_t end) {
  if (!is_here(r))
    return;
  pthread_mutex_lock(&r->lock);
  r->end = r->batch; /* no further claims */
  while (r->busy > 0)
    pthread_cond_wait(&r->still, &r->lock);
  for (int64_t i = 0; i < (int64_t)r->is.batches * r->blocks; i++)
    atomic_store(&r->state[i], 0);
  for (int32_t i = 0; i < r->is.batches; i++)
    r->failed[i].block = -1;
  r->batch = first;
  r->block = 0;
  r->end = end;
  atomic_store(&r->returned, first);
  pthread_cond_broadcast(&r->room);
  pthread_mutex_unlock(&r->lock);
}

hd_status hd__ring_check_process(const hd_ring *r, hd_ctx *ctx) {
  return is_here(r) ? HD_OK
                    : hd__fail(ctx, HD_E_USAGE,
                               "loader workers belong to the process that started them, and this is a child of it; "
                               "open the run or the loader in the child, or leave --workers out");
}

hd_status hd__ring_failure(hd_ring *r, hd_ctx *ctx, int64_t batch) {
  HD_TRY(hd__ring_check_process(r, ctx));
  for (int32_t p = 0; p < r->blocks; p++) /* an earlier block may fail later */
    if (!look(state_of(r, batch, p), batch))
      wait_for(r, batch, p);
  pthread_mutex_lock(&r->lock);
  const failure f = r->failed[batch % r->is.batches];
  pthread_mutex_unlock(&r->lock);
  return f.block < 0 ? HD_OK : hd__fail(ctx, f.status, "%s", f.message);
}

int32_t hd__ring_workers(const hd_ring *r) { return r->started; }

bool hd__ring_is_unpinned(const hd_ring *r) { return r->unpinned; }

int64_t hd__ring_waited_ns(const hd_ring *r) { return atomic_load_explicit(&r->waited_ns, memory_order_relaxed); }

int64_t hd__ring_filled(hd_ring *r, int32_t index) {
  if (!is_here(r))
    return r->workers[index].filled;
  pthread_mutex_lock(&r->lock);
  int64_t filled = r->workers[index].filled;
  pthread_mutex_unlock(&r->lock);
  return filled;
}

int32_t hd__ring_sleeping(hd_ring *r) {
  if (!is_here(r))
    return 0;
  pthread_mutex_lock(&r->lock);
  int32_t sleeping = r->takers;
  pthread_mutex_unlock(&r->lock);
  return sleeping;
}

static hd_status start_workers(hd_ring *r, hd_ctx *ctx) {
  for (int32_t i = 0; i < r->is.workers; i++) {
    worker *w = &r->workers[i];
    w->ring = r;
    w->cpu = r->is.place ? r->is.place[i].cpu : -1;
    if (hd_ctx_create(&w->ctx) != HD_OK)
      return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d loader workers", r->is.workers);
    const int error = hd__thread_start(&w->thread, work, w);
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
  r->state = hd__calloc((size_t)r->is.batches * (size_t)r->blocks, sizeof *r->state);
  r->awaited = hd__calloc((size_t)r->is.batches * (size_t)r->blocks, sizeof *r->awaited);
  r->failed = hd__calloc((size_t)r->is.batches, sizeof *r->failed);
  r->workers = hd__calloc((size_t)r->is.workers, sizeof *r->workers);
  HD_TRY(HD_ALLOCATED(r->state && r->awaited && r->failed && r->workers, ctx, "out of memory for a ring of %d batches",
                      r->is.batches));
  HD_TRY(hd__segment_create(&r->memory, ctx, bytes, "the loader's ring of batches"));
  const size_t scratch = ((size_t)r->is.scratch_bytes / HD_ALIGNED_BYTES + 1) * HD_ALIGNED_BYTES;
  r->scratch = hd__malloc_aligned((size_t)r->is.workers * scratch);
  HD_TRY(HD_ALLOCATED(r->scratch, ctx, "out of memory for %d loader workers", r->is.workers));
  for (int32_t i = 0; i < r->is.workers; i++)
    r->workers[i].scratch = (char *)r->scratch + (size_t)i * scratch;
  r->unpinned = r->is.pin && mlock(r->memory.base, r->memory.bytes) != 0;
  return HD_OK;
}

hd_status hd__ring_create(hd_ring **out, hd_ctx *ctx, const hd_ring_settings *settings) {
  hd_ring *r = *out = hd__calloc(1, sizeof *r);
  HD_TRY(HD_ALLOCATED(r, ctx, "out of memory for the loader's ring"));
  r->is = *settings;
  r->block_rows = (settings->rows + BLOCKS - 1) / BLOCKS;
  r->blocks = (int32_t)((settings->rows + r->block_rows - 1) / r->block_rows);
  pthread_mutex_init(&r->lock, NULL);
  pthread_cond_init(&r->room, NULL);
  pthread_cond_init(&r->there, NULL);
  pthread_cond_init(&r->still, NULL);
  hd_status status = take_memory(r, ctx);
  HD_THEN(status, start_workers(r, ctx));
  return HD_CREATED(status, out, hd__ring_destroy);
}

static void end_workers(hd_ring *r) {
  pthread_mutex_lock(&r->lock);
  r->closing = true;
  pthread_cond_broadcast(&r->room);
  pthread_mutex_unlock(&r->lock);
  for (int32_t i = 0; i < r->started; i++)
    hd__thread_join(&r->workers[i].thread);
  pthread_cond_destroy(&r->room);
  pthread_cond_destroy(&r->there);
  pthread_cond_destroy(&r->still);
  pthread_mutex_destroy(&r->lock);
}

void hd__ring_destroy(hd_ring *r) {
  if (!r)
    return;
  if (is_here(r))
    end_workers(r);
  for (int32_t i = 0; i < r->started; i++)
    hd_ctx_destroy(r->workers[i].ctx);
  hd__segment_destroy(&r->memory);
  hd__free(r->workers);
  hd__free(r->scratch);
  hd__free(r->failed);
  hd__free(r->awaited);
  hd__free(r->state);
  hd__free(r);
}
