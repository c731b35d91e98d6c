/* stranger run PROGRAM ARGUMENT...: runs a program as a second user, of no group.
 * stranger ranks: holds, as that user, the rendezvous names of the caller's ranks, which the environment gives.
 * stranger cpus: holds the names of CPUs 0 and 1.
 *
 * Both say "r" when they hold all, and then for each process that comes "c", and "h" if it said something. Exit status
 * 77: there is no second user. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>

#include "base/status.h"
#include "exec/exchange/rendezvous.h"
#include "unit/stranger.h"

int main(int argc, char **argv) {
  hd_ctx ctx = {0};
  hd_start start;
  char key[600];
  names held = {.count = 0};
  const char *what = argc > 1 ? argv[1] : "";
  if (!has_second_user())
    return 77;
  if (!strcmp(what, "ranks") && hd__start_read(&start, &ctx) == HD_OK) {
    snprintf(key, sizeof key, "env|%s", start.key);
    held = names_of(key, NAMES);
  } else if (!strcmp(what, "cpus")) {
    held = names_of_cpus(0, NAMES, 2);
  }
  if (!become_stranger())
    return 77;
  if (!strcmp(what, "run") && argc > 2)
    execvp(argv[2], argv + 2);
  if (held.count > 0)
    squat(&held, STDOUT_FILENO);
  fprintf(stderr, "stranger: expected run PROGRAM, ranks or cpus, found '%s' (%s)\n", what, strerror(errno));
  return 2;
}
