/* Bus errors: a mapped file became shorter, or its disk failed, while a command reads it. The process ends by the
 * signal, as without a handler, so that its parent or supervisor can save. The handler first prints one line that
 * names the file.
 *
 * All of this runs in a signal handler: no memory, no stream, no lock. */
#include "cli/cli.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "platform/this_program.h"

enum { NAME_BYTES = 1024, LINE_BYTES = NAME_BYTES + 256 };

static size_t add(char line[LINE_BYTES], size_t at, const char *text) {
  while (*text && at < LINE_BYTES)
    line[at++] = *text++;
  return at;
}

/* Several threads may get the signal at once: the first prints the line, and ends the process. */
static void on_bus_error(int number, siginfo_t *info, void *context) {
  static atomic_flag told = ATOMIC_FLAG_INIT;
  static char line[LINE_BYTES], name[NAME_BYTES];
  while (atomic_flag_test_and_set(&told))
    pause();
  if (info->si_code == BUS_ADRERR)
    hd__program_file_at(name, sizeof name, (uintptr_t)info->si_addr);
  hd__utf8_clean(name, sizeof name, name, sizeof name);
  if (name[0] == '/' && strncmp(name, "/memfd:", 7) != 0) {
    size_t at = add(line, 0, "heddle: ");
    at = add(line, at, name);
    at = add(line, at,
             ": expected a file that does not change while it is read, found it truncated, or its disk failing or "
             "full; fix that and start again (a run: with --resume)\n");
    (void)!write(STDERR_FILENO, line, at);
  }
  signal(number, SIG_DFL);
  raise(number); /* delivered when this handler returns */
}

void cli_catch_bus_errors(void) {
  struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
  sigaction(SIGBUS, &action, NULL);
}
