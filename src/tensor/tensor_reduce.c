/* Reductions: sum, mean, max, min, argmax.
 *
 * x is walked with its reduced dimensions last, so an output's elements, in row-major order, are `inner` adjacent
 * elements of the walk. They are cut into blocks of HD_ARRAY_BLOCK; a kernel makes one partial result of each block;
 * these are combined in adjacent pairs, level by level, an odd one passing. Threads take blocks, then outputs; the
 * assignment touches no bit.
 *
 *     partials[block][output]: adjacent ones read adjacent memory where x is reduced over its first dimensions */
#include "tensor/eager.h"

#include "base/alloc.h"

typedef enum reduction_kind { SUM, MEAN, MAX, MIN, ARGMAX } reduction_kind;

typedef struct partial {
  hd_number value;
  int64_t index; /* extremes: of that value among the output's elements */
} partial;

typedef struct reduction {
  reduction_kind kind;
  const hd_array_kernels *kernels;
  hd_strided walk;
  hd_dtype dtype;
  int64_t outputs, inner, blocks; /* elements of the result, of each sum, blocks of that */
  int64_t columns;                /* the number of adjacent outputs that are summed as columns of floats; 0: they
                                     are not adjacent */
  partial *partials;
  hd_tensor *out;
  atomic_bool overflow;
} reduction;

static bool is_sum(const reduction *job) { return job->kind <= MEAN; }

static hd_number number_at(hd_dtype dtype, const void *x, int64_t i) {
  switch (dtype) {
  case HD_U8: return (hd_number){.i = ((const uint8_t *)x)[i]};
  case HD_I32: return (hd_number){.i = ((const int32_t *)x)[i]};
  default: return (hd_number){.f = ((const float *)x)[i]};
  }
}

static partial reduce_block(const reduction *job, int64_t block, int64_t output) {
  const int64_t begin = block * HD_ARRAY_BLOCK, left = job->inner - begin;
  const int64_t count = left < HD_ARRAY_BLOCK ? left : HD_ARRAY_BLOCK;
  hd_block space;
  if (count == 0)
    return (partial){.index = 0};
  const void *x = hd__strided_read(&job->walk, job->dtype, output * job->inner + begin, count, &space);
  if (is_sum(job))
    return (partial){.value = job->kernels->sum[job->dtype](x, count)};
  const int64_t i = job->kernels->find[job->kind == MIN ? HD_EXTREME_MIN : HD_EXTREME_MAX][job->dtype](x, count);
  return (partial){.value = number_at(job->dtype, x, i), .index = begin + i};
}

/* Some neighbouring columns of a block, from partial i on, at most up to partial `last`. Returns how many. */
static int64_t sum_columns(const reduction *job, int64_t i, int64_t last) {
  enum { AT_ONCE = 256 };
  float sums[AT_ONCE];
  const int64_t begin = i / job->outputs * HD_ARRAY_BLOCK, output = i % job->outputs;
  const int64_t in_row = job->columns - output % job->columns, left = job->inner - begin;
  int64_t width = last - i < in_row ? last - i : in_row;
  width = width < AT_ONCE ? width : AT_ONCE;
  job->kernels->sum_columns(sums, hd__strided_at(&job->walk, output * job->inner + begin),
                            left < HD_ARRAY_BLOCK ? left : HD_ARRAY_BLOCK, job->walk.stride[job->walk.ndim - 1], width);
  for (int64_t j = 0; j < width; j++)
    job->partials[i + j] = (partial){.value = {.f = sums[j]}};
  return width;
}

static void reduce_blocks(void *arg, int64_t first, int64_t last) {
  const reduction *job = arg;
  for (int64_t i = first; i < last && job->columns;)
    i += sum_columns(job, i, last);
  for (int64_t i = first; i < last && !job->columns; i++)
    job->partials[i] = reduce_block(job, i / job->outputs, i % job->outputs);
}

