/* The barrier of threads: see barrier.h for the lines and the order of writes. */
#include "platform/barrier.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "platform/clock.h"
#include "platform/memory_word.h"
#include "platform/wait.h"

enum { SHARED_BEFORE_SLEEP = 64 };

void hd__barrier_join(hd_barrier *barrier, hd_barrier_line *lines, int threads, int crowded,
                      const hd_barrier_watch *watch) {
  *barrier =
      (hd_barrier){.line = lines, .threads = threads, .caches = 1, .wait = hd__wait_barrier(crowded), .watch = watch};
}

void hd__barrier_init(hd_barrier *barrier, hd_barrier_line *lines, int threads, int crowded) {
  memset(lines, 0, (size_t)HD_BARRIER_LINES(threads) * sizeof *lines);
  hd__barrier_join(barrier, lines, threads, crowded, NULL);
}

/* ---- caches ---- */

void hd__barrier_set_cache(hd_barrier_line *lines, int thread, int cache) { lines[thread].cache = cache; }

static hd_barrier_line *line_of_cache(const hd_barrier *barrier, int cache) {
  return &barrier->line[barrier->threads + cache];
}

/* The first thread under the same cache. */
static int first_of_cache(const hd_barrier *barrier, int thread) {
  int first = 0;
  while (barrier->line[first].cache != barrier->line[thread].cache)
    first++;
  return first;
}

/* All threads write the same values. */
void hd__barrier_join_caches(hd_barrier *barrier) {
  int caches = 0;
  bool known = true;
  for (int i = 0; i < barrier->threads; i++) {
    known &= barrier->line[i].cache >= 0;
    caches += first_of_cache(barrier, i) == i;
  }
  if (!known || caches < 2 || 2 * caches > barrier->threads)
    return;
  barrier->caches = caches;
  for (int i = 0, next = 0; i < barrier->threads; i++) {
    const int first = first_of_cache(barrier, i);
    if (first == i)
      line_of_cache(barrier, next)->home = i;
    barrier->line[i].home = first == i ? next++ : barrier->line[first].home;
  }
}

/* Whether a line has reached `number`; numbers wrap, so their difference is compared. */
static int has_come(hd_barrier_line *line, unsigned number) {
  return (int)(atomic_load_explicit(&line->came, memory_order_acquire) - number) >= 0;
}

static int is_broken(const hd_barrier *barrier) {
  return barrier->watch && atomic_load_explicit(barrier->watch->broken, memory_order_acquire) != 0;
}

/* The thread that a line waits for: for a line of a cache, a missing thread of that cache. */
static int awaited_thread(const hd_barrier *barrier, hd_barrier_line *line, unsigned number) {
  const int which = (int)(line - barrier->line);
  if (which < barrier->threads)
    return which;
  for (int i = 0; i < barrier->threads; i++)
    if (barrier->line[i].home == which - barrier->threads && !has_come(&barrier->line[i], number))
      return i;
  return line->home;
}

static void sleep_until(const hd_barrier *barrier, hd_barrier_line *line, unsigned number) {
  const hd_barrier_watch *watch = barrier->watch;
  const int64_t began_ns = watch ? hd__clock_ns() : 0;
  atomic_fetch_add(&line->sleepers, 1);
  while (!is_broken(barrier)) {
    unsigned seen = atomic_load(&line->came);
    if ((int)(seen - number) >= 0)
      break;
    const bool woken = hd__word_wait(&line->came, seen, watch ? HD_BARRIER_CHECK_MS * INT64_C(1000000) : 0);
    if (!woken && !has_come(line, number))
      watch->late(watch->self, awaited_thread(barrier, line, number), hd__clock_ns() - began_ns);
  }
  atomic_fetch_sub(&line->sleepers, 1);
}

/* Whether a missing thread was last seen on this thread's CPU: it cannot run while this thread spins. */
static bool blocks_another(const hd_barrier *barrier, int thread, unsigned number) {
  int cpu = atomic_load_explicit(&barrier->line[thread].cpu, memory_order_relaxed);
  for (int i = 0; i < barrier->threads; i++) {
    hd_barrier_line *other = &barrier->line[i];
    if (i != thread && atomic_load_explicit(&other->cpu, memory_order_relaxed) == cpu && !has_come(other, number))
      return true;
  }
  return false;
}

