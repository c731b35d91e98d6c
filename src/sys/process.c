/* Reading /proc/PID/stat, and sending signals through descriptors of processes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What of /proc/PID/stat is asked for. */
typedef struct stat_line {
  char state;
  unsigned long long start;
  long threads;
  int end;
  bool whole; /* `end` was there */
} stat_line;

/* This process's own is the line of its first thread: that of /proc/self/stat is made up where the program runs under
 * an emulator, and its start is not what others see.
 *
 * Fields are counted behind the parenthesis that ends the name (field 2), which may hold spaces: the state is field 3,
 * the number of threads 20, the start 22, and how it ended 52. */
static bool read_stat(stat_line *out, int pid) {
  const int own = (int)getpid();
  char text[1024], path[48];
  snprintf(path, sizeof path, pid > 0 && pid != own ? "/proc/%d/stat" : "/proc/self/task/%d/stat", pid > 0 ? pid : own);
  FILE *file = fopen(path, "re");
  if (!file)
    return false;
  size_t got = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[got] = 0;
  const char *at = strrchr(text, ')');
  *out = (stat_line){0};
  int field = 2;
  for (at = at ? strchr(at, ' ') : NULL; at && *at == ' '; at += 1 + strcspn(at + 1, " \n")) {
    field++;
    if (field == 3)
      out->state = at[1];
    else if (field == 20)
      out->threads = strtol(at + 1, NULL, 10);
    else if (field == 22)
      out->start = strtoull(at + 1, NULL, 10);
    else if (field == 52)
      out->end = (int)strtol(at + 1, NULL, 10);
  }
  out->whole = field >= 52;
  return field >= 22;
}

uint64_t hd__process_start(int pid) {
  stat_line line;
  return read_stat(&line, pid) ? line.start : 0;
}

hd_process_look hd__process_look(int pid, uint64_t start) {
  stat_line line;
  if (pid > 0 && start == 0) /* nothing could be read of it when it lived: there is no /proc */
    return (hd_process_look){.has_ended = kill(pid, 0) != 0 && errno == ESRCH};
  if (pid <= 0 || !read_stat(&line, pid) || line.start != start)
    return (hd_process_look){.has_ended = true};
  const bool ended = line.state == 'Z' || line.state == 'X';
  return (hd_process_look){.state = line.state,
                           .has_ended = ended,
                           .lingers = ended && line.threads > 1,
                           .knows_end = ended && line.whole,
                           .end = line.end};
}

/* A descriptor stays with its process: opened first, then compared, there is no gap in which the number could come to
 * mean another one. Kernels before 5.3 and some containers give none: then the gap is as short as can be. */
int hd__process_signal(int pid, uint64_t start, int number) {
  if (pid <= 0)
    return ESRCH;
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0 && (errno == ESRCH || errno == EINVAL))
    return ESRCH;
  if (fd < 0)
    return start == 0 || hd__process_start(pid) != start ? ESRCH : kill(pid, number) ? errno : 0;
  int error = hd__process_start(pid) == start && start > 0 ? 0 : ESRCH;
  if (!error && syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) != 0)
    error = errno;
  close(fd);
  return error;
}
