/* Elementwise operations: arithmetic, functions, comparison, choice.
 *
 * A job walks the result in row-major order in blocks; each operand is read as a contiguous block of the kernel's
 * type, in place where it is one already. */
#include "tensor/eager.h"

#include <math.h>
#include <string.h>

typedef struct map {
  hd_strided in[3];
  hd_tensor *out;
  hd_dtype dtype; /* of the operands, for the kernel */
  int64_t elems;
  hd_unary_fn *unary;
  hd_binary_fn *binary;
} map;

static int64_t length_of_block(const map *job, int64_t block) {
  const int64_t left = job->elems - block * HD_ARRAY_BLOCK;
  return left < HD_ARRAY_BLOCK ? left : HD_ARRAY_BLOCK;
}

static const void *operand(const map *job, int which, int64_t block, hd_block *space) {
  return hd__strided_read(&job->in[which], job->dtype, block * HD_ARRAY_BLOCK, length_of_block(job, block), space);
}

static uint8_t *result(const map *job, int64_t block) {
  return job->out->data + block * HD_ARRAY_BLOCK * hd__dtype_bytes(job->out->dtype);
}

/* Runs the job for the new tensor *out; destroys it on failure. */
static hd_status run_map(map *job, hd_tensor **out, hd_ctx *ctx, hd_parts_fn *work) {
  job->out = *out;
  job->elems = hd_tensor_elems(*out);
  return hd__tensor_keep(out, hd__team_run(ctx, hd__block_count(job->elems), job->elems, work, job));
}

/* ---- One operand ---- */

static void map_unary(void *arg, int64_t first, int64_t last) {
  const map *job = arg;
  hd_block space;
  for (int64_t block = first; block < last; block++)
    job->unary(result(job, block), operand(job, 0, block, &space), length_of_block(job, block));
}

static hd_status unary(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, hd_unary which) {
  hd_unary_fn *const *kernel = hd__tensor_kernels()->array.unary[which];
  *out = NULL;
  HD_TRY(hd__tensor_given(ctx, x));
  if (hd__tensor_on_gpu(x) && (which == HD_UNARY_RELU || which == HD_UNARY_TANH))
    return hd__gpu_each(out, ctx, which == HD_UNARY_RELU ? HD_OP_relu : HD_OP_tanh, x, NULL);
  HD_TRY(hd__tensor_here(ctx, x));
  map job = {.dtype = kernel[x->dtype] ? x->dtype : HD_F32};
  job.unary = kernel[job.dtype];
  hd__strided_init(&job.in[0], x, x->ndim, x->size);
  HD_TRY(hd__tensor_new(out, ctx, job.dtype, x->ndim, x->size));
  return run_map(&job, out, ctx, map_unary);
}

/* ---- Two operands ---- */

static void map_binary(void *arg, int64_t first, int64_t last) {
  const map *job = arg;
  hd_block a, b;
  for (int64_t block = first; block < last; block++)
    job->binary(result(job, block), operand(job, 0, block, &a), operand(job, 1, block, &b),
                length_of_block(job, block));
}

static hd_dtype wider(hd_dtype a, hd_dtype b) {
  return a == HD_F32 || b == HD_F32 ? HD_F32 : a == HD_I32 || b == HD_I32 ? HD_I32 : HD_U8;
}

static bool same_sizes(const hd_tensor *a, const hd_tensor *b) {
  return a->ndim == b->ndim && !memcmp(a->size, b->size, (size_t)a->ndim * sizeof *a->size);
}

static hd_status binary(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b, hd_binary which) {
  hd_binary_fn *const *kernel = hd__tensor_kernels()->array.binary[which];
  int64_t size[HD_TENSOR_MAX_DIMS];
  int ndim;
  *out = NULL;
  HD_TRY(hd__tensors_beside(ctx, a, b));
  if (hd__tensor_on_gpu(a) && which == HD_BINARY_ADD && same_sizes(a, b))
    return hd__gpu_each(out, ctx, HD_OP_add, a, b);
  HD_TRY(hd__tensor_here(ctx, a));
  HD_TRY(hd__broadcast(&ndim, size, ctx, a, b));
  map job = {.dtype = wider(a->dtype, b->dtype)};
  if (!kernel[job.dtype])
    job.dtype = HD_F32;
  job.binary = kernel[job.dtype];
  hd__strided_init(&job.in[0], a, ndim, size);
  hd__strided_init(&job.in[1], b, ndim, size);
  HD_TRY(hd__tensor_new(out, ctx, which >= HD_BINARY_EQ ? HD_U8 : job.dtype, ndim, size));
  return run_map(&job, out, ctx, map_binary);
}

