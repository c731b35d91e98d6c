/* Kernels over plain arrays of floats, in groups of sixteen; integers and bits use the reference's loops.
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
UNARY(exponential, g16_exp(x))
UNARY(square_root, g16_sqrt(x))
UNARY(tangent, g16_tanh(x))

#define BINARY(name)                                                                                                   \
  static void each_##name(void *out, const void *left, const void *right, int64_t count) {                             \
    float *y = out;                                                                                                    \
    const float *a = left, *b = right;                                                                                 \
    for (int64_t i = 0; i < count; i += 16) {                                                                          \
      g16_fetch(a + i);                                                                                                \
      g16_fetch(b + i);                                                                                                \
      g16_store_some(y + i, g16_##name(g16_load_some(a + i, count - i), g16_load_some(b + i, count - i)), count - i);  \
    }                                                                                                                  \
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

/* Chains of up to 64 columns at once, so that memory is read in its order. */
enum { COLUMNS = 64 };

static void sum_some_columns(float *out, const float *x, int64_t count, int64_t stride, int64_t width) {
  _Alignas(64) float chains[16][COLUMNS] = {{0}};
  for (int64_t i = 0; i < count; i++, x += stride)
    for (int64_t j = 0; j < width; j += 16)
      g16_store(chains[i % 16] + j, g16_add(g16_load(chains[i % 16] + j), g16_load_some(x + j, width - j)));
  for (int half = 8; half > 0; half /= 2)
    for (int c = 0; c < half; c++)
      for (int64_t j = 0; j < width; j += 16)
        g16_store(chains[c] + j, g16_add(g16_load(chains[c] + j), g16_load(chains[c + half] + j)));
  memcpy(out, chains[0], (size_t)width * sizeof *out);
}

static void sum_columns(float *out, const float *x, int64_t count, int64_t stride, int64_t width) {
  for (int64_t j = 0; j < width; j += COLUMNS)
    sum_some_columns(out + j, x + j, count, stride, width - j < COLUMNS ? width - j : COLUMNS);
}

/* The extremes of up to 16 chains of elements, and where they are. */
typedef struct extremes {
  float value[16], at[16];
} extremes;

/* Is the extreme of chain i more extreme than that of chain j, or as extreme and earlier? */
static int comes_before(const extremes *e, int i, int j, int least) {
  const float a = e->value[i], b = e->value[j];
  const int a_nan = a != a, b_nan = b != b;
  if (a_nan != b_nan)
    return a_nan;
  if (a_nan || a == b)
    return e->at[i] < e->at[j];
  return least ? a < b : a > b;
}

/* Each lane of a group keeps the first extreme of its chain. The last group overlaps the one before it: an element that
 * is read twice has the same index both times. */
G16 int64_t find(const float *x, int64_t count, int least) {
  static const float lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  g16 best = g16_load_some(x, count), at = g16_load(lanes);
  for (int64_t i = 16; i < count; i += 16) {
    const int64_t from = i + 16 <= count ? i : count - 16;
    const g16 later = g16_load(x + from), here = g16_add(g16_load(lanes), g16_all((float)from));
    const g16_mask better = least ? g16_less(later, best) : g16_less(best, later), done = g16_nan(best);
    const g16_mask take = g16_or(better, g16_nan(later));
    at = g16_choose(done, at, g16_choose(take, here, at));
    best = g16_choose(done, best, g16_choose(take, later, best));
  }
  extremes e;
  int first = 0;
  g16_store(e.value, best);
  g16_store(e.at, at);
  for (int lane = 1; lane < 16 && lane < count; lane++)
    if (comes_before(&e, lane, first, least))
      first = lane;
  return (int64_t)e.at[first];
}

static int64_t find_max(const void *x, int64_t count) { return find(x, count, 0); }
static int64_t find_min(const void *x, int64_t count) { return find(x, count, 1); }

void HD_SYM(array_fill)(hd_kernels *table) {
  hd_array_kernels *array = &table->array;
  array->unary[HD_UNARY_EXP][HD_F32] = exponential;
  array->unary[HD_UNARY_SQRT][HD_F32] = square_root;
  array->unary[HD_UNARY_TANH][HD_F32] = tangent;
  array->binary[HD_BINARY_ADD][HD_F32] = each_add;
  array->binary[HD_BINARY_SUB][HD_F32] = each_sub;
  array->binary[HD_BINARY_MUL][HD_F32] = each_mul;
  array->binary[HD_BINARY_DIV][HD_F32] = each_div;
  array->sum[HD_F32] = sum;
  array->sum_columns = sum_columns;
  array->find[HD_EXTREME_MAX][HD_F32] = find_max;
  array->find[HD_EXTREME_MIN][HD_F32] = find_min;
}
