/* Where lanes meet: the barrier between two phases, which also carries everybody's flags.
 *
 * Each lane has a line of its own with the number of meetings it came to; it is the only writer. A lane writes its
 * number and its flags, then waits until all other lines have caught up. Flags live in two places by the parity of the
 * meeting, so a fast lane that already enters the next meeting cannot overwrite what a slow one still reads.
 *
 *     line of lane i:  | came | sleepers | cpu | flags[0] | flags[1] | pad |
 *
 * Waiting is a bounded spin, then yields, then a futex on the line that is missing. Each lane notes the CPU on which it
 * came: who waits while a lane is missing that was last seen on the same CPU does not spin but makes way at once. So
 * lanes that share CPUs lose little, whether that was foreseen or not. Reads of shared memory after the meeting see all
 * writes before it. */
#ifndef HD_SYS_MEETING_H
#define HD_SYS_MEETING_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct hd_meeting_line {
  _Alignas(128) atomic_uint came; /* a futex word */
  atomic_uint sleepers;
  atomic_int cpu; /* where it was when it came last */
  uint32_t flags[2];
} hd_meeting_line;

typedef struct hd_meeting {
  hd_meeting_line *line; /* one per lane, zeroed by the owner before the first meeting */
  int lanes;
  int spins; /* looks at a line before yielding */
} hd_meeting;

/* Prepares for `lanes` lanes on lines that the caller owns; `crowded` says that there are more lanes than CPUs that may
 * be busy at once: then no one spins for long, whoever is where. */
void hd__meeting_init(hd_meeting *meeting, hd_meeting_line *lines, int lanes, int crowded);

/* Comes to the next meeting with `flags` and returns the OR of everybody's. */
uint32_t hd__meeting_come(hd_meeting *meeting, int lane, uint32_t flags);

#endif
