/* The meeting of lanes: see meeting.h for the lines and the order of writes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys/meeting.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/relax.h"

enum { SPINS = 4000, SPINS_CROWDED = 50, YIELDS = 100, SHARED_BEFORE_SLEEP = 64 };

void hd__meeting_join(hd_meeting *meeting, hd_meeting_line *lines, int lanes, int crowded,
                      const hd_meeting_watch *watch) {
  *meeting = (hd_meeting){.line = lines, .lanes = lanes, .spins = crowded ? SPINS_CROWDED : SPINS, .watch = watch};
}

void hd__meeting_init(hd_meeting *meeting, hd_meeting_line *lines, int lanes, int crowded) {
  memset(lines, 0, (size_t)lanes * sizeof *lines);
  hd__meeting_join(meeting, lines, lanes, crowded, NULL);
}

/* Whether a line has caught up; numbers wrap, so compare their difference. */
static int has_come(hd_meeting_line *line, unsigned number) {
  return (int)(atomic_load_explicit(&line->came, memory_order_acquire) - number) >= 0;
}

static int is_broken(const hd_meeting *meeting) {
  return meeting->watch && atomic_load_explicit(meeting->watch->broken, memory_order_acquire) != 0;
}

static void sleep_until(const hd_meeting *meeting, hd_meeting_line *line, unsigned number) {
  const hd_meeting_watch *watch = meeting->watch;
  const struct timespec look = {.tv_nsec = HD_MEETING_LOOK_MS * 1000000L};
  const int64_t began_ns = watch ? hd__clock_ns() : 0;
  atomic_fetch_add(&line->sleepers, 1);
  while (!is_broken(meeting)) {
    unsigned seen = atomic_load(&line->came);
    if ((int)(seen - number) >= 0)
      break;
    long woken = syscall(SYS_futex, &line->came, FUTEX_WAIT, seen, watch ? &look : NULL, NULL, 0);
    if (woken != 0 && errno == ETIMEDOUT && !has_come(line, number))
      watch->late(watch->self, (int)(line - meeting->line), hd__clock_ns() - began_ns);
  }
  atomic_fetch_sub(&line->sleepers, 1);
}

/* Whether a lane that has not come was last seen on this lane's CPU: it cannot come while we look out for it. */
static bool blocks_another(const hd_meeting *meeting, int lane, unsigned number) {
  int cpu = atomic_load_explicit(&meeting->line[lane].cpu, memory_order_relaxed);
  for (int i = 0; i < meeting->lanes; i++) {
    hd_meeting_line *other = &meeting->line[i];
    if (i != lane && atomic_load_explicit(&other->cpu, memory_order_relaxed) == cpu && !has_come(other, number))
      return true;
  }
  return false;
}

static void wait_for(const hd_meeting *meeting, int lane, hd_meeting_line *line, unsigned number) {
  const bool shares = blocks_another(meeting, lane, number);
  const int spins = shares ? 0 : meeting->spins;
  int *shared = &meeting->line[lane].shared;
  if (shares || *shared) /* others look at this line, too */
    *shared = shares ? *shared + 1 : 0;
  const int yields = *shared % SHARED_BEFORE_SLEEP == SHARED_BEFORE_SLEEP - 1 ? 0 : YIELDS;
  for (int i = 0; i < spins; i++) {
    if (has_come(line, number))
      return;
    hd__relax();
  }
  for (int i = 0; i < yields; i++) {
    if (has_come(line, number))
      return;
    sched_yield();
  }
  sleep_until(meeting, line, number);
}

/* Says that a lane comes to meeting `number`; flags and note stand in its line. */
static void announce(hd_meeting *meeting, hd_meeting_line *mine, unsigned number, uint32_t flags) {
  const int cpu = sched_getcpu();
  mine->flags[number & 1] = flags;
  if (atomic_load_explicit(&mine->cpu, memory_order_relaxed) != cpu)
    atomic_store_explicit(&mine->cpu, cpu, memory_order_relaxed);
  /* Sequentially consistent on both sides: either we see the sleeper or it sees our number. */
  atomic_store(&mine->came, number);
  if (meeting->lanes > 1 && atomic_load(&mine->sleepers) > 0)
    syscall(SYS_futex, &mine->came, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Waits for all others; returns everybody's flags. */
static uint32_t await(hd_meeting *meeting, int lane, unsigned number, uint32_t flags) {
  for (int i = 1; i < meeting->lanes; i++) {
    hd_meeting_line *other = &meeting->line[(lane + i) % meeting->lanes];
    if (!has_come(other, number))
      wait_for(meeting, lane, other, number);
    if (meeting->watch && !has_come(other, number))
      return flags | HD_MEETING_BROKEN;
    flags |= other->flags[number & 1];
  }
  return flags;
}

uint32_t hd__meeting_come(hd_meeting *meeting, int lane, uint32_t flags) {
  hd_meeting_line *mine = &meeting->line[lane];
  const unsigned number = atomic_load_explicit(&mine->came, memory_order_relaxed) + 1;
  announce(meeting, mine, number, flags);
  return await(meeting, lane, number, flags);
}

uint32_t hd__meeting_come_with(hd_meeting *meeting, int lane, uint32_t flags, const void *note) {
  hd_meeting_line *mine = &meeting->line[lane];
  const unsigned number = atomic_load_explicit(&mine->came, memory_order_relaxed) + 1;
  memcpy(mine->note[number & 1], note, HD_MEETING_NOTE_BYTES);
  announce(meeting, mine, number, flags);
  return await(meeting, lane, number, flags);
}

const void *hd__meeting_note(const hd_meeting *meeting, int self, int lane) {
  const unsigned number = atomic_load_explicit(&meeting->line[self].came, memory_order_relaxed);
  return meeting->line[lane].note[number & 1];
}
