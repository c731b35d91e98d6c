/* A worker process: it receives a task and sends its result, over a socket.
 *
 *   to it     task number u32 | input
 *   from it   status i32 | message | output
 *
 * Sizes are those of the task; both sides are the same program. If the process ends before it answers, that task has
 * failed, and the next task starts another process. */
#pragma once

#include <sys/types.h>

#include "heddle/pool.h"

typedef struct hd_worker_process {
  pid_t pid; /* 0: none */
  int fd;
  int end; /* a descriptor of the process; -1: the system gives none */
} hd_worker_process;

/* The number of a task that was passed to hd_pool_serve, by name and function; -1: it was not. */
int hd__served_task(const hd_task *task);

/* Whether hd_pool_serve was called. */
int hd__serves(void);

hd_status hd__worker_process_start(hd_worker_process *out, hd_ctx *ctx);

/* Runs a task; false if the process ended before it answered. */
int hd__worker_process_call(hd_task_result *result, void *output, const hd_worker_process *w, const hd_task *task,
                            const void *input);

/* Closes the socket, which ends an idle process, and waits; writes how it ended to `text`. */
void hd__worker_process_end(char *text, hd_worker_process *w);
