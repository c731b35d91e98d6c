/* Kernels over plain arrays of floats, in groups of sixteen; integers keep the reference's loops.
 *
 * Each lane of a group computes what the reference computes for its element. The sum's 16 chains are the lanes of one
 * group. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

#define UNARY(name, expression)                                                                                        \
  static void name(void *out, const void *in, int64_t count) {                                                         \
    float *y = out;                                                                                                    \
    const float *from = in;                                                                                            \
    for (int64_t i = 0; i < count; i += 16) {                                                                          \
      const g16 x = g16_load_some(from + i, count - i);                                                                \
      g16_store_some(y + i, (expression), count - i);                                                                  \
    }                                                                                                                  \
  }
UNARY(relu, g16_relu(x))
UNARY(exponential, g16_exp(x))
UNARY(square_root, g16_sqrt(x))
UNARY(tangent, g16_tanh(x))

#define BINARY(name)                                                                                                   \
  static void each_##name(void *out, const void *left, const void *right, int64_t count) {                             \
    float *y = out;                                                                                                    \
    const float *a = left, *b = right;                                                                                 \
    for (int64_t i = 0; i < count; i += 16)                                                                            \
      g16_store_some(y + i, g16_##name(g16_load_some(a + i, count - i), g16_load_some(b + i, count - i)), count - i);  \
  }
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)

/* A lane under a mask keeps its chain untouched: + 0 would turn a -0 into +0. */
static hd_number sum(const void *in, int64_t count) {
  const float *x = in;
  g16 chains = g16_zero();
  int64_t i = 0;
  for (; i + 16 <= count; i += 16)
    chains = g16_add(chains, g16_load(x + i));
  if (i < count) {
    const g16_mask mask = g16_first((int)(count - i));
    chains = g16_choose(mask, g16_add(chains, g16_load_mask(x + i, mask)), chains);
  }
  return (hd_number){.f = g16_tree(chains)};
}

void HD_SYM(array_fill)(hd_kernels *table) {
  hd_array_kernels *array = &table->array;
  array->unary[HD_UNARY_RELU][HD_F32] = relu;
  array->unary[HD_UNARY_EXP][HD_F32] = exponential;
  array->unary[HD_UNARY_SQRT][HD_F32] = square_root;
  array->unary[HD_UNARY_TANH][HD_F32] = tangent;
  array->binary[HD_BINARY_ADD][HD_F32] = each_add;
  array->binary[HD_BINARY_SUB][HD_F32] = each_sub;
  array->binary[HD_BINARY_MUL][HD_F32] = each_mul;
  array->binary[HD_BINARY_DIV][HD_F32] = each_div;
  array->sum[HD_F32] = sum;
}
