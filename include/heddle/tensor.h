/* Tensors, computed at once: arrays of up to eight dimensions for the code around a training run.
 *
 *     hd_tensor *a, *b, *c;
 *     hd_tensor_arange(&a, ctx, HD_F32, 0, 6, 1);
 *     hd_tensor_reshape(&b, ctx, a, HD_DIMS(2, 3));
 *     hd_tensor_mul_scalar(&c, ctx, b, 10);
 *     hd_tensor_print(c, ctx, stdout);        // tensor([[ 0., 10., 20.],
 *                                             //         [30., 40., 50.]])
 *
 * Ownership. Every call that has an `out` makes a new tensor, which the caller frees with hd_tensor_destroy. A view
 * (select, slice, reshape, transpose, permute, expand) shares its elements with the tensor it was made from: a write
 * through one is visible through the other, and the memory is freed with the last of them, in any order.
 *
 * Errors. A call that fails sets *out to NULL, changes no tensor, and leaves a line in the context: HD_E_SHAPE for
 * sizes that do not fit or do not fit memory, HD_E_USAGE for an index, a dimension, a type or a device that is
 * wrong, HD_E_NOMEM. An operand that is NULL fails with HD_E_USAGE and keeps the earlier message: a chain of calls
 * may be checked once, at its end.
 *
 * Shapes. Dimensions count from 0, and from the end as -1, -2, ...; so do indices. A size may be 0. Operands of
 * different shapes are broadcast as in NumPy and PyTorch: aligned at the last dimension, a size of 1 is repeated.
 *
 * Types. Mixed operands take the wider type, u8 < i32 < f32, also where one is a single number (PyTorch takes the
 * type of the tensor there). Integer results wrap around, except sums, whose overflow is an error. Division and exp,
 * log, sqrt, tanh of integers give f32. NaN propagates through everything but comparisons.
 *
 * Numbers. Results are the same bits for any number of threads and any CPU of one architecture: docs/determinism.md
 * lists each chain. Results that underflow are zero.
 *
 * Thread safety. A context is used by one thread at a time, and owns the threads that compute. Any number of threads
 * with separate contexts may read one tensor; while one thread writes a tensor no other may use it. */
#ifndef HEDDLE_TENSOR_H
#define HEDDLE_TENSOR_H

#include <stdint.h>
#include <stdio.h>

#include "heddle/device.h"
#include "heddle/dtype.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_TENSOR_MAX_DIMS = 8, HD_TENSOR_MAX_THREADS = 1024 };

