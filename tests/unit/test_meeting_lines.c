/* Why lanes meet by caches: how many lines go from one third-level cache to another in a meeting. Each look of each
 * lane at another's coming is counted; a line that somebody under a cache looks at, and that is not written there, has
 * to come from elsewhere, once a meeting, whoever else looks at it. */
#include "scratch.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

static _Thread_local int this_lane;
static void note_look(const volatile void *at);

#undef atomic_load_explicit
#ifdef __clang__
#define atomic_load_explicit(at, order) (note_look(at), __c11_atomic_load(at, order))
#else
#define atomic_load_explicit(at, order) (note_look(at), __atomic_load_n(at, order))
#endif
#define sched_getcpu() (1 + this_lane) /* each has a CPU of its own */
#include "../../src/sys/meeting.c"

enum { LANES = 16, CACHES = 4, MEETINGS = 200, PATIENCE_S = 600 };

static hd_meeting_line lines[HD_MEETING_LINES(LANES)];
static hd_meeting meeting;
static atomic_bool seen[CACHES][HD_MEETING_LINES(LANES)]; /* by somebody under a cache */

static int cache_of(int lane) { return lane / (LANES / CACHES); }

static int home_of(int line) { return line < LANES ? cache_of(line) : line - LANES; }

static void note_look(const volatile void *at) {
  for (int i = 0; i < HD_MEETING_LINES(LANES); i++)
    if (at == &lines[i].came)
      atomic_store(&seen[cache_of(this_lane)][i], true);
}

static void *take_part(void *arg) {
  this_lane = (int)(intptr_t)arg;
  for (int i = 0; i < MEETINGS; i++) {
    const hd_meeting_stamp stamp = {.ns = i, .lane = this_lane};
    hd__meeting_come_at(&meeting, this_lane, 0, &stamp);
  }
  return NULL;
}

/* Lines that had to come from another cache, and those that stayed. */
static void count(int *crossed, int *stayed, bool by_caches) {
  pthread_t thread[LANES];
  *crossed = *stayed = 0;
  memset(seen, 0, sizeof seen);
  hd__meeting_init(&meeting, lines, LANES, 1);
  for (int i = 0; i < LANES; i++)
    hd__meeting_live(lines, i, by_caches ? 10 + cache_of(i) : -1);
  hd__meeting_join_caches(&meeting);
  for (intptr_t i = 0; i < LANES; i++)
    if (pthread_create(&thread[i], NULL, take_part, (void *)i) != 0)
      bail_out("expected %d threads", LANES);
  for (int i = 0; i < LANES; i++)
    pthread_join(thread[i], NULL);
  for (int c = 0; c < CACHES; c++)
    for (int i = 0; i < HD_MEETING_LINES(LANES); i++) {
      *crossed += seen[c][i] && home_of(i) != c;
      *stayed += seen[c][i] && home_of(i) == c;
    }
}

int main(void) {
  int crossed, stayed;
  alarm(PATIENCE_S);
  count(&crossed, &stayed, false);
  is_int(meeting.caches, 1, "lanes of which nobody knows where they live meet on one level");
  is_int(crossed, CACHES * (LANES - LANES / CACHES), "16 lanes under 4 caches on one level: 48 lines cross");
  count(&crossed, &stayed, true);
  is_int(meeting.caches, CACHES, "lanes that know it meet by caches");
  is_int(crossed, CACHES * (CACHES - 1), "16 lanes by 4 caches: 12 lines cross");
  is_int(stayed, LANES + CACHES, "and each lane's line, and each cache's, is looked at where it is written");
  return done_testing();
}
