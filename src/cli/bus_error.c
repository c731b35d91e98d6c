/* Bus errors: a mapped file became shorter, or its disk failed, while a command reads it. The process ends by the
 * signal, as without a handler, so that its parent or supervisor can save. The handler first prints one line that
 * names the file.
 *
 * All of this runs in a signal handler: no memory, no stream, no lock. */
#include "cli/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"

enum { NAME_BYTES = 1024, LINE_BYTES = NAME_BYTES + 256 };

/* The list of mappings, character by character. */
typedef struct list {
  int fd;
  ssize_t at, filled;
  char bytes[4096];
} list;

/* The next character, -1: none. */
static int next(list *l) {
  if (l->at == l->filled) {
    l->filled = read(l->fd, l->bytes, sizeof l->bytes);
    l->at = 0;
  }
  return l->filled <= 0 ? -1 : (unsigned char)l->bytes[l->at++];
}

/* Reads a number in base 16; returns the character behind it. */
static int number(uintptr_t *out, list *l) {
  int c;
  for (*out = 0; (c = next(l)) != -1; *out = *out * 16 + (uintptr_t)(c <= '9' ? c - '0' : c - 'a' + 10))
    if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
      break;
  return c;
}

/* The file that is mapped at an address, "" if none is. A line is "low-high access offset device inode   name". */
static void file_at(char name[NAME_BYTES], uintptr_t place) {
  static list l;
  name[0] = 0;
  l = (list){.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
  for (int c = l.fd < 0 ? -1 : 0; c != -1 && !name[0];) {
    uintptr_t low, high;
    number(&low, &l);
    c = number(&high, &l);
    for (int blanks = 0; c != -1 && c != '\n' && (blanks < 5 || c == ' '); c = next(&l))
      blanks += c == ' ';
    size_t length = 0;
    for (; c != -1 && c != '\n'; c = next(&l))
      if (place >= low && place < high && length < NAME_BYTES - 1)
        name[length++] = (char)c;
    name[length] = 0;
  }
  if (l.fd >= 0)
    close(l.fd);
}

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
    file_at(name, (uintptr_t)info->si_addr);
  hd__utf8_clean(name, sizeof name, name, sizeof name);
  if (name[0] == '/' && strncmp(name, "/memfd:", 7) != 0) {
    size_t at = add(line, 0, "heddle: ");
    at = add(line, at, name);
    at = add(line, at,
             ": expected a file that stays as it is while it is read, found it cut short, or its disk failing or "
             "full; mend that and start again, a run with --resume\n");
    (void)!write(STDERR_FILENO, line, at);
  }
  signal(number, SIG_DFL);
  raise(number); /* delivered when this handler returns */
}

void cli_catch_bus_errors(void) {
  struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
  sigaction(SIGBUS, &action, NULL);
}
