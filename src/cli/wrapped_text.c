/* Text on standard output: see cli_print in cli.h.
 *
 * A line is assembled from all calls up to its newline, then cleaned, broken between words where it is longer than
 * the screen, and written. Names in files and folders are untrusted, so only the format of a call can end a line or
 * set the column of its continuation. */
#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/cli.h"

enum { LINE_BYTES = 16384, LEAST_COLUMNS = 40 };

static struct {
  char text[LINE_BYTES];
  size_t length;
  int hang; /* column of continuation lines */
} line;

static int fixed_columns = -1; /* set by cli_print_within; -1: unset */

int cli_columns(void) {
  struct winsize size;
  const char *said = getenv("COLUMNS");
  int columns = said ? atoi(said) : 0;
  if (columns <= 0 && isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
    columns = size.ws_col;
  if (columns <= 0)
    return 0;
  return columns < LEAST_COLUMNS ? LEAST_COLUMNS : columns;
}

void cli_print_within(int columns) { fixed_columns = columns; }

/* The number of characters in `bytes` of UTF-8. */
static int width_of(const char *text, size_t bytes) {
  int width = 0;
  for (size_t i = 0; i < bytes; i++)
    width += ((unsigned char)text[i] & 0xc0) != 0x80;
  return width;
}

int cli_width(const char *text) { return width_of(text, strlen(text)); }

/* The number of bytes of the text, which begins in column `from`, before a break: all if it fits, or if the first
 * word that does not fit is longer than a line. */
static size_t bytes_that_fit(const char *text, int from, int columns) {
  size_t fits = strspn(text, " ");
  for (;;) {
    const size_t blanks = strspn(text + fits, " "), word = strcspn(text + fits + blanks, " "),
                 end = fits + blanks + word;
    if (word == 0)
      return end;
    if (fits > strspn(text, " ") && from + width_of(text, end) > columns &&
        line.hang + width_of(text + fits + blanks, word) <= columns)
      return fits;
    fits = end;
  }
}

static void end_line(void) {
  const int columns = fixed_columns >= 0 ? fixed_columns : cli_columns();
  const char *rest = line.text;
  line.text[line.length] = 0;
  for (int from = 0; columns > 0 && from + cli_width(rest) > columns; from = line.hang) {
    const size_t bytes = bytes_that_fit(rest, from, columns);
    if (!rest[bytes])
      break;
    printf("%.*s\n%*s", (int)bytes, rest, line.hang, "");
    rest += bytes + strspn(rest + bytes, " ");
  }
  printf("%s\n", rest);
  line.length = 0;
  line.hang = 0;
}

void cli_print(const char *fmt, ...) {
  static char part[LINE_BYTES];
  const char *body = fmt + strspn(fmt, "\n"), *tail = body + strlen(body);
  while (tail > body && tail[-1] == '\n')
    tail--;
  assert(!memchr(body, '\n', (size_t)(tail - body)));
  for (; fmt < body; fmt++)
    end_line();
  va_list args;
  va_start(args, fmt);
  const int needed = vsnprintf(part, sizeof part, body, args);
  va_end(args);
  if (needed >= 0 && needed < LINE_BYTES)
    part[needed - (int)strlen(tail)] = 0;
  char *hang = memchr(body, '\t', (size_t)(tail - body)) ? strchr(part, '\t') : NULL;
  if (hang) {
    line.hang = width_of(line.text, line.length) + width_of(part, (size_t)(hang - part));
    memmove(hang, hang + 1, strlen(hang));
  }
  hd__utf8_clean(line.text + line.length, sizeof line.text - line.length, part, strlen(part));
  line.length += strlen(line.text + line.length);
  for (; *tail; tail++)
    end_line();
}
