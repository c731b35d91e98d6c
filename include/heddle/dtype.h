/* Types of elements, the same for graphs and tensors. */
#ifndef HEDDLE_DTYPE_H
#define HEDDLE_DTYPE_H

typedef enum hd_dtype {
  HD_F32, /* float */
  HD_U8,  /* uint8_t */
  HD_I32  /* int32_t */
} hd_dtype;

enum { HD_DTYPE_COUNT = HD_I32 + 1 };

#endif
