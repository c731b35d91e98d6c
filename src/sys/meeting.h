/* Where lanes meet: the barrier between two phases, which also carries everybody's flags.
 *
 * Each lane has a line of its own with the number of meetings it came to; it is the only writer. A lane writes its
 * number and its flags, then waits until all other lines have caught up. Flags live in two places by the parity of the
 * meeting, so a fast lane that already enters the next meeting cannot overwrite what a slow one still reads.
 *
 *     line of lane i:  | came | flags[0] | flags[1] | note[0] | note[1] |     64 bytes, which others look at
 *                      | sleepers | cpu | shared |                             64 bytes, which seldom change
 *
 * A note, a few bytes that only those who want them look at, travels with the number in the one cache line.
 *
 * Waiting is a bounded spin, then yields, then a futex on the line that is missing. Each lane notes the CPU on which it
 * came: who waits while a lane is missing that was last seen on the same CPU does not spin but makes way at once. So
 * lanes that share CPUs lose little, whether that was foreseen or not; now and then it sleeps, and the system may wake
 * it on a CPU that is free. Reads of shared memory after the meeting see all
 * writes before it.
 *
 * Where lanes live under several third-level caches, a look at a line of another one costs several times a look at one
 * of the own. There they meet on two levels: the first lane of each cache waits for its neighbours, then says in a line
 * of the cache that they all have come, with all their flags; and everybody waits for the caches' lines instead of for
 * lanes'. So what crosses between two caches is one line in either direction, however many lanes there are.
 *
 *     lines of lanes   0 1 2 3 | 4 5 6 7        each is looked at by the first lane of its own cache,
 *     of caches           A    |    B           each by all
 *
 * Lanes of several processes meet on lines in memory that all of them map. There somebody may be missing for ever, so
 * who sleeps wakes now and then, and looks: see hd_meeting_watch. */
#ifndef HD_SYS_MEETING_H
#define HD_SYS_MEETING_H

#include <stdatomic.h>
#include <stdint.h>

enum { HD_MEETING_NOTE_BYTES = 24 };

typedef struct hd_meeting_line {
  _Alignas(128) atomic_uint came; /* a futex word */
  uint32_t flags[2];
  _Alignas(8) char note[2][HD_MEETING_NOTE_BYTES];
  _Alignas(64) atomic_uint sleepers;
  atomic_int cpu; /* where it was when it came last */
  int shared;     /* how often in a row it had to wait for a lane on its own CPU */
  int cache;      /* of the machine that the lane lives under, -1: unknown; of those that lanes meet by, from 0 on: */
  int home;       /* its own; in a cache's line: its first lane */
} hd_meeting_line;

/* What a lane that sleeps asks for, every HD_MEETING_LOOK_MS. */
typedef struct hd_meeting_watch {
  const atomic_uint *broken;                             /* not 0: somebody will never come */
  void (*late)(void *self, int lane, int64_t waited_ns); /* this lane has not come yet, although it lives; any lane */
  void *self;
} hd_meeting_watch;

/* The lines that `lanes` lanes may need: their own, then the caches'. */
#define HD_MEETING_LINES(lanes) ((lanes) + (lanes) / 2)

typedef struct hd_meeting {
  hd_meeting_line *line; /* HD_MEETING_LINES, zeroed by the owner before the first meeting */
  int lanes;
  int caches;                    /* that lanes meet by; 1: by none */
  int spins;                     /* looks at a line before yielding */
  const hd_meeting_watch *watch; /* NULL: lanes of one process, which live and die together */
} hd_meeting;

enum { HD_MEETING_LOOK_MS = 50 };

/* Among the flags that come back: not all lanes came, and they never will; and, where lanes meet by caches, those of
 * one have different notes. */
#define HD_MEETING_BROKEN (1U << 31)
#define HD_MEETING_VARIED (1U << 30)

/* Says under which cache a lane lives, any number; -1: nobody knows. Before hd__meeting_join_caches. */
void hd__meeting_live(hd_meeting_line *lines, int lane, int cache);

/* Prepares for `lanes` lanes on lines that the caller owns; `crowded` says that there are more lanes than CPUs that may
 * be busy at once: then no one spins for long, whoever is where. */
void hd__meeting_init(hd_meeting *meeting, hd_meeting_line *lines, int lanes, int crowded);

/* The same on lines that are zero already and that lanes of other processes use, too. The watch must outlive it. */
void hd__meeting_join(hd_meeting *meeting, hd_meeting_line *lines, int lanes, int crowded,
                      const hd_meeting_watch *watch);

/* From now on, and before the first meeting, lanes meet on two levels if they said that they live under several caches,
 * two or more under one on average; else on one. All have said it, and all call it. */
void hd__meeting_join_caches(hd_meeting *meeting);

/* Comes to the next meeting with `flags` and returns the OR of everybody's, or HD_MEETING_BROKEN. */
uint32_t hd__meeting_come(hd_meeting *meeting, int lane, uint32_t flags);

/* The same with a note of HD_MEETING_NOTE_BYTES, which all can read until they come to the next meeting. */
uint32_t hd__meeting_come_with(hd_meeting *meeting, int lane, uint32_t flags, const void *note);

/* The note of `lane` at the meeting that `self` came to last; aligned for numbers of 8 bytes. */
const void *hd__meeting_note(const hd_meeting *meeting, int self, int lane);

/* The one note of all that live under `cache`, unless flags say that they varied. */
const void *hd__meeting_note_of_cache(const hd_meeting *meeting, int self, int cache);

/* A note that says when a lane came, by a clock of all lanes, and whatever else fits. */
typedef struct hd_meeting_stamp {
  int64_t ns;
  int32_t lane, more;
} hd_meeting_stamp;

/* Comes with a stamp; and the latest stamp of the meeting that `self` came to last, the first lane's among equals. */
uint32_t hd__meeting_come_at(hd_meeting *meeting, int lane, uint32_t flags, const hd_meeting_stamp *stamp);
hd_meeting_stamp hd__meeting_latest(const hd_meeting *meeting, int self);

#endif
