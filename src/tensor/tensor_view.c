/* Views: other sizes and strides of the same elements. Only a reshape may copy. */
#include "tensor/eager.h"

#include <string.h>

static void drop_dim(hd_tensor *x, int dim) {
  for (int d = dim; d + 1 < x->ndim; d++) {
    x->size[d] = x->size[d + 1];
    x->stride[d] = x->stride[d + 1];
  }
  x->ndim--;
}

hd_status hd_tensor_select(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int dim, int64_t index) {
  int d;
  *out = NULL;
  HD_TRY(hd__tensor_given(ctx, x));
  HD_TRY(hd__find_dim(&d, ctx, dim, x->ndim));
  const int64_t size = x->size[d];
  if (index < -size || index >= size)
    return hd__fail(ctx, HD_E_USAGE, "expected an index from %lld to %lld in dimension %d, found %lld",
                    (long long)-size, (long long)size - 1, d, (long long)index);
  HD_TRY(hd__tensor_share(out, ctx, x));
  (*out)->data += (index < 0 ? index + size : index) * x->stride[d] * hd__dtype_bytes(x->dtype);
  drop_dim(*out, d);
  return HD_OK;
}

/* An end of a slice: counted from the end if negative, clamped to 0 .. size. */
static int64_t hold(int64_t at, int64_t size) {
  if (at < 0)
    at = at < -size ? 0 : at + size;
  return at > size ? size : at;
}

hd_status hd_tensor_slice(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int dim, int64_t start, int64_t stop,
                          int64_t step) {
  int d;
  *out = NULL;
  HD_TRY(hd__tensor_given(ctx, x));
  HD_TRY(hd__find_dim(&d, ctx, dim, x->ndim));
  if (step < 1)
    return hd__fail(ctx, HD_E_USAGE, "expected a step of 1 or more, found %lld", (long long)step);
  start = hold(start, x->size[d]);
  stop = hold(stop, x->size[d]);
  const int64_t length = stop > start ? stop - start : 0;
  HD_TRY(hd__tensor_share(out, ctx, x));
  (*out)->size[d] = length / step + (length % step != 0);
  if (length > 0) {
    (*out)->data += start * x->stride[d] * hd__dtype_bytes(x->dtype);
    (*out)->stride[d] *= (*out)->size[d] > 1 ? step : 1;
  }
  return HD_OK;
}

hd_status hd_tensor_permute(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *dims) {
  char text[HD_SIZES_TEXT_BYTES];
  int from[HD_TENSOR_MAX_DIMS], seen = 0;
  *out = NULL;
  HD_TRY(hd__tensor_given(ctx, x));
  if (ndim != x->ndim || (ndim > 0 && !dims))
    return hd__fail(ctx, HD_E_USAGE, "expected %d dimensions, one for each of the tensor's, found %d", x->ndim, ndim);
  for (int d = 0; d < ndim; d++) {
    HD_TRY(hd__find_dim(&from[d], ctx, dims[d], ndim));
    seen |= 1 << from[d];
  }
  if (seen != (1 << ndim) - 1)
    return hd__fail(ctx, HD_E_USAGE, "expected each dimension once, found %s", hd__sizes_text(text, ndim, dims));
  HD_TRY(hd__tensor_share(out, ctx, x));
  for (int d = 0; d < ndim; d++) {
    (*out)->size[d] = x->size[from[d]];
    (*out)->stride[d] = x->stride[from[d]];
  }
  return HD_OK;
}

hd_status hd_tensor_transpose(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int dim0, int dim1) {
  int64_t dims[HD_TENSOR_MAX_DIMS];
  int d0, d1;
  *out = NULL;
  HD_TRY(hd__tensor_given(ctx, x));
  HD_TRY(hd__find_dim(&d0, ctx, dim0, x->ndim));
  HD_TRY(hd__find_dim(&d1, ctx, dim1, x->ndim));
  for (int d = 0; d < x->ndim; d++)
    dims[d] = d == d0 ? d1 : d == d1 ? d0 : d;
  return hd_tensor_permute(out, ctx, x, x->ndim, dims);
}

