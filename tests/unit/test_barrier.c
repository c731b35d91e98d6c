/* Barriers: no thread leaves before all have come, all threads get the OR of all flags of this barrier and of no other,
 * and what was written before is seen after. With fewer and with more threads than cores, awake and asleep, in threads
 * and in processes, on one level and by caches, in every order of coming. */
#include "scratch.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "platform/barrier.h"

enum { MAX_THREADS = 8, MAX_ROUNDS = 20000, TIMEOUT_S = 600 };

/* State of all threads, in memory that processes can share, too. */
typedef struct room {
  hd_barrier_line line[HD_BARRIER_LINES(MAX_THREADS)];
  hd_barrier barrier;
  int rounds, hold; /* hold: one thread in turn comes when all others sleep */
  bool in_order;    /* threads come in another order in each round */
  atomic_int came[MAX_ROUNDS];
  int note[2][MAX_THREADS]; /* by odd and even rounds: a thread may be one barrier ahead of a reader, not two */
  atomic_int early, wrong_flags, unseen, wrong_stamp;
} room;

static room *shared;

/* The flags of a thread in a round: often none, sometimes its bit, sometimes bits of others, too. */
static uint32_t flags_of(int thread, int round) {
  uint32_t mix = (uint32_t)round * 2654435761u + (uint32_t)thread * 40503u;
  mix ^= mix >> 15;
  return mix % 4 == 0 ? UINT32_C(1) << (thread + 8 * (mix >> 8 & 3)) : mix % 29 == 1 ? mix : 0;
}

/* The thread with the greatest flags, the first among equals: its stamp is the latest. */
static int latest(int threads, int round) {
  int thread = 0;
  for (int i = 1; i < threads; i++)
    thread = flags_of(i, round) > flags_of(thread, round) ? i : thread;
  return thread;
}

/* Counts sleepers on all lines: with caches, threads also wait on lines of caches. */
static void wait_for_sleepers(room *r) {
  unsigned sleepers;
  do {
    sleepers = 0;
    for (int i = 0; i < HD_BARRIER_LINES(r->barrier.threads); i++)
      sleepers += atomic_load(&r->line[i].sleepers);
    sched_yield();
  } while (sleepers < (unsigned)r->barrier.threads - 1);
}

/* The position of a thread in the order of a round; *before is its predecessor. Orders are numbered as permutations
 * are. */
static int place_in_order(int thread, int round, int threads, int *before) {
  int left[MAX_THREADS], order[MAX_THREADS], at = 0;
  for (int i = 0; i < threads; i++)
    left[i] = i;
  for (int i = 0, rest = round; i < threads; i++) {
    const int which = rest % (threads - i);
    rest /= threads - i;
    order[i] = left[which];
    memmove(left + which, left + which + 1, (size_t)(threads - i - which - 1) * sizeof *left);
    at = order[i] == thread ? i : at;
  }
  *before = at > 0 ? order[at - 1] : -1;
  return at;
}

static void wait_for_turn(room *r, int thread, int round, unsigned began) {
  int before;
  if (r->in_order && place_in_order(thread, round, r->barrier.threads, &before) > 0)
    while (atomic_load(&r->line[before].came) - began < (unsigned)round + 1)
      sched_yield();
}

static void take_part(room *r, int thread) {
  int threads = r->barrier.threads;
  const unsigned began = atomic_load(&r->line[thread].came);
  for (int round = 0; round < r->rounds; round++) {
    uint32_t want = 0;
    for (int i = 0; i < threads; i++)
      want |= flags_of(i, round);
    if (r->hold && round % threads == thread)
      wait_for_sleepers(r);
    wait_for_turn(r, thread, round, began);
    r->note[round & 1][thread] = round;
    atomic_fetch_add_explicit(&r->came[round], 1, memory_order_relaxed);
    const hd_barrier_stamp stamp = {.ns = flags_of(thread, round), .thread = thread};
    const bool stamped = round % 3 == 1;
    uint32_t got = stamped ? hd__barrier_wait_with_stamp(&r->barrier, thread, flags_of(thread, round), &stamp)
                           : hd__barrier_wait(&r->barrier, thread, flags_of(thread, round));
    if (stamped)
      atomic_fetch_add(&r->wrong_stamp, hd__barrier_latest(&r->barrier, thread).thread != latest(threads, round));
    atomic_fetch_add(&r->early, atomic_load_explicit(&r->came[round], memory_order_relaxed) != threads);
    atomic_fetch_add(&r->wrong_flags, got != want);
    for (int i = 0; i < threads; i++)
      atomic_fetch_add(&r->unseen, r->note[round & 1][i] != round);
  }
}

