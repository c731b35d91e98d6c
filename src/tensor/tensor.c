/* Creating and destroying tensors: the storage with its reference count, the properties of a tensor, and checks of
 * operands with their messages. */
#include "tensor/eager.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "base/alloc.h"

/* The size of the storage's fields, padded so that element 0 is aligned for every kernel. */
enum { HEADER_BYTES = HD_ALIGNED_BYTES };
_Static_assert(sizeof(hd_storage) <= HEADER_BYTES, "elements begin behind the header");

/* The product of the sizes, as bytes; false where that of the sizes above 0 does not fit memory. */
static bool count_bytes(int64_t *bytes, hd_dtype dtype, int ndim, const int64_t *size) {
  int64_t product = hd__dtype_bytes(dtype);
  bool overflow = false, empty = false;
  for (int d = 0; d < ndim; d++) {
    empty |= size[d] == 0;
    overflow |= __builtin_mul_overflow(product, size[d] > 0 ? size[d] : 1, &product);
  }
  *bytes = empty ? 0 : product;
  return !overflow && product <= PTRDIFF_MAX - 2 * HEADER_BYTES;
}

static hd_status check_sizes(int64_t *bytes, hd_ctx *ctx, hd_dtype dtype, int ndim, const int64_t *size) {
  char text[HD_SIZES_TEXT_BYTES];
  if ((int)dtype < 0 || (int)dtype >= HD_DTYPE_COUNT)
    return hd__fail(ctx, HD_E_USAGE, "expected HD_F32, HD_U8 or HD_I32, found type %d", (int)dtype);
  if (ndim < 0 || ndim > HD_TENSOR_MAX_DIMS || (ndim > 0 && !size))
    return hd__fail(ctx, HD_E_SHAPE, "expected 0 to %d dimensions, found %d; merge some", HD_TENSOR_MAX_DIMS, ndim);
  for (int d = 0; d < ndim; d++)
    if (size[d] < 0)
      return hd__fail(ctx, HD_E_SHAPE, "expected sizes of 0 or more, found %s", hd__sizes_text(text, ndim, size));
  if (!count_bytes(bytes, dtype, ndim, size))
    return hd__fail(ctx, HD_E_SHAPE, "expected a tensor that fits in memory, found %s of %s; use smaller sizes",
                    hd__sizes_text(text, ndim, size), hd__dtype_text(dtype));
  return HD_OK;
}

static void set_contiguous(hd_tensor *x, int ndim, const int64_t *size) {
  int64_t stride = 1;
  x->ndim = ndim;
  for (int d = ndim - 1; d >= 0; d--) {
    x->size[d] = size[d];
    x->stride[d] = stride;
    stride *= size[d] > 0 ? size[d] : 1;
  }
}

hd_status hd__tensor_new(hd_tensor **out, hd_ctx *ctx, hd_dtype dtype, int ndim, const int64_t *size) {
  return hd__tensor_new_on(out, ctx, (hd_device){HD_CPU, 0}, dtype, ndim, size);
}

/* Memory on a GPU. It is allocated when a call returns, so that any thread may use it. */
static hd_status allocate_on_gpu(hd_storage *storage, hd_ctx *ctx, int gpu) {
  HD_TRY(hd__cuda_share(&storage->gpu, ctx, gpu));
  hd_cuda *cuda = hd__cuda_lock(storage->gpu);
  const hd_status status = hd__cuda_take_for(&storage->memory, cuda, ctx, storage->bytes, HD_GPU_TENSORS);
  if (status != HD_OK)
    hd__cuda_free(cuda, storage->memory);
  hd__cuda_unlock(storage->gpu);
  if (status != HD_OK)
    hd__cuda_unshare(storage->gpu);
  return status;
}

static void free_on_gpu(hd_storage *storage) {
  hd__cuda_free(hd__cuda_lock(storage->gpu), storage->memory);
  hd__cuda_unlock(storage->gpu);
  hd__cuda_unshare(storage->gpu);
}

