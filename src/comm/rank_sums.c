/* The reductions of collectives: see rank_sums.h for the order. */
#include "comm/rank_sums.h"

#include <string.h>

/* Bytes of the output that are summed over all ranks at a time: they stay in the L1 cache. */
enum { BLOCK_BYTES = 8192 };

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define VECTORS __attribute__((target_clones("default", "avx2", "avx512f"), optimize("O3")))
#else
#define VECTORS
#endif

#define ELEMENT float
#define SUMMED float
#define IS_NAN(x) ((x) != (x))
#define NAME(x) f32_##x
#include "comm/rank_sums_loops.h"

#define ELEMENT double
#define SUMMED double
#define IS_NAN(x) ((x) != (x))
#define NAME(x) f64_##x
#include "comm/rank_sums_loops.h"

#define ELEMENT int32_t
#define SUMMED uint32_t
#define IS_NAN(x) 0
#define NAME(x) i32_##x
#include "comm/rank_sums_loops.h"

#define ELEMENT int64_t
#define SUMMED uint64_t
#define IS_NAN(x) 0
#define NAME(x) i64_##x
#include "comm/rank_sums_loops.h"

#define ELEMENT uint8_t
#define SUMMED unsigned
#define IS_NAN(x) 0
#define NAME(x) u8_##x
#include "comm/rank_sums_loops.h"

typedef void loop_fn(void *out, const void *a, const void *b, int64_t count);

typedef struct type_loops {
  size_t size;
  const char *name;
  loop_fn *loop[HD_REDUCE_OP_COUNT];
  void (*divide)(void *out, int ranks, int64_t count);
} type_loops;

static const type_loops types[HD_GROUP_DTYPE_COUNT] = {
    [HD_F32] = {sizeof(float), "float32", {f32_sum, f32_sum, f32_min, f32_max, f32_prod}, f32_divide},
    [HD_F64] = {sizeof(double), "float64", {f64_sum, f64_sum, f64_min, f64_max, f64_prod}, f64_divide},
    [HD_I32] = {sizeof(int32_t), "int32", {i32_sum, i32_sum, i32_min, i32_max, i32_prod}, i32_divide},
    [HD_I64] = {sizeof(int64_t), "int64", {i64_sum, i64_sum, i64_min, i64_max, i64_prod}, i64_divide},
    [HD_U8] = {sizeof(uint8_t), "uint8", {u8_sum, u8_sum, u8_min, u8_max, u8_prod}, u8_divide}};

size_t hd__dtype_size(hd_dtype dtype) { return (unsigned)dtype < HD_GROUP_DTYPE_COUNT ? types[dtype].size : 0; }

const char *hd__dtype_name(hd_dtype dtype) {
  return (unsigned)dtype < HD_GROUP_DTYPE_COUNT ? types[dtype].name : "an unknown type";
}

const char *hd__reduce_name(hd_reduce_op op) {
  static const char *const name[HD_REDUCE_OP_COUNT] = {"sum", "avg", "min", "max", "prod"};
  return (unsigned)op < HD_REDUCE_OP_COUNT ? name[op] : "unknown";
}

void hd__reduce(void *output, const void *const *inputs, int ranks, int64_t count, hd_dtype dtype, hd_reduce_op op) {
  const type_loops *type = &types[dtype];
  const int64_t block = BLOCK_BYTES / (int64_t)type->size;
  if (ranks == 1 && output != inputs[0])
    memmove(output, inputs[0], (size_t)count * type->size);
  for (int64_t i = 0; i < count && ranks > 1; i += block) {
    const int64_t length = count - i < block ? count - i : block;
    const size_t at = (size_t)i * type->size;
    _Alignas(64) char sum[BLOCK_BYTES]; /* not the output, which may be an input of a later rank */
    char *out = (char *)output + at;
    const void *so_far = (const char *)inputs[0] + at;
    for (int r = 1; r < ranks; r++) {
      void *to = r == ranks - 1 ? (void *)out : (void *)sum;
      type->loop[op](to, so_far, (const char *)inputs[r] + at, length);
      so_far = to;
    }
    if (op == HD_REDUCE_AVG)
      type->divide(out, ranks, length);
  }
}