static void prepare(room *r, int threads, int crowded, int rounds, int hold) {
  memset(r, 0xa5, sizeof *r);
  hd__barrier_init(&r->barrier, r->line, threads, crowded);
  r->rounds = rounds;
  r->hold = hold;
  atomic_store(&r->early, 0);
  atomic_store(&r->wrong_flags, 0);
  atomic_store(&r->unseen, 0);
  atomic_store(&r->wrong_stamp, 0);
  r->in_order = false;
  memset(r->note, 0xff, sizeof r->note);
  for (int i = 0; i < MAX_ROUNDS; i++)
    atomic_store(&r->came[i], 0);
}

static void check(room *r, const char *name) {
  int missing = 0;
  for (int i = 0; i < r->rounds; i++)
    missing += atomic_load(&r->came[i]) != r->barrier.threads;
  is_int(missing, 0, "%s: all threads came to all %d barriers", name, r->rounds);
  is_int(atomic_load(&r->early), 0, "%s: no one left early", name);
  is_int(atomic_load(&r->wrong_flags), 0, "%s: all threads got the flags of all", name);
  is_int(atomic_load(&r->unseen), 0, "%s: all threads saw what all had written", name);
  is_int(atomic_load(&r->wrong_stamp), 0, "%s: all threads got the latest stamp", name);
}

typedef struct thread_arg {
  room *room;
  int thread;
} thread_arg;

static void *thread_main(void *arg) {
  thread_arg *a = arg;
  take_part(a->room, a->thread);
  return NULL;
}

static void run_threads(room *r) {
  pthread_t thread[MAX_THREADS];
  thread_arg arg[MAX_THREADS];
  int threads = r->barrier.threads;
  for (int i = 0; i < threads; i++) {
    arg[i] = (thread_arg){r, i};
    if (pthread_create(&thread[i], NULL, thread_main, &arg[i]) != 0)
      bail_out("expected %d threads, found %d", threads, i);
  }
  for (int i = 0; i < threads; i++)
    pthread_join(thread[i], NULL);
}

static void test_rounds(int threads, int crowded, int rounds, int hold) {
  char name[128];
  snprintf(name, sizeof name, "%d threads%s%s", threads, crowded ? ", crowded" : "",
           hold ? ", one late until all others sleep" : "");
  prepare(shared, threads, crowded, rounds, hold);
  run_threads(shared);
  check(shared, name);
  unsigned sleepers = 0;
  for (int i = 0; i < threads; i++)
    sleepers += atomic_load(&shared->line[i].sleepers);
  is_int(sleepers, 0, "%s: no one sleeps on", name);
}

/* Thread i is under cache[i]. */
static void set_caches(room *r, const int *cache) {
  for (int i = 0; i < r->barrier.threads; i++)
    hd__barrier_set_cache(r->line, i, cache[i]);
  hd__barrier_join_caches(&r->barrier);
}

/* The lines of caches were written in each barrier. */
static void check_caches(room *r, int caches, const char *name) {
  unsigned least = r->rounds > 0 ? UINT_MAX : 0;
  is_int(r->barrier.caches, caches, "%s: barriers by %d caches", name, caches);
  for (int c = 0; c < caches; c++) {
    unsigned came = atomic_load(&r->line[r->barrier.threads + c].came);
    least = came < least ? came : least;
  }
  is_int(least, r->rounds, "%s: the line of each cache was written in all barriers", name);
}

