/* Numbers as text, strictly and in the C locale: the whole text must be one number. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/tools_api.h"

/* A decimal whole number with an optional sign that fits; false otherwise, and *out is untouched. */
HD_TOOLS_API bool hd__parse_int64(int64_t *out, const char *text);

/* A finite decimal number ("0.1", "1e-3"); false otherwise, and *out is untouched. A decimal point is a point in every
 * locale. */
HD_TOOLS_API bool hd__parse_double(double *out, const char *text);

/* Likewise; false also where a double makes 0 of a number that is not 0. */
bool hd__parse_setting(double *out, const char *text);

/* The shortest text that hd__parse_double reads as this number; "nan" or "inf", which it does not read. */
enum { HD_NUMBER_BYTES = 32 };
void hd__format_double(char text[HD_NUMBER_BYTES], double value);

/* The shortest text whose number is this float. */
void hd__format_float(char text[HD_NUMBER_BYTES], float value);
