/* UTF-8: see utf8.h. */
#include "base/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Characters that reorder or break the text around them, so that a line reads as another one: U+061C, U+200E, U+200F,
 * U+2028 to U+202E, U+2066 to U+2069. */
static int reorders(uint32_t code) {
  return code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

size_t hd__utf8_decode(uint32_t *code, const void *text, size_t length) {
  static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
  const unsigned char *at = text;
  const unsigned first = *code = at[0];
  if (first < 0x80)
    return 1;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || bytes > length)
    return 0;
  *code = first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; i++) {
    if ((at[i] & 0xc0) != 0x80)
      return 0;
    *code = *code << 6 | (at[i] & 0x3f);
  }
  const int surrogate = *code >= 0xd800 && *code < 0xe000;
  return *code < least[bytes] || *code > 0x10ffff || surrogate ? 0 : bytes;
}

bool hd__utf8_is(const char *text, size_t length) {
  uint32_t code;
  size_t at = 0, bytes = 1;
  for (; at < length && bytes > 0; at += bytes)
    bytes = hd__utf8_decode(&code, text + at, length - at);
  return bytes > 0;
}

size_t hd__utf8_encode(char text[4], uint32_t code) {
  const size_t bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (size_t i = bytes; i-- > 1; code >>= 6)
    text[i] = (char)(0x80 | (code & 0x3f));
  text[0] = (char)(bytes == 1 ? code : (0xf00u >> bytes & 0xff) | code);
  return bytes;
}

size_t hd__utf8_shown(const char *text, size_t length) {
  uint32_t code;
  const size_t bytes = hd__utf8_decode(&code, text, length);
  const int control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  return control || reorders(code) ? 0 : bytes;
}

static bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); }

/* Whether there stands \xHH, which is how another byte is written. */
static bool reads_as_escape(const char *text, size_t length) {
  return length >= 4 && text[0] == '\\' && text[1] == 'x' && is_hex(text[2]) && is_hex(text[3]);
}

/* Copies text; a byte that is not shown becomes '?', or \xHH; `differs`: a \xHH of the text is written otherwise. */
static void copy_shown(char *out, size_t bytes, const char *text, size_t length, bool escapes, bool differs) {
  size_t at = 0;
  for (size_t i = 0; i < length;) {
    const bool other = differs && reads_as_escape(text + i, length - i);
    const size_t good = other ? 0 : hd__utf8_shown(text + i, length - i);
    const size_t step = good ? good : escapes ? strlen("\\xHH") : 1;
    if (at + step >= bytes)
      break;
    if (good)
      memmove(out + at, text + i, good);
    else if (escapes)
      snprintf(out + at, bytes - at, "\\x%02X", (unsigned char)text[i]);
    else
      out[at] = '?';
    at += step;
    i += good ? good : 1;
  }
  out[at] = 0;
}

void hd__utf8_clean(char *out, size_t bytes, const char *text, size_t length) {
  copy_shown(out, bytes, text, strnlen(text, length), false, false);
}

void hd__utf8_show(char *out, size_t bytes, const char *text, size_t length) {
  copy_shown(out, bytes, text, length, true, false);
}

void hd__utf8_escape(char *out, size_t bytes, const char *text, size_t length) {
  copy_shown(out, bytes, text, length, true, true);
}
