/* Definitions shared in this folder: the tensor, the threads of a context, and reading operands.
 *
 *     hd_tensor  data ──────────┐         storage (users: tensors that share it)
 *       size, stride (elements) └──────►  | users | bytes | pad | element 0 ...                |
 *
 * Strides are never negative; a stride is 0 where a dimension is repeated. A fresh tensor is contiguous: row-major, the
 * last dimension fastest. Work is cut into blocks of HD_ARRAY_BLOCK elements of the result in row-major order; threads
 * take ranges of blocks, and no number depends on where these are cut. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/status.h"
#include "exec/gpu/device/shared_gpus.h"
#include "graph/graph.h"
#include "heddle/tensor.h"
#include "kernel/kernel.h"

typedef struct hd_storage {
  atomic_int users;
  int64_t bytes;
  hd_cuda_shared *gpu; /* that has the elements; NULL: they follow this struct */
  cu_pointer memory;   /* of the elements on the GPU */
} hd_storage;

struct hd_tensor {
  hd_storage *storage;
  uint8_t *data; /* element 0, somewhere in the storage */
  hd_dtype dtype;
  hd_device device;
  int32_t ndim;
  int64_t size[HD_TENSOR_MAX_DIMS], stride[HD_TENSOR_MAX_DIMS];
};

/* ---- tensor.c ---- */

/* A contiguous tensor on the CPU with undefined elements. Checks type, number of dimensions and sizes. */
hd_status hd__tensor_new(hd_tensor **out, hd_ctx *ctx, hd_dtype dtype, int ndim, const int64_t *size);

/* The same on a device. */
hd_status hd__tensor_new_on(hd_tensor **out, hd_ctx *ctx, hd_device device, hd_dtype dtype, int ndim,
                            const int64_t *size);

/* Returns `status`; if it is a failure, destroys *out. */
hd_status hd__tensor_keep(hd_tensor **out, hd_status status);

/* A second tensor that shares x's elements. */
hd_status hd__tensor_share(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x);

const char *hd__dtype_text(hd_dtype dtype); /* "float32" */
bool hd__tensor_contiguous(const hd_tensor *x);

/* "[2, 3]" */
enum { HD_SIZES_TEXT_BYTES = 192 };
const char *hd__sizes_text(char text[HD_SIZES_TEXT_BYTES], int ndim, const int64_t *size);

/* HD_E_USAGE for NULL; keeps an earlier message. */
hd_status hd__tensor_given(hd_ctx *ctx, const hd_tensor *x);

/* Checks that tensors are given and on the CPU, both on one device. */
hd_status hd__tensors_together(hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);
hd_status hd__tensor_here(hd_ctx *ctx, const hd_tensor *x);

/* Checks that two tensors are given and on one device; whether a tensor is on a GPU. */
hd_status hd__tensors_beside(hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);
static inline bool hd__tensor_on_gpu(const hd_tensor *x) { return x->device.kind == HD_CUDA; }

/* *out = dim, counted from the end if negative; HD_E_USAGE if it is not a dimension of ndim. */
hd_status hd__find_dim(int *out, hd_ctx *ctx, int64_t dim, int ndim);

/* Checks that the number is in the range of the type. */
hd_status hd__value_fits(hd_ctx *ctx, hd_dtype dtype, double value);

/* The shape that a and b are broadcast to. */
hd_status hd__broadcast(int *ndim, int64_t *size, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);

/* ---- tensor_device.c ---- */

/* Operations on tensors of one GPU: a copy; relu, tanh, or a + b of one shape; a product of matrices whose sizes
 * fit. */
hd_status hd__gpu_clone(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x);
hd_status hd__gpu_each(hd_tensor **out, hd_ctx *ctx, hd_op op, const hd_tensor *a, const hd_tensor *b);
hd_status hd__gpu_matmul(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b);

/* ---- team.c ---- */

static inline int64_t hd__block_count(int64_t elems) { return (elems + HD_ARRAY_BLOCK - 1) / HD_ARRAY_BLOCK; }

/* Runs work(arg, first, last) over parts [0, parts), in ranges over the threads of the context if `elems` elements
 * are worth it, else in the calling thread; always in heddle's floating-point mode. If the system refuses threads,
 * the calling thread does all the work. HD_E_NOMEM if there is no memory for the threads. */
typedef void hd_parts_fn(void *arg, int64_t first, int64_t last);
hd_status hd__team_run(hd_ctx *ctx, int64_t parts, int64_t elems, hd_parts_fn *work, void *arg);

/* The kernels of this CPU, or of HEDDLE_ISA. */
const hd_kernels *hd__tensor_kernels(void);

/* ---- strided.c ---- */

/* An iteration over a tensor in the row-major order of a shape, with adjacent dimensions joined where strides allow:
 * contiguous elements become one dimension of stride 1, a repeated number one of stride 0. */
typedef struct hd_strided {
  uint8_t *data;
  hd_dtype dtype;
  int ndim; /* >= 1 */
  int64_t size[HD_TENSOR_MAX_DIMS], stride[HD_TENSOR_MAX_DIMS];
} hd_strided;

/* x broadcast to a shape from hd__broadcast, or to x's shape. */
void hd__strided_init(hd_strided *walk, const hd_tensor *x, int ndim, const int64_t *size);

/* A block of elements in any type. */
typedef union hd_block {
  _Alignas(64) float f32[HD_ARRAY_BLOCK];
  uint8_t u8[HD_ARRAY_BLOCK];
  int32_t i32[HD_ARRAY_BLOCK];
} hd_block;

/* Elements first .. first + count - 1 as `dtype`, count <= HD_ARRAY_BLOCK: in place, or gathered into `block`. */
const void *hd__strided_read(const hd_strided *walk, hd_dtype dtype, int64_t first, int64_t count, hd_block *block);

/* The address of element `index` of the walk. */
const void *hd__strided_at(const hd_strided *walk, int64_t index);

/* Writes elements first .. from values of type `dtype`. */
void hd__strided_write(const hd_strided *walk, hd_dtype dtype, int64_t first, int64_t count, const void *values);

/* Loads and stores an element of a type; the number is in the range of the type. */
double hd__load(hd_dtype dtype, const void *element);
void hd__store(hd_dtype dtype, void *element, double value);
