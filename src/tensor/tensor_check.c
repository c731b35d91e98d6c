/* Checks of operands, and their error messages. */
#include "tensor/eager.h"

#include <math.h>
#include <stdio.h>

const char *hd__dtype_text(hd_dtype dtype) {
  static const char *const text[HD_DTYPE_COUNT] = {[HD_F32] = "float32", [HD_U8] = "uint8", [HD_I32] = "int32"};
  return text[dtype];
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
  return hd__fail(ctx, HD_E_USAGE, "expected a tensor, found NULL; check the call that should have made it");
}

hd_status hd__tensor_here(hd_ctx *ctx, const hd_tensor *x) {
  char text[HD_DEVICE_TEXT_BYTES];
  HD_TRY(hd__tensor_given(ctx, x));
  if (x->device.kind != HD_CPU)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "expected a tensor on cpu, found %s, where there are matmul, add, relu, tanh and clone alone; move "
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
                                "expected a tensor with dimensions, found one number; leave out dimension %lld",
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
