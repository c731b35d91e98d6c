/* Pools: a queue of jobs, workers that take ranges of them, the ordered map, and futures.
 *
 * One mutex guards everything but a job's inputs, outputs and results, of which an index belongs to the worker that
 * took it. Indices of a job are assigned in ranges that shrink towards its end, so that small tasks cost little and
 * long ones are distributed evenly. A worker of a pool of processes is a thread that waits for its process. Futures may
 * outlive the workers: the pool's memory is freed with the last future. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/status.h"
#include "heddle/topology.h"
#include "platform/process.h"
#include "platform/spawn.h"
#include "platform/thread_start.h"
#include "pool/worker_process.h"

enum { RANGES_PER_WORKER = 4, MOST_AT_ONCE = 1024 };

/* A task to run for `count` inputs. */
typedef struct job {
  struct job *next;
  const hd_task *task;
  const char *inputs;
  char *outputs;
  hd_task_result *results; /* may be NULL */
  size_t count, taken, finished;
  size_t failed, first_failed; /* how many, and the lowest index */
  hd_task_result first;        /* its result */
  struct hd_future *future;    /* NULL: a map */
} job;

struct hd_future {
  job job; /* of one input */
  hd_pool *pool;
  int64_t number;
  bool done, owned;                /* owned: the caller has not destroyed it */
  struct hd_future *newer, *older; /* in the list of those that are done and were not returned */
  bool listed;
  char *output;
  _Alignas(16) char input[]; /* input, then output */
};

typedef struct worker {
  hd_pool *pool;
  hd_thread thread;
  hd_ctx *ctx;
  hd_worker_process process;
  bool busy; /* its process has a task */
} worker;

struct hd_pool {
  hd_pool_kind kind;
  unsigned process; /* that created it */
  pthread_mutex_t lock;
  pthread_cond_t work, done; /* work: a new job, or closing; done: a job or a future is done */
  job *head, **tail;
  bool closing;
  worker *workers;
  int worker_count;              /* workers with a running thread */
  int64_t submitted, unfinished; /* futures */
  hd_future *oldest_done, *newest_done;
  int64_t holders; /* reference count: the caller, and every future */
};

/* ---- State ---- */

/* Adds a job to the queue. The lock is held. */
static void enqueue(hd_pool *pool, job *j) {
  j->next = NULL;
  *pool->tail = j;
  pool->tail = &j->next;
  pthread_cond_broadcast(&pool->work);
}

/* Waits for `done` until a deadline of CLOCK_MONOTONIC, NULL for ever; false when it has passed. The lock is held. */
static bool wait_until(hd_pool *pool, const struct timespec *deadline) {
  if (!deadline) {
    pthread_cond_wait(&pool->done, &pool->lock);
    return true;
  }
  return pthread_cond_timedwait(&pool->done, &pool->lock, deadline) != ETIMEDOUT;
}

/* False in a child of the process that created the pool: its workers are not here, and its lock may be held for
 * ever. */
static bool is_here(const hd_pool *pool) { return pool->process == hd__this_process(); }

static hd_status check_process(const hd_pool *pool, hd_ctx *ctx) {
  return is_here(pool) ? HD_OK
                       : hd__fail(ctx, HD_E_USAGE,
                                  "a pool's workers belong to the process that created it, and this is a child of it; "
                                  "create a pool in the child");
}

/* HD_E_USAGE unless this pool can run the task. */
static hd_status accepts(const hd_pool *pool, hd_ctx *ctx, const hd_task *task) {
  HD_TRY(check_process(pool, ctx));
  if (pool->kind == HD_POOL_PROCESSES && hd__served_task(task) < 0)
    return hd__fail(ctx, HD_E_USAGE, "expected a task known to hd_pool_serve, found '%s'; add it there", task->name);
  return HD_OK;
}

