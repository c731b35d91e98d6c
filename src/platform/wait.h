/* How a thread waits for others: it spins, then yields its CPU, then sleeps on what wakes it. The numbers of turns,
 * here alone, were measured (docs/performance.md); crowded: there are more threads than CPUs.
 *
 *     for (hd_wait wait = hd__wait_barrier(crowded); !has_come();)
 *       if (!hd__wait_turn(&wait))
 *         sleep_until_it_comes(); */
#pragma once

#include <sched.h>
#include <stdbool.h>

/* Turns that are left. */
typedef struct hd_wait {
  int spins, yields;
} hd_wait;

/* At a barrier, and for a message of another rank. */
static inline hd_wait hd__wait_barrier(bool crowded) { return (hd_wait){crowded ? 50 : 4000, 100}; }

/* For a call between ranks: spins for a fraction of a millisecond, or for about as long as waking a thread takes. It
 * does not yield: on a busy CPU a thread that yields comes back later than one that sleeps. */
static inline hd_wait hd__wait_call(bool crowded) { return (hd_wait){crowded ? 200 : 4000, 0}; }

/* For a loader's batch. */
static inline hd_wait hd__wait_batch(void) { return (hd_wait){1000, 0}; }

/* For a transfer between hosts, which is tested in each turn; the caller yields afterwards. */
static inline hd_wait hd__wait_transfer(void) { return (hd_wait){2000, 0}; }

/* The pause instruction of a spin loop. */
static inline void hd__relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* One turn; false: there is none left. */
static inline bool hd__wait_turn(hd_wait *wait) {
  if (wait->spins > 0) {
    wait->spins--;
    hd__relax();
    return true;
  }
  if (wait->yields > 0) {
    wait->yields--;
    sched_yield();
    return true;
  }
  return false;
}
