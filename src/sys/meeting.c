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
  *meeting = (hd_meeting){
      .line = lines, .lanes = lanes, .caches = 1, .spins = crowded ? SPINS_CROWDED : SPINS, .watch = watch};
}

void hd__meeting_init(hd_meeting *meeting, hd_meeting_line *lines, int lanes, int crowded) {
  memset(lines, 0, (size_t)HD_MEETING_LINES(lanes) * sizeof *lines);
  hd__meeting_join(meeting, lines, lanes, crowded, NULL);
}

/* ---- caches ---- */

void hd__meeting_live(hd_meeting_line *lines, int lane, int cache) { lines[lane].cache = cache; }

static hd_meeting_line *line_of_cache(const hd_meeting *meeting, int cache) {
  return &meeting->line[meeting->lanes + cache];
}

/* The first lane that lives where this one does. */
static int first_beside(const hd_meeting *meeting, int lane) {
  int first = 0;
  while (meeting->line[first].cache != meeting->line[lane].cache)
    first++;
  return first;
}

/* Whoever shares the lines writes the same. */
void hd__meeting_join_caches(hd_meeting *meeting) {
  int caches = 0;
  bool known = true;
  for (int i = 0; i < meeting->lanes; i++) {
    known &= meeting->line[i].cache >= 0;
    caches += first_beside(meeting, i) == i;
  }
  if (!known || caches < 2 || 2 * caches > meeting->lanes)
    return;
  meeting->caches = caches;
  for (int i = 0, next = 0; i < meeting->lanes; i++) {
    const int first = first_beside(meeting, i);
    if (first == i)
      line_of_cache(meeting, next)->home = i;
    meeting->line[i].home = first == i ? next++ : meeting->line[first].home;
  }
}

/* Whether a line has caught up; numbers wrap, so compare their difference. */
static int has_come(hd_meeting_line *line, unsigned number) {
  return (int)(atomic_load_explicit(&line->came, memory_order_acquire) - number) >= 0;
}

static int is_broken(const hd_meeting *meeting) {
  return meeting->watch && atomic_load_explicit(meeting->watch->broken, memory_order_acquire) != 0;
}