hd_status hd__tensor_new_on(hd_tensor **out, hd_ctx *ctx, hd_device device, hd_dtype dtype, int ndim,
                            const int64_t *size) {
  const bool there = device.kind == HD_CUDA;
  char text[HD_SIZES_TEXT_BYTES];
  int64_t bytes = 0;
  *out = NULL;
  HD_TRY(check_sizes(&bytes, ctx, dtype, ndim, size));
  hd_tensor *x = hd__calloc(1, sizeof *x);
  hd_storage *storage = hd__malloc_aligned((size_t)(there ? 0 : bytes) + HEADER_BYTES);
  if (!x || !storage) {
    hd__free(x);
    hd__free(storage);
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a tensor of sizes %s (%lld bytes)",
                    hd__sizes_text(text, ndim, size), (long long)bytes);
  }
  atomic_init(&storage->users, 1);
  storage->bytes = bytes;
  storage->gpu = NULL;
  const hd_status status = there ? allocate_on_gpu(storage, ctx, device.index) : HD_OK;
  if (status != HD_OK) {
    hd__free(x);
    hd__free(storage);
    return status;
  }
  x->storage = storage;
  x->data = there ? (uint8_t *)(uintptr_t)storage->memory : (uint8_t *)storage + HEADER_BYTES;
  x->dtype = dtype;
  x->device = device;
  set_contiguous(x, ndim, size);
  *out = x;
  return HD_OK;
}

hd_status hd__tensor_share(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x) {
  hd_tensor *view = hd__malloc(sizeof *view);
  *out = view;
  HD_TRY(HD_ALLOCATED(view, ctx, "out of memory for a view of a tensor"));
  *view = *x;
  atomic_fetch_add_explicit(&view->storage->users, 1, memory_order_relaxed);
  return HD_OK;
}

hd_status hd__tensor_keep(hd_tensor **out, hd_status status) { return HD_CREATED(status, out, hd_tensor_destroy); }

void hd_tensor_destroy(hd_tensor *x) {
  if (!x)
    return;
  if (atomic_fetch_sub_explicit(&x->storage->users, 1, memory_order_acq_rel) == 1) {
    if (x->storage->gpu)
      free_on_gpu(x->storage);
    hd__free(x->storage);
  }
  hd__free(x);
}

int hd_tensor_ndim(const hd_tensor *x) { return x ? x->ndim : 0; }

/* Dimension `dim` counted from either end, -1 if there is none. */
static int dim_of(const hd_tensor *x, int dim) {
  if (x && dim < 0)
    dim += x->ndim;
  return x && dim >= 0 && dim < x->ndim ? dim : -1;
}

int64_t hd_tensor_size(const hd_tensor *x, int dim) {
  int d = dim_of(x, dim);
  return d >= 0 ? x->size[d] : x ? -1 : 0;
}

int64_t hd_tensor_stride(const hd_tensor *x, int dim) {
  int d = dim_of(x, dim);
  return d >= 0 ? x->stride[d] : 0;
}

int64_t hd_tensor_elems(const hd_tensor *x) {
  int64_t elems = x ? 1 : 0;
  for (int d = 0; x && d < x->ndim; d++)
    elems *= x->size[d];
  return elems;
}

hd_dtype hd_tensor_dtype(const hd_tensor *x) { return x ? x->dtype : HD_F32; }

hd_device hd_tensor_device(const hd_tensor *x) { return x ? x->device : (hd_device){HD_CPU, 0}; }

void *hd_tensor_data(const hd_tensor *x) { return x ? x->data : NULL; }

bool hd__tensor_contiguous(const hd_tensor *x) {
  int64_t stride = 1;
  if (hd_tensor_elems(x) == 0)
    return true;
  for (int d = x->ndim - 1; d >= 0; d--) {
    if (x->size[d] != 1 && x->stride[d] != stride)
      return false;
    stride *= x->size[d];
  }
  return true;
}

/* ---- Checks ---- */

const char *hd__dtype_text(hd_dtype dtype) {
  static const char *const text[HD_DTYPE_COUNT] = {[HD_F32] = "float32", [HD_U8] = "uint8", [HD_I32] = "int32"};
  return (int)dtype >= 0 && (int)dtype < HD_DTYPE_COUNT ? text[dtype] : "another type";
}

