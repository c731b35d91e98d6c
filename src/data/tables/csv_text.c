/* Fields of CSV files: see csv_text.h. */
#include "data/tables/csv_text.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "base/utf8.h"

enum { MOST_NUMBER = 512 };

hd_csv_cursor hd__csv_begin(const hd_mapping *file, const char *path) {
  const char *text = file->bytes ? (const char *)file->bytes : "";
  hd_csv_cursor c = {path, text, text + file->length, 1};
  if (file->length >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) /* a byte order mark */
    c.at += 3;
  return c;
}

static bool at_line_end(const hd_csv_cursor *c) { return c->at == c->end || *c->at == '\n' || *c->at == '\r'; }

static void end_line(hd_csv_cursor *c) {
  const bool returned = c->at < c->end && *c->at == '\r';
  if (returned)
    c->at++;
  if (c->at < c->end && (!returned || *c->at == '\n'))
    c->at++;
  c->line++;
}

int64_t hd__csv_line_ends(const char *from, const char *to) {
  int64_t ends = 0;
  for (const char *at = from; (at = memchr(at, '\n', (size_t)(to - at))) != NULL; at++)
    ends++;
  for (const char *at = from; (at = memchr(at, '\r', (size_t)(to - at))) != NULL; at++)
    ends += at + 1 == to || at[1] != '\n';
  return ends;
}

bool hd__csv_more(hd_csv_cursor *c) {
  while (c->at < c->end && at_line_end(c))
    end_line(c);
  return c->at < c->end;
}

static bool is_blank(char byte) { return byte == ' ' || byte == '\t'; }

static hd_status read_quoted(hd_csv_field *out, hd_csv_cursor *c, hd_ctx *ctx) {
  const int64_t line = c->line;
  const char *from = ++c->at;
  for (; c->at < c->end && (*c->at != '"' || (c->at + 1 < c->end && c->at[1] == '"')); c->at++)
    c->at += *c->at == '"';
  c->line += hd__csv_line_ends(from, c->at);
  *out = (hd_csv_field){from, (size_t)(c->at - from), true};
  if (c->at == c->end)
    return hd__fail(ctx, HD_E_FORMAT, "%s:%lld: expected a quote at the end of a field, found the file's end; add one",
                    c->path, (long long)line);
  c->at++;
  while (c->at < c->end && is_blank(*c->at))
    c->at++;
  if (!at_line_end(c) && *c->at != ',')
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s:%lld: expected a comma after a quoted field, found '%c'; double the quotes inside it", c->path,
                    (long long)c->line, *c->at);
  return HD_OK;
}

static void read_plain(hd_csv_field *out, hd_csv_cursor *c) {
  const char *from = c->at;
  while (!at_line_end(c) && *c->at != ',')
    c->at++;
  *out = (hd_csv_field){from, (size_t)(c->at - from), false};
}

static void trim(hd_csv_field *f) {
  while (f->length > 0 && is_blank(*f->at))
    f->at++, f->length--;
  while (f->length > 0 && is_blank(f->at[f->length - 1]))
    f->length--;
}

hd_status hd__csv_next(hd_csv_field *out, bool *last, hd_csv_cursor *c, hd_ctx *ctx) {
  const char *quote = c->at;
  while (quote < c->end && is_blank(*quote))
    quote++;
  if (quote < c->end && *quote == '"') {
    c->at = quote;
    HD_TRY(read_quoted(out, c, ctx));
  } else {
    read_plain(out, c);
  }
  *last = at_line_end(c);
  if (*last)
    end_line(c);
  else
    c->at++;
  if (!out->quoted)
    trim(out);
  return HD_OK;
}

/* A fast path for short whole numbers, such as pixels. */
static bool short_whole(double *out, const hd_csv_field *f) {
  int32_t whole = 0;
  size_t i = 0;
  for (; i < f->length && i < 8 && f->at[i] >= '0' && f->at[i] <= '9'; i++)
    whole = 10 * whole + (f->at[i] - '0');
  *out = whole;
  return i == f->length && i > 0;
}

