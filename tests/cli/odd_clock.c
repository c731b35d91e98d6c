/* Preloaded: the clock of the day jumps by an hour, forth and back, from one reading to the next, as it may when it
 * is set. The monotonic clocks stay as they are. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { JUMP_S = 3600 };

static time_t jump(void) {
  static atomic_int looks;
  return atomic_fetch_add(&looks, 1) % 2 ? JUMP_S : -JUMP_S;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *at) {
  const int code = (int)syscall(SYS_clock_gettime, clock, at);
  if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    at->tv_sec += jump();
  return code;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  const int code = (int)syscall(SYS_gettimeofday, at, zone);
  if (code == 0)
    at->tv_sec += jump();
  return code;
}

__attribute__((visibility("default"))) time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out)
    *out = now.tv_sec;
  return now.tv_sec;
}