/* A later extreme replaces the earlier one if it is better or NaN, and the earlier one is not NaN. */
static bool takes_over(const reduction *job, hd_number later, hd_number best) {
  if (job->dtype != HD_F32)
    return job->kind == MIN ? later.i < best.i : later.i > best.i;
  if (best.f != best.f)
    return false;
  return later.f != later.f || (job->kind == MIN ? later.f < best.f : later.f > best.f);
}

static void join(const reduction *job, partial *to, const partial *later) {
  if (!is_sum(job)) {
    if (takes_over(job, later->value, to->value))
      *to = *later;
  } else if (job->dtype == HD_F32) {
    to->value.f = to->value.f + later->value.f;
  } else {
    to->value.i += later->value.i;
  }
}

static void put_result(reduction *job, int64_t output, partial sum) {
  uint8_t *y = job->out->data + output * hd__dtype_bytes(job->out->dtype);
  if (job->kind == ARGMAX) {
    *(int32_t *)(void *)y = (int32_t)sum.index;
  } else if (job->kind == MEAN) {
    *(float *)(void *)y = sum.value.f / (float)job->inner;
  } else if (job->dtype == HD_F32) {
    *(float *)(void *)y = sum.value.f;
  } else if (sum.value.i < INT32_MIN || sum.value.i > INT32_MAX) {
    atomic_store_explicit(&job->overflow, true, memory_order_relaxed);
  } else {
    hd__store(job->out->dtype, y, (double)sum.value.i);
  }
}

static void join_blocks(void *arg, int64_t first, int64_t last) {
  reduction *job = arg;
  const int64_t line = job->outputs; /* the stride of blocks */
  for (int64_t output = first; output < last; output++) {
    partial *partials = job->partials + output;
    for (int64_t step = 1; step < job->blocks; step *= 2)
      for (int64_t b = 0; b + step < job->blocks; b += 2 * step)
        join(job, &partials[b * line], &partials[(b + step) * line]);
    put_result(job, output, partials[0]);
  }
}

/* The dimensions to reduce as a bit set. */
static hd_status find_dims(unsigned *reduced, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *dims) {
  char text[HD_SIZES_TEXT_BYTES];
  *reduced = ndim == 0 ? (1u << x->ndim) - 1 : 0;
  if (ndim < 0 || ndim > HD_TENSOR_MAX_DIMS || (ndim > 0 && !dims))
    return hd__fail(ctx, HD_E_USAGE, "expected 0 to %d dimensions to reduce, found %d", HD_TENSOR_MAX_DIMS, ndim);
  for (int i = 0; i < ndim; i++) {
    int d;
    HD_TRY(hd__find_dim(&d, ctx, dims[i], x->ndim));
    if (*reduced >> d & 1)
      return hd__fail(ctx, HD_E_USAGE, "expected each dimension once, found %s", hd__sizes_text(text, ndim, dims));
    *reduced |= 1u << d;
  }
  return HD_OK;
}

/* Whether the last dimension of the walk is the one to sum over, and outputs of the dimension before are adjacent in
 * memory. */
static int64_t count_columns(const reduction *job) {
  const hd_strided *walk = &job->walk;
  const int rows = walk->ndim - 1;
  const bool fits = is_sum(job) && job->dtype == HD_F32 && job->inner > 0 && rows > 0 && walk->size[rows] == job->inner;
  return fits && walk->stride[rows - 1] == 1 ? walk->size[rows - 1] : 0;
}

