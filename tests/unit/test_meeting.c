/* Meetings: no lane leaves before all have come, everybody gets the OR of all flags of this meeting and of no other,
 * and what was written before is seen after. With fewer and with more lanes than cores, awake and asleep, in threads
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

#include "sys/meeting.h"

enum { MAX_LANES = 8, MAX_ROUNDS = 20000, PATIENCE_S = 600 };

/* What lanes share; in memory that processes can share, too. */
typedef struct room {
  hd_meeting_line line[HD_MEETING_LINES(MAX_LANES)];
  hd_meeting meeting;
  int rounds, hold; /* hold: one lane in turn comes when all others sleep */
  bool in_order;    /* lanes come in another order in each round */
  atomic_int came[MAX_ROUNDS];
  int note[2][MAX_LANES]; /* by parity: a lane may be one meeting ahead of a reader, not two */
  atomic_int early, wrong_flags, unseen, wrong_stamp;
} room;

static room *shared;

/* What a lane says in a round: often nothing, sometimes its own bit, sometimes bits of others, too. */
static uint32_t says(int lane, int round) {
  uint32_t mix = (uint32_t)round * 2654435761u + (uint32_t)lane * 40503u;
  mix ^= mix >> 15;
  return mix % 4 == 0 ? UINT32_C(1) << (lane + 8 * (mix >> 8 & 3)) : mix % 29 == 1 ? mix : 0;
}

/* Who said the most: its stamp is the latest, the first one's among equals. */
static int latest(int lanes, int round) {
  int lane = 0;
  for (int i = 1; i < lanes; i++)
    lane = says(i, round) > says(lane, round) ? i : lane;
  return lane;
}

/* On any line: by caches some wait for others than the lane. */
static void wait_for_sleepers(room *r) {
  unsigned sleepers;
  do {
    sleepers = 0;
    for (int i = 0; i < HD_MEETING_LINES(r->meeting.lanes); i++)
      sleepers += atomic_load(&r->line[i].sleepers);
    sched_yield();
  } while (sleepers < (unsigned)r->meeting.lanes - 1);
}

/* The how-manieth a lane is in a round's order; *before is whom it follows. Orders are numbered as permutations are. */
static int place_in_order(int lane, int round, int lanes, int *before) {
  int left[MAX_LANES], order[MAX_LANES], at = 0;
  for (int i = 0; i < lanes; i++)
    left[i] = i;
  for (int i = 0, rest = round; i < lanes; i++) {
    const int which = rest % (lanes - i);
    rest /= lanes - i;
    order[i] = left[which];
    memmove(left + which, left + which + 1, (size_t)(lanes - i - which - 1) * sizeof *left);
    at = order[i] == lane ? i : at;
  }
  *before = at > 0 ? order[at - 1] : -1;
  return at;
}

static void wait_for_turn(room *r, int lane, int round, unsigned began) {
  int before;
  if (r->in_order && place_in_order(lane, round, r->meeting.lanes, &before) > 0)
    while (atomic_load(&r->line[before].came) - began < (unsigned)round + 1)
      sched_yield();
}

static void take_part(room *r, int lane) {
  int lanes = r->meeting.lanes;
  const unsigned began = atomic_load(&r->line[lane].came);
  for (int round = 0; round < r->rounds; round++) {
    uint32_t want = 0;
    for (int i = 0; i < lanes; i++)
      want |= says(i, round);
    if (r->hold && round % lanes == lane)
      wait_for_sleepers(r);
    wait_for_turn(r, lane, round, began);
    r->note[round & 1][lane] = round;
    atomic_fetch_add_explicit(&r->came[round], 1, memory_order_relaxed);
    const hd_meeting_stamp stamp = {.ns = says(lane, round), .lane = lane};
    const bool stamped = round % 3 == 1;
    uint32_t got = stamped ? hd__meeting_come_at(&r->meeting, lane, says(lane, round), &stamp)
                           : hd__meeting_come(&r->meeting, lane, says(lane, round));
    if (stamped)
      atomic_fetch_add(&r->wrong_stamp, hd__meeting_latest(&r->meeting, lane).lane != latest(lanes, round));
    atomic_fetch_add(&r->early, atomic_load_explicit(&r->came[round], memory_order_relaxed) != lanes);
    atomic_fetch_add(&r->wrong_flags, got != want);
    for (int i = 0; i < lanes; i++)
      atomic_fetch_add(&r->unseen, r->note[round & 1][i] != round);
  }
}

