/* Structs of programs that were compiled with older or newer headers; see sized_struct.h. */
#include "base/sized_struct.h"

#include <string.h>

/* More than any version adds to a struct: a larger size is a field that was not set. */
enum { MOST_NEWER_BYTES = 4096 };

static size_t size_of(const void *given) { return *(const size_t *)given; }

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

hd_status hd__struct_check(hd_ctx *ctx, const void *given, size_t known_bytes, const char *name) {
  const size_t bytes = size_of(given);
  if (bytes > sizeof bytes && bytes <= known_bytes + MOST_NEWER_BYTES)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE, "expected struct_bytes = sizeof(%s), %zu here, found %zu; set it first", name,
                  known_bytes, bytes);
}

hd_status hd__struct_read(void *to, hd_ctx *ctx, const void *given, size_t known_bytes, const char *name) {
  HD_TRY(hd__struct_check(ctx, given, known_bytes, name));
  const size_t bytes = size_of(given);
  for (size_t i = known_bytes; i < bytes; i++)
    if (((const char *)given)[i])
      return hd__fail(
          ctx, HD_E_UNSUPPORTED,
          "expected the %zu bytes of %s that this version has, found %zu with a newer field set (byte %zu); "
          "install a newer library, or leave the field 0",
          known_bytes, name, bytes, i);
  memset(to, 0, known_bytes);
  memcpy(to, given, smaller(bytes, known_bytes));
  *(size_t *)to = known_bytes;
  return HD_OK;
}

void hd__struct_write(void *given, const void *from, size_t known_bytes) {
  const size_t bytes = size_of(given), both = smaller(bytes, known_bytes);
  memcpy((char *)given + sizeof bytes, (const char *)from + sizeof bytes, both - sizeof bytes);
  memset((char *)given + both, 0, bytes - both);
}
