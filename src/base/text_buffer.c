/* Appending text to a buffer of fixed size: see text_buffer.h. */
#include "base/text_buffer.h"

#include <stdarg.h>
#include <stdio.h>

void hd__line_add(hd_line *l, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (l->length < l->bytes)
    l->length += (size_t)vsnprintf(l->text + l->length, l->bytes - l->length, fmt, args);
  va_end(args);
}