static void prepare(room *r, int lanes, int crowded, int rounds, int hold) {
  memset(r, 0xa5, sizeof *r);
  hd__meeting_init(&r->meeting, r->line, lanes, crowded);
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
    missing += atomic_load(&r->came[i]) != r->meeting.lanes;
  is_int(missing, 0, "%s: everybody came to all %d meetings", name, r->rounds);
  is_int(atomic_load(&r->early), 0, "%s: no one left early", name);
  is_int(atomic_load(&r->wrong_flags), 0, "%s: everybody got everybody's flags", name);
  is_int(atomic_load(&r->unseen), 0, "%s: everybody saw what all had written", name);
  is_int(atomic_load(&r->wrong_stamp), 0, "%s: everybody knows whose stamp is the latest", name);
}

typedef struct lane_arg {
  room *room;
  int lane;
} lane_arg;

static void *thread_main(void *arg) {
  lane_arg *a = arg;
  take_part(a->room, a->lane);
  return NULL;
}

static void run_threads(room *r) {
  pthread_t thread[MAX_LANES];
  lane_arg arg[MAX_LANES];
  int lanes = r->meeting.lanes;
  for (int i = 0; i < lanes; i++) {
    arg[i] = (lane_arg){r, i};
    if (pthread_create(&thread[i], NULL, thread_main, &arg[i]) != 0)
      bail_out("expected %d threads, found %d", lanes, i);
  }
  for (int i = 0; i < lanes; i++)
    pthread_join(thread[i], NULL);
}

static void test_rounds(int lanes, int crowded, int rounds, int hold) {
  char name[128];
  snprintf(name, sizeof name, "%d lanes%s%s", lanes, crowded ? ", crowded" : "",
           hold ? ", one late until all others sleep" : "");
  prepare(shared, lanes, crowded, rounds, hold);
  run_threads(shared);
  check(shared, name);
  unsigned sleepers = 0;
  for (int i = 0; i < lanes; i++)
    sleepers += atomic_load(&shared->line[i].sleepers);
  is_int(sleepers, 0, "%s: no one sleeps on", name);
}

/* Lane i lives under cache[i]. */
static void live_under(room *r, const int *cache) {
  for (int i = 0; i < r->meeting.lanes; i++)
    hd__meeting_live(r->line, i, cache[i]);
  hd__meeting_join_caches(&r->meeting);
}

/* What caches' lines tell was told in each meeting. */
static void check_caches(room *r, int caches, const char *name) {
  unsigned least = r->rounds > 0 ? UINT_MAX : 0;
  is_int(r->meeting.caches, caches, "%s: they meet by %d caches", name, caches);
  for (int c = 0; c < caches; c++) {
    unsigned came = atomic_load(&r->line[r->meeting.lanes + c].came);
    least = came < least ? came : least;
  }
  is_int(least, r->rounds, "%s: each cache's line told of all meetings", name);
}

static void test_caches(int lanes, const int *cache, int caches, const char *title) {
  char name[96];
  for (int hold = 0; hold < 2; hold++) {
    snprintf(name, sizeof name, "%d lanes under caches %s%s", lanes, title, hold ? ", one late" : "");
    prepare(shared, lanes, 1, hold ? 200 : 3000, hold);
    live_under(shared, cache);
    run_threads(shared);
    check(shared, name);
    check_caches(shared, caches, name);
  }
}

/* Each of the orders in which lanes can come, once. */
static void test_orders(int lanes, const int *cache, int caches, int orders) {
  char name[64];
  snprintf(name, sizeof name, "%d lanes by %d caches, all %d orders", lanes, caches, orders);
  prepare(shared, lanes, 1, orders, 0);
  shared->in_order = true;
  live_under(shared, cache);
  run_threads(shared);
  check(shared, name);
  check_caches(shared, caches, name);
}

static void test_one_level(int lanes, const int *cache, const char *why) {
  prepare(shared, lanes, 1, 100, 0);
  live_under(shared, cache);
  run_threads(shared);
  check(shared, why);
  is_int(shared->meeting.caches, 1, "%s: they meet on one level", why);
}

static uint32_t notes_flags[4];

static void *come_with_note(void *arg) {
  lane_arg *a = arg;
  char note[HD_MEETING_NOTE_BYTES] = "the same";
  note[0] = a->room->rounds == a->lane ? 'T' : 't';
  notes_flags[a->lane] = hd__meeting_come_with(&a->room->meeting, a->lane, 0, note);
  return NULL;
}

