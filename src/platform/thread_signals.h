/* The signal mask of threads of the library: all signals go to the program's threads, except those that a thread
 * raises by an instruction. If these were blocked, the system would end the process without calling the program's
 * handler, which may name a truncated file or write a stack trace. */
#pragma once

#include <signal.h>

/* Called before and after the start of a thread, which inherits the mask: blocks all but SIGBUS, SIGSEGV, SIGFPE,
 * SIGILL, SIGTRAP and SIGSYS; *before is the mask before. */
void hd__thread_signals_block(sigset_t *before);
void hd__thread_signals_restore(const sigset_t *before);
