/* Files of data sets while a test makes them up: NPY arrays, zip archives of them. To be included behind scratch.h. */
#ifndef HD_TESTS_FORMAT_FILES_H
#define HD_TESTS_FORMAT_FILES_H

#include <stdint.h>
#include <zlib.h>

#include "scratch.h"

enum { BLOB_BYTES = 1 << 20 };

typedef struct blob {
  size_t length;
  uint8_t byte[BLOB_BYTES];
} blob;

__attribute__((unused)) static void blob_add(blob *to, const void *bytes, size_t length) {
  if (length > sizeof to->byte - to->length)
    bail_out("expected a small file, found a large one");
  memcpy(to->byte + to->length, bytes, length);
  to->length += length;
}

__attribute__((unused)) static void blob_add_word(blob *to, uint32_t word, int bytes) {
  for (int i = 0; i < bytes; i++)
    blob_add(to, &(uint8_t){(uint8_t)(word >> 8 * i)}, 1);
}

/* An NPY file of version 1 with this dictionary. */
__attribute__((unused)) static void blob_npy(blob *to, const char *dictionary, const void *elems, size_t length) {
  to->length = 0;
  blob_add(to, "\x93NUMPY\x01\x00", 8);
  blob_add_word(to, (uint32_t)strlen(dictionary) + 1, 2);
  blob_add(to, dictionary, strlen(dictionary));
  blob_add(to, "\n", 1);
  blob_add(to, elems, length);
}

__attribute__((unused, format(printf, 5, 6))) static const char *
put_npy(const char *path, const char *descr, const void *elems, size_t length, const char *shape, ...) {
  static blob file;
  char text[128], dictionary[256];
  va_list args;
  va_start(args, shape);
  vsnprintf(text, sizeof text, shape, args);
  va_end(args);
  snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, text);
  blob_npy(&file, dictionary, elems, length);
  put_file(path, file.byte, file.length);
  return path;
}

/* A zip archive: a member at a time, and its directory at the end. */
typedef struct zipper {
  blob file, directory;
  int members;
} zipper;

__attribute__((unused)) static void zip_add(zipper *z, const char *name, const uint8_t *bytes, size_t length,
                                            int deflated) {
  static uint8_t packed[BLOB_BYTES];
  const uint32_t at = (uint32_t)z->file.length, sum = (uint32_t)crc32(0, bytes, (uInt)length);
  z_stream stream = {.next_in = (z_const Bytef *)(size_t)bytes,
                     .avail_in = (uInt)length,
                     .next_out = packed,
                     .avail_out = sizeof packed};
  if (deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
      deflate(&stream, Z_FINISH) != Z_STREAM_END)
    bail_out("expected zlib to pack, found that it does not");
  const size_t packed_length = deflated ? stream.total_out : length;
  deflateEnd(&stream);
  for (int central = 0; central < 2; central++) {
    blob *to = central ? &z->directory : &z->file;
    blob_add(to, central ? "PK\x01\x02\x14\x00" : "PK\x03\x04", central ? 6 : 4);
    blob_add_word(to, 20, 2); /* version */
    blob_add_word(to, 0, 2);  /* flags */
    blob_add_word(to, deflated ? 8 : 0, 2);
    blob_add_word(to, 0x21 << 16, 4); /* time and date */
    blob_add_word(to, sum, 4);
    blob_add_word(to, (uint32_t)packed_length, 4);
    blob_add_word(to, (uint32_t)length, 4);
    blob_add_word(to, (uint32_t)strlen(name), 2);
    blob_add_word(to, 0, 2); /* extra */
    if (central) {
      blob_add_word(to, 0, 2); /* comment, disk, attributes */
      blob_add_word(to, 0, 4);
      blob_add_word(to, 0, 4);
      blob_add_word(to, at, 4);
    }
    blob_add(to, name, strlen(name));
  }
  blob_add(&z->file, deflated ? packed : bytes, packed_length);
  z->members++;
}

__attribute__((unused)) static const char *put_zip(const char *path, zipper *z) {
  const uint32_t at = (uint32_t)z->file.length, length = (uint32_t)z->directory.length;
  blob_add(&z->file, z->directory.byte, z->directory.length);
  blob_add(&z->file, "PK\x05\x06\0\0\0\0", 8);
  blob_add_word(&z->file, (uint32_t)z->members, 2);
  blob_add_word(&z->file, (uint32_t)z->members, 2);
  blob_add_word(&z->file, length, 4);
  blob_add_word(&z->file, at, 4);
  blob_add_word(&z->file, 0, 2);
  put_file(path, z->file.byte, z->file.length);
  return path;
}

#endif