/* Notes of one cache that differ, by the lane `odd`; -1: by none. */
static void test_notes(int odd, bool varied) {
  pthread_t thread[4];
  lane_arg arg[4];
  int wrong = 0;
  prepare(shared, 4, 1, odd, 0);
  live_under(shared, (int[]){0, 0, 1, 1});
  for (int i = 0; i < 4; i++) {
    arg[i] = (lane_arg){shared, i};
    if (pthread_create(&thread[i], NULL, come_with_note, &arg[i]) != 0)
      bail_out("expected 4 threads, found %d", i);
  }
  for (int i = 0; i < 4; i++)
    pthread_join(thread[i], NULL);
  for (int i = 0; i < 4; i++) {
    wrong += ((notes_flags[i] & HD_MEETING_VARIED) != 0) != varied;
    for (int c = 0; c < 2; c++)
      wrong += !varied && strcmp(hd__meeting_note_of_cache(&shared->meeting, i, c), "the same") != 0;
    wrong += *(const char *)hd__meeting_note(&shared->meeting, i, i) != (i == odd ? 'T' : 't');
  }
  is_int(wrong, 0, "notes of caches, %s", varied ? "one of them different" : "all the same");
}

/* Meetings are counted in 32 bits; the count may wrap. */
static void test_wrap(unsigned border, const char *title) {
  for (int hold = 0; hold < 2; hold++) {
    char name[64];
    prepare(shared, 3, 1, hold ? 100 : 1000, hold);
    for (int i = 0; i < 3; i++)
      atomic_store(&shared->line[i].came, border - (unsigned)shared->rounds / 2);
    run_threads(shared);
    snprintf(name, sizeof name, "3 lanes, over %s meetings%s", title, hold ? ", asleep" : "");
    check(shared, name);
  }
}

static void test_processes(int lanes, int rounds, int hold, const int *cache) {
  char name[64];
  pid_t child[MAX_LANES];
  int failed = 0;
  snprintf(name, sizeof name, "%d processes%s%s", lanes, hold ? ", asleep" : "", cache ? ", by caches" : "");
  prepare(shared, lanes, 1, rounds, hold);
  if (cache)
    live_under(shared, cache);
  fflush(stdout);
  for (int i = 0; i < lanes; i++) {
    child[i] = fork();
    if (child[i] < 0)
      bail_out("expected %d processes, found %d", lanes, i);
    if (child[i] == 0) {
      alarm(PATIENCE_S);
      take_part(shared, i);
      _exit(0);
    }
  }
  for (int i = 0; i < lanes; i++) {
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
    wrong += hd__meeting_come(&shared->meeting, 0, i * 2654435761u) != i * 2654435761u;
  is_int(wrong, 0, "one lane meets itself and gets its own flags");
}

static void test_lines(void) {
  ok(sizeof(hd_meeting_line) % 128 == 0 && _Alignof(hd_meeting_line) >= 128,
     "no two lanes write to one line of the cache");
  prepare(shared, MAX_LANES, 0, 0, 0);
  static const hd_meeting_line zero;
  int wrong = 0;
  for (int i = 0; i < MAX_LANES; i++)
    wrong += memcmp(&shared->line[i], &zero, sizeof zero) != 0;
  is_int(wrong, 0, "lines begin cleared");
  hd_meeting crowded;
  hd__meeting_init(&crowded, shared->line, 2, 1);
  ok(crowded.spins < shared->meeting.spins, "with more lanes than cores no one spins for long");
}

static double cpu_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Lanes on one CPU though nobody said so, and patient ones: who spun would burn a time slice in each meeting. */
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
  shared->meeting.spins = INT_MAX;
  double start = cpu_s();
  run_threads(shared);
  double spent = cpu_s() - start;
  sched_setaffinity(0, sizeof before, &before);
  check(shared, "3 lanes on one CPU");
  ok(spent < 5, "3 lanes on one CPU: %d meetings take no time slices, but %.2f s of it", MAX_ROUNDS, spent);
}

int main(void) {
  alarm(PATIENCE_S); /* a lane that is never woken would wait for ever */
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED)
    bail_out("expected shared memory, found none");
  static const int lanes[] = {1, 2, 3, 8};
  int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
  test_lines();
  test_alone();
  for (int i = 0; i < 4; i++) {
    test_rounds(lanes[i], lanes[i] > cores, lanes[i] > 3 ? 5000 : MAX_ROUNDS, 0);
    test_rounds(lanes[i], 1, 2000, 0);
    test_rounds(lanes[i], 1, 200, 1);
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
  test_one_level(4, (int[]){0, 0, 0, 0}, "lanes under one cache");
  test_one_level(4, (int[]){0, 0, 1, -1}, "lanes of which one lives nobody knows where");
  test_one_level(3, (int[]){0, 1, 1}, "lanes under caches that have hardly two");
  test_notes(-1, false);
  test_notes(3, true);
  test_notes(0, true);
  return done_testing();
}
