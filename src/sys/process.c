/* Reading /proc/PID/stat, and sending signals through descriptors of processes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

uint64_t hd__process_start(int pid) {
  char text[1024], path[32] = "/proc/self/stat";
  if (pid > 0)
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *file = fopen(path, "re");
  if (!file)
    return 0;
  size_t got = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[got] = 0;
  /* Field 22, counted behind the parenthesis that ends the name (field 2), which may hold spaces. */
  const char *at = strrchr(text, ')');
  unsigned long long start = 0;
  if (!at ||
      sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &start) != 1)
    return 0;
  return start;
}

/* A descriptor stays with its process: opened first, then compared, there is no gap in which the number could come to
 * mean another one. */
int hd__process_signal(int pid, uint64_t start, int number) {
  if (pid <= 0)
    return ESRCH;
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0)
    return errno;
  int error = hd__process_start(pid) == start && start > 0 ? 0 : ESRCH;
  if (!error && syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) != 0)
    error = errno;
  close(fd);
  return error;
}
