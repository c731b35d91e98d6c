/* Runs a program on a new terminal and simulates its user, for tests.
 *
 *     on_terminal ROWSxCOLUMNS OUTPUT EVENT... -- PROGRAM ARGUMENT...
 *     on_terminal                 says why no terminal can be had here, and exits with 99; else with 0
 *
 * An EVENT is wait:TEXT (until the program writes it, after what was waited for last and, as far as that was read,
 * after what its user did since), send:KEYS (\e is escape), size:ROWSxCOLUMNS, signal:NUMBER to the program, stopped:
 * (until it has stopped), or plain: (the terminal must echo and edit lines, as a shell needs it; so it must at the
 * end). Everything that the program writes goes to OUTPUT. Exits as the program does, 128 and the signal that killed
 * it; 99 and a line if a text does not come in minutes, or the terminal is not as it must be. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { LIMIT_MS = 120000, TROUBLE = 99, SEEN_BYTES = 1 << 22 };

static int terminal, program;
static FILE *output;
static char seen[SEEN_BYTES]; /* since the text that was waited for last, or since what its user did last */
static size_t seen_bytes;

static void give_up(const char *why, const char *what) {
  fprintf(stderr, "on_terminal: %s%s\n", why, what);
  if (program > 0)
    kill(program, SIGKILL);
  exit(TROUBLE);
}

static void set_size(const char *text) {
  struct winsize size = {0};
  seen_bytes = 0;
  if (sscanf(text, "%hux%hu", &size.ws_row, &size.ws_col) != 2 || ioctl(terminal, TIOCSWINSZ, &size) != 0)
    give_up("expected ROWSxCOLUMNS, found ", text);
}

/* Reads what the program wrote; 0 if there is nothing. */
static int read_some(void) {
  if (seen_bytes == sizeof seen) /* only the end matters to a text that is waited for */
    seen_bytes = 0;
  const ssize_t got = read(terminal, seen + seen_bytes, sizeof seen - seen_bytes);
  if (got <= 0)
    return 0;
  fwrite(seen + seen_bytes, 1, (size_t)got, output);
  seen_bytes += (size_t)got;
  return 1;
}

static void wait_for(const char *text) {
  struct pollfd input = {.fd = terminal, .events = POLLIN};
  const char *found;
  for (int waited_ms = 0; !(found = memmem(seen, seen_bytes, text, strlen(text))); waited_ms += 20)
    if ((poll(&input, 1, 20) == 1 && !read_some()) || waited_ms > LIMIT_MS)
      give_up("the program never wrote: ", text);
  const size_t done = (size_t)(found - seen) + strlen(text); /* what one read brought may hold the next text, too */
  seen_bytes -= done;
  memmove(seen, seen + done, seen_bytes);
}

static void send_keys(const char *keys) {
  seen_bytes = 0;
  for (; *keys; keys++) {
    const int escape = keys[0] == '\\' && keys[1] == 'e';
    if (write(terminal, escape ? "\033" : keys, 1) != 1)
      give_up("the terminal takes no keys", "");
    keys += escape;
  }
}

static void await_stop(const char *nothing) {
  int status;
  if (waitpid(program, &status, WUNTRACED) != program || !WIFSTOPPED(status))
    give_up("the program did not stop", nothing);
}

static void check_plain(const char *nothing) {
  struct termios mode;
  if (tcgetattr(terminal, &mode) != 0 || (mode.c_lflag & (ICANON | ECHO)) != (ICANON | ECHO))
    give_up("the terminal was not put back", nothing);
}

static void send_signal(const char *number) {
  seen_bytes = 0;
  kill(program, atoi(number));
}

static void play(const char *event) {
  static const struct {
    const char *name;
    void (*play)(const char *what);
  } list[] = {{"wait:", wait_for},      {"send:", send_keys},     {"size:", set_size},
              {"signal:", send_signal}, {"stopped:", await_stop}, {"plain:", check_plain}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (!strncmp(event, list[i].name, strlen(list[i].name))) {
      list[i].play(event + strlen(list[i].name));
      return;
    }
  give_up("expected an event, found ", event);
}

/* Reads on until the program has ended; its status. */
static int await_end(void) {
  struct pollfd input = {.fd = terminal, .events = POLLIN};
  int status = 0, ended = 0, waited_ms = 0;
  while (!ended) {
    ended = waitpid(program, &status, WNOHANG) == program;
    while (poll(&input, 1, ended ? 0 : 20) == 1 && read_some())
      waited_ms = 0;
    if ((waited_ms += 20) > LIMIT_MS)
      give_up("the program did not end", "");
  }
  return status;
}

/* As a shell does it: a group of its own in the foreground of our session, so that it can be stopped. */
static void run(char **argv, int other) {
  signal(SIGTTOU, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  program = fork();
  if (program != 0)
    return;
  setpgid(0, 0);
  tcsetpgrp(other, getpid());
  signal(SIGTTOU, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  for (int fd = 0; fd < 3; fd++)
    dup2(other, fd);
  close(other);
  close(terminal);
  setenv("TERM", "xterm", 1);
  execvp(argv[0], argv);
  _exit(127);
}

/* A terminal to lead; its other side, which is the program's. */
static int open_terminal(void) {
  terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0)
    give_up("expected a pseudoterminal, found ", strerror(errno));
  const char *name = ptsname(terminal);
  const int other = name && setsid() >= 0 ? open(name, O_RDWR | O_NOCTTY | O_CLOEXEC) : -1;
  if (other < 0 || ioctl(other, TIOCSCTTY, 0) != 0)
    give_up("expected to lead a session on a pseudoterminal, found ", strerror(errno));
  return other;
}

int main(int argc, char **argv) {
  int first = 3, status;
  if (argc == 1)
    return open_terminal() < 0;
  while (first < argc && strcmp(argv[first], "--"))
    first++;
  if (first + 1 >= argc || !(output = fopen(argv[2], "wb")))
    give_up("usage: on_terminal ROWSxCOLUMNS OUTPUT EVENT... -- PROGRAM ARGUMENT...", "");
  /* Held open here too: then what the program wrote last can be read, and the modes be seen, after its end. */
  const int other = open_terminal();
  set_size(argv[1]);
  run(argv + first + 1, other);
  for (int i = 3; i < first; i++)
    play(argv[i]);
  status = await_end();
  check_plain("");
  fclose(output);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
