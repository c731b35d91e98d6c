/* A signal that ends a training run is taken by any thread: the session is there as long as a handler uses it. The
 * source of the command is compiled in, with a stub of the call that the handler makes. */
#include "scratch.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "heddle.h"

static void stop_slowly(hd_session *session);
#define hd_session_terminate stop_slowly
#include "cli/cmd_train.c"

enum { YIELDS = 2000 };

static char place[1];
static hd_session *const session = (hd_session *)(void *)place;
static atomic_int inside, forgotten, too_soon, calls;

/* Until the session is being forgotten, and then long enough for that to end if it does not wait. */
static void stop_slowly(hd_session *given) {
  atomic_fetch_add(&calls, given == session);
  atomic_store(&inside, 1);
  while (atomic_load(&running))
    sched_yield();
  for (int i = 0; i < YIELDS; i++)
    sched_yield();
  atomic_store(&too_soon, atomic_load(&forgotten));
}

static void *take_signal(void *unused) {
  raise(SIGTERM);
  return unused;
}

int main(void) {
  pthread_t taker;
  atomic_store(&running, session);
  catch_signals(0);
  if (pthread_create(&taker, NULL, take_signal, NULL) != 0)
    skip_all("the system starts no thread");
  while (!atomic_load(&inside))
    sched_yield();
  forget_session();
  atomic_store(&forgotten, 1);
  pthread_join(taker, NULL);
  is_int(calls, 1, "a handler on another thread stops the session");
  is_int(too_soon, 0, "which is not forgotten meanwhile");
  is_int(caught, SIGTERM, "the signal is recorded");
  ok(interrupted_code() == 128 + SIGTERM, "and so is the exit code");
  return done_testing();
}