/* Sets up the walk and the counts; the sizes of the result go to `size`. */
static int lay_out(reduction *job, int64_t *size, const hd_tensor *x, unsigned reduced, int keepdim) {
  hd_tensor seen = *x;
  int at = 0, ndim = 0;
  job->outputs = job->inner = 1;
  for (int pass = 0; pass < 2; pass++)
    for (int d = 0; d < x->ndim; d++)
      if ((int)(reduced >> d & 1) == pass) {
        seen.size[at] = x->size[d];
        seen.stride[at++] = x->stride[d];
        *(pass ? &job->inner : &job->outputs) *= x->size[d];
      }
  for (int d = 0; d < x->ndim; d++)
    if (!(reduced >> d & 1) || keepdim)
      size[ndim++] = reduced >> d & 1 ? 1 : x->size[d];
  hd__strided_init(&job->walk, &seen, seen.ndim, seen.size);
  job->blocks = job->inner > 0 ? hd__block_count(job->inner) : 1;
  job->columns = count_columns(job);
  return ndim;
}

static hd_status check_kind(hd_ctx *ctx, const reduction *job, const hd_tensor *x) {
  char text[HD_SIZES_TEXT_BYTES];
  if (job->kind == MEAN && x->dtype != HD_F32)
    return hd__fail(ctx, HD_E_USAGE, "expected float32, found %s; convert it with hd_tensor_to_dtype",
                    hd__dtype_text(x->dtype));
  if (!is_sum(job) && job->inner == 0 && job->outputs > 0)
    return hd__fail(ctx, HD_E_SHAPE, "expected at least one element, found sizes %s",
                    hd__sizes_text(text, x->ndim, x->size));
  if (job->kind == ARGMAX && job->inner > INT32_MAX)
    return hd__fail(ctx, HD_E_SHAPE, "expected at most %d elements for an index, found %lld; reduce fewer dimensions",
                    INT32_MAX, (long long)job->inner);
  return HD_OK;
}

static hd_dtype type_of_result(reduction_kind kind, hd_dtype dtype) {
  return kind == ARGMAX || (kind == SUM && dtype == HD_U8) ? HD_I32 : dtype;
}

static hd_status run_reduction(reduction *job, hd_ctx *ctx, const hd_tensor *x) {
  int64_t partials, bytes;
  if (__builtin_mul_overflow(job->outputs, job->blocks, &partials) ||
      __builtin_mul_overflow(partials, (int64_t)sizeof *job->partials, &bytes) ||
      !(job->partials = hd__malloc((size_t)bytes)))
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the partial results of a reduction");
  hd_status status = hd__team_run(ctx, partials, hd_tensor_elems(x), reduce_blocks, job);
  HD_THEN(status, hd__team_run(ctx, job->outputs, partials, join_blocks, job));
  hd__free(job->partials);
  if (status == HD_OK && job->overflow)
    return hd__fail(ctx, HD_E_USAGE, "expected sums that fit in int32, found a larger one; convert to HD_F32 first");
  return status;
}

typedef struct over_dims {
  int ndim;
  const int64_t *dims;
  int keepdim;
} over_dims;

static hd_status reduce(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, reduction_kind kind, over_dims over) {
  int64_t size[HD_TENSOR_MAX_DIMS];
  unsigned reduced;
  *out = NULL;
  HD_TRY(hd__tensor_here(ctx, x));
  HD_TRY(find_dims(&reduced, ctx, x, over.ndim, over.dims));
  reduction job = {.kind = kind, .kernels = &hd__tensor_kernels()->array, .dtype = x->dtype};
  const int kept = lay_out(&job, size, x, reduced, over.keepdim);
  HD_TRY(check_kind(ctx, &job, x));
  HD_TRY(hd__tensor_new(out, ctx, type_of_result(kind, x->dtype), kept, size));
  job.out = *out;
  return hd__tensor_keep(out, run_reduction(&job, ctx, x));
}

#define REDUCTION(name, kind)                                                                                          \
  hd_status hd_tensor_##name(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, int ndim, const int64_t *dims,          \
                             int keepdim) {                                                                            \
    return reduce(out, ctx, x, kind, (over_dims){ndim, dims, keepdim});                                                \
  }
REDUCTION(sum, SUM)
REDUCTION(mean, MEAN)
REDUCTION(max, MAX)
REDUCTION(min, MIN)
REDUCTION(argmax, ARGMAX)
