/* The elements of tensors: copies through views, conversion to another type, single elements. */
#include "tensor/eager.h"

#include <string.h>

#include "base/rounding.h"

/* ---- Copies ---- */

typedef struct copying {
  hd_strided from, to;
  hd_dtype dtype; /* of `from` */
  int64_t elems;
} copying;

static void copy_blocks(void *arg, int64_t first, int64_t last) {
  const copying *job = arg;
  hd_block space;
  for (int64_t block = first; block < last; block++) {
    const int64_t begin = block * HD_ARRAY_BLOCK, left = job->elems - begin;
    const int64_t count = left < HD_ARRAY_BLOCK ? left : HD_ARRAY_BLOCK;
    const void *values = hd__strided_read(&job->from, job->dtype, begin, count, &space);
    hd__strided_write(&job->to, job->dtype, begin, count, values);
  }
}

/* Refuses tensors in which several indices refer to one element: threads would write it in any order. */
static hd_status check_writable(hd_ctx *ctx, const hd_tensor *x) {
  HD_TRY(hd__tensor_here(ctx, x));
  for (int d = 0; d < x->ndim; d++)
    if (x->size[d] > 1 && x->stride[d] == 0)
      return hd__fail(ctx, HD_E_USAGE,
                      "expected a tensor without repeated elements, found dimension %d repeated; write to a clone", d);
  return HD_OK;
}

/* `from` is repeated to the sizes of x, and has other storage. */
static hd_status copy_apart(hd_tensor *x, hd_ctx *ctx, const hd_tensor *from) {
  copying job = {.dtype = from->dtype, .elems = hd_tensor_elems(x)};
  hd__strided_init(&job.from, from, x->ndim, x->size);
  hd__strided_init(&job.to, x, x->ndim, x->size);
  return hd__team_run(ctx, hd__block_count(job.elems), job.elems, copy_blocks, &job);
}

hd_status hd_tensor_copy(hd_tensor *x, hd_ctx *ctx, const hd_tensor *from) {
  char target[HD_SIZES_TEXT_BYTES], other[HD_SIZES_TEXT_BYTES];
  int64_t size[HD_TENSOR_MAX_DIMS];
  hd_tensor *apart;
  int ndim;
  HD_TRY(hd__tensors_together(ctx, x, from));
  HD_TRY(check_writable(ctx, x));
  HD_TRY(hd__broadcast(&ndim, size, ctx, x, from));
  if (ndim != x->ndim || memcmp(size, x->size, (size_t)ndim * sizeof *size))
    return hd__fail(ctx, HD_E_SHAPE, "expected a tensor that can be repeated to %s, found %s",
                    hd__sizes_text(target, x->ndim, x->size), hd__sizes_text(other, from->ndim, from->size));
  if (x->storage != from->storage)
    return copy_apart(x, ctx, from);
  HD_TRY(hd__tensor_new(&apart, ctx, from->dtype, from->ndim, from->size));
  hd_status status = copy_apart(apart, ctx, from);
  HD_THEN(status, copy_apart(x, ctx, apart));
  hd_tensor_destroy(apart);
  return status;
}

hd_status hd_tensor_to_dtype(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, hd_dtype dtype) {
  *out = NULL;
  HD_TRY(hd__tensor_here(ctx, x));
  HD_TRY(hd__tensor_new(out, ctx, dtype, x->ndim, x->size));
  return hd__tensor_keep(out, hd_tensor_copy(*out, ctx, x));
}

hd_status hd_tensor_fill(hd_tensor *x, hd_ctx *ctx, double value) {
  HD_ROUNDING_TO_NEAREST;
  _Alignas(4) uint8_t element[4];
  HD_TRY(check_writable(ctx, x));
  HD_TRY(hd__value_fits(ctx, x->dtype, value));
  hd__store(x->dtype, element, value);
  const hd_tensor number = {.data = element, .dtype = x->dtype};
  return copy_apart(x, ctx, &number);
}

/* ---- Single elements ---- */

static hd_status element_of(uint8_t **out, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *index) {
  HD_TRY(hd__tensor_here(ctx, x));
  if (ndim != x->ndim || (ndim > 0 && !index))
    return hd__fail(ctx, HD_E_USAGE, "expected %d indices, found %d", x->ndim, ndim);
  int64_t offset = 0;
  for (int d = 0; d < ndim; d++) {
    const int64_t size = x->size[d];
    if (index[d] < -size || index[d] >= size)
      return hd__fail(ctx, HD_E_USAGE, "expected an index from %lld to %lld in dimension %d, found %lld",
                      (long long)-size, (long long)size - 1, d, (long long)index[d]);
    offset += (index[d] < 0 ? index[d] + size : index[d]) * x->stride[d];
  }
  *out = x->data + offset * hd__dtype_bytes(x->dtype);
  return HD_OK;
}

hd_status hd_tensor_get(double *out, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *index) {
  uint8_t *element;
  HD_TRY(element_of(&element, ctx, x, ndim, index));
  *out = hd__load(x->dtype, element);
  return HD_OK;
}

hd_status hd_tensor_set(hd_tensor *x, hd_ctx *ctx, double value, int ndim, const int64_t *index) {
  HD_ROUNDING_TO_NEAREST;
  uint8_t *element;
  HD_TRY(element_of(&element, ctx, x, ndim, index));
  HD_TRY(check_writable(ctx, x));
  HD_TRY(hd__value_fits(ctx, x->dtype, value));
  hd__store(x->dtype, element, value);
  return HD_OK;
}

hd_status hd_tensor_item(double *out, hd_ctx *ctx, const hd_tensor *x) {
  char text[HD_SIZES_TEXT_BYTES];
  HD_TRY(hd__tensor_here(ctx, x));
  if (hd_tensor_elems(x) != 1)
    return hd__fail(ctx, HD_E_SHAPE, "expected one element, found sizes %s; select one or reduce",
                    hd__sizes_text(text, x->ndim, x->size));
  *out = hd__load(x->dtype, x->data);
  return HD_OK;
}
