/* The state of a pool: a queue of jobs, and workers that take ranges of them.
 *
 * One mutex guards everything but a job's inputs, outputs and results, of which an index belongs to the worker that
 * took it. A worker of a pool of processes is a thread that waits for its process. Futures may outlive the workers:
 * the pool's memory is freed with the last future. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/status.h"
#include "pool/worker_process.h"

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
  pthread_t thread;
  hd_ctx *ctx;
  hd_worker_process process;
  bool busy; /* its process has a task */
} worker;

struct hd_pool {
  hd_pool_kind kind;
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

/* Adds a job to the queue. The lock is held. */
void hd__pool_enqueue(hd_pool *pool, job *j);

/* Marks a future as done, when the last index of its job is done or the pool is destroyed. The lock is held. */
void hd__future_complete(hd_future *future);

/* Drops a reference; the last one frees the pool. Takes the lock. */
void hd__pool_release(hd_pool *pool);

/* Waits for `done` until a deadline of CLOCK_MONOTONIC, NULL for ever; false when it has passed. The lock is held. */
bool hd__pool_wait(hd_pool *pool, const struct timespec *deadline);

/* HD_E_USAGE unless this pool can run the task. */
hd_status hd__pool_accepts(const hd_pool *pool, hd_ctx *ctx, const hd_task *task);
