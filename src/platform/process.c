/* Reading /proc/PID/stat, and sending signals through descriptors of processes. */
#include "platform/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/file.h"

/* The fields of /proc/PID/stat that are used. */
typedef struct stat_line {
  char state;
  unsigned long long start;
  long threads;
  int end;
  bool whole; /* the line has `end` */
} stat_line;

/* For this process the line of its first thread is read: under an emulator /proc/self/stat is synthetic, and its
 * start differs from what other processes see.
 *
 * Fields are counted after the parenthesis that ends the name (field 2), which may contain spaces: the state is field
 * 3, the number of threads 20, the start 22, and the exit status 52. */
static bool read_stat(stat_line *out, int pid) {
  const int self = (int)getpid();
  char text[1024], path[48];
  snprintf(path, sizeof path, pid > 0 && pid != self ? "/proc/%d/stat" : "/proc/self/task/%d/stat",
           pid > 0 ? pid : self);
  hd__file_text(text, sizeof text, path);
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

int64_t hd__process_peak_bytes(void) {
  char text[4096];
  struct rusage usage;
  long long kib;
  hd__file_text(text, sizeof text, "/proc/self/status");
  const char *at = strstr(text, "\nVmHWM:");
  if (at && sscanf(at, "\nVmHWM: %lld", &kib) == 1)
    return kib * 1024;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0; /* there is no /proc */
}

void hd__process_name(char *out, size_t bytes, int pid) {
  char path[48];
  snprintf(path, sizeof path, "/proc/%d/comm", pid);
  hd__file_text(out, bytes, path);
  out[strcspn(out, "\n")] = 0;
}

hd_process_state hd__process_read(int pid, uint64_t start) {
  stat_line line;
  if (pid > 0 && start == 0) /* its start could not be read: there is no /proc */
    return (hd_process_state){.has_ended = kill(pid, 0) != 0 && errno == ESRCH};
  if (pid <= 0 || !read_stat(&line, pid) || line.start != start)
    return (hd_process_state){.has_ended = true};
  const bool ended = line.state == 'Z' || line.state == 'X';
  return (hd_process_state){.state = line.state,
                            .has_ended = ended,
                            .lingers = ended && line.threads > 1,
                            .end_is_known = ended && line.whole,
                            .end = line.end};
}

static int open_number(int pid) { return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1; }

static int send_signal(int fd, int number) {
  return syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) == 0 ? 0 : errno;
}

/* A descriptor stays with its process: since the start is compared after opening, the number cannot be reused in
 * between. Without /proc there is nothing to compare. */
int hd__process_open(int pid, uint64_t start) {
  const int fd = open_number(pid);
  if (fd < 0 || start == 0 || hd__process_start(pid) == start)
    return fd;
  close(fd);
  return -1;
}

/* Kernels before 5.3 and some containers give no descriptor: then the number could be reused between the check and
 * the kill. */
int hd__process_signal(int pid, uint64_t start, int number) {
  if (pid <= 0)
    return ESRCH;
  const int fd = open_number(pid);
  if (fd < 0 && (errno == ESRCH || errno == EINVAL))
    return ESRCH;
  if (fd < 0)
    return start == 0 || hd__process_start(pid) != start ? ESRCH : kill(pid, number) ? errno : 0;
  const int error = hd__process_start(pid) == start && start > 0 ? send_signal(fd, number) : ESRCH;
  close(fd);
  return error;
}

static bool is_child(int pid) {
  siginfo_t info;
  return pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

int hd__child_open(int pid) {
  const int fd = open_number(pid);
  if (fd < 0 || is_child(pid))
    return fd;
  close(fd);
  return -1;
}

void hd__child_signal(int fd, int pid, int number) {
  if ((fd < 0 || send_signal(fd, number) == ENOSYS) && is_child(pid))
    kill(pid, number);
}