/* Whose coming a line tells: a cache's first lane waits for the others there. */
static int awaited_lane(const hd_meeting *meeting, hd_meeting_line *line, unsigned number) {
  const int which = (int)(line - meeting->line);
  if (which < meeting->lanes)
    return which;
  for (int i = 0; i < meeting->lanes; i++)
    if (meeting->line[i].home == which - meeting->lanes && !has_come(&meeting->line[i], number))
      return i;
  return line->home;
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
      watch->late(watch->self, awaited_lane(meeting, line, number), hd__clock_ns() - began_ns);
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

/* Says what a line tells at meeting `number`, to who sleeps until then, too. */
static void tell(const hd_meeting *meeting, hd_meeting_line *line, unsigned number, uint32_t flags) {
  line->flags[number & 1] = flags;
  /* Sequentially consistent on both sides: either we see the sleeper or it sees our number. */
  atomic_store(&line->came, number);
  if (meeting->lanes > 1 && atomic_load(&line->sleepers) > 0)
    syscall(SYS_futex, &line->came, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* A lane comes to meeting `number`; a note stands in its line. */
static void announce(const hd_meeting *meeting, hd_meeting_line *mine, unsigned number, uint32_t flags) {
  const int cpu = sched_getcpu();
  if (atomic_load_explicit(&mine->cpu, memory_order_relaxed) != cpu)
    atomic_store_explicit(&mine->cpu, cpu, memory_order_relaxed);
  tell(meeting, mine, number, flags);
}

/* Waits for a line and adds its flags; false: whom it tells of never comes. */
static bool await_line(const hd_meeting *meeting, int lane, hd_meeting_line *line, unsigned number, uint32_t *flags) {
  if (!has_come(line, number))
    wait_for(meeting, lane, line, number);
  if (meeting->watch && !has_come(line, number))
    return false;
  *flags |= line->flags[number & 1];
  return true;
}

/* What lanes bring to a meeting beside flags. */
typedef enum brings { NOTHING, NOTES, STAMPS } brings;

/* A cache's note is that of its lanes, if it is the same; or their latest stamp. Returns flags to add. */
static uint32_t merge_note(const hd_meeting_line *from, hd_meeting_line *into, unsigned number, brings what) {
  const char *note = from->note[number & 1];
  char *whole = into->note[number & 1];
  if (what == NOTES)
    return memcmp(note, whole, HD_MEETING_NOTE_BYTES) ? HD_MEETING_VARIED : 0;
  if (what == STAMPS && ((const hd_meeting_stamp *)(const void *)note)->ns > ((hd_meeting_stamp *)(void *)whole)->ns)
    memcpy(whole, note, sizeof(hd_meeting_stamp));
  return 0;
}

/* The first lane of a cache waits for the others there, and says it to all. */
static bool gather_cache(const hd_meeting *meeting, int lane, unsigned number, uint32_t flags, brings what) {
  const int home = meeting->line[lane].home;
  hd_meeting_line *whole = line_of_cache(meeting, home);
  if (what != NOTHING)
    memcpy(whole->note[number & 1], meeting->line[lane].note[number & 1], HD_MEETING_NOTE_BYTES);
  for (int i = lane + 1; i < meeting->lanes; i++) {
    hd_meeting_line *other = &meeting->line[i];
    if (other->home != home)
      continue;
    if (!await_line(meeting, lane, other, number, &flags))
      return false;
    flags |= merge_note(other, whole, number, what);
  }
  tell(meeting, whole, number, flags);
  return true;
}

static uint32_t await_caches(const hd_meeting *meeting, int lane, unsigned number, uint32_t flags, brings what) {
  const int home = meeting->line[lane].home;
  if (line_of_cache(meeting, home)->home == lane && !gather_cache(meeting, lane, number, flags, what))
    return flags | HD_MEETING_BROKEN;
  for (int i = 1; i <= meeting->caches; i++)
    if (!await_line(meeting, lane, line_of_cache(meeting, (home + i) % meeting->caches), number, &flags))
      return flags | HD_MEETING_BROKEN;
  return flags;
}

static uint32_t await_lanes(const hd_meeting *meeting, int lane, unsigned number, uint32_t flags) {
  for (int i = 1; i < meeting->lanes; i++)
    if (!await_line(meeting, lane, &meeting->line[(lane + i) % meeting->lanes], number, &flags))
      return flags | HD_MEETING_BROKEN;
  return flags;
}

/* The note stands in the lane's line. Returns everybody's flags. */
static uint32_t come(const hd_meeting *meeting, int lane, unsigned number, uint32_t flags, brings what) {
  announce(meeting, &meeting->line[lane], number, flags);
  return meeting->caches > 1 ? await_caches(meeting, lane, number, flags, what)
                             : await_lanes(meeting, lane, number, flags);
}

static unsigned next_of(const hd_meeting *meeting, int lane) {
  return atomic_load_explicit(&meeting->line[lane].came, memory_order_relaxed) + 1;
}

static unsigned last_of(const hd_meeting *meeting, int lane) { return next_of(meeting, lane) - 1; }

uint32_t hd__meeting_come(hd_meeting *meeting, int lane, uint32_t flags) {
  return come(meeting, lane, next_of(meeting, lane), flags, NOTHING);
}

uint32_t hd__meeting_come_with(hd_meeting *meeting, int lane, uint32_t flags, const void *note) {
  const unsigned number = next_of(meeting, lane);
  memcpy(meeting->line[lane].note[number & 1], note, HD_MEETING_NOTE_BYTES);
  return come(meeting, lane, number, flags, NOTES);
}

uint32_t hd__meeting_come_at(hd_meeting *meeting, int lane, uint32_t flags, const hd_meeting_stamp *stamp) {
  const unsigned number = next_of(meeting, lane);
  memcpy(meeting->line[lane].note[number & 1], stamp, sizeof *stamp);
  return come(meeting, lane, number, flags, STAMPS);
}

const void *hd__meeting_note(const hd_meeting *meeting, int self, int lane) {
  return meeting->line[lane].note[last_of(meeting, self) & 1];
}

const void *hd__meeting_note_of_cache(const hd_meeting *meeting, int self, int cache) {
  return line_of_cache(meeting, cache)->note[last_of(meeting, self) & 1];
}

hd_meeting_stamp hd__meeting_latest(const hd_meeting *meeting, int self) {
  const bool by_cache = meeting->caches > 1;
  const int lines = by_cache ? meeting->caches : meeting->lanes;
  hd_meeting_stamp latest = {.ns = INT64_MIN};
  for (int i = 0; i < lines; i++) {
    hd_meeting_stamp stamp;
    memcpy(&stamp, by_cache ? hd__meeting_note_of_cache(meeting, self, i) : hd__meeting_note(meeting, self, i),
           sizeof stamp);
    if (stamp.ns > latest.ns || (stamp.ns == latest.ns && stamp.lane < latest.lane))
      latest = stamp;
  }
  return latest;
}
