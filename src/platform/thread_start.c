/* Starting and joining the threads of the library: see thread_start.h. */
#include "platform/thread_start.h"

#include <signal.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>

#include "platform/openmp_binding.h"

enum {
  OWN_STACK_BYTES = 4 << 20,     /* of the library's threads, at least */
  LEAST_STACK_BYTES = 240 << 10, /* of a thread that calls */
};

static unsigned process = 1; /* changes in a child, before any of its threads runs */
static int not_told;         /* an errno of pthread_atfork: forks are not counted */

static void count_fork(void) { process++; }

static void expect_forks(void) { not_told = pthread_atfork(NULL, NULL, count_fork); }

static void ask_once(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, expect_forks);
}

unsigned hd__this_process(void) {
  ask_once();
  return process;
}

static void block_signals(sigset_t *before) {
  static const int raised[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
  sigset_t set;
  sigfillset(&set);
  for (size_t i = 0; i < sizeof raised / sizeof *raised; i++)
    sigdelset(&set, raised[i]);
  pthread_sigmask(SIG_SETMASK, &set, before);
}

/* What a thread is started with. */
typedef struct entry {
  void *(*run)(void *);
  void *arg;
} entry;

/* Starts a thread on some CPUs; NULL: those of this thread. The default size of a stack is `ulimit -s`. */
static int start_on(const hd_cpu_set *cpus, pthread_t *out, entry at) {
  pthread_attr_t how;
  size_t bytes;
  int error = pthread_attr_init(&how);
  if (error)
    return error;
  if (pthread_attr_getstacksize(&how, &bytes) == 0 && bytes < OWN_STACK_BYTES)
    pthread_attr_setstacksize(&how, OWN_STACK_BYTES);
  if (cpus)
    error = pthread_attr_setaffinity_np(&how, sizeof *cpus, (const cpu_set_t *)(const void *)cpus);
  if (!error)
    error = pthread_create(out, &how, at.run, at.arg);
  pthread_attr_destroy(&how);
  return error;
}

/* A thread inherits the mask of the thread that starts it, which an OpenMP runtime may have bound; it keeps this mask
 * if the system refuses another. */
static int start(pthread_t *out, entry at) {
  hd_cpu_set all;
  return hd__openmp_has_bound(&all) && start_on(&all, out, at) == 0 ? 0 : start_on(NULL, out, at);
}

int hd__thread_start(hd_thread *out, void *(*run)(void *), void *arg) {
  sigset_t before;
  *out = (hd_thread){0};
  ask_once();
  if (not_told)
    return not_told;
  block_signals(&before); /* a thread inherits the mask */
  const int error = start(&out->id, (entry){run, arg});
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  out->process = error ? 0 : process;
  return error;
}

/* The size of the calling thread's stack; SIZE_MAX where the system does not tell. */
static size_t stack_bytes(void) {
  pthread_attr_t how;
  size_t bytes = SIZE_MAX;
  if (pthread_getattr_np(pthread_self(), &how) != 0)
    return bytes;
  pthread_attr_getstacksize(&how, &bytes);
  pthread_attr_destroy(&how);
  return bytes;
}

/* The thread that calls has the stack that the program gave it; of the first thread of a program that is
 * `ulimit -s`, which the system tells only after reading the list of all mappings: a thread that had enough has. */
hd_status hd__thread_check_stack(hd_ctx *ctx) {
  static _Thread_local bool has_enough;
  const size_t bytes = has_enough ? LEAST_STACK_BYTES : stack_bytes();
  has_enough = bytes >= LEAST_STACK_BYTES;
  if (has_enough)
    return HD_OK;
  return hd__fail(ctx, HD_E_SYSTEM,
                  "expected a stack of %d KB or more for the calling thread, found %zu KB; raise `ulimit -s`, or give "
                  "this thread a larger stack",
                  LEAST_STACK_BYTES / 1024, bytes / 1024);
}

bool hd__thread_is_here(const hd_thread *thread) { return thread->process == process; }

void hd__thread_join(hd_thread *thread) {
  if (hd__thread_is_here(thread))
    pthread_join(thread->id, NULL);
  *thread = (hd_thread){0};
}
