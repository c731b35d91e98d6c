/* Pools: workers and the ordered map. Indices of a job are assigned in ranges that shrink towards its end, so that
 * small tasks cost little and long ones are distributed evenly. */
#include "pool/pool_state.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "platform/threads.h"
#include "platform/process.h"
#include "platform/spawn.h"
#include "platform/thread_signals.h"

enum { RANGES_PER_WORKER = 4, MOST_AT_ONCE = 1024 };

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
           closing ? "the pool was destroyed" : "expected a result, found that its process had ended by %s", how);
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
      hd__future_complete(j->future);
    pthread_cond_broadcast(&pool->done);
  }
  pthread_mutex_unlock(&pool->lock);
  if (w->process.pid)
    end_process(how, w);
  return NULL;
}

static int start_thread(worker *w) {
  sigset_t before;
  hd__thread_signals_block(&before);
  int error = pthread_create(&w->thread, NULL, work, w);
  hd__thread_signals_restore(&before);
  return error;
}

static hd_status start_workers(hd_pool *pool, hd_ctx *ctx, int workers) {
  for (int i = 0; i < workers; i++) {
    worker *w = &pool->workers[i];
    w->pool = pool;
    if (hd_ctx_create(&w->ctx) != HD_OK)
      return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d workers", workers);
    int error = start_thread(w);
    if (error) {
      hd_ctx_destroy(w->ctx);
      return hd__fail(ctx, HD_E_SYSTEM, "cannot start worker %d of %d: %s; ask for fewer, or look at `ulimit -u`",
                      i + 1, workers, strerror(error));
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
  *pool = (hd_pool){.kind = kind, .tail = &pool->head, .workers = all, .holders = 1};
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->work, NULL);
  pthread_cond_init(&pool->done, &steady);
  pthread_condattr_destroy(&steady);
  return pool;
}

/* As many workers as a run would have threads. */
static hd_status suit_machine(int *workers, hd_ctx *ctx) {
  hd_placement *place;
  HD_TRY(hd__threads_place(&place, ctx, &(hd_placement_request){0}));
  *workers = place->threads;
  hd_placement_destroy(place);
  return HD_OK;
}

hd_status hd_pool_create(hd_pool **out, hd_ctx *ctx, hd_pool_kind kind, int workers) {
  *out = NULL;
  if (workers < 0 || workers > HD_POOL_MAX_WORKERS)
    return hd__fail(ctx, HD_E_USAGE, "expected 0 to %d workers, found %d", HD_POOL_MAX_WORKERS, workers);
  if (kind == HD_POOL_PROCESSES && !hd__serves())
    return hd__fail(ctx, HD_E_USAGE,
                    "expected hd_pool_serve first of all in main, found no call; processes start there");
  if (workers == 0)
    HD_TRY(suit_machine(&workers, ctx));
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
  if (!pool)
    return;
  close_pool(pool);
  for (int i = 0; i < pool->worker_count; i++) {
    pthread_join(pool->workers[i].thread, NULL);
    hd_ctx_destroy(pool->workers[i].ctx);
  }
  pthread_mutex_lock(&pool->lock);
  for (job *j = pool->head, *next; j; j = next) {
    next = j->next;
    j->failed = 1;
    j->first = (hd_task_result){HD_E_INTERRUPTED, "the pool was destroyed before the task began"};
    hd__future_complete(j->future);
  }
  pool->head = NULL;
  pthread_mutex_unlock(&pool->lock);
  hd__pool_release(pool);
}

int hd_pool_workers(const hd_pool *pool) { return pool->worker_count; }

hd_status hd_pool_map(void *outputs, hd_pool *pool, hd_ctx *ctx, const hd_task *task, const void *inputs, size_t count,
                      hd_task_result *results) {
  HD_TRY(hd__pool_accepts(pool, ctx, task));
  if (count == 0)
    return HD_OK;
  job j = {.task = task, .inputs = inputs, .outputs = outputs, .results = results, .count = count};
  pthread_mutex_lock(&pool->lock);
  hd__pool_enqueue(pool, &j);
  while (j.finished < count)
    hd__pool_wait(pool, NULL);
  pthread_mutex_unlock(&pool->lock);
  if (j.failed == 0)
    return HD_OK;
  return hd__fail(ctx, j.first.status, "task %zu of %zu ('%s'): %s (%zu failed in all)", j.first_failed, count,
                  task->name, j.first.message, j.failed);
}