static void test_caches(int threads, const int *cache, int caches, const char *title) {
  char name[96];
  for (int hold = 0; hold < 2; hold++) {
    snprintf(name, sizeof name, "%d threads under caches %s%s", threads, title, hold ? ", one late" : "");
    prepare(shared, threads, 1, hold ? 200 : 3000, hold);
    set_caches(shared, cache);
    run_threads(shared);
    check(shared, name);
    check_caches(shared, caches, name);
  }
}

/* Each of the orders in which threads can come, once. */
static void test_orders(int threads, const int *cache, int caches, int orders) {
  char name[64];
  snprintf(name, sizeof name, "%d threads by %d caches, all %d orders", threads, caches, orders);
  prepare(shared, threads, 1, orders, 0);
  shared->in_order = true;
  set_caches(shared, cache);
  run_threads(shared);
  check(shared, name);
  check_caches(shared, caches, name);
}

static void test_one_level(int threads, const int *cache, const char *why) {
  prepare(shared, threads, 1, 100, 0);
  set_caches(shared, cache);
  run_threads(shared);
  check(shared, why);
  is_int(shared->barrier.caches, 1, "%s: barriers of one level", why);
}

static uint32_t notes_flags[4];

static void *come_with_note(void *arg) {
  thread_arg *a = arg;
  char note[HD_BARRIER_NOTE_BYTES] = "the same";
  note[0] = a->room->rounds == a->thread ? 'T' : 't';
  notes_flags[a->thread] = hd__barrier_wait_with_note(&a->room->barrier, a->thread, 0, note);
  return NULL;
}

/* Notes of one cache that differ, by the thread `odd`; -1: by none. */
static void test_notes(int odd, bool varied) {
  pthread_t thread[4];
  thread_arg arg[4];
  int wrong = 0;
  prepare(shared, 4, 1, odd, 0);
  set_caches(shared, (int[]){0, 0, 1, 1});
  for (int i = 0; i < 4; i++) {
    arg[i] = (thread_arg){shared, i};
    if (pthread_create(&thread[i], NULL, come_with_note, &arg[i]) != 0)
      bail_out("expected 4 threads, found %d", i);
  }
  for (int i = 0; i < 4; i++)
    pthread_join(thread[i], NULL);
  for (int i = 0; i < 4; i++) {
    wrong += ((notes_flags[i] & HD_BARRIER_NOTES_DIFFER) != 0) != varied;
    for (int c = 0; c < 2; c++)
      wrong += !varied && strcmp(hd__barrier_note_of_cache(&shared->barrier, i, c), "the same") != 0;
    wrong += *(const char *)hd__barrier_note(&shared->barrier, i, i) != (i == odd ? 'T' : 't');
  }
  is_int(wrong, 0, "notes of caches, %s", varied ? "one of them different" : "all the same");
}

/* Barriers are counted in 32 bits; the count may wrap. */
static void test_wrap(unsigned border, const char *title) {
  for (int hold = 0; hold < 2; hold++) {
    char name[64];
    prepare(shared, 3, 1, hold ? 100 : 1000, hold);
    for (int i = 0; i < 3; i++)
      atomic_store(&shared->line[i].came, border - (unsigned)shared->rounds / 2);
    run_threads(shared);
    snprintf(name, sizeof name, "3 threads, over %s barriers%s", title, hold ? ", asleep" : "");
    check(shared, name);
  }
}

static void test_processes(int threads, int rounds, int hold, const int *cache) {
  char name[64];
  pid_t child[MAX_THREADS];
  int failed = 0;
  snprintf(name, sizeof name, "%d processes%s%s", threads, hold ? ", asleep" : "", cache ? ", by caches" : "");
  prepare(shared, threads, 1, rounds, hold);
  if (cache)
    set_caches(shared, cache);
  fflush(stdout);
  for (int i = 0; i < threads; i++) {
    child[i] = fork();
    if (child[i] < 0)
      bail_out("expected %d processes, found %d", threads, i);
    if (child[i] == 0) {
      alarm(TIMEOUT_S);
      take_part(shared, i);
      _exit(0);
    }
  }
  for (int i = 0; i < threads; i++) {
    int status = 1;
    waitpid(child[i], &status, 0);
    failed += status != 0;
  }
  is_int(failed, 0, "%s: all ended well", name);
  check(shared, name);
}

