/* Parsing and writing numbers. strtod and printf follow the program's locale and its rounding mode, so a C locale
 * object is created once and used instead, and numbers are rounded to nearest. */
#include "base/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rounding.h"

static locale_t c_locale;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

bool hd__parse_int64(int64_t *out, const char *text) {
  const char *digits = text + (*text == '-' || *text == '+');
  if (!*digits || strspn(digits, "0123456789") != strlen(digits))
    return false;
  errno = 0;
  long long value = strtoll(text, NULL, 10);
  if (errno)
    return false;
  *out = value;
  return true;
}

bool hd__parse_double(double *out, const char *text) {
  HD_ROUNDING_TO_NEAREST;
  pthread_once(&once, make_locale);
  if (!*text || strspn(text, "0123456789+-.eE") != strlen(text))
    return false; /* neither blanks nor inf, nan, hexadecimal */
  char *end;
  double value = c_locale ? strtod_l(text, &end, c_locale) : strtod(text, &end);
  if (*end || end == text || !isfinite(value))
    return false;
  *out = value;
  return true;
}

bool hd__parse_setting(double *out, const char *text) {
  double value;
  const size_t mantissa = strcspn(text, "eE");
  if (!hd__parse_double(&value, text) || (value == 0 && strcspn(text, "123456789") < mantissa))
    return false;
  *out = value;
  return true;
}

/* The shortest text that is read as this number; `real`: as this float. */
static void format(char text[HD_NUMBER_BYTES], double value, bool real) {
  HD_ROUNDING_TO_NEAREST;
  pthread_once(&once, make_locale);
  const locale_t before = uselocale(c_locale);
  double back = 0;
  int digits = 1;
  do
    snprintf(text, HD_NUMBER_BYTES, "%.*g", digits, value);
  while (hd__parse_double(&back, text) && (real ? (double)(float)back : back) != value && digits++ < 17);
  uselocale(before);
}

void hd__format_double(char text[HD_NUMBER_BYTES], double value) { format(text, value, false); }

void hd__format_float(char text[HD_NUMBER_BYTES], float value) { format(text, (double)value, true); }
