/* without CALL... -- PROGRAM ARGUMENT...: runs a program in which the system refuses these calls, as old kernels and
 * containers do. Exit status 77: the system takes no filter. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "refused_calls.h"

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

int main(int argc, char **argv) {
  refused_call refused[MOST];
  int count = 0, at = 1;
  for (; at < argc && strcmp(argv[at], "--") && count < MOST; at++)
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
      if (!strcmp(argv[at], calls[i].name))
        refused[count++] = (refused_call){calls[i].number, ENOSYS};
  if (at + 1 >= argc || count != at - 1)
    return fprintf(stderr, "without: expected calls, -- and a program, found something else\n"), 2;
  if (refuse_calls(refused, count) != 0)
    return 77;
  execvp(argv[at + 1], argv + at + 1);
  perror(argv[at + 1]);
  return 127;
}
