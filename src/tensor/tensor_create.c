/* New tensors with values: constants, ranges, data of the caller, random numbers, copies of others. */
#include "tensor/eager.h"

#include <math.h>
#include <string.h>

#include "base/hdmath.h"
#include "base/philox.h"
#include "base/rounding.h"

hd_status hd_tensor_full(hd_tensor **out, hd_ctx *ctx, hd_dtype dtype, double value, int ndim, const int64_t *size) {
  HD_TRY(hd__tensor_new(out, ctx, dtype, ndim, size));
  return hd__tensor_keep(out, hd_tensor_fill(*out, ctx, value));
}

hd_status hd_tensor_zeros(hd_tensor **out, hd_ctx *ctx, hd_dtype dtype, int ndim, const int64_t *size) {
  return hd_tensor_full(out, ctx, dtype, 0, ndim, size);
}

hd_status hd_tensor_from(hd_tensor **out, hd_ctx *ctx, hd_dtype dtype, const void *data, int ndim,
                         const int64_t *size) {
  HD_TRY(hd__tensor_new(out, ctx, dtype, ndim, size));
  if (hd_tensor_elems(*out) > 0 && !data) {
    hd_tensor_destroy(*out);
    *out = NULL;
    return hd__fail(ctx, HD_E_USAGE, "expected data for the tensor, found NULL");
  }
  if (hd_tensor_elems(*out) > 0)
    memcpy((*out)->data, data, (size_t)(*out)->storage->bytes);
  return HD_OK;
}

typedef struct range {
  hd_tensor *out;
  double start, step;
  uint64_t seed;
} range;

static void fill_range(void *arg, int64_t first, int64_t last) {
  const range *job = arg;
  const int64_t elems = job->out->size[0], bytes = hd__dtype_bytes(job->out->dtype);
  const int64_t end = last * HD_ARRAY_BLOCK < elems ? last * HD_ARRAY_BLOCK : elems;
  for (int64_t i = first * HD_ARRAY_BLOCK; i < end; i++)
    hd__store(job->out->dtype, job->out->data + i * bytes, fma((double)i, job->step, job->start));
}

hd_status hd_tensor_arange(hd_tensor **out, hd_ctx *ctx, hd_dtype dtype, double start, double end, double step) {
  HD_ROUNDING_TO_NEAREST;
  *out = NULL;
  if (!isfinite(start) || !isfinite(end) || !isfinite(step) || step == 0)
    return hd__fail(ctx, HD_E_USAGE, "expected finite bounds and a step that is not 0, found %g to %g by %g", start,
                    end, step);
  double count = ceil((end - start) / step);
  if (count > 0x1p53)
    return hd__fail(ctx, HD_E_SHAPE, "expected a tensor that fits in memory, found %g elements; use a larger step",
                    count);
  if (count < 0)
    count = 0;
  HD_TRY(hd__tensor_new(out, ctx, dtype, HD_DIMS((int64_t)count)));
  hd_status status = HD_OK;
  for (int i = 0; i < 3 && i < count; i++) /* whole first and second elements make all whole */
    HD_THEN(status, hd__value_fits(ctx, dtype, fma(i < 2 ? i : count - 1, step, start)));
  range job = {.out = *out, .start = start, .step = step};
  HD_THEN(status, hd__team_run(ctx, hd__block_count((int64_t)count), (int64_t)count, fill_range, &job));
  return hd__tensor_keep(out, status);
}

enum { UNIFORM, NORMAL }; /* the `node` of a random tensor */

/* Elements 4 * group .. 4 * group + 3. */
static void four_numbers(float *y, uint64_t seed, uint32_t kind, uint64_t group) {
  uint32_t word[4];
  hd__rng_block(word, seed, HD_RNG_TENSOR, (uint32_t)(group >> 32), 0, kind, (uint32_t)group);
  if (kind == NORMAL) {
    hd__two_normals(y, word[0], word[1]);
    hd__two_normals(y + 2, word[2], word[3]);
  } else {
    for (int i = 0; i < 4; i++)
      y[i] = hd__rng_uniform(word[i]);
  }
}

typedef struct draw {
  float *out;
  int64_t elems;
  uint64_t seed;
  uint32_t kind;
} draw;

static void draw_blocks(void *arg, int64_t first, int64_t last) {
  const draw *job = arg;
  for (int64_t i = first * HD_ARRAY_BLOCK; i < last * HD_ARRAY_BLOCK && i < job->elems; i += 4) {
    const int64_t left = job->elems - i;
    float y[4];
    four_numbers(y, job->seed, job->kind, (uint64_t)i / 4);
    memcpy(job->out + i, y, (size_t)(left < 4 ? left : 4) * sizeof *y);
  }
}

static hd_status random_tensor(hd_tensor **out, hd_ctx *ctx, uint64_t seed, uint32_t kind, int ndim,
                               const int64_t *size) {
  HD_TRY(hd__tensor_new(out, ctx, HD_F32, ndim, size));
  const int64_t elems = hd_tensor_elems(*out);
  draw job = {.out = (float *)(void *)(*out)->data, .elems = elems, .seed = seed, .kind = kind};
  return hd__tensor_keep(out, hd__team_run(ctx, hd__block_count(elems), elems, draw_blocks, &job));
}

hd_status hd_tensor_rand(hd_tensor **out, hd_ctx *ctx, uint64_t seed, int ndim, const int64_t *size) {
  return random_tensor(out, ctx, seed, UNIFORM, ndim, size);
}

hd_status hd_tensor_randn(hd_tensor **out, hd_ctx *ctx, uint64_t seed, int ndim, const int64_t *size) {
  return random_tensor(out, ctx, seed, NORMAL, ndim, size);
}

hd_status hd_tensor_clone(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x) {
  *out = NULL;
  HD_TRY(hd__tensor_given(ctx, x));
  return hd__tensor_on_gpu(x) ? hd__gpu_clone(out, ctx, x) : hd_tensor_to_dtype(out, ctx, x, x->dtype);
}