/* Drops a reference; the last one frees the pool. Takes the lock. */
static void release(hd_pool *pool) {
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

/* Marks a future as done, when the last index of its job is done or the pool is destroyed. The lock is held. */
static void complete(hd_future *future) {
  future->done = true;
  future->pool->unfinished--;
  if (future->owned) {
    list(future);
  } else { /* destroyed meanwhile; the caller still holds a reference to the pool */
    future->pool->holders--;
    hd__free(future);
  }
}

/* ---- Workers ---- */

static void run_here(hd_task_result *result, char *output, worker *w, const hd_task *task, const char *input) {
  result->status = task->run(output, w->ctx, input);
  if (result->status != HD_OK)
    snprintf(result->message, sizeof result->message, "%s", hd_ctx_message(w->ctx));
  hd_ctx_fail(w->ctx, HD_OK, "%s", "");
}

/* Makes sure that the worker has a process, and marks it as busy. */
static bool open_process(hd_task_result *result, worker *w) {
  hd_worker_process process = w->process;
  if (!process.pid && hd__worker_process_start(&process, w->ctx) != HD_OK) {
    *result = (hd_task_result){.status = HD_E_SYSTEM};
    snprintf(result->message, sizeof result->message, "%s", hd_ctx_message(w->ctx));
    return false;
  }
  pthread_mutex_lock(&w->pool->lock);
  w->process = process;
  w->busy = true;
  bool closing = w->pool->closing;
  pthread_mutex_unlock(&w->pool->lock);
  if (closing)
    hd__child_signal(process.end, process.pid, SIGKILL);
  return true;
}

/* Removes the process from the pool, then waits for its end: so no signal is sent to a number that may be reused. */
static void end_process(char text[HD_SPAWN_END_BYTES], worker *w) {
  pthread_mutex_lock(&w->pool->lock);
  hd_worker_process process = w->process;
  w->process = (hd_worker_process){0};
  pthread_mutex_unlock(&w->pool->lock);
  hd__worker_process_end(text, &process);
}

static void run_there(hd_task_result *result, char *output, worker *w, const hd_task *task, const char *input) {
  if (!open_process(result, w))
    return;
  bool answered = hd__worker_process_call(result, output, &w->process, task, input);
  pthread_mutex_lock(&w->pool->lock);
  w->busy = false;
  bool closing = w->pool->closing;
  pthread_mutex_unlock(&w->pool->lock);
  if (answered)
    return;
  char how[HD_SPAWN_END_BYTES];
  end_process(how, w);
  *result = (hd_task_result){.status = closing ? HD_E_INTERRUPTED : HD_E_SYSTEM};
  snprintf(result->message, sizeof result->message,
           closing ? "the pool was destroyed" : "its process ended with %s before it returned a result", how);
}

/* The outcome of one range of a job. */
typedef struct tally {
  size_t failed, first_failed;
  hd_task_result first;
} tally;

/* Inputs and outputs of 0 bytes may be NULL, for which C defines neither arithmetic nor memset. */
static const char *input_of(const job *j, size_t i) {
  return j->task->input_bytes > 0 ? j->inputs + i * j->task->input_bytes : j->inputs;
}

static char *output_of(const job *j, size_t i) {
  return j->task->output_bytes > 0 ? j->outputs + i * j->task->output_bytes : j->outputs;
}

static void clear_output(const job *j, size_t i) {
  if (j->task->output_bytes > 0)
    memset(output_of(j, i), 0, j->task->output_bytes);
}

static void run_range(tally *t, worker *w, const job *j, size_t first, size_t end) {
  for (size_t i = first; i < end; i++) {
    hd_task_result result = {HD_OK, ""};
    clear_output(j, i);
    (w->pool->kind == HD_POOL_THREADS ? run_here : run_there)(&result, output_of(j, i), w, j->task, input_of(j, i));
    if (result.status != HD_OK) {
      clear_output(j, i);
      if (t->failed++ == 0) {
        t->first_failed = i;
        t->first = result;
      }
    }
    if (j->results)
      j->results[i] = result;
  }
}

/* Adds a range's outcome to its job. The lock is held. */
static void account(job *j, const tally *t, size_t count) {
  if (t->failed && (!j->failed || t->first_failed < j->first_failed)) {
    j->first_failed = t->first_failed;
    j->first = t->first;
  }
  j->failed += t->failed;
  j->finished += count;
}

/* Takes the next indices of the queue's first job. The lock is held. */
static size_t take_range(size_t *first, hd_pool *pool, job *j) {
  size_t count = (j->count - j->taken) / (size_t)(RANGES_PER_WORKER * pool->worker_count);
  count = count < 1 ? 1 : count > MOST_AT_ONCE ? MOST_AT_ONCE : count;
  *first = j->taken;
  j->taken += count;
  if (j->taken == j->count) {
    pool->head = j->next;
    if (!pool->head)
      pool->tail = &pool->head;
  }
  return count;
}

static void *work(void *arg) {
  worker *w = arg;
  hd_pool *pool = w->pool;
  char how[HD_SPAWN_END_BYTES];
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    while (!pool->head && !pool->closing)
      pthread_cond_wait(&pool->work, &pool->lock);
    if (pool->closing)
      break;
    job *j = pool->head;
    tally t = {0};
    size_t first, count = take_range(&first, pool, j);
    pthread_mutex_unlock(&pool->lock);
    run_range(&t, w, j, first, first + count);
    pthread_mutex_lock(&pool->lock);
    account(j, &t, count);
    if (j->finished < j->count)
      continue;
    if (j->future)
      complete(j->future);
    pthread_cond_broadcast(&pool->done);
  }
  pthread_mutex_unlock(&pool->lock);
  if (w->process.pid)
    end_process(how, w);
  return NULL;
}

