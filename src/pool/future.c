/* Futures: jobs of one input that complete on their own. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "pool/pool_state.h"

static void unlist(hd_future *future) {
  hd_pool *pool = future->pool;
  if (!future->listed)
    return;
  *(future->older ? &future->older->newer : &pool->oldest_done) = future->newer;
  *(future->newer ? &future->newer->older : &pool->newest_done) = future->older;
  future->older = future->newer = NULL;
  future->listed = false;
}

hd_status hd_pool_submit(hd_future **out, hd_pool *pool, hd_ctx *ctx, const hd_task *task, const void *input) {
  *out = NULL;
  HD_TRY(hd__pool_accepts(pool, ctx, task));
  size_t aligned = (task->input_bytes + 15) / 16 * 16;
  hd_future *future = hd__calloc(1, sizeof *future + aligned + task->output_bytes);
  HD_TRY(HD_ALLOCATED(future, ctx, "out of memory for a task of %zu bytes", task->input_bytes + task->output_bytes));
  if (task->input_bytes > 0)
    memcpy(future->input, input, task->input_bytes);
  future->output = future->input + aligned;
  future->job = (job){.task = task, .inputs = future->input, .outputs = future->output, .count = 1, .future = future};
  future->pool = pool;
  future->owned = true;
  pthread_mutex_lock(&pool->lock);
  pool->holders++;
  pool->unfinished++;
  future->number = pool->submitted++;
  hd__pool_enqueue(pool, &future->job);
  pthread_mutex_unlock(&pool->lock);
  *out = future;
  return HD_OK;
}

/* A deadline `timeout_s` from now; NULL: none. */
static const struct timespec *deadline_of(struct timespec *at, double timeout_s) {
  if (!(timeout_s >= 0) || timeout_s > 1e9)
    return NULL;
  clock_gettime(CLOCK_MONOTONIC, at);
  at->tv_sec += (time_t)timeout_s;
  at->tv_nsec += (long)((timeout_s - floor(timeout_s)) * 1e9);
  at->tv_sec += at->tv_nsec / 1000000000;
  at->tv_nsec %= 1000000000;
  return at;
}

hd_status hd_pool_next(hd_future **out, hd_pool *pool, hd_ctx *ctx, double timeout_s) {
  struct timespec at;
  const struct timespec *deadline = deadline_of(&at, timeout_s);
  bool waiting = true;
  pthread_mutex_lock(&pool->lock);
  while (!pool->oldest_done && pool->unfinished > 0 && waiting)
    waiting = hd__pool_wait(pool, deadline);
  *out = pool->oldest_done;
  bool none_left = !*out && pool->unfinished == 0;
  if (*out)
    unlist(*out);
  pthread_mutex_unlock(&pool->lock);
  if (*out || none_left)
    return HD_OK;
  return hd__fail(ctx, HD_E_TIMEOUT, "expected a task to complete in %g s, found none", timeout_s);
}

hd_status hd_future_result(void *output, hd_future *future, hd_ctx *ctx, double timeout_s) {
  struct timespec at;
  const struct timespec *deadline = deadline_of(&at, timeout_s);
  const hd_task *task = future->job.task;
  bool waiting = true;
  pthread_mutex_lock(&future->pool->lock);
  while (!future->done && waiting)
    waiting = hd__pool_wait(future->pool, deadline);
  bool done = future->done;
  pthread_mutex_unlock(&future->pool->lock);
  if (!done)
    return hd__fail(ctx, HD_E_TIMEOUT, "expected task %lld ('%s') to complete in %g s, found it unfinished",
                    (long long)future->number, task->name, timeout_s);
  if (output && task->output_bytes > 0)
    memcpy(output, future->output, task->output_bytes);
  if (future->job.failed == 0)
    return HD_OK;
  return hd__fail(ctx, future->job.first.status, "task %lld ('%s'): %s", (long long)future->number, task->name,
                  future->job.first.message);
}

int64_t hd_future_number(const hd_future *future) { return future->number; }

void hd_future_destroy(hd_future *future) {
  if (!future)
    return;
  hd_pool *pool = future->pool;
  pthread_mutex_lock(&pool->lock);
  bool done = future->done;
  future->owned = false;
  unlist(future);
  pthread_mutex_unlock(&pool->lock);
  if (!done)
    return; /* freed when its task ends */
  hd__free(future);
  hd__pool_release(pool);
}