hd_status hd_tensor_expand(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *size) {
  char from[HD_SIZES_TEXT_BYTES], to[HD_SIZES_TEXT_BYTES];
  int64_t elems = 1;
  *out = NULL;
  HD_TRY(hd__tensor_given(ctx, x));
  if (ndim < x->ndim || ndim > HD_TENSOR_MAX_DIMS || (ndim > 0 && !size))
    return hd__fail(ctx, HD_E_SHAPE, "expected %d to %d dimensions, found %d", x->ndim, HD_TENSOR_MAX_DIMS, ndim);
  for (int d = 0; d < ndim; d++) {
    const int source = d - (ndim - x->ndim);
    if (size[d] < 0 || (source >= 0 && x->size[source] != 1 && x->size[source] != size[d]) ||
        __builtin_mul_overflow(elems, size[d] > 0 ? size[d] : 1, &elems))
      return hd__fail(ctx, HD_E_SHAPE, "expected sizes that %s can be repeated to, found %s",
                      hd__sizes_text(from, x->ndim, x->size), hd__sizes_text(to, ndim, size));
  }
  HD_TRY(hd__tensor_share(out, ctx, x));
  (*out)->ndim = ndim;
  for (int d = 0; d < ndim; d++) {
    const int source = d - (ndim - x->ndim);
    (*out)->size[d] = size[d];
    (*out)->stride[d] = source < 0 || x->size[source] != size[d] ? 0 : x->stride[source];
  }
  return HD_OK;
}

/* Writes the sizes to `full`, with a size of -1 inferred. */
static hd_status complete_sizes(int64_t *full, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *size) {
  char from[HD_SIZES_TEXT_BYTES], to[HD_SIZES_TEXT_BYTES];
  const int64_t elems = hd_tensor_elems(x);
  int64_t known = 1;
  int open = -1;
  bool wrong = false;
  for (int d = 0; d < ndim; d++) {
    full[d] = size[d];
    wrong |= size[d] < -1 || (size[d] == -1 && open >= 0);
    if (size[d] == -1)
      open = d;
    else
      wrong |= __builtin_mul_overflow(known, size[d], &known);
  }
  if (open >= 0 && !wrong) {
    wrong = known == 0 || elems % known != 0;
    full[open] = wrong ? -1 : elems / known;
    known = elems;
  }
  if (wrong || known != elems)
    return hd__fail(ctx, HD_E_SHAPE, "expected sizes for the %lld elements of %s, at most one of them -1, found %s",
                    (long long)elems, hd__sizes_text(from, x->ndim, x->size), hd__sizes_text(to, ndim, size));
  return HD_OK;
}

/* The strides under which the new sizes walk x in row-major order; false where there are none. Each group of new
 * dimensions must lie in one run of x's dimensions, which strided.c's joining finds. */
static bool find_strides(int64_t *stride, const hd_tensor *x, int ndim, const int64_t *size) {
  hd_strided runs;
  hd__strided_init(&runs, x, x->ndim, x->size);
  int run = runs.ndim - 1;
  int64_t left = runs.size[run], next = runs.stride[run]; /* of the run: elements, the stride of the next dimension */
  for (int d = ndim - 1; d >= 0; d--) {
    if (left == 1 && run > 0 && size[d] != 1) {
      left = runs.size[--run];
      next = runs.stride[run];
    }
    if (left % size[d] != 0)
      return false;
    stride[d] = next;
    left /= size[d];
    next *= size[d];
  }
  return true;
}

hd_status hd_tensor_reshape(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *size) {
  int64_t full[HD_TENSOR_MAX_DIMS], stride[HD_TENSOR_MAX_DIMS] = {0};
  *out = NULL;
  HD_TRY(hd__tensor_given(ctx, x));
  if (ndim < 0 || ndim > HD_TENSOR_MAX_DIMS || (ndim > 0 && !size))
    return hd__fail(ctx, HD_E_SHAPE, "expected 0 to %d dimensions, found %d", HD_TENSOR_MAX_DIMS, ndim);
  HD_TRY(complete_sizes(full, ctx, x, ndim, size));
  if (hd_tensor_elems(x) == 0)
    return hd__tensor_new(out, ctx, x->dtype, ndim, full);
  if (find_strides(stride, x, ndim, full))
    HD_TRY(hd__tensor_share(out, ctx, x));
  else {
    HD_TRY(hd_tensor_clone(out, ctx, x));
    find_strides(stride, *out, ndim, full);
  }
  (*out)->ndim = ndim;
  memcpy((*out)->size, full, sizeof full);
  memcpy((*out)->stride, stride, sizeof stride);
  return HD_OK;
}