static void test_alone(void) {
  prepare(shared, 1, 0, 0, 0);
  int wrong = 0;
  for (uint32_t i = 0; i < 1000; i++)
    wrong += hd__barrier_wait(&shared->barrier, 0, i * 2654435761u) != i * 2654435761u;
  is_int(wrong, 0, "a barrier of one thread returns its flags");
}

static void test_lines(void) {
  ok(sizeof(hd_barrier_line) % 128 == 0 && _Alignof(hd_barrier_line) >= 128,
     "no two threads write to one line of the cache");
  prepare(shared, MAX_THREADS, 0, 0, 0);
  static const hd_barrier_line zero;
  int wrong = 0;
  for (int i = 0; i < MAX_THREADS; i++)
    wrong += memcmp(&shared->line[i], &zero, sizeof zero) != 0;
  is_int(wrong, 0, "lines begin cleared");
  hd_barrier crowded;
  hd__barrier_init(&crowded, shared->line, 2, 1);
  ok(crowded.wait.spins < shared->barrier.wait.spins, "with more threads than cores no one spins for long");
}

static double cpu_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Undeclared threads on one CPU, with no limit of spins: a thread that spun would use up a time slice at each
 * barrier. */
static void test_shared_cpu(void) {
  cpu_set_t before, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof before, &before) != 0)
    bail_out("no affinity mask");
  for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
    if (CPU_ISSET(cpu, &before))
      CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one); /* threads inherit it */
  prepare(shared, 3, 0, MAX_ROUNDS, 0);
  shared->barrier.wait.spins = INT_MAX;
  double start = cpu_s();
  run_threads(shared);
  double spent = cpu_s() - start;
  sched_setaffinity(0, sizeof before, &before);
  check(shared, "3 threads on one CPU");
  ok(spent < 5, "3 threads on one CPU: %d barriers take no time slices, but %.2f s of it", MAX_ROUNDS, spent);
}

int main(void) {
  alarm(TIMEOUT_S); /* a thread that is never woken would wait for ever */
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED)
    bail_out("expected shared memory, found none");
  static const int threads[] = {1, 2, 3, 8};
  int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
  test_lines();
  test_alone();
  for (int i = 0; i < 4; i++) {
    test_rounds(threads[i], threads[i] > cores, threads[i] > 3 ? 5000 : MAX_ROUNDS, 0);
    test_rounds(threads[i], 1, 2000, 0);
    test_rounds(threads[i], 1, 200, 1);
  }
  test_shared_cpu();
  test_wrap(UINT_MAX, "2^32");
  test_wrap(INT_MAX, "2^31");
  test_processes(3, 5000, 0, NULL);
  test_processes(8, 200, 1, NULL);
  test_processes(8, 2000, 0, (int[]){3, 3, 3, 3, 1, 1, 1, 1});
  test_processes(6, 200, 1, (int[]){0, 1, 2, 2, 1, 0});
  test_caches(4, (int[]){0, 0, 1, 1}, 2, "0 0 1 1");
  test_caches(8, (int[]){7, 2, 7, 2, 7, 2, 7, 2}, 2, "7 2 7 2 7 2 7 2");
  test_caches(8, (int[]){0, 0, 0, 0, 0, 1, 2, 2}, 3, "0 0 0 0 0 1 2 2");
  test_caches(8, (int[]){0, 1, 2, 3, 3, 2, 1, 0}, 4, "0 1 2 3 3 2 1 0");
  test_orders(4, (int[]){0, 0, 1, 1}, 2, 24);
  test_orders(5, (int[]){0, 1, 0, 1, 1}, 2, 120);
  test_orders(6, (int[]){0, 0, 1, 1, 2, 2}, 3, 720);
  test_one_level(4, (int[]){0, 0, 0, 0}, "threads under one cache");
  test_one_level(4, (int[]){0, 0, 1, -1}, "threads of which the cache of one is unknown");
  test_one_level(3, (int[]){0, 1, 1}, "threads under caches with fewer than two each");
  test_notes(-1, false);
  test_notes(3, true);
  test_notes(0, true);
  return done_testing();
}
