/* Reference kernels over plain arrays: what each operation of a tensor means, element by element. */
#include <math.h>

#include "kernel/ref/ref_fill.h"
#include "base/exact_math.h"

/* An element-wise kernel: y[i], a `result`, from x[i] (or a[i] and b[i]), of type `type`. */
#define UNARY(name, type, expression)                                                                                  \
  static void name(void *out, const void *in, int64_t count) {                                                         \
    type *y = out;                                                                                                     \
    const type *from = in;                                                                                             \
    for (int64_t i = 0; i < count; i++) {                                                                              \
      const type x = from[i];                                                                                          \
      y[i] = (type)(expression);                                                                                       \
    }                                                                                                                  \
  }
#define BINARY(name, type, result, expression)                                                                         \
  static void name(void *out, const void *left, const void *right, int64_t count) {                                    \
    result *y = out;                                                                                                   \
    const type *as = left, *bs = right;                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                                              \
      const type a = as[i], b = bs[i];                                                                                 \
      y[i] = (result)(expression);                                                                                     \
    }                                                                                                                  \
  }

/* x < 0 ? 0 : x, on bits: compilers make of that an instruction that flushes a caller's denormals, or two that leave
 * them. Between the bounds, which are -2^-126 and -infinity, lies every other negative number. */
static inline float rectified(float x) {
  const uint32_t bits = hd__bits_of_float(x), first = 0x80800000, last = 0xff800000;
  return hd__float_of_bits(bits & -(uint32_t)(bits - first > last - first));
}

UNARY(neg_f32, float, -x)
UNARY(neg_u8, uint8_t, 0u - x)
UNARY(neg_i32, int32_t, 0u - (uint32_t)x)
UNARY(abs_f32, float, fabsf(x))
UNARY(abs_u8, uint8_t, x)
UNARY(abs_i32, int32_t, x < 0 ? 0u - (uint32_t)x : (uint32_t)x)
UNARY(relu_f32, float, rectified(x))
UNARY(relu_u8, uint8_t, x)
UNARY(relu_i32, int32_t, x < 0 ? 0 : x)
UNARY(exp_f32, float, hd__expf(x))
UNARY(log_f32, float, hd__logf(x))
UNARY(sqrt_f32, float, sqrtf(x))
UNARY(tanh_f32, float, hd__tanhf(x))

/* Integers are computed without a sign and so wrap around. */
#define ARITHMETIC(name, sign)                                                                                         \
  BINARY(name##_f32, float, float, a sign b)                                                                           \
  BINARY(name##_u8, uint8_t, uint8_t, a sign b)                                                                        \
  BINARY(name##_i32, int32_t, int32_t, (uint32_t)a sign(uint32_t) b)
ARITHMETIC(add, +)
ARITHMETIC(sub, -)
ARITHMETIC(mul, *)
BINARY(div_f32, float, float, a / b)

#define COMPARISON(name, sign)                                                                                         \
  BINARY(name##_f32, float, uint8_t, a sign b)                                                                         \
  BINARY(name##_u8, uint8_t, uint8_t, a sign b)                                                                        \
  BINARY(name##_i32, int32_t, uint8_t, a sign b)
COMPARISON(eq, ==)
COMPARISON(ne, !=)
COMPARISON(lt, <)
COMPARISON(le, <=)
COMPARISON(gt, >)
COMPARISON(ge, >=)

/* Element i belongs to chain i mod 16; then t[i] = s[i] + s[i + 8], + 4, + 2, + 1. */
static hd_number sum_f32(const void *in, int64_t count) {
  const float *x = in;
  float s[16] = {0};
  for (int64_t i = 0; i < count; i++)
    s[i % 16] = s[i % 16] + x[i];
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; i++)
      s[i] = s[i] + s[i + half];
  return (hd_number){.f = s[0]};
}

static void sum_columns(float *out, const float *x, int64_t count, int64_t stride, int64_t width) {
  float column[HD_ARRAY_BLOCK];
  for (int64_t j = 0; j < width; j++) {
    for (int64_t i = 0; i < count; i++)
      column[i] = x[i * stride + j];
    out[j] = sum_f32(column, count).f;
  }
}

#define SUM(name, type)                                                                                                \
  static hd_number name(const void *in, int64_t count) {                                                               \
    const type *x = in;                                                                                                \
    int64_t sum = 0;                                                                                                   \
    for (int64_t i = 0; i < count; i++)                                                                                \
      sum += x[i];                                                                                                     \
    return (hd_number){.i = sum};                                                                                      \
  }
SUM(sum_u8, uint8_t)
SUM(sum_i32, int32_t)

/* The first x for which no other is `better`; nothing is better than a NaN. */
#define FIND(name, type, better)                                                                                       \
  static int64_t name(const void *in, int64_t count) {                                                                 \
    const type *x = in;                                                                                                \
    int64_t best = 0;                                                                                                  \
    for (int64_t i = 1; i < count && x[best] == x[best]; i++)                                                          \
      if (x[i] better x[best] || x[i] != x[i])                                                                         \
        best = i;                                                                                                      \
    return best;                                                                                                       \
  }
FIND(max_f32, float, >)
FIND(max_u8, uint8_t, >)
FIND(max_i32, int32_t, >)
FIND(min_f32, float, <)
FIND(min_u8, uint8_t, <)
FIND(min_i32, int32_t, <)

#define ALL_TYPES(name)                                                                                                \
  { [HD_F32] = name##_f32, [HD_U8] = name##_u8, [HD_I32] = name##_i32 }
#define F32_ALONE(name)                                                                                                \
  { [HD_F32] = name##_f32 }

static const hd_array_kernels kernels = {
    .unary = {[HD_UNARY_NEG] = ALL_TYPES(neg),
              [HD_UNARY_ABS] = ALL_TYPES(abs),
              [HD_UNARY_RELU] = ALL_TYPES(relu),
              [HD_UNARY_EXP] = F32_ALONE(exp),
              [HD_UNARY_LOG] = F32_ALONE(log),
              [HD_UNARY_SQRT] = F32_ALONE(sqrt),
              [HD_UNARY_TANH] = F32_ALONE(tanh)},
    .binary = {[HD_BINARY_ADD] = ALL_TYPES(add),
               [HD_BINARY_SUB] = ALL_TYPES(sub),
               [HD_BINARY_MUL] = ALL_TYPES(mul),
               [HD_BINARY_DIV] = F32_ALONE(div),
               [HD_BINARY_EQ] = ALL_TYPES(eq),
               [HD_BINARY_NE] = ALL_TYPES(ne),
               [HD_BINARY_LT] = ALL_TYPES(lt),
               [HD_BINARY_LE] = ALL_TYPES(le),
               [HD_BINARY_GT] = ALL_TYPES(gt),
               [HD_BINARY_GE] = ALL_TYPES(ge)},
    .sum = ALL_TYPES(sum),
    .sum_columns = sum_columns,
    .find = {[HD_EXTREME_MAX] = ALL_TYPES(max), [HD_EXTREME_MIN] = ALL_TYPES(min)},
};

void hd__ref_array_fill(hd_kernels *table) { table->array = kernels; }
