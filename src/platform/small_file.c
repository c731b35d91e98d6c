/* Small files of the system, as /proc and /sys have them. */
#include <stdio.h>

#include "platform/file.h"

size_t hd__file_text(char *text, size_t bytes, const char *path) {
  HD_FILE_OWNED *file = fopen(path, "re");
  const size_t got = file ? fread(text, 1, bytes - 1, file) : 0;
  text[got] = 0;
  return got;
}
