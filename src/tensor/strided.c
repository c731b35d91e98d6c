/* Walking a tensor in row-major order of a shape, block by block, from and to contiguous memory. */
#include "tensor/eager.h"

#include <math.h>
#include <string.h>

void hd__strided_init(hd_strided *walk, const hd_tensor *x, int ndim, const int64_t *size) {
  *walk = (hd_strided){.data = x->data, .dtype = x->dtype};
  for (int d = 0; d < ndim; d++) {
    const int source = d - (ndim - x->ndim), last = walk->ndim - 1;
    const int64_t stride = source < 0 || x->size[source] == 1 ? 0 : x->stride[source];
    if (size[d] == 1)
      continue;
    if (last >= 0 && walk->stride[last] == stride * size[d]) {
      walk->size[last] *= size[d];
      walk->stride[last] = stride;
    } else {
      walk->size[walk->ndim] = size[d];
      walk->stride[walk->ndim++] = stride;
    }
  }
  if (walk->ndim == 0) {
    walk->size[0] = 1;
    walk->stride[0] = 0;
    walk->ndim = 1;
  }
}

/* The address of element `first` of the walk; its index in each dimension goes to `at`. */
static int64_t find(const hd_strided *walk, int64_t first, int64_t *at) {
  int64_t offset = 0;
  for (int d = walk->ndim - 1; d > 0; d--) {
    at[d] = first % walk->size[d];
    first /= walk->size[d];
    offset += at[d] * walk->stride[d];
  }
  at[0] = first;
  return offset + first * walk->stride[0];
}

const void *hd__strided_at(const hd_strided *walk, int64_t index) {
  int64_t at[HD_TENSOR_MAX_DIMS];
  return walk->data + find(walk, index, at) * hd__dtype_bytes(walk->dtype);
}

/* Steps over the end of a row: back to its start, and one step in the dimension before. */
static int64_t next_row(const hd_strided *walk, int64_t offset, int64_t *at) {
  for (int d = walk->ndim - 1; d > 0 && at[d] == walk->size[d]; d--) {
    offset += walk->stride[d - 1] - at[d] * walk->stride[d];
    at[d] = 0;
    at[d - 1]++;
  }
  return offset;
}

/* Copies `count` elements of `bytes` bytes, `from_stride` and `to_stride` elements apart. */
static void copy_row(uint8_t *to, int64_t to_stride, const uint8_t *from, int64_t from_stride, int64_t count,
                     int bytes) {
  if (to_stride == 1 && from_stride == 1) {
    memcpy(to, from, (size_t)(count * bytes));
  } else if (bytes == 1) {
    for (int64_t i = 0; i < count; i++)
      to[i * to_stride] = from[i * from_stride];
  } else {
    for (int64_t i = 0; i < count; i++)
      memcpy(to + 4 * i * to_stride, from + 4 * i * from_stride, 4);
  }
}

/* Moves elements first .. between the walk and contiguous memory of its type. */
static void move(const hd_strided *walk, int64_t first, int64_t count, uint8_t *dense, bool read) {
  const int bytes = hd__dtype_bytes(walk->dtype), last = walk->ndim - 1;
  const int64_t stride = walk->stride[last];
  int64_t at[HD_TENSOR_MAX_DIMS], offset = find(walk, first, at);
  while (count > 0) {
    const int64_t left = walk->size[last] - at[last], run = count < left ? count : left;
    uint8_t *place = walk->data + offset * bytes;
    if (read)
      copy_row(dense, 1, place, stride, run, bytes);
    else
      copy_row(place, stride, dense, 1, run, bytes);
    dense += run * bytes;
    count -= run;
    at[last] += run;
    offset = next_row(walk, offset + run * stride, at);
  }
}

double hd__load(hd_dtype dtype, const void *element) {
  switch (dtype) {
  case HD_F32: return *(const float *)element;
  case HD_U8: return *(const uint8_t *)element;
  case HD_I32: return *(const int32_t *)element;
  case HD_F64: return *(const double *)element;
  case HD_I64: return (double)*(const int64_t *)element;
  }
  return NAN;
}

/* Rounded towards zero and clamped to [low, high]; NaN becomes 0. */
static double to_range(double value, double low, double high) {
  return value != value ? 0 : value < low ? low : value > high ? high : trunc(value);
}

void hd__store(hd_dtype dtype, void *element, double value) {
  switch (dtype) {
  case HD_F32: *(float *)element = (float)value; break;
  case HD_U8: *(uint8_t *)element = (uint8_t)to_range(value, 0, 255); break;
  case HD_I32: *(int32_t *)element = (int32_t)to_range(value, -0x1p31, 0x1p31 - 1); break;
  case HD_F64: *(double *)element = value; break;
  case HD_I64: *(int64_t *)element = (int64_t)to_range(value, -0x1p63, 0x1.fffffffffffffp62); break;
  }
}

static void convert(void *to, hd_dtype to_type, const void *from, hd_dtype from_type, int64_t count) {
  const int to_bytes = hd__dtype_bytes(to_type), from_bytes = hd__dtype_bytes(from_type);
  if (to_type == HD_U8 && from_type == HD_I32)
    for (int64_t i = 0; i < count; i++)
      ((uint8_t *)to)[i] = (uint8_t)((const int32_t *)from)[i];
  else
    for (int64_t i = 0; i < count; i++)
      hd__store(to_type, (uint8_t *)to + i * to_bytes, hd__load(from_type, (const uint8_t *)from + i * from_bytes));
}

/* Whether the walk is one contiguous run. */
static bool is_dense(const hd_strided *walk) { return walk->ndim == 1 && walk->stride[0] == 1; }

const void *hd__strided_read(const hd_strided *walk, hd_dtype dtype, int64_t first, int64_t count, hd_block *block) {
  const bool same = dtype == walk->dtype;
  const uint8_t *dense = walk->data + first * hd__dtype_bytes(walk->dtype);
  hd_block temporary;
  if (is_dense(walk) && same)
    return dense;
  if (!is_dense(walk)) {
    uint8_t *gathered = same ? block->u8 : temporary.u8;
    move(walk, first, count, gathered, true);
    dense = gathered;
  }
  if (!same)
    convert(block, dtype, dense, walk->dtype, count);
  return block;
}

void hd__strided_write(const hd_strided *walk, hd_dtype dtype, int64_t first, int64_t count, const void *values) {
  hd_block temporary;
  if (dtype != walk->dtype) {
    convert(&temporary, walk->dtype, values, dtype, count);
    values = &temporary;
  }
  move(walk, first, count, (uint8_t *)(uintptr_t)values, false);
}
