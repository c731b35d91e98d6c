/* Text of strangers, made fit to be shown. */
#ifndef HD_BASE_UTF8_H
#define HD_BASE_UTF8_H

#include <stddef.h>

/* Copies text of at most `length` bytes, up to a zero, as valid UTF-8 without control characters: each byte that is
 * neither becomes '?', and what does not fit is cut off between two characters. */
void hd__utf8_clean(char *out, size_t bytes, const char *text, size_t length);

#endif
