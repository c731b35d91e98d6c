/* Why barriers have a level of caches: how many lines a barrier moves from one third-level cache to another. Each
 * load of another thread's line is recorded: a line that any thread under a cache loads, and that is written under
 * another cache, is transferred once a barrier, however many threads load it. */
#include "scratch.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

static _Thread_local int this_thread;
static void note_look(const volatile void *at);

#undef atomic_load_explicit
#ifdef __clang__
#define atomic_load_explicit(at, order) (note_look(at), __c11_atomic_load(at, order))
#else
#define atomic_load_explicit(at, order) (note_look(at), __atomic_load_n(at, order))
#endif
#define sched_getcpu() (1 + this_thread) /* each has a CPU of its own */
#include "../../src/platform/barrier.c"

enum { THREADS = 16, CACHES = 4, BARRIERS = 200, TIMEOUT_S = 600 };

static hd_barrier_line lines[HD_BARRIER_LINES(THREADS)];
static hd_barrier barrier;
static atomic_bool seen[CACHES][HD_BARRIER_LINES(THREADS)]; /* by a thread under a cache */

static int cache_of(int thread) { return thread / (THREADS / CACHES); }

static int home_of(int line) { return line < THREADS ? cache_of(line) : line - THREADS; }

static void note_look(const volatile void *at) {
  for (int i = 0; i < HD_BARRIER_LINES(THREADS); i++)
    if (at == &lines[i].came)
      atomic_store(&seen[cache_of(this_thread)][i], true);
}

static void *take_part(void *arg) {
  this_thread = (int)(intptr_t)arg;
  for (int i = 0; i < BARRIERS; i++) {
    const hd_barrier_stamp stamp = {.ns = i, .thread = this_thread};
    hd__barrier_wait_with_stamp(&barrier, this_thread, 0, &stamp);
  }
  return NULL;
}

/* Lines that had to come from another cache, and those that stayed. */
static void count(int *transferred, int *stayed, bool by_caches) {
  pthread_t thread[THREADS];
  *transferred = *stayed = 0;
  memset(seen, 0, sizeof seen);
  hd__barrier_init(&barrier, lines, THREADS, 1);
  for (int i = 0; i < THREADS; i++)
    hd__barrier_set_cache(lines, i, by_caches ? 10 + cache_of(i) : -1);
  hd__barrier_join_caches(&barrier);
  for (intptr_t i = 0; i < THREADS; i++)
    if (pthread_create(&thread[i], NULL, take_part, (void *)i) != 0)
      bail_out("expected %d threads", THREADS);
  for (int i = 0; i < THREADS; i++)
    pthread_join(thread[i], NULL);
  for (int c = 0; c < CACHES; c++)
    for (int i = 0; i < HD_BARRIER_LINES(THREADS); i++) {
      *transferred += seen[c][i] && home_of(i) != c;
      *stayed += seen[c][i] && home_of(i) == c;
    }
}

int main(void) {
  int transferred, stayed;
  alarm(TIMEOUT_S);
  count(&transferred, &stayed, false);
  is_int(barrier.caches, 1, "threads of unknown caches: a barrier of one level");
  is_int(transferred, CACHES * (THREADS - THREADS / CACHES),
         "16 threads under 4 caches on one level: 48 lines are transferred");
  count(&transferred, &stayed, true);
  is_int(barrier.caches, CACHES, "threads of known caches: a barrier by caches");
  is_int(transferred, CACHES * (CACHES - 1), "16 threads by 4 caches: 12 lines are transferred");
  is_int(stayed, THREADS + CACHES, "and each thread's line, and each cache's, is looked at where it is written");
  return done_testing();
}
