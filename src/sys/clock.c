/* Clocks. The process's start time comes from /proc/self/stat, in ticks since boot. */
#include "sys/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double read_clock_s(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double hd__clock_s(void) { return read_clock_s(CLOCK_MONOTONIC); }

int64_t hd__clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double hd__clock_process_s(void) {
  FILE *file = fopen("/proc/self/stat", "r");
  if (!file)
    return 0;
  char text[1024];
  size_t got = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[got] = 0;
  /* Field 22, counted behind the parenthesis that ends the name (field 2), which may hold spaces. */
  char *at = strrchr(text, ')');
  unsigned long long start = 0;
  if (!at ||
      sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &start) != 1)
    return 0;
  double age = read_clock_s(CLOCK_BOOTTIME) - (double)start / (double)sysconf(_SC_CLK_TCK);
  return age > 0 ? age : 0;
}
