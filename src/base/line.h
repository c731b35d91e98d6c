/* Text that grows in a buffer of a fixed size: what no longer fits is cut off, as snprintf does. */
#ifndef HD_BASE_LINE_H
#define HD_BASE_LINE_H

#include <stddef.h>

typedef struct hd_line {
  char *text;           /* ends with 0 once something was added */
  size_t bytes, length; /* length >= bytes: something was cut off */
} hd_line;

void hd__line_add(hd_line *line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
