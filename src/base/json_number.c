/* Writing numbers of JSON: see json_number.h. Text is made and read back in the program's locale, whatever its decimal
 * point is, and only digits and the exponent are taken from it. */
#include "base/json_number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rounding.h"

enum { MOST_DIGITS = 17, FIRST_FIXED = -4, AFTER_FIXED = 16 };

typedef struct decimal {
  char digit[MOST_DIGITS + 1]; /* the first one is followed by the decimal point */
  int digits, exponent;
} decimal;

/* From the text of %e, without the zeros at the end. */
static decimal take_digits(const char *text) {
  decimal d = {.digits = 0};
  for (; *text != 'e'; text++)
    if (*text >= '0' && *text <= '9' && d.digits < MOST_DIGITS)
      d.digit[d.digits++] = *text;
  while (d.digits > 1 && d.digit[d.digits - 1] == '0')
    d.digits--;
  d.digit[d.digits] = 0;
  d.exponent = atoi(text + 1);
  return d;
}

static char *put_digits(char *to, const char *digit, int count) {
  for (int i = 0; i < count; i++)
    *to++ = *digit ? *digit++ : '0';
  return to;
}

static void put(char *to, const decimal *d, bool negative) {
  const int x = d->exponent;
  const bool fixed = x >= FIRST_FIXED && x < AFTER_FIXED;
  const int whole = !fixed ? 1 : x >= 0 ? x + 1 : 0, zeros = fixed && x < 0 ? -1 - x : 0;
  if (negative)
    *to++ = '-';
  to = put_digits(to, whole ? d->digit : "", whole ? whole : 1);
  if (d->digits > whole) {
    *to++ = '.';
    to = put_digits(to, "", zeros);
    to = put_digits(to, d->digit + whole, d->digits - whole);
  }
  *to = 0;
  if (!fixed)
    snprintf(to, 6, "e%d", x);
}

static void shortest(char *text, double value, int digits, bool is_float) {
  HD_ROUNDING_TO_NEAREST;
  char whole[64];
  double back;
  if (!isfinite(value)) {
    snprintf(text, HD_JSON_NUMBER_BYTES, "null");
    return;
  }
  do {
    snprintf(whole, sizeof whole, "%.*e", digits - 1, value);
    back = strtod(whole, NULL);
  } while ((is_float ? (double)(float)back : back) != value && digits++ < MOST_DIGITS);
  const decimal d = take_digits(whole);
  put(text, &d, signbit(value));
}

/* Different numbers of up to 15 digits, or 6 of a float, are different doubles or floats: shorter texts are found with
 * zeros at their end. Below the normal numbers this does not hold. */
void hd__json_number(char text[HD_JSON_NUMBER_BYTES], double value) {
  shortest(text, value, fabs(value) < DBL_MIN ? 1 : DBL_DIG, false);
}

void hd__json_float(char text[HD_JSON_NUMBER_BYTES], float value) {
  shortest(text, (double)value, fabsf(value) < FLT_MIN ? 1 : FLT_DIG, true);
}
