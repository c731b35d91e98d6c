/* Types of elements, the same for graphs, tensors and groups of processes. */
#ifndef HEDDLE_DTYPE_H
#define HEDDLE_DTYPE_H

typedef enum hd_dtype {
  HD_F32, /* float */
  HD_U8,  /* uint8_t */
  HD_I32, /* int32_t */
  HD_F64, /* double; from here on for groups (heddle/group.h) alone */
  HD_I64  /* int64_t */
} hd_dtype;

enum { HD_DTYPE_COUNT = HD_I32 + 1, HD_GROUP_DTYPE_COUNT = HD_I64 + 1 };

#endif
