/* One function over many inputs, on all cores: an ordered map, and futures.
 *
 *     static hd_status square(void *output, hd_ctx *ctx, const void *input) {
 *       *(double *)output = *(const double *)input * *(const double *)input;
 *       return HD_OK;
 *     }
 *     static const hd_task squares = {"square", square, sizeof(double), sizeof(double)};
 *
 *     hd_pool *pool;
 *     hd_pool_create(&pool, ctx, HD_POOL_THREADS, 0);
 *     hd_pool_map(outputs, pool, ctx, &squares, inputs, 1000, NULL);     // outputs[i] belongs to inputs[i]
 *     hd_pool_destroy(pool);
 *
 * Workers are threads of this process, or processes of their own: there a task that crashes is one task that failed,
 * the others go on. Processes run this same program, started anew, so that it must call hd_pool_serve first of all.
 *
 * A task that fails does not end the others. Its output is all zero bytes, and its message is kept.
 *
 * Thread safety: calls for one pool come from one thread at a time. Tasks run on several at once, and may not call the
 * pool that runs them. */
#ifndef HEDDLE_POOL_H
#define HEDDLE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hd_pool_kind { HD_POOL_THREADS, HD_POOL_PROCESSES } hd_pool_kind;

enum { HD_POOL_MAX_WORKERS = 1024, HD_TASK_MESSAGE_BYTES = 240 };

/* What is done: reads input_bytes at `input`, writes up to output_bytes at `output`, which is cleared before. On
 * failure returns hd_ctx_fail(ctx, status, "..."). Inputs and outputs are copied between processes: no pointers in
 * them then. */
typedef struct hd_task {
  const char *name; /* for messages; between processes it stands for the function */
  hd_status (*run)(void *output, hd_ctx *ctx, const void *input);
  size_t input_bytes, output_bytes;
} hd_task;

/* How a task ended: HD_OK and "", or what it returned and said; HD_E_SYSTEM for a process that crashed. */
typedef struct hd_task_result {
  hd_status status;
  char message[HD_TASK_MESSAGE_BYTES];
} hd_task_result;

typedef struct hd_pool hd_pool;
typedef struct hd_future hd_future;

/* First of all in main, with every task that pools of processes are given: in a process that a pool started, this works
 * and does not return; in the program itself it notes the tasks (which must live as long as it) and returns. */
HD_API void hd_pool_serve(const hd_task *tasks, int count);

/* Starts `workers` workers, 0 for as many as hd_get_num_threads tells. HD_E_SYSTEM if the system refuses,
 * HD_E_USAGE for processes without hd_pool_serve. A process that ends is replaced when the next task comes. */
HD_API hd_status hd_pool_create(hd_pool **out, hd_ctx *ctx, hd_pool_kind kind, int workers);

/* Drops tasks that have not begun; waits for those that run on threads, ends those in processes. Futures of the pool
 * that the caller still has stay valid. NULL is allowed. */
HD_API void hd_pool_destroy(hd_pool *pool);

/* How many there are. */
HD_API int hd_pool_workers(const hd_pool *pool);

/* Runs the task for each of `count` inputs, which lie one behind the other as outputs do, and waits for all. `results`
 * may be NULL, or takes `count`. If tasks failed, returns the status of the first by index; the message names it, and
 * tells how many. */
HD_API hd_status hd_pool_map(void *outputs, hd_pool *pool, hd_ctx *ctx, const hd_task *task, const void *inputs,
                             size_t count, hd_task_result *results);

/* Hands in one task and returns at once; the input is copied. The caller owns the future. */
HD_API hd_status hd_pool_submit(hd_future **out, hd_pool *pool, hd_ctx *ctx, const hd_task *task, const void *input);

/* As they complete: waits for the next future that is done and has not been returned here yet, and still is the
 * caller's. *out is NULL when none is left. A negative timeout waits for ever; else HD_E_TIMEOUT after that many
 * seconds. */
HD_API hd_status hd_pool_next(hd_future **out, hd_pool *pool, hd_ctx *ctx, double timeout_s);

/* Waits for the future's task, copies its output (`output` may be NULL) and returns how it ended: its status, its
 * message. HD_E_INTERRUPTED if the pool was destroyed before it began; HD_E_TIMEOUT as above. */
HD_API hd_status hd_future_result(void *output, hd_future *future, hd_ctx *ctx, double timeout_s);

/* Counted from 0 in the order in which futures were submitted to their pool. */
HD_API int64_t hd_future_number(const hd_future *future);

/* Gives a future up. Its task, if it has not ended, runs all the same. NULL is allowed. */
HD_API void hd_future_destroy(hd_future *future);

#ifdef __cplusplus
}
#endif
#endif