bool hd__csv_number(double *out, const hd_csv_field *field) {
  char text[MOST_NUMBER];
  hd_csv_field trimmed = *field, *f = &trimmed;
  if (short_whole(out, field))
    return true;
  trim(f);
  if (f->length == 0 || f->length >= sizeof text)
    return false;
  memcpy(text, f->at, f->length);
  text[f->length] = 0;
  return strlen(text) == f->length && hd__parse_double(out, text) && fabs(*out) <= (double)FLT_MAX;
}

bool hd__csv_is_whole(const hd_csv_field *f) {
  for (size_t i = 0; i < f->length; i++)
    if (f->at[i] < '0' || f->at[i] > '9')
      return false;
  return f->length > 0;
}

bool hd__csv_is_empty(const hd_csv_field *f) {
  static const char *const none[] = {"NA", "N/A", "NaN", "null"};
  bool empty = f->length == 0;
  for (size_t i = 0; i < sizeof none / sizeof *none && !f->quoted; i++)
    empty = empty || (f->length == strlen(none[i]) && !strncasecmp(f->at, none[i], f->length));
  return empty;
}

/* A field without its quotes, cut to MOST_NUMBER bytes; returns how many of the field's were read. */
static size_t unquote(char plain[MOST_NUMBER], size_t *n, const hd_csv_field *f) {
  size_t i = 0;
  for (*n = 0; i < f->length && *n < MOST_NUMBER; i++) {
    plain[(*n)++] = f->at[i];
    i += f->quoted && f->at[i] == '"'; /* the second of two quotes */
  }
  return i;
}

bool hd__csv_text(char *out, size_t bytes, const hd_csv_field *f) {
  char plain[MOST_NUMBER];
  size_t n;
  const bool whole = unquote(plain, &n, f) >= f->length;
  hd__utf8_clean(out, bytes, plain, n);
  return whole && strlen(out) == n && !memcmp(out, plain, n);
}

void hd__csv_name(char *out, size_t bytes, const hd_csv_field *f) {
  char plain[MOST_NUMBER];
  size_t n;
  unquote(plain, &n, f);
  hd__utf8_escape(out, bytes, plain, n);
}

bool hd__csv_is(const hd_csv_field *f, const char *text) {
  char plain[MOST_NUMBER];
  hd__csv_text(plain, sizeof plain, f);
  return !strcmp(plain, text);
}

bool hd__csv_is_nearly(const hd_csv_field *f, const char *text) {
  char plain[MOST_NUMBER];
  hd__csv_text(plain, sizeof plain, f);
  return !strcasecmp(plain, text);
}

bool hd__csv_is_bad_number(const hd_csv_field *f) {
  static const char *const infinite[] = {"inf", "infinity", "+inf", "-inf", "+infinity", "-infinity"};
  double number;
  bool digits = false, only = f->length > 0, is_infinite = false;
  for (size_t i = 0; i < f->length; i++) {
    digits = digits || (f->at[i] >= '0' && f->at[i] <= '9');
    only = only && memchr("0123456789+-.,eE", f->at[i], 16) != NULL;
  }
  for (size_t i = 0; i < sizeof infinite / sizeof *infinite; i++)
    is_infinite = is_infinite || hd__csv_is_nearly(f, infinite[i]);
  return is_infinite || (digits && only && f->at[0] != 'e' && f->at[0] != 'E' && !hd__csv_number(&number, f) &&
                         !memchr(f->at + 1, '-', f->length - 1));
}

/* The next byte of a field's text; -1 at its end. */
static int next_byte(const hd_csv_field *f, size_t *at) {
  if (*at == f->length)
    return -1;
  const int byte = (unsigned char)f->at[(*at)++];
  *at += f->quoted && byte == '"' && *at < f->length;
  return byte;
}

int hd__csv_compare(const void *a, const void *b) {
  const hd_csv_field *x = a, *y = b;
  size_t i = 0, k = 0;
  int left, right;
  do {
    left = next_byte(x, &i);
    right = next_byte(y, &k);
  } while (left == right && left >= 0);
  return left - right;
}
