/* NPY files, as numpy saves arrays: a header in text, and the elements.
 *
 *     | 0x93 N U M P Y | version | length | {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } | ... |
 *
 * Versions 1 to 3; booleans, integers of 1 to 8 bytes, floats of 2, 4 and 8 bytes, of either byte order, in C's
 * order or Fortran's. Objects (pickled Python), texts and records are refused. The elements must be exactly those
 * of the shape. */
#ifndef HD_DATA_FORMATS_NPY_H
#define HD_DATA_FORMATS_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { HD_NPY_MAX_RANK = 4, HD_NPY_MAX_HEAD = 1 << 16 };

typedef struct hd_npy {
  char kind; /* 'b' boolean, 'i', 'u', 'f' */
  int elem_bytes;
  bool swapped; /* not in this machine's byte order */
  int rank;
  int64_t size[HD_NPY_MAX_RANK], stride[HD_NPY_MAX_RANK]; /* strides in elements */
  int64_t count;                                          /* elements */
  const uint8_t *bytes;                                   /* of the elements; may not be aligned */
} hd_npy;

/* Reads the header at the start of `length` bytes; *head gets its bytes. Does not check the elements.
 * HD_NPY_MAX_HEAD bytes suffice. */
hd_status hd__npy_head(hd_npy *out, size_t *head, hd_ctx *ctx, const char *path, const uint8_t *bytes, size_t length);

/* Reads a whole file; its bytes must stay valid. `path` is for messages. */
hd_status hd__npy_parse(hd_npy *out, hd_ctx *ctx, const char *path, const uint8_t *bytes, size_t length);

/* An element as a number: rounded to the nearest float; as an integer (kinds b, i, u; beyond its range the largest). */
float hd__npy_float(const hd_npy *npy, int64_t elem);
int64_t hd__npy_int(const hd_npy *npy, int64_t elem);

#endif