static hd_status start_workers(hd_pool *pool, hd_ctx *ctx, int workers) {
  for (int i = 0; i < workers; i++) {
    worker *w = &pool->workers[i];
    w->pool = pool;
    if (hd_ctx_create(&w->ctx) != HD_OK)
      return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d workers", workers);
    int error = hd__thread_start(&w->thread, work, w);
    if (error) {
      hd_ctx_destroy(w->ctx);
      return hd__fail(ctx, HD_E_SYSTEM, "cannot start worker %d of %d: %s; ask for fewer, or raise `ulimit -u`", i + 1,
                      workers, strerror(error));
    }
    pthread_mutex_lock(&pool->lock);
    pool->worker_count++;
    pthread_mutex_unlock(&pool->lock);
  }
  return HD_OK;
}

static hd_pool *make_pool(hd_pool_kind kind, int workers) {
  hd_pool *pool = hd__calloc(1, sizeof *pool);
  worker *all = hd__calloc((size_t)workers, sizeof *all);
  if (!pool || !all) {
    hd__free(pool);
    hd__free(all);
    return NULL;
  }
  pthread_condattr_t steady;
  pthread_condattr_init(&steady);
  pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
  *pool = (hd_pool){.kind = kind, .process = hd__this_process(), .tail = &pool->head, .workers = all, .holders = 1};
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->work, NULL);
  pthread_cond_init(&pool->done, &steady);
  pthread_condattr_destroy(&steady);
  return pool;
}

hd_status hd_pool_create(hd_pool **out, hd_ctx *ctx, hd_pool_kind kind, int workers) {
  *out = NULL;
  if (kind != HD_POOL_THREADS && kind != HD_POOL_PROCESSES)
    return hd__fail(ctx, HD_E_USAGE, "expected a pool of threads or of processes, found kind %d", (int)kind);
  if (workers < 0 || workers > HD_POOL_MAX_WORKERS)
    return hd__fail(ctx, HD_E_USAGE, "expected 0 to %d workers, found %d", HD_POOL_MAX_WORKERS, workers);
  if (kind == HD_POOL_PROCESSES && !hd__serves())
    return hd__fail(ctx, HD_E_USAGE,
                    "expected a call of hd_pool_serve at the start of main, found none; worker processes start there");
  if (workers == 0)
    HD_TRY(hd_get_num_threads(&workers, ctx)); /* as many as a run would have threads */
  hd_pool *pool = make_pool(kind, workers);
  HD_TRY(HD_ALLOCATED(pool, ctx, "out of memory for a pool of %d workers", workers));
  hd_status status = start_workers(pool, ctx, workers);
  *out = pool;
  return HD_CREATED(status, out, hd_pool_destroy);
}

