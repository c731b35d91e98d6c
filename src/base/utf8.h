/* UTF-8: reading and writing characters, and making untrusted text safe to print. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the character at `text`, which has at least one byte: returns its bytes, 0 if it is not UTF-8. */
size_t hd__utf8_decode(uint32_t *code, const void *text, size_t length);

/* Whether text is UTF-8 from beginning to end. */
bool hd__utf8_is(const char *text, size_t length);

/* Writes a character without a NUL; returns its bytes. */
size_t hd__utf8_encode(char text[4], uint32_t code);

/* The number of bytes of the character at `text`, which has at least one byte; 0: a control character, one that changes
 * the direction or the lines of the text around it, or invalid UTF-8. */
size_t hd__utf8_shown(const char *text, size_t length);

/* Copies text of at most `length` bytes, up to a zero, as valid UTF-8 of characters that are shown: any other
 * byte becomes '?', and text that does not fit is truncated between two characters. `out` may be `text`. */
void hd__utf8_clean(char *out, size_t bytes, const char *text, size_t length);

/* The same of all `length` bytes, a zero too, with \xHH for each such byte. `out` is not `text`. */
void hd__utf8_show(char *out, size_t bytes, const char *text, size_t length);

/* The same with \x5C for the backslash of a \xHH in the text, so that different texts stay different. */
void hd__utf8_escape(char *out, size_t bytes, const char *text, size_t length);
