/* The signal mask of threads of the library: see thread_signals.h. */
#include "platform/thread_signals.h"

#include <stddef.h>

void hd__thread_signals_block(sigset_t *before) {
  static const int raised[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
  sigset_t set;
  sigfillset(&set);
  for (size_t i = 0; i < sizeof raised / sizeof *raised; i++)
    sigdelset(&set, raised[i]);
  pthread_sigmask(SIG_SETMASK, &set, before);
}

void hd__thread_signals_restore(const sigset_t *before) { pthread_sigmask(SIG_SETMASK, before, NULL); }
