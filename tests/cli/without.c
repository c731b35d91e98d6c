/* without CALL... -- PROGRAM ARGUMENT...: runs a program in which the system refuses these calls, as old kernels and
 * containers do. Exit status 77: the system takes no filter. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
  const char *name;
  long number;
} calls[] = {{"pidfd_open", SYS_pidfd_open},
             {"pidfd_send_signal", SYS_pidfd_send_signal},
             {"memfd_create", SYS_memfd_create},
             {"io_uring_setup", SYS_io_uring_setup},
             {"renameat2", SYS_renameat2},
#ifdef SYS_close_range
             {"close_range", SYS_close_range},
#endif
             {"sched_setaffinity", SYS_sched_setaffinity},
             {"mbind", SYS_mbind},
             {"madvise", SYS_madvise}};

enum { MOST = 16 };

static int refuse(const long *number, int count) {
  struct sock_filter program[2 * MOST + 2];
  unsigned short n = 0;
  program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int i = 0; i < count; i++) {
    program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number[i], 0, 1);
    program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
  }
  program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog filter = {.len = n, .filter = program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

int main(int argc, char **argv) {
  long number[MOST];
  int count = 0, at = 1;
  for (; at < argc && strcmp(argv[at], "--") && count < MOST; at++)
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
      if (!strcmp(argv[at], calls[i].name))
        number[count++] = calls[i].number;
  if (at + 1 >= argc || count != at - 1)
    return fprintf(stderr, "without: expected calls, -- and a program, found something else\n"), 2;
  if (refuse(number, count) != 0)
    return 77;
  execvp(argv[at + 1], argv + at + 1);
  perror(argv[at + 1]);
  return 127;
}
