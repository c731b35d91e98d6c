/* Arrays: constants of an ONNX file while something is computed from them.
 *
 *     onnx_array.c      their numbers, from and to tensors
 *     onnx_compute.c    operators on them
 *     onnx_fold.c       which nodes and files they come from, and which constants are kept
 *
 * All numbers are doubles, which have those of each type but for some of int64, which are refused. */
#pragma once

#include "base/alloc.h"
#include "onnx/onnx_reader.h"

enum { FLOAT = 1, UINT8 = 2, INT8 = 3, INT32 = 6, INT64 = 7, BOOL = 9, HALF = 10, DOUBLE = 11, BF16 = 16 };
enum { RANK = 8, EXTERNAL = 1 };

typedef struct hd_array {
  int type, rank;
  int64_t dim[RANK], count, most; /* most: elements that it may have, 0: as many as a tensor */
  double *at;
} hd_array;

static inline void hd__array_release(hd_array *a) { hd__free(a->at); }
#define HD_ARRAY HD_RELEASED(hd__array_release) hd_array

static inline size_t size_of(int type) {
  return type == INT64 || type == DOUBLE  ? 8
         : type == FLOAT || type == INT32 ? 4
         : type == HALF || type == BF16   ? 2
                                          : 1;
}

static inline bool is_known(int type) {
  return type == FLOAT || type == UINT8 || type == INT8 || type == INT32 || type == INT64 || type == BOOL ||
         type == HALF || type == DOUBLE || type == BF16;
}

static inline bool is_real(int type) { return type == FLOAT || type == DOUBLE || type == HALF || type == BF16; }

/* `from` may be NULL if there are none. */
static inline void copy_numbers(int64_t *to, const int64_t *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = from[i];
}

/* A tensor of the reader's with room for `bytes`; NULL: too much of the file's worth, or no memory. */
HdOnnx__Tensor *hd__onnx_new_tensor(hd_onnx_reader *r, int type, const int64_t *dim, size_t rank, size_t bytes);

/* The elements of a shape; -1: too many. */
int64_t hd__array_count(const int64_t *dim, size_t rank);

/* The nearest number that a type has; false: a whole number that lies outside it, or is not exact as a double. */
bool hd__array_round(double *x, int type);

/* Room for an array; reads one from a tensor. False: it cannot be had, or is not known. */
bool hd__array_make(hd_array *a, int type, int rank, const int64_t *dim);
bool hd__array_read(hd_array *a, const HdOnnx__Tensor *t);

/* A tensor in the types that readers know: float, double where it is, bool, int64 for all whole numbers. */
HdOnnx__Tensor *hd__array_keep(hd_onnx_reader *r, const hd_array *a);

/* The output of a node; false: its operator is not known, or not for these inputs. */
bool hd__array_compute(hd_array *out, const HdOnnx__Node *node, const hd_array *in, int inputs);
