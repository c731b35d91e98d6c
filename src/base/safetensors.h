/* The safetensors format: a JSON header that names tensors, then their bytes.
 *
 *     | header length, u64 little-endian | JSON, padded with blanks to 8 bytes | tensor bytes, in order, without gaps |
 *
 * Reading validates the whole header: lengths, types, shapes against offsets, overlaps, gaps, duplicates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/shape.h"
#include "base/status.h"

typedef enum hd_st_type { HD_ST_F32, HD_ST_F64, HD_ST_I64, HD_ST_F16, HD_ST_BF16, HD_ST_U8, HD_ST_BOOL } hd_st_type;

/* "F32" and so on, as files have it. */
const char *hd__st_type_text(hd_st_type type);

/* A source of bytes that are not in this process: reads `length` of them, those that would be at `bytes`. */
typedef struct hd_st_source {
  hd_status (*read)(void *self, hd_ctx *ctx, void *out, const char *bytes, size_t length);
  void *self;
} hd_st_source;

typedef struct hd_st_tensor {
  char *name; /* owned by the list when read */
  hd_st_type type;
  hd_shape shape;
  const void *bytes; /* dense, little-endian; may be unaligned when read from a mapping */
  size_t length;
  const hd_st_source *source; /* writing: NULL: the bytes are here */
  const char *same_as; /* writing: the tensor that this aliases, stored in the metadata without bytes; else NULL */
} hd_st_tensor;

/* Writes tensors in the given order. `path` is for messages. */
hd_status hd__st_write(FILE *to, hd_ctx *ctx, const char *path, const hd_st_tensor *tensor, int count);

typedef struct hd_st_list {
  hd_st_tensor *tensor;
  int count;
} hd_st_list;

/* Parses a file's bytes; tensors point into them. */
hd_status hd__st_parse(hd_st_list *out, hd_ctx *ctx, const char *path, const unsigned char *bytes, size_t length);
void hd__st_fini(hd_st_list *list);

/* A list that ends with its scope. */
#define HD_ST_OWNED HD_RELEASED(hd__st_fini) hd_st_list

/* The tensor of that name, NULL if there is none. */
const hd_st_tensor *hd__st_find(const hd_st_list *list, const char *name);

/* The elements as floats: F16 and BF16 exactly, F64 rounded to the nearest. False if they are others. */
bool hd__st_floats(float *out, const hd_st_tensor *tensor);
bool hd__st_is_float(const hd_st_tensor *tensor);

/* The digest of a list of tensors, in bytewise order of names: name, NUL, type ("F32"), NUL, shape as "32,1,3,3", NUL,
 * bytes. */
hd_status hd__st_digest(char hex[65], hd_ctx *ctx, const hd_st_list *list);
