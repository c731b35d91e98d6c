/* Appends text to a buffer of fixed size; text that does not fit is truncated, as by snprintf. */
#pragma once

#include <stddef.h>

typedef struct hd_line {
  char *text;           /* NUL-terminated once something was added */
  size_t bytes, length; /* length >= bytes: truncated */
} hd_line;

void hd__line_add(hd_line *line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
