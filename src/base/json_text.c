/* JSON as text: see json_text.h. The text of jansson is shortened in place. */
#include "base/json_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_number.h"
#include "base/number.h"

/* The end of a string that begins at its quote. */
static const char *end_of_string(const char *at) {
  for (at++; *at && *at != '"'; at++)
    if (*at == '\\' && at[1])
      at++;
  return *at ? at + 1 : at;
}

/* Writes the number at `from`, of `length` bytes, in its shortest form; returns its end. */
static char *put_number(char *to, const char *from, size_t length) {
  char text[64], number[HD_JSON_NUMBER_BYTES + 2];
  double value;
  memmove(to, from, length);
  if (length >= sizeof text || (!memchr(to, '.', length) && !memchr(to, 'e', length)))
    return to + length;
  memcpy(text, to, length);
  text[length] = 0;
  if (!hd__parse_double(&value, text))
    return to + length;
  hd__json_number(number, value);
  if (!strpbrk(number, ".e"))
    strcat(number, ".0");
  const size_t shorter = strlen(number);
  if (shorter > length)
    return to + length;
  memcpy(to, number, shorter);
  return to + shorter;
}

static void shorten(char *text) {
  char *to = text;
  for (const char *from = text; *from;) {
    size_t length = strspn(from, "+-.0123456789eE");
    if (*from == '"')
      length = (size_t)(end_of_string(from) - from);
    else if (strchr("-0123456789", *from)) {
      to = put_number(to, from, length);
      from += length;
      continue;
    } else
      length = 1;
    memmove(to, from, length);
    to += length;
    from += length;
  }
  *to = 0;
}

char *hd__json_dump(const json_t *value, size_t flags) {
  char *text = json_dumps(value, flags);
  if (text)
    shorten(text);
  return text;
}

char *hd__json_dump_long(const json_t *value, size_t flags) {
  return json_dumps(value, flags | JSON_REAL_PRECISION(17));
}

int hd__json_write(FILE *to, const json_t *value, size_t flags) {
  char *text = hd__json_dump(value, flags);
  const int failed = !text || fputs(text, to) == EOF;
  free(text);
  return failed ? -1 : 0;
}

json_t *hd__json_of_float(float value) {
  char text[HD_JSON_NUMBER_BYTES];
  double number = (double)value;
  hd__json_float(text, value);
  hd__parse_double(&number, text);
  return json_real(number);
}

json_t *hd__json_matrix(const int64_t *count, int32_t side) {
  json_t *rows = json_array();
  for (int32_t row = 0; row < side; row++) {
    json_t *list = json_array();
    for (int32_t column = 0; column < side; column++)
      json_array_append_new(list, json_integer((json_int_t)*count++));
    json_array_append_new(rows, list);
  }
  return rows;
}