static void poll(const hd_barrier *barrier, hd_barrier_line *line, unsigned number, hd_wait wait) {
  while (!has_come(line, number))
    if (!hd__wait_turn(&wait)) {
      sleep_until(barrier, line, number);
      return;
    }
}

static void wait_for(const hd_barrier *barrier, int thread, hd_barrier_line *line, unsigned number) {
  const bool shares = blocks_another(barrier, thread, number);
  int *shared = &barrier->line[thread].shared;
  if (shares || *shared) /* no needless write: other threads poll this line */
    *shared = shares ? *shared + 1 : 0;
  const bool sleeps = *shared % SHARED_BEFORE_SLEEP == SHARED_BEFORE_SLEEP - 1;
  poll(barrier, line, number, (hd_wait){shares ? 0 : barrier->wait.spins, sleeps ? 0 : barrier->wait.yields});
}

/* Writes flags and number to a line, and wakes threads that sleep on it. */
static void publish(const hd_barrier *barrier, hd_barrier_line *line, unsigned number, uint32_t flags) {
  line->flags[number & 1] = flags;
  /* Sequentially consistent on both sides: either this thread sees the sleeper or the sleeper sees the number. */
  atomic_store(&line->came, number);
  if (barrier->threads > 1 && atomic_load(&line->sleepers) > 0)
    hd__word_wake(&line->came);
}

/* Records that a thread has reached barrier `number`; its note is in the line already. */
static void announce(const hd_barrier *barrier, hd_barrier_line *line, unsigned number, uint32_t flags) {
  const int cpu = sched_getcpu();
  if (atomic_load_explicit(&line->cpu, memory_order_relaxed) != cpu)
    atomic_store_explicit(&line->cpu, cpu, memory_order_relaxed);
  publish(barrier, line, number, flags);
}

/* Waits for a line and adds its flags; false: the barrier is broken. */
static bool await_line(const hd_barrier *barrier, int thread, hd_barrier_line *line, unsigned number, uint32_t *flags) {
  if (!has_come(line, number))
    wait_for(barrier, thread, line, number);
  if (barrier->watch && !has_come(line, number))
    return false;
  *flags |= line->flags[number & 1];
  return true;
}

/* The kinds of notes of a barrier. */
typedef enum note_kind { NOTHING, NOTES, STAMPS } note_kind;

/* Merges a thread's note into its cache's: equal notes, or the latest stamp. Returns flags to add. */
static uint32_t merge_note(const hd_barrier_line *from, hd_barrier_line *into, unsigned number, note_kind what) {
  const char *note = from->note[number & 1];
  char *whole = into->note[number & 1];
  if (what == NOTES)
    return memcmp(note, whole, HD_BARRIER_NOTE_BYTES) ? HD_BARRIER_NOTES_DIFFER : 0;
  if (what == STAMPS && ((const hd_barrier_stamp *)(const void *)note)->ns > ((hd_barrier_stamp *)(void *)whole)->ns)
    memcpy(whole, note, sizeof(hd_barrier_stamp));
  return 0;
}

/* The first thread of a cache waits for the others of that cache, and writes the cache's line. */
static bool gather_cache(const hd_barrier *barrier, int thread, unsigned number, uint32_t flags, note_kind what) {
  const int home = barrier->line[thread].home;
  hd_barrier_line *whole = line_of_cache(barrier, home);
  if (what != NOTHING)
    memcpy(whole->note[number & 1], barrier->line[thread].note[number & 1], HD_BARRIER_NOTE_BYTES);
  for (int i = thread + 1; i < barrier->threads; i++) {
    hd_barrier_line *other = &barrier->line[i];
    if (other->home != home)
      continue;
    if (!await_line(barrier, thread, other, number, &flags))
      return false;
    flags |= merge_note(other, whole, number, what);
  }
  publish(barrier, whole, number, flags);
  return true;
}

