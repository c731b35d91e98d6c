/* Escape codes, modes and signals of a terminal: see terminal.h.
 *
 * Signals are blocked except during the wait, so that none is lost between a check of the flags and the wait. */
#include "cli/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

/* Another screen, no cursor; and back. */
static const char enter[] = "\033[?1049h\033[?25l\033[2J", leave[] = "\033[0m\033[?25h\033[?1049l";

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static const int crashing[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { ENDINGS = 4, CRASHINGS = 5, ESCAPE = 033, ESCAPE_MS = 50, FALLBACK_ROWS = 24, FALLBACK_COLUMNS = 80 };

static struct termios before;
static sigset_t normally;
static volatile sig_atomic_t ended_by, resized, suspended, continued, is_open;
static unsigned char typed[256];
static size_t typed_count;
static int gone;

static void on_ending(int number) { ended_by = number; }
static void on_resize(int number) { resized = 1; }
static void on_suspend(int number) { suspended = 1; }
static void on_continue(int number) { continued = 1; }

static const struct {
  int number;
  void (*handler)(int);
} noted[] = {{SIGWINCH, on_resize}, {SIGCONT, on_continue}, {SIGTSTP, on_suspend}};

/* Safe in a signal handler. */
static void give_back(void) {
  if (!is_open)
    return;
  is_open = 0;
  (void)!write(STDOUT_FILENO, leave, sizeof leave - 1);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

static void on_crash(int number) {
  give_back();
  raise(number); /* the default action is installed by now */
}

static void take(void) {
  struct termios raw = before;
  raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  is_open = 1;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  terminal_write(enter, sizeof enter - 1);
}

static void handle(int number, void (*handler)(int), int flags) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
  sigaction(number, &action, NULL);
}

static void handle_signals(void) {
  sigset_t blocked;
  sigemptyset(&blocked);
  for (int i = 0; i < ENDINGS; i++) {
    struct sigaction was;
    if (sigaction(ending[i], NULL, &was) == 0 && was.sa_handler == SIG_IGN)
      continue; /* inherited as ignored */
    handle(ending[i], on_ending, 0);
    sigaddset(&blocked, ending[i]);
  }
  for (size_t i = 0; i < sizeof noted / sizeof *noted; i++) {
    handle(noted[i].number, noted[i].handler, 0);
    sigaddset(&blocked, noted[i].number);
  }
  for (int i = 0; i < CRASHINGS; i++)
    handle(crashing[i], on_crash, (int)SA_RESETHAND);
  sigprocmask(SIG_BLOCK, &blocked, &normally);
}

int terminal_open(void) {
  if (!cli_is_terminal() || !isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0)
    return -1;
  handle_signals();
  take();
  return 0;
}

void terminal_close(void) {
  give_back();
  for (int i = 0; i < CRASHINGS; i++)
    handle(crashing[i], SIG_DFL, 0);
}

/* Ctrl-Z: stops with the terminal restored. */
static void suspend(void) {
  sigset_t stop;
  suspended = 0;
  give_back();
  handle(SIGTSTP, SIG_DFL, 0);
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  raise(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stop, NULL); /* stops here */
  sigprocmask(SIG_BLOCK, &stop, NULL);
  handle(SIGTSTP, on_suspend, 0);
  continued = 1;
}

int terminal_signal(void) { return ended_by; }

void terminal_size(int *rows, int *columns) {
  struct winsize size;
  const int known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  *rows = known && size.ws_row > 0 ? size.ws_row : FALLBACK_ROWS;
  *columns = known && size.ws_col > 0 ? size.ws_col : FALLBACK_COLUMNS;
}

int terminal_write(const char *text, size_t length) {
  while (length > 0) {
    const ssize_t written = write(STDOUT_FILENO, text, length);
    if (written < 0 && errno != EINTR)
      return -1;
    text += written > 0 ? written : 0;
    length -= written > 0 ? (size_t)written : 0;
  }
  return 0;
}

/* ---- Keys ---- */

static void drop_typed(size_t count) {
  typed_count -= count;
  memmove(typed, typed + count, typed_count);
}

/* Reads typed characters, or notes the end of input. */
static void read_typed(void) {
  const ssize_t got = read(STDIN_FILENO, typed + typed_count, sizeof typed - typed_count);
  if (got > 0)
    typed_count += (size_t)got;
  else if (got == 0 || (errno != EINTR && errno != EAGAIN))
    gone = 1;
}

/* The key that begins with an escape character: ESC [ A or ESC O A with numbers between, or the key of that name.
 * Over a slow line its characters arrive one at a time. */
static int escape_key(void) {
  size_t at = 1;
  for (;; at++) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    if (at == typed_count && at < sizeof typed && poll(&input, 1, ESCAPE_MS) == 1)
      read_typed();
    if (at >= typed_count)
      break;
    if (at == 1 && typed[at] != '[' && typed[at] != 'O')
      break;
    if (at > 1 && typed[at] >= 0x40) {
      const int letter = typed[at];
      drop_typed(at + 1);
      return letter == 'A' ? TERMINAL_UP : letter == 'B' ? TERMINAL_DOWN : TERMINAL_OTHER;
    }
  }
  drop_typed(at < typed_count ? at : typed_count);
  return TERMINAL_OTHER;
}

static int next_key(void) {
  const int key = typed[0];
  if (key == ESCAPE)
    return escape_key();
  drop_typed(1);
  return key;
}

/* A pending event, TERMINAL_TIME if there is none. */
static int happened(void) {
  if (ended_by || gone)
    return TERMINAL_END;
  if (suspended)
    suspend();
  if (continued)
    take();
  if (continued || resized) {
    continued = resized = 0;
    return TERMINAL_DRAW;
  }
  return typed_count > 0 ? next_key() : TERMINAL_TIME;
}

int terminal_wait(double seconds) {
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  const double most = seconds > 0 ? seconds : 0;
  const struct timespec time = {.tv_sec = (time_t)most, .tv_nsec = (long)(1e9 * (most - (double)(time_t)most))};
  const int event = happened();
  if (event != TERMINAL_TIME)
    return event;
  if (ppoll(&input, 1, &time, &normally) == 1)
    read_typed();
  return happened();
}
