/* A worker that is a process: one task goes in, one result comes back, over a socket.
 *
 *   to it     task number u32 | input
 *   from it   status i32 | message | output
 *
 * Sizes are the task's; both sides are the same program. A process that ends instead of answering is that task's
 * failure, and the next task starts another one. */
#ifndef HD_POOL_WORKER_PROCESS_H
#define HD_POOL_WORKER_PROCESS_H

#include <sys/types.h>

#include "heddle/pool.h"

typedef struct hd_worker_process {
  pid_t pid; /* 0: none */
  int fd;
} hd_worker_process;

/* The number of a task that hd_pool_serve was given, by name; -1 for another. */
int hd__served_task(const hd_task *task);

/* hd_pool_serve was called. */
int hd__serves(void);

hd_status hd__worker_process_start(hd_worker_process *out, hd_ctx *ctx);

/* False if it ended before it answered. */
int hd__worker_process_call(hd_task_result *result, void *output, const hd_worker_process *w, const hd_task *task,
                            const void *input);

/* Closes the socket, which ends an idle process, and waits; says how it ended. */
void hd__worker_process_end(char *text, hd_worker_process *w);

#endif
