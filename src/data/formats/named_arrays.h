/* Data sets from named arrays: x_train, y_train, x_test, y_test; or train_images, train_labels, test_images,
 * test_labels; or images and labels; or x and y. Of the latter a fifth becomes the test set (format.h).
 *
 * Weights of samples, sample_weight_train and sample_weight_test, or sample_weight, may be there too.
 *
 * Samples have the shape (N, H, W), (N, C, H, W) or (N, H, W, C), depending on which side has 1 to 4 elements, the
 * first if both have, or is the smallest one; (N, F) and (N) are rows of numbers. Bytes (uint8) are pixels, every other
 * type becomes float. Labels of the shape (N) or (N, 1) are classes if they are integers; floats, or several a sample,
 * are targets. Integers of the shape (N, H, W) are the classes of pixels, -100 and 255 those that have none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/dataset/format.h"
#include "platform/file.h"

/* NPY files, as numpy saves arrays: a header in text, and the elements.
 *
 *     | 0x93 N U M P Y | version | length | {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } | ... |
 *
 * Versions 1 to 3; booleans, integers of 1 to 8 bytes, floats of 2, 4 and 8 bytes, of either byte order, in C's
 * order or Fortran's. Objects (pickled Python), texts and records are refused. The elements must be exactly those
 * of the shape. */

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

/* ---- Sets of arrays ---- */

/* One array, and the owner of its bytes. */
typedef struct hd_named_array {
  char name[HD_PATH_BYTES]; /* for messages: "set.npz: x_train" */
  hd_npy npy;
  hd_mapping mapping;
  uint8_t *copy;
} hd_named_array;

/* Arrays by name: a folder of files, an archive. */
typedef struct hd_named_arrays {
  const char *path;
  const void *self;
  bool (*has)(const void *self, const char *name);
  hd_status (*read)(hd_named_array *out, hd_ctx *ctx, const void *self, const char *name);
} hd_named_arrays;

/* Integers are classes, or numbers to predict if the request says so. */
hd_status hd__arrays_open(hd_dataset *out, hd_ctx *ctx, const hd_named_arrays *arrays,
                          const hd_dataset_request *request);

/* The samples of one array, without labels; memory is released by hd__array_split_fini, after a failure too. */
typedef struct hd_array_split {
  hd_split split;
  hd_named_array array;
  hd_split_memory memory;
} hd_array_split;

hd_status hd__array_split_open(hd_array_split *out, hd_ctx *ctx, const char *path);
void hd__array_split_fini(hd_array_split *one);

/* Whether all arrays of a data set exist, under any of the names. */
bool hd__arrays_there(const hd_named_arrays *arrays);
