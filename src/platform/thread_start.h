/* Starting and joining the threads of the library.
 *
 * All signals go to the program's threads, except those that a thread raises by an instruction (SIGBUS, SIGSEGV,
 * SIGFPE, SIGILL, SIGTRAP, SIGSYS). If these were blocked, the system would end the process without calling the
 * program's handler, which may name a truncated file or write a stack trace.
 *
 * A fork copies the memory of a process but only the calling thread. So a thread belongs to the process that started
 * it: in another process it does not exist, and joining it returns at once. Objects that wait for threads, or share
 * memory with other processes, belong to one process too, and are refused or left alone in another. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/status.h"
#include "base/tools_api.h"

/* A number, not 0, that no parent of this process has. */
unsigned hd__this_process(void);

/* All zeros: none was started. */
typedef struct hd_thread {
  pthread_t id;
  unsigned process; /* which one started it; 0: none */
} hd_thread;

/* Starts a thread; 0, or an errno. Its stack has room for the library whatever `ulimit -s` says. */
HD_TOOLS_API int hd__thread_start(hd_thread *out, void *(*run)(void *), void *arg);

/* HD_E_SYSTEM where the stack of the calling thread, which computes too, is too small: for the start of calls that need
 * stack before they open threads. */
hd_status hd__thread_check_stack(hd_ctx *ctx);

/* Whether this process started the thread, and has not joined it. */
bool hd__thread_is_here(const hd_thread *thread);

/* Waits for the end of a thread of this process. */
HD_TOOLS_API void hd__thread_join(hd_thread *thread);
