/* The barrier between two phases. It also computes the OR of all threads' flags.
 *
 * Each thread is the only writer of one line, which holds the number of barriers that the thread has reached. A
 * thread writes its number and its flags, then waits until all other lines have that number. There are two copies of
 * the flags, for even and odd barriers, so a fast thread that already enters the next barrier does not overwrite
 * what a slow one still reads.
 *
 *     line of thread i:  | came | flags[0] | flags[1] | note[0] | note[1] |     64 bytes, which other threads poll
 *                        | sleepers | cpu | shared |                            64 bytes, which seldom change
 *
 * A note is a few bytes of optional data in the same cache line as the number.
 *
 * Waiting is a bounded spin, then yields, then a futex on the missing line. Each thread records the CPU on which it
 * reached the barrier: a thread does not spin, but yields at once, while a missing thread was last seen on its CPU.
 * So threads that share CPUs lose little, whether that was planned or not; at intervals such a thread sleeps, so
 * that the system may wake it on a free CPU. Reads of shared memory after the barrier see all writes before it.
 *
 * Polling a line of a thread under another L3 cache costs several times as much as polling one under the same. For
 * threads under several L3 caches the barrier has two levels: the first thread of each cache waits for the other
 * threads of that cache, then writes the cache's line, with the OR of their flags; all threads wait for the lines of
 * caches instead of threads. So one line is transferred between two caches in either direction, for any number of
 * threads.
 *
 *     lines of threads   0 1 2 3 | 4 5 6 7        each is polled by the first thread of the same cache,
 *     of caches             A    |    B           each by all threads
 *
 * Threads of several processes use lines in memory that all of them map. A thread of another process may never come,
 * so a sleeping thread wakes at intervals and checks: see hd_barrier_watch. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/tools_api.h"
#include "platform/wait.h"

enum { HD_BARRIER_NOTE_BYTES = 24 };

typedef struct hd_barrier_line {
  _Alignas(128) atomic_uint came; /* a futex word */
  uint32_t flags[2];
  _Alignas(8) char note[2][HD_BARRIER_NOTE_BYTES];
  _Alignas(64) atomic_uint sleepers;
  atomic_int cpu; /* of the thread at its last barrier */
  int shared;     /* the number of times in a row that it had to wait for a thread on the same CPU */
  int cache;      /* the machine's number of the thread's L3 cache, -1: unknown */
  int home;       /* the barrier's number of that cache, from 0 on; in a cache's line: its first thread */
} hd_barrier_line;

/* What a sleeping thread checks, every HD_BARRIER_CHECK_MS. */
typedef struct hd_barrier_watch {
  const atomic_uint *broken;                               /* not 0: the barrier will never be complete */
  void (*late)(void *self, int thread, int64_t waited_ns); /* `thread` has not come yet; called by any waiting thread */
  void *self;
} hd_barrier_watch;

/* The lines that `threads` threads may need: those of threads, then those of caches. */
#define HD_BARRIER_LINES(threads) ((threads) + (threads) / 2)

typedef struct hd_barrier {
  hd_barrier_line *line; /* HD_BARRIER_LINES, zeroed by the owner before the first barrier */
  int threads;
  int caches;                    /* of a barrier of two levels; 1: one level */
  hd_wait wait;                  /* turns before sleeping */
  const hd_barrier_watch *watch; /* NULL: threads of one process, which cannot end alone */
} hd_barrier;

enum { HD_BARRIER_CHECK_MS = 50 };

/* Among the returned flags: not all threads came, and they never will; and, with two levels, threads of one cache have
 * different notes. */
#define HD_BARRIER_BROKEN (1U << 31)
#define HD_BARRIER_NOTES_DIFFER (1U << 30)

/* Sets the number of a thread's L3 cache; -1: unknown. Before hd__barrier_join_caches. */
HD_TOOLS_API void hd__barrier_set_cache(hd_barrier_line *lines, int thread, int cache);

/* Prepares for `threads` threads on lines that the caller owns; `crowded`: there are more threads than CPUs that may
 * be busy at once, so all threads spin only briefly. */
HD_TOOLS_API void hd__barrier_init(hd_barrier *barrier, hd_barrier_line *lines, int threads, int crowded);

/* The same on zeroed lines that threads of other processes use, too. The watch must outlive the barrier. */
void hd__barrier_join(hd_barrier *barrier, hd_barrier_line *lines, int threads, int crowded,
                      const hd_barrier_watch *watch);

/* Makes a barrier of two levels if the threads have several caches, with two or more threads per cache on average;
 * else of one. Before the first barrier, by all threads, after all caches were set. */
HD_TOOLS_API void hd__barrier_join_caches(hd_barrier *barrier);

/* Waits at the next barrier; returns the OR of all threads' `flags`, or HD_BARRIER_BROKEN. */
HD_TOOLS_API uint32_t hd__barrier_wait(hd_barrier *barrier, int thread, uint32_t flags);

/* The same with a note of HD_BARRIER_NOTE_BYTES, which all threads can read until they reach the next barrier. */
uint32_t hd__barrier_wait_with_note(hd_barrier *barrier, int thread, uint32_t flags, const void *note);

/* The note of `thread` at the last barrier of `self`; aligned for numbers of 8 bytes. */
const void *hd__barrier_note(const hd_barrier *barrier, int self, int thread);

/* The common note of the threads of `cache`, unless the flags hold HD_BARRIER_NOTES_DIFFER. */
const void *hd__barrier_note_of_cache(const hd_barrier *barrier, int self, int cache);

/* The lines as signals of single threads: writes that line `line` has reached `number`, which must grow, in steps below
 * 2^31; whether it has; and waits until it has. False: broken. */
void hd__barrier_signal(hd_barrier *barrier, int line, unsigned number);
bool hd__barrier_has_come(const hd_barrier *barrier, int line, unsigned number);
bool hd__barrier_await(const hd_barrier *barrier, int line, unsigned number);

/* A note with the time at which a thread came, by a clock common to all threads, and one more number. */
typedef struct hd_barrier_stamp {
  int64_t ns;
  int32_t thread, more;
} hd_barrier_stamp;

/* Waits with a stamp; and the latest stamp of the last barrier of `self`, that of the first thread among equals. */
uint32_t hd__barrier_wait_with_stamp(hd_barrier *barrier, int thread, uint32_t flags, const hd_barrier_stamp *stamp);
hd_barrier_stamp hd__barrier_latest(const hd_barrier *barrier, int self);
