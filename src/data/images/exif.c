/* Reading an orientation, and turning pictures by it; see exif.h. Files are untrusted: an offset beyond the end means
 * that there is none. */
#include "data/images/exif.h"

#include <string.h>

/* A TIFF structure: numbers of either byte order at offsets. */
typedef struct tiff {
  const uint8_t *bytes;
  size_t length;
  bool big;
} tiff;

/* A number of `size` bytes; 0 beyond the end. */
static uint32_t number_at(const tiff *t, size_t at, size_t size) {
  uint32_t number = 0;
  if (at > t->length || size > t->length - at)
    return 0;
  for (size_t i = 0; i < size; i++)
    number = number << 8 | t->bytes[at + (t->big ? i : size - 1 - i)];
  return number;
}

int hd__exif_orientation(const uint8_t *bytes, size_t length) {
  enum { FIRST = 4, ENTRY_BYTES = 12, ORIENTATION = 0x112, SHORT = 3, UPRIGHT = 1, LAST = 8 };
  if (length < 8 || (memcmp(bytes, "II*\0", 4) != 0 && memcmp(bytes, "MM\0*", 4) != 0))
    return UPRIGHT;
  const tiff t = {bytes, length, *bytes == 'M'};
  const size_t directory = number_at(&t, FIRST, 4), entries = number_at(&t, directory, 2);
  for (size_t i = 0; i < entries; i++) {
    const size_t entry = directory + 2 + ENTRY_BYTES * i;
    if (number_at(&t, entry, 2) != ORIENTATION || number_at(&t, entry + 2, 2) != SHORT)
      continue;
    const uint32_t value = number_at(&t, entry + 8, 2);
    return value >= UPRIGHT && value <= LAST ? (int)value : UPRIGHT;
  }
  return UPRIGHT;
}

/* Segments: a marker of two bytes, then a length that counts itself. The picture's data begins at the marker SOS. */
int hd__exif_of_jpeg(const uint8_t *bytes, size_t length) {
  enum { SOS = 0xda, APP1 = 0xe1, HEAD = 4 };
  static const char exif[6] = "Exif\0";
  for (size_t at = 2; at + HEAD <= length && bytes[at] == 0xff;) {
    const size_t size = (size_t)bytes[at + 2] << 8 | bytes[at + 3];
    const uint8_t *content = bytes + at + HEAD;
    if (bytes[at + 1] == 0xff) { /* padding */
      at++;
      continue;
    }
    if (bytes[at + 1] == SOS || size < 2 || size > length - at - 2)
      return 1;
    if (bytes[at + 1] == APP1 && size >= 2 + sizeof exif && !memcmp(content, exif, sizeof exif))
      return hd__exif_orientation(content + sizeof exif, size - 2 - sizeof exif);
    at += 2 + size;
  }
  return 1;
}

void hd__exif_turn(uint8_t *to, const uint8_t *from, const int stored[2], size_t bytes, int orientation) {
  const ptrdiff_t h = stored[0], w = stored[1], each = (ptrdiff_t)bytes;
  const bool last_row = strchr("\3\4\6\7", orientation) != NULL, last_column = strchr("\2\3\7\x8", orientation) != NULL;
  const ptrdiff_t row = (last_row ? -w : w) * each, column = last_column ? -each : each;
  const bool across = hd__exif_transposes(orientation);
  const ptrdiff_t down = across ? column : row, right = across ? row : column;
  const ptrdiff_t height = across ? w : h, width = across ? h : w;
  const uint8_t *first = from + ((last_row ? (h - 1) * w : 0) + (last_column ? w - 1 : 0)) * each;
  for (ptrdiff_t y = 0; y < height; y++)
    for (ptrdiff_t x = 0; x < width; x++, to += each)
      memcpy(to, first + y * down + x * right, bytes);
}