const char *hd__sizes_text(char text[HD_SIZES_TEXT_BYTES], int ndim, const int64_t *size) {
  int at = snprintf(text, HD_SIZES_TEXT_BYTES, "[");
  for (int d = 0; d < ndim && d < HD_TENSOR_MAX_DIMS; d++)
    at += snprintf(text + at, (size_t)(HD_SIZES_TEXT_BYTES - at), d ? ", %lld" : "%lld", (long long)size[d]);
  snprintf(text + at, (size_t)(HD_SIZES_TEXT_BYTES - at), "]");
  return text;
}

hd_status hd__tensor_given(hd_ctx *ctx, const hd_tensor *x) {
  if (x)
    return HD_OK;
  if (*hd_ctx_message(ctx))
    return HD_E_USAGE; /* the failed call before has set the message */
  return hd__fail(ctx, HD_E_USAGE, "expected a tensor, found NULL; check the call that should have created it");
}

hd_status hd__tensor_here(hd_ctx *ctx, const hd_tensor *x) {
  char text[HD_DEVICE_TEXT_BYTES];
  HD_TRY(hd__tensor_given(ctx, x));
  if (x->device.kind != HD_CPU)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "expected a tensor on cpu, found %s, which has only matmul, add, relu, tanh and clone; move "
                    "it with hd_tensor_to",
                    hd_device_text(text, x->device));
  return HD_OK;
}

hd_status hd__tensors_beside(hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b) {
  char first[HD_DEVICE_TEXT_BYTES], second[HD_DEVICE_TEXT_BYTES];
  HD_TRY(hd__tensor_given(ctx, a));
  HD_TRY(hd__tensor_given(ctx, b));
  if (a->device.kind != b->device.kind || a->device.index != b->device.index)
    return hd__fail(ctx, HD_E_USAGE, "expected both tensors on %s, found %s; move one with hd_tensor_to",
                    hd_device_text(first, a->device), hd_device_text(second, b->device));
  return HD_OK;
}

hd_status hd__tensors_together(hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b) {
  HD_TRY(hd__tensors_beside(ctx, a, b));
  return hd__tensor_here(ctx, a);
}

hd_status hd__find_dim(int *out, hd_ctx *ctx, int64_t dim, int ndim) {
  if (dim < -ndim || dim >= ndim)
    return ndim == 0 ? hd__fail(ctx, HD_E_USAGE,
                                "expected a tensor with dimensions, found a single number; leave out dimension %lld",
                                (long long)dim)
                     : hd__fail(ctx, HD_E_USAGE, "expected a dimension from %d to %d, found %lld", -ndim, ndim - 1,
                                (long long)dim);
  *out = (int)(dim < 0 ? dim + ndim : dim);
  return HD_OK;
}

hd_status hd__value_fits(hd_ctx *ctx, hd_dtype dtype, double value) {
  const double low = dtype == HD_U8 ? 0 : -0x1p31, high = dtype == HD_U8 ? 255 : 0x1p31 - 1;
  if (dtype == HD_F32 || (value >= low && value <= high && value == floor(value)))
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE, "expected a whole number from %.0f to %.0f for %s, found %g; use HD_F32", low, high,
                  hd__dtype_text(dtype), value);
}

hd_status hd__broadcast(int *ndim, int64_t *size, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b) {
  char left[HD_SIZES_TEXT_BYTES], right[HD_SIZES_TEXT_BYTES];
  *ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
  for (int d = 0; d < *ndim; d++) {
    int da = d - (*ndim - a->ndim), db = d - (*ndim - b->ndim);
    int64_t sa = da >= 0 ? a->size[da] : 1, sb = db >= 0 ? b->size[db] : 1;
    if (sa != sb && sa != 1 && sb != 1)
      return hd__fail(ctx, HD_E_SHAPE,
                      "expected sizes that are equal or 1, found %s and %s, which differ in dimension %d; reshape one",
                      hd__sizes_text(left, a->ndim, a->size), hd__sizes_text(right, b->ndim, b->size), d - *ndim);
    size[d] = sa == 1 ? sb : sa;
  }
  return HD_OK;
}
