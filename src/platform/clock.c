/* Reading clocks: see clock.h. */
#include "platform/clock.h"

#include <time.h>
#include <unistd.h>

#include "platform/process.h"

static double read_clock_s(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double hd__clock_s(void) { return read_clock_s(CLOCK_MONOTONIC); }

double hd__clock_thread_s(void) { return read_clock_s(CLOCK_THREAD_CPUTIME_ID); }

int64_t hd__clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double hd__clock_coarse_s(void) { return read_clock_s(CLOCK_MONOTONIC_COARSE); }

double hd__clock_process_s(void) {
  uint64_t start = hd__process_start(0);
  double age = read_clock_s(CLOCK_BOOTTIME) - (double)start / (double)sysconf(_SC_CLK_TCK);
  return start > 0 && age > 0 ? age : 0;
}