/* Sizes, or dimensions, as two arguments: HD_DIMS(2, 3) is `2, (const int64_t[]){2, 3}`. */
#define HD_DIMS(...)                                                                                                   \
  (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

/* No dimensions: the shape of a single number; for a reduction, all dimensions. */
#define HD_NO_DIMS 0, NULL
#define HD_ALL_DIMS 0, NULL

typedef struct hd_tensor hd_tensor;

/* ---- The threads of a context ---- */

/* Threads for large tensors, 1 .. HD_TENSOR_MAX_THREADS; 0, the default: the number of hd_get_num_threads. They are
 * started by the first large operation. Changes speed, never a bit. */
HD_API hd_status hd_tensor_set_threads(hd_ctx *ctx, int threads);

/* ---- Creating: on the CPU, contiguous ---- */

HD_API hd_status hd_tensor_zeros(hd_tensor **out, hd_ctx *ctx, hd_dtype dtype, int ndim, const int64_t *size);

/* `value` must be in the range of the type. */
HD_API hd_status hd_tensor_full(hd_tensor **out, hd_ctx *ctx, hd_dtype dtype, double value, int ndim,
                                const int64_t *size);

/* start, start + step, ... before `end`: ceil((end - start) / step) elements, each start + i * step in double. */
HD_API hd_status hd_tensor_arange(hd_tensor **out, hd_ctx *ctx, hd_dtype dtype, double start, double end, double step);

/* Copies `data`, row-major (last dimension fastest): float, uint8_t or int32_t as the type says. */
HD_API hd_status hd_tensor_from(hd_tensor **out, hd_ctx *ctx, hd_dtype dtype, const void *data, int ndim,
                                const int64_t *size);

/* Floats from Philox4x32-10: element i depends on the seed and i alone. rand: uniform in [0, 1), in steps of 2^-24;
 * randn: standard normal, by Box and Muller's method in double. */
HD_API hd_status hd_tensor_rand(hd_tensor **out, hd_ctx *ctx, uint64_t seed, int ndim, const int64_t *size);
HD_API hd_status hd_tensor_randn(hd_tensor **out, hd_ctx *ctx, uint64_t seed, int ndim, const int64_t *size);

/* A contiguous copy in new memory. */
HD_API hd_status hd_tensor_clone(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x);

/* A copy of another type. Floats are rounded towards zero and clamped to the type's range, NaN becomes 0; an i32
 * that becomes a u8 keeps its lowest eight bits. */
HD_API hd_status hd_tensor_to_dtype(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, hd_dtype dtype);

/* The tensor on a device: a contiguous copy; on the one where it is, a view. HD_E_UNSUPPORTED where there is no such
 * device, HD_E_NOMEM where it has too little memory. On a GPU there are views, clone, and for contiguous f32 matmul of
 * two matrices, add of equal sizes, relu and tanh, with the bits of the CPU; everything else is refused there with
 * HD_E_UNSUPPORTED, and operands on two devices with HD_E_USAGE. Nothing is moved implicitly. */
HD_API hd_status hd_tensor_to(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, hd_device device);

/* NULL is allowed. */
HD_API void hd_tensor_destroy(hd_tensor *x);

/* ---- Properties; for NULL all return 0 or NULL ---- */

HD_API int hd_tensor_ndim(const hd_tensor *x);
HD_API int64_t hd_tensor_size(const hd_tensor *x, int dim);   /* -1 for a dimension that is not there */
HD_API int64_t hd_tensor_stride(const hd_tensor *x, int dim); /* in elements */
HD_API int64_t hd_tensor_elems(const hd_tensor *x);
HD_API hd_dtype hd_tensor_dtype(const hd_tensor *x);
HD_API hd_device hd_tensor_device(const hd_tensor *x);

/* The address of element 0; that of others follows from the strides. Owned by the tensor. On a GPU it is a device
 * address. */
HD_API void *hd_tensor_data(const hd_tensor *x);

/* ---- Elements ---- */

/* `index` has as many numbers as the tensor has dimensions: hd_tensor_get(&v, ctx, x, HD_DIMS(1, -1)). */
HD_API hd_status hd_tensor_get(double *out, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *index);
HD_API hd_status hd_tensor_set(hd_tensor *x, hd_ctx *ctx, double value, int ndim, const int64_t *index);

/* The number in a tensor of one element, of any shape. */
HD_API hd_status hd_tensor_item(double *out, hd_ctx *ctx, const hd_tensor *x);

/* Writes through views. copy: `from` is broadcast to x and converted; the two may overlap. */
HD_API hd_status hd_tensor_fill(hd_tensor *x, hd_ctx *ctx, double value);
HD_API hd_status hd_tensor_copy(hd_tensor *x, hd_ctx *ctx, const hd_tensor *from);

/* As PyTorch prints: four decimals, lines of 80 columns, more than 1000 elements elided to three at each end. Types are
 * named dtype=int32, without "torch.". */
HD_API hd_status hd_tensor_print(const hd_tensor *x, hd_ctx *ctx, FILE *file);
HD_API hd_status hd_tensor_text(char **out, hd_ctx *ctx, const hd_tensor *x); /* the caller frees *out with free() */

/* ---- Views ---- */

/* x[..., index, ...]: one dimension less. */
HD_API hd_status hd_tensor_select(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int dim, int64_t index);

/* x[..., start:stop:step, ...] as in Python: both ends are clamped to the size; step >= 1. HD_END is the end. */
#define HD_END INT64_MAX
HD_API hd_status hd_tensor_slice(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int dim, int64_t start, int64_t stop,
                                 int64_t step);

/* The same elements in row-major order. One size may be -1: it is inferred. A copy where the strides allow no view. */
HD_API hd_status hd_tensor_reshape(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *size);

HD_API hd_status hd_tensor_transpose(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int dim0, int dim1);

/* Dimension i of the result is dimension dims[i] of x; each once. */
HD_API hd_status hd_tensor_permute(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *dims);

/* x broadcast to a shape; repeated elements share memory, so write to a clone. */
HD_API hd_status hd_tensor_expand(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *size);

/* ---- Arithmetic, element by element, broadcast ---- */

HD_API hd_status hd_tensor_add(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);
HD_API hd_status hd_tensor_sub(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);
HD_API hd_status hd_tensor_mul(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);
HD_API hd_status hd_tensor_div(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);

/* With one number. An integer tensor stays one if the number is whole; the number must then be in the range of the
 * type. */
HD_API hd_status hd_tensor_add_scalar(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, double b);
HD_API hd_status hd_tensor_sub_scalar(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, double b);
HD_API hd_status hd_tensor_mul_scalar(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, double b);
HD_API hd_status hd_tensor_div_scalar(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, double b);

HD_API hd_status hd_tensor_neg(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x);
HD_API hd_status hd_tensor_abs(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x);
HD_API hd_status hd_tensor_relu(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x);
HD_API hd_status hd_tensor_exp(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x);
HD_API hd_status hd_tensor_log(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x);
HD_API hd_status hd_tensor_sqrt(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x);
HD_API hd_status hd_tensor_tanh(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x);

/* ---- Comparison: u8, 1 where true. A NaN is unequal to everything. ---- */

HD_API hd_status hd_tensor_eq(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);
HD_API hd_status hd_tensor_ne(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);
HD_API hd_status hd_tensor_lt(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);
HD_API hd_status hd_tensor_le(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);
HD_API hd_status hd_tensor_gt(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);
HD_API hd_status hd_tensor_ge(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);

/* a where `condition`, a u8, is not 0, else b; all three broadcast. */
HD_API hd_status hd_tensor_where(hd_tensor **out, hd_ctx *ctx, const hd_tensor *condition, const hd_tensor *a,
                                 const hd_tensor *b);

/* ---- Products ---- */

/* Matrices, as in PyTorch: [.., M, K] by [.., K, N] gives [.., M, N] in f32; leading dimensions are broadcast. An
 * operand of one dimension is a row (left) or a column (right) without that dimension in the result. */
HD_API hd_status hd_tensor_matmul(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);

/* The same into a contiguous f32 tensor of the result's sizes, which shares no elements with a or b (PyTorch's
 * out=). */
HD_API hd_status hd_tensor_matmul_into(hd_tensor *x, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);

/* ---- Reductions, over the given dimensions, each once, or HD_ALL_DIMS. With keepdim they stay, of size 1. ---- */

HD_API hd_status hd_tensor_sum(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *dims,
                               int keepdim); /* integers: i32; HD_E_USAGE where a sum does not fit */
HD_API hd_status hd_tensor_mean(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *dims,
                                int keepdim); /* f32 only; NaN over nothing */

/* Over at least one element; NaN if there is one. argmax: i32, the first of equals, counted row-major over the reduced
 * dimensions. */
HD_API hd_status hd_tensor_max(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *dims,
                               int keepdim);
HD_API hd_status hd_tensor_min(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *dims,
                               int keepdim);
HD_API hd_status hd_tensor_argmax(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *dims,
                                  int keepdim);

#ifdef __cplusplus
}
#endif
#endif