/* Makes workers take no further job, and kills busy processes. */
static void close_pool(hd_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  pool->closing = true;
  for (int i = 0; i < pool->worker_count; i++)
    if (pool->workers[i].busy)
      hd__child_signal(pool->workers[i].process.end, pool->workers[i].process.pid, SIGKILL);
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->lock);
}

void hd_pool_destroy(hd_pool *pool) {
  if (!pool || !is_here(pool)) /* a child's copy lasts as long as the child */
    return;
  close_pool(pool);
  for (int i = 0; i < pool->worker_count; i++) {
    hd__thread_join(&pool->workers[i].thread);
    hd_ctx_destroy(pool->workers[i].ctx);
  }
  pthread_mutex_lock(&pool->lock);
  for (job *j = pool->head, *next; j; j = next) {
    next = j->next;
    j->failed = 1;
    j->first = (hd_task_result){HD_E_INTERRUPTED, "the pool was destroyed before the task began"};
    complete(j->future);
  }
  pool->head = NULL;
  pthread_mutex_unlock(&pool->lock);
  release(pool);
}

int hd_pool_workers(const hd_pool *pool) { return pool->worker_count; }

hd_status hd_pool_map(void *outputs, hd_pool *pool, hd_ctx *ctx, const hd_task *task, const void *inputs, size_t count,
                      hd_task_result *results) {
  HD_TRY(accepts(pool, ctx, task));
  if (count == 0)
    return HD_OK;
  job j = {.task = task, .inputs = inputs, .outputs = outputs, .results = results, .count = count};
  pthread_mutex_lock(&pool->lock);
  enqueue(pool, &j);
  while (j.finished < count)
    wait_until(pool, NULL);
  pthread_mutex_unlock(&pool->lock);
  if (j.failed == 0)
    return HD_OK;
  return hd__fail(ctx, j.first.status, "task %zu of %zu ('%s'): %s (%zu failed in all)", j.first_failed, count,
                  task->name, j.first.message, j.failed);
}

/* ---- Futures ---- */

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
  HD_TRY(accepts(pool, ctx, task));
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
  enqueue(pool, &future->job);
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
  *out = NULL;
  HD_TRY(check_process(pool, ctx));
  const struct timespec *deadline = deadline_of(&at, timeout_s);
  bool waiting = true;
  pthread_mutex_lock(&pool->lock);
  while (!pool->oldest_done && pool->unfinished > 0 && waiting)
    waiting = wait_until(pool, deadline);
  *out = pool->oldest_done;
  bool none_left = !*out && pool->unfinished == 0;
  if (*out)
    unlist(*out);
  pthread_mutex_unlock(&pool->lock);
  if (*out || none_left)
    return HD_OK;
  return hd__fail(ctx, HD_E_TIMEOUT, "no task completed within %g s", timeout_s);
}

hd_status hd_future_result(void *output, hd_future *future, hd_ctx *ctx, double timeout_s) {
  struct timespec at;
  const struct timespec *deadline = deadline_of(&at, timeout_s);
  const hd_task *task = future->job.task;
  HD_TRY(check_process(future->pool, ctx));
  bool waiting = true;
  pthread_mutex_lock(&future->pool->lock);
  while (!future->done && waiting)
    waiting = wait_until(future->pool, deadline);
  bool done = future->done;
  pthread_mutex_unlock(&future->pool->lock);
  if (!done)
    return hd__fail(ctx, HD_E_TIMEOUT, "task %lld ('%s') did not complete within %g s", (long long)future->number,
                    task->name, timeout_s);
  if (output && task->output_bytes > 0)
    memcpy(output, future->output, task->output_bytes);
  if (future->job.failed == 0)
    return HD_OK;
  return hd__fail(ctx, future->job.first.status, "task %lld ('%s'): %s", (long long)future->number, task->name,
                  future->job.first.message);
}

int64_t hd_future_number(const hd_future *future) { return future->number; }

void hd_future_destroy(hd_future *future) {
  if (!future || !is_here(future->pool))
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
  release(pool);
}
