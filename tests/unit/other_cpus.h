/* Replaces the affinity calls of the system by those of a machine with CPUs 0 to OTHER_CPUS - 1, and records the
 * calls, so that a test has the same CPUs on every machine. OTHER_CPUS is a multiple of 64. OTHER_WORDS, an
 * initializer, are the CPUs that a thread may use at first. */
#ifndef HD_TESTS_OTHER_CPUS_H
#define HD_TESTS_OTHER_CPUS_H

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "platform/cpu_set.h"

static _Thread_local hd_cpu_set allowed = {.word = OTHER_WORDS};

/* As the system: a set that is too small is refused. */
int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set) {
  if (bytes < OTHER_CPUS / 8) {
    errno = EINVAL;
    return -1;
  }
  memset(set, 0, bytes);
  memcpy(set, &allowed, bytes < sizeof allowed ? bytes : sizeof allowed);
  return 0;
}

int sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *set) {
  hd_cpu_set wanted = {0};
  memcpy(&wanted, set, bytes < OTHER_CPUS / 8 ? bytes : OTHER_CPUS / 8);
  if (hd__cpu_set_count(&wanted) == 0) {
    errno = EINVAL;
    return -1;
  }
  allowed = wanted;
  return 0;
}

#endif
