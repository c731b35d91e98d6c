/* Kernels over plain arrays: the arithmetic of eager tensors.
 *
 * A kernel takes contiguous elements of one type. Element-wise kernels compute each element from its inputs, one
 * rounding per operation; the output may be an input. Sums and searches take at most HD_ARRAY_BLOCK elements, which
 * is where the definition of a long sum cuts it: "blocks of 1024; in a block 16 chains and the tree; block sums
 * added in pairs of neighbours, level by level, an odd one passing". Any alignment. NULL: there is no such operation
 * for the type; the caller converts first. All tables give the same bits. */
#pragma once

#include <stdint.h>

#include "heddle/dtype.h"

enum { HD_ARRAY_BLOCK = 1024 };

typedef enum hd_unary {
  HD_UNARY_NEG, /* integers wrap around: here, in abs and in add, sub, mul */
  HD_UNARY_ABS,
  HD_UNARY_RELU, /* x < 0 ? 0 : x */
  HD_UNARY_EXP,  /* f32 only, as are the next */
  HD_UNARY_LOG,
  HD_UNARY_SQRT,
  HD_UNARY_TANH,
  HD_UNARY_COUNT
} hd_unary;

typedef enum hd_binary {
  HD_BINARY_ADD,
  HD_BINARY_SUB,
  HD_BINARY_MUL,
  HD_BINARY_DIV, /* f32 only */
  HD_BINARY_EQ,  /* this and the next give uint8_t 0 or 1 */
  HD_BINARY_NE,
  HD_BINARY_LT,
  HD_BINARY_LE,
  HD_BINARY_GT,
  HD_BINARY_GE,
  HD_BINARY_COUNT
} hd_binary;

typedef enum hd_extreme { HD_EXTREME_MAX, HD_EXTREME_MIN, HD_EXTREME_COUNT } hd_extreme;

/* A float for f32, an exact integer for the others. */
typedef union hd_number {
  float f;
  int64_t i;
} hd_number;

typedef void hd_unary_fn(void *y, const void *x, int64_t count);
typedef void hd_binary_fn(void *y, const void *a, const void *b, int64_t count);

typedef struct hd_array_kernels {
  hd_unary_fn *unary[HD_UNARY_COUNT][HD_DTYPE_COUNT];
  hd_binary_fn *binary[HD_BINARY_COUNT][HD_DTYPE_COUNT];

  /* f32: 16 chains of additions from +0 and the tree. */
  hd_number (*sum[HD_DTYPE_COUNT])(const void *x, int64_t count);

  /* out[j], j < width: the f32 sum over elements x[j], x[j + stride], ..., `count` of them, with the bits of sum. */
  void (*sum_columns)(float *out, const float *x, int64_t count, int64_t stride, int64_t width);

  /* The index of the first extreme element, or of the first NaN. count >= 1. */
  int64_t (*find[HD_EXTREME_COUNT][HD_DTYPE_COUNT])(const void *x, int64_t count);
} hd_array_kernels;
