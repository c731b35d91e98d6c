/* What pools and futures share: the queue of jobs, the list of complete futures, and the reference count; see
 * pool_state.h. */
#include "pool/pool_state.h"

#include <errno.h>

#include "base/alloc.h"

void hd__pool_enqueue(hd_pool *pool, job *j) {
  j->next = NULL;
  *pool->tail = j;
  pool->tail = &j->next;
  pthread_cond_broadcast(&pool->work);
}

bool hd__pool_wait(hd_pool *pool, const struct timespec *deadline) {
  if (!deadline) {
    pthread_cond_wait(&pool->done, &pool->lock);
    return true;
  }
  return pthread_cond_timedwait(&pool->done, &pool->lock, deadline) != ETIMEDOUT;
}

hd_status hd__pool_accepts(const hd_pool *pool, hd_ctx *ctx, const hd_task *task) {
  if (pool->kind == HD_POOL_PROCESSES && hd__served_task(task) < 0)
    return hd__fail(ctx, HD_E_USAGE, "expected a task that hd_pool_serve was given, found '%s'; add it there",
                    task->name);
  return HD_OK;
}

void hd__pool_release(hd_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  bool last = --pool->holders == 0;
  pthread_mutex_unlock(&pool->lock);
  if (!last)
    return;
  pthread_mutex_destroy(&pool->lock);
  pthread_cond_destroy(&pool->work);
  pthread_cond_destroy(&pool->done);
  hd__free(pool->workers);
  hd__free(pool);
}

static void list(hd_future *future) {
  hd_pool *pool = future->pool;
  future->older = pool->newest_done;
  if (pool->newest_done)
    pool->newest_done->newer = future;
  else
    pool->oldest_done = future;
  pool->newest_done = future;
  future->listed = true;
}

void hd__future_complete(hd_future *future) {
  future->done = true;
  future->pool->unfinished--;
  if (future->owned) {
    list(future);
  } else { /* destroyed meanwhile; the caller still holds a reference to the pool */
    future->pool->holders--;
    hd__free(future);
  }
}
