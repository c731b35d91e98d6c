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
 * Workers are threads of this process, or separate processes: there a crash is the failure of one task, and the
 * others go on. Worker processes run this program, started anew, which must call hd_pool_serve first of all.
 *
 * A task that fails does not end the others. Its output is all zero bytes, and its message is kept.
 *
 * Thread safety: calls for one pool come from one thread at a time. Tasks run on several at once, and may not call
 * the pool that runs them. */
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

/* A function to run: reads input_bytes at `input`, writes up to output_bytes at `output`, which is cleared before.
 * On failure it returns hd_ctx_fail(ctx, status, "..."). Inputs and outputs are copied between processes, so they
 * must not hold pointers there. */
typedef struct hd_task {
  const char *name; /* for messages; identifies the function between processes */
  hd_status (*run)(void *output, hd_ctx *ctx, const void *input);
  size_t input_bytes, output_bytes;
} hd_task;

/* The result of a task: HD_OK and "", or its status and message; HD_E_SYSTEM for a process that crashed. */
typedef struct hd_task_result {
  hd_status status;
  char message[HD_TASK_MESSAGE_BYTES];
} hd_task_result;

typedef struct hd_pool hd_pool;
typedef struct hd_future hd_future;

/* First of all in main, with every task of pools of processes: in a process that a pool started, it runs tasks and
 * does not return; in the program itself it stores the pointer to the tasks (which must live as long as the program)
 * and returns. */
HD_API void hd_pool_serve(const hd_task *tasks, int count);

/* Starts `workers` workers, 0: the number of hd_get_num_threads. HD_E_SYSTEM if the system refuses,
 * HD_E_USAGE for processes without hd_pool_serve. A process that ends is replaced when the next task comes. */
HD_API hd_status hd_pool_create(hd_pool **out, hd_ctx *ctx, hd_pool_kind kind, int workers);

/* Drops tasks that have not begun; waits for those that run on threads, kills those in processes. Futures of the
 * pool that the caller has not destroyed stay valid. NULL is allowed. */
HD_API void hd_pool_destroy(hd_pool *pool);

/* The number of workers. */
HD_API int hd_pool_workers(const hd_pool *pool);

/* Runs the task for each of `count` inputs, an array as `outputs` is, and waits for all. `results` is NULL, or an
 * array of `count`. If tasks failed, returns the status of the first by index; the message names it, and the number
 * of failures. */
HD_API hd_status hd_pool_map(void *outputs, hd_pool *pool, hd_ctx *ctx, const hd_task *task, const void *inputs,
                             size_t count, hd_task_result *results);

/* Hands in one task and returns at once; the input is copied. The caller owns the future. */
HD_API hd_status hd_pool_submit(hd_future **out, hd_pool *pool, hd_ctx *ctx, const hd_task *task, const void *input);

/* Futures in the order of completion: waits for the next one that is done, was not returned here yet, and was not
 * destroyed. *out is NULL when none is left. A negative timeout waits for ever; else HD_E_TIMEOUT after that many
 * seconds. */
HD_API hd_status hd_pool_next(hd_future **out, hd_pool *pool, hd_ctx *ctx, double timeout_s);

/* Waits for the future's task, copies its output (`output` may be NULL) and returns its status, with its message in
 * the context. HD_E_INTERRUPTED if the pool was destroyed before the task began; HD_E_TIMEOUT as above. */
HD_API hd_status hd_future_result(void *output, hd_future *future, hd_ctx *ctx, double timeout_s);

/* Counted from 0 in the order in which futures were submitted to their pool. */
HD_API int64_t hd_future_number(const hd_future *future);

/* Destroys a future. Its task, if it has not ended, runs all the same. NULL is allowed. */
HD_API void hd_future_destroy(hd_future *future);

#ifdef __cplusplus
}
#endif
#endif