/* A number beside a tensor is a tensor of one element, of the tensor's type if it is whole and the operation has that.
 */
static hd_status with_scalar(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, double b, hd_binary which) {
  hd_tensor *number;
  *out = NULL;
  HD_TRY(hd__tensor_here(ctx, a));
  const bool whole = b == floor(b) && isfinite(b) && hd__tensor_kernels()->array.binary[which][a->dtype];
  const hd_dtype dtype = whole ? a->dtype : HD_F32;
  HD_TRY(hd_tensor_full(&number, ctx, dtype, b, HD_NO_DIMS));
  hd_status status = binary(out, ctx, a, number, which);
  hd_tensor_destroy(number);
  return status;
}

/* ---- Choice ---- */

static void map_where(void *arg, int64_t first, int64_t last) {
  const map *job = arg;
  const int64_t bytes = hd__dtype_bytes(job->dtype);
  hd_block condition, a, b;
  for (int64_t block = first; block < last; block++) {
    const int64_t count = length_of_block(job, block);
    const uint8_t *yes = hd__strided_read(&job->in[2], HD_U8, block * HD_ARRAY_BLOCK, count, &condition);
    const uint8_t *from_a = operand(job, 0, block, &a), *from_b = operand(job, 1, block, &b);
    uint8_t *y = result(job, block);
    for (int64_t i = 0; i < count; i++)
      memcpy(y + i * bytes, (yes[i] ? from_a : from_b) + i * bytes, (size_t)bytes);
  }
}

hd_status hd_tensor_where(hd_tensor **out, hd_ctx *ctx, const hd_tensor *condition, const hd_tensor *a,
                          const hd_tensor *b) {
  hd_tensor joint = {0}; /* the shape of a and b, to be broadcast with the condition's */
  int64_t size[HD_TENSOR_MAX_DIMS];
  int ndim;
  *out = NULL;
  HD_TRY(hd__tensors_together(ctx, a, b));
  HD_TRY(hd__tensors_together(ctx, condition, a));
  if (condition->dtype != HD_U8)
    return hd__fail(ctx, HD_E_USAGE, "expected a condition of uint8, found %s; compare first",
                    hd__dtype_text(condition->dtype));
  HD_TRY(hd__broadcast(&joint.ndim, joint.size, ctx, a, b));
  HD_TRY(hd__broadcast(&ndim, size, ctx, condition, &joint));
  map job = {.dtype = wider(a->dtype, b->dtype)};
  hd__strided_init(&job.in[0], a, ndim, size);
  hd__strided_init(&job.in[1], b, ndim, size);
  hd__strided_init(&job.in[2], condition, ndim, size);
  HD_TRY(hd__tensor_new(out, ctx, job.dtype, ndim, size));
  return run_map(&job, out, ctx, map_where);
}

/* ---- The public names ---- */

#define UNARY(name, which)                                                                                             \
  hd_status hd_tensor_##name(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x) { return unary(out, ctx, x, which); }
#define BINARY(name, which)                                                                                            \
  hd_status hd_tensor_##name(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b) {                   \
    return binary(out, ctx, a, b, which);                                                                              \
  }
#define SCALAR(name, which)                                                                                            \
  hd_status hd_tensor_##name##_scalar(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, double b) {                    \
    return with_scalar(out, ctx, a, b, which);                                                                         \
  }

UNARY(neg, HD_UNARY_NEG)
UNARY(abs, HD_UNARY_ABS)
UNARY(relu, HD_UNARY_RELU)
UNARY(exp, HD_UNARY_EXP)
UNARY(log, HD_UNARY_LOG)
UNARY(sqrt, HD_UNARY_SQRT)
UNARY(tanh, HD_UNARY_TANH)
BINARY(add, HD_BINARY_ADD)
BINARY(sub, HD_BINARY_SUB)
BINARY(mul, HD_BINARY_MUL)
BINARY(div, HD_BINARY_DIV)
BINARY(eq, HD_BINARY_EQ)
BINARY(ne, HD_BINARY_NE)
BINARY(lt, HD_BINARY_LT)
BINARY(le, HD_BINARY_LE)
BINARY(gt, HD_BINARY_GT)
BINARY(ge, HD_BINARY_GE)
SCALAR(add, HD_BINARY_ADD)
SCALAR(sub, HD_BINARY_SUB)
SCALAR(mul, HD_BINARY_MUL)
SCALAR(div, HD_BINARY_DIV)
