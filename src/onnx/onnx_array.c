/* Arrays of an ONNX file's constants: see onnx_array.h. */
#ifdef HD_HAVE_ONNX

#include "onnx/onnx_array.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

struct hd_onnx_block {
  struct hd_onnx_block *next;
  HdOnnx__Tensor tensor;
};

HdOnnx__Tensor *hd__onnx_new_tensor(hd_onnx_reader *r, int type, const int64_t *dim, size_t rank, size_t bytes) {
  const size_t all = sizeof(struct hd_onnx_block) + rank * sizeof *dim + bytes;
  r->room -= (int64_t)all;
  struct hd_onnx_block *block = r->room < 0 ? NULL : hd__malloc(all);
  if (!block)
    return NULL;
  *block = (struct hd_onnx_block){.next = r->blocks};
  r->blocks = block;
  HdOnnx__Tensor *t = &block->tensor;
  hd_onnx__tensor__init(t);
  t->n_dims = rank;
  t->dims = (int64_t *)(block + 1);
  copy_numbers(t->dims, dim, rank);
  t->has_data_type = 1;
  t->data_type = type;
  t->has_raw_data = 1;
  t->raw_data = (ProtobufCBinaryData){bytes, (uint8_t *)(t->dims + rank)};
  return t;
}

void hd__onnx_free_constants(hd_onnx_reader *r) {
  while (r->blocks) {
    struct hd_onnx_block *next = r->blocks->next;
    hd__free(r->blocks);
    r->blocks = next;
  }
  hd__free(r->constant);
  hd__free(r->type);
}

/* ---- Numbers ---- */

int64_t hd__array_count(const int64_t *dim, size_t rank) {
  int64_t count = 1;
  for (size_t i = 0; i < rank; i++) {
    if (dim[i] < 0 || (dim[i] > 0 && count > HD_ONNX_MOST_SIDE / dim[i]))
      return -1;
    count *= dim[i];
  }
  return count;
}

static double element(const unsigned char *from, int type) {
  union {
    float f;
    double d;
    int64_t l;
    int32_t i;
    uint16_t h;
  } u;
  memcpy(&u, from, size_of(type));
  switch (type) {
  case FLOAT: return (double)u.f;
  case DOUBLE: return u.d;
  case INT64: return (double)u.l;
  case INT32: return u.i;
  case HALF: return (double)hd__from_half(u.h);
  case BF16: return (double)hd__from_bfloat16(u.h);
  case INT8: return (int8_t)*from;
  default: return *from;
  }
}

/* Where a list of numbers in a message has element i; types that have no list of their own are in that of int32. */
static double listed(const HdOnnx__Tensor *t, int64_t i) {
  switch (t->data_type) {
  case FLOAT: return (double)t->float_data[i];
  case DOUBLE: return t->double_data[i];
  case INT64: return (double)t->int64_data[i];
  default: {
    const uint16_t bits = (uint16_t)t->int32_data[i];
    return t->data_type == HALF   ? (double)hd__from_half(bits)
           : t->data_type == BF16 ? (double)hd__from_bfloat16(bits)
                                  : t->int32_data[i];
  }
  }
}

/* A number with so many binary digits, whose places are not below 2^lowest; infinite beyond `most`. */
static double cut_digits(double x, int digits, int lowest, double most) {
  int exponent;
  if (!isfinite(x) || x == 0)
    return x;
  frexp(x, &exponent);
  const int place = exponent - digits < lowest ? lowest : exponent - digits;
  const double rounded = ldexp(rint(ldexp(x, -place)), place);
  return fabs(rounded) > most ? copysign((double)INFINITY, x) : rounded;
}

bool hd__array_round(double *x, int type) {
  switch (type) {
  case FLOAT: *x = (double)(float)*x; return true;
  case HALF: *x = cut_digits((double)(float)*x, 11, -24, 65504); return true;
  case BF16: *x = cut_digits((double)(float)*x, 8, -133, 0x1.fep127); return true;
  case INT8: return *x >= INT8_MIN && *x <= INT8_MAX;
  case UINT8: return *x >= 0 && *x <= UINT8_MAX;
  case INT32: return *x >= INT32_MIN && *x <= INT32_MAX;
  case INT64: return fabs(*x) <= 0x1p53;
  default: return true;
  }
}

bool hd__array_make(hd_array *a, int type, int rank, const int64_t *dim) {
  const int64_t most = a->most ? a->most : HD_ONNX_MOST_SIDE / 8;
  *a = (hd_array){.type = type, .rank = rank};
  if (rank > RANK)
    return false;
  copy_numbers(a->dim, dim, (size_t)rank);
  a->count = hd__array_count(dim, (size_t)rank);
  a->at = a->count < 0 || a->count > most ? NULL : hd__malloc((size_t)(a->count + 1) * sizeof *a->at);
  return a->at;
}

bool hd__array_read(hd_array *a, const HdOnnx__Tensor *t) {
  *a = (hd_array){0};
  if (!is_known(t->data_type) || t->data_location == EXTERNAL || t->n_dims > RANK ||
      !hd__array_make(a, t->data_type, (int)t->n_dims, t->dims))
    return false;
  const size_t size = size_of(t->data_type), count = (size_t)a->count;
  const size_t in_list = t->data_type == FLOAT    ? t->n_float_data
                         : t->data_type == DOUBLE ? t->n_double_data
                         : t->data_type == INT64  ? t->n_int64_data
                                                  : t->n_int32_data;
  if (t->has_raw_data ? t->raw_data.len != count * size : in_list != count)
    return false;
  for (int64_t i = 0; i < a->count; i++)
    a->at[i] = t->has_raw_data ? element(t->raw_data.data + (size_t)i * size, t->data_type) : listed(t, i);
  for (int64_t i = 0; i < a->count && t->data_type == INT64; i++)
    if (fabs(a->at[i]) > 0x1p53 && fabs(a->at[i]) < 9e18) /* the largest ones stand for the end of an axis */
      return false;
  return true;
}

HdOnnx__Tensor *hd__array_keep(hd_onnx_reader *r, const hd_array *a) {
  const int type = a->type == FLOAT || a->type == HALF || a->type == BF16 ? FLOAT
                   : a->type == DOUBLE || a->type == BOOL                 ? a->type
                                                                          : INT64;
  const size_t size = size_of(type);
  HdOnnx__Tensor *t = hd__onnx_new_tensor(r, type, a->dim, (size_t)a->rank, (size_t)a->count * size);
  for (int64_t i = 0; i < a->count && t; i++) {
    unsigned char *to = t->raw_data.data + (size_t)i * size;
    const float f = (float)a->at[i];
    const int64_t whole = fabs(a->at[i]) < 9e18 ? (int64_t)a->at[i] : a->at[i] > 0 ? INT64_MAX : INT64_MIN;
    if (type == BOOL)
      *to = a->at[i] != 0;
    else
      memcpy(to, type == FLOAT ? (const void *)&f : type == DOUBLE ? (const void *)&a->at[i] : &whole, size);
  }
  return t;
}

#endif