static uint32_t await_caches(const hd_barrier *barrier, int thread, unsigned number, uint32_t flags, note_kind what) {
  const int home = barrier->line[thread].home;
  if (line_of_cache(barrier, home)->home == thread && !gather_cache(barrier, thread, number, flags, what))
    return flags | HD_BARRIER_BROKEN;
  for (int i = 1; i <= barrier->caches; i++)
    if (!await_line(barrier, thread, line_of_cache(barrier, (home + i) % barrier->caches), number, &flags))
      return flags | HD_BARRIER_BROKEN;
  return flags;
}

static uint32_t await_threads(const hd_barrier *barrier, int thread, unsigned number, uint32_t flags) {
  for (int i = 1; i < barrier->threads; i++)
    if (!await_line(barrier, thread, &barrier->line[(thread + i) % barrier->threads], number, &flags))
      return flags | HD_BARRIER_BROKEN;
  return flags;
}

/* Waits at barrier `number`; the note is in the thread's line already. Returns the OR of all flags. */
static uint32_t wait_at(const hd_barrier *barrier, int thread, unsigned number, uint32_t flags, note_kind what) {
  announce(barrier, &barrier->line[thread], number, flags);
  return barrier->caches > 1 ? await_caches(barrier, thread, number, flags, what)
                             : await_threads(barrier, thread, number, flags);
}

static unsigned next_of(const hd_barrier *barrier, int thread) {
  return atomic_load_explicit(&barrier->line[thread].came, memory_order_relaxed) + 1;
}

static unsigned last_of(const hd_barrier *barrier, int thread) { return next_of(barrier, thread) - 1; }

void hd__barrier_signal(hd_barrier *barrier, int line, unsigned number) {
  announce(barrier, &barrier->line[line], number, 0);
}

bool hd__barrier_has_come(const hd_barrier *barrier, int line, unsigned number) {
  return has_come(&barrier->line[line], number);
}

bool hd__barrier_await(const hd_barrier *barrier, int line, unsigned number) {
  hd_barrier_line *awaited = &barrier->line[line];
  const bool shares = atomic_load_explicit(&awaited->cpu, memory_order_relaxed) == sched_getcpu();
  poll(barrier, awaited, number, (hd_wait){shares ? 0 : barrier->wait.spins, barrier->wait.yields});
  return has_come(awaited, number);
}

uint32_t hd__barrier_wait(hd_barrier *barrier, int thread, uint32_t flags) {
  return wait_at(barrier, thread, next_of(barrier, thread), flags, NOTHING);
}

uint32_t hd__barrier_wait_with_note(hd_barrier *barrier, int thread, uint32_t flags, const void *note) {
  const unsigned number = next_of(barrier, thread);
  memcpy(barrier->line[thread].note[number & 1], note, HD_BARRIER_NOTE_BYTES);
  return wait_at(barrier, thread, number, flags, NOTES);
}

uint32_t hd__barrier_wait_with_stamp(hd_barrier *barrier, int thread, uint32_t flags, const hd_barrier_stamp *stamp) {
  const unsigned number = next_of(barrier, thread);
  memcpy(barrier->line[thread].note[number & 1], stamp, sizeof *stamp);
  return wait_at(barrier, thread, number, flags, STAMPS);
}

const void *hd__barrier_note(const hd_barrier *barrier, int self, int thread) {
  return barrier->line[thread].note[last_of(barrier, self) & 1];
}

const void *hd__barrier_note_of_cache(const hd_barrier *barrier, int self, int cache) {
  return line_of_cache(barrier, cache)->note[last_of(barrier, self) & 1];
}

hd_barrier_stamp hd__barrier_latest(const hd_barrier *barrier, int self) {
  const bool by_cache = barrier->caches > 1;
  const int lines = by_cache ? barrier->caches : barrier->threads;
  hd_barrier_stamp latest = {.ns = INT64_MIN};
  for (int i = 0; i < lines; i++) {
    hd_barrier_stamp stamp;
    memcpy(&stamp, by_cache ? hd__barrier_note_of_cache(barrier, self, i) : hd__barrier_note(barrier, self, i),
           sizeof stamp);
    if (stamp.ns > latest.ns || (stamp.ns == latest.ns && stamp.thread < latest.thread))
      latest = stamp;
  }
  return latest;
}
