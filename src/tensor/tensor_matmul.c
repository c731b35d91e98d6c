/* Products of matrices, in tiles of the result.
 *
 * The tiles, and whether OpenBLAS computes them, follow from the shapes alone, so lanes may share them out at will.
 * Small products run the kernel of linear layers: an output is 16 chains over k of fma(a[k], b[k]) and the tree, the
 * same bits on every CPU. A large one is one sgemm per tile over all of k, whose order is OpenBLAS' and depends on the
 * CPU. Where there is no OpenBLAS the own kernel does it all.
 *
 * Both want their operands laid out: the own kernel wants rows of a and columns of b as dense, aligned rows, sgemm
 * wants one stride of 1. Others are copied first. */
#include "tensor/eager.h"

#include <string.h>

#include "tensor/blas.h"

/* From this many multiplications on a product pays for sgemm's packing; the sides of tiles for each kernel. */
enum { LARGE_PRODUCT = 1 << 21, OWN_TILE = 64, BLAS_TILE = 256 };

typedef struct product {
  const hd_tensor *a, *b; /* [.., M, K] and [.., K, N], the latter [.., N, K] for the own kernel */
  hd_tensor *out;
  int batch_ndim;
  int64_t batch_size[HD_TENSOR_MAX_DIMS];
  int64_t m, n, k, tile, row_tiles, column_tiles;
  const hd_blas *blas; /* NULL: the own kernel */
} product;

static int64_t stride_from_end(const hd_tensor *x, int dim) { return x->stride[x->ndim - dim]; }
static int64_t size_from_end(const hd_tensor *x, int dim) { return x->size[x->ndim - dim]; }

/* The matrix of a batch in x, whose leading dimensions are broadcast. */
static float *matrix_of(const product *job, const hd_tensor *x, int64_t batch) {
  int64_t offset = 0;
  for (int d = job->batch_ndim - 1; d >= 0; d--) {
    const int own = d - (job->batch_ndim - (x->ndim - 2));
    if (own >= 0 && x->size[own] != 1)
      offset += batch % job->batch_size[d] * x->stride[own];
    batch /= job->batch_size[d];
  }
  return (float *)(void *)x->data + offset;
}

typedef struct tile {
  const float *a, *b; /* the batch's matrices */
  float *c;
  int64_t i, j; /* the tile's first row and column */
  int rows, columns;
} tile;

static tile find_tile(const product *job, int64_t part) {
  const int64_t per_batch = job->row_tiles * job->column_tiles, batch = part / per_batch, at = part % per_batch;
  tile t = {.i = at / job->column_tiles * job->tile, .j = at % job->column_tiles * job->tile};
  t.rows = (int)(job->m - t.i < job->tile ? job->m - t.i : job->tile);
  t.columns = (int)(job->n - t.j < job->tile ? job->n - t.j : job->tile);
  t.a = matrix_of(job, job->a, batch);
  t.b = matrix_of(job, job->b, batch);
  t.c = (float *)(void *)job->out->data + batch * job->m * job->n;
  return t;
}

/* The kernel may write a row's padding, which the result has none of: so into a buffer first. */
static void own_tiles(void *arg, int64_t first, int64_t last) {
  const product *job = arg;
  hd_run_fn *linear = hd__tensor_kernels()->run[HD_OP_linear];
  _Alignas(64) float buffer[OWN_TILE * OWN_TILE];
  for (int64_t part = first; part < last; part++) {
    const tile t = find_tile(job, part);
    const hd_geom g = {.ci = (int32_t)job->k,
                       .hi = 1,
                       .wi = 1,
                       .co = t.columns,
                       .ho = 1,
                       .wo = 1,
                       .kh = 1,
                       .kw = 1,
                       .sh = 1,
                       .sw = 1,
                       .pool = 1,
                       .hp = 1,
                       .wp = 1};
    const int64_t a_stride = stride_from_end(job->a, 2);
    const hd_call call = {.g = &g,
                          .rows = t.rows,
                          .in = {t.a + t.i * a_stride, t.b + t.j * job->k},
                          .out = {buffer},
                          .in_stride = {a_stride},
                          .out_stride = {OWN_TILE}};
    linear(&call);
    for (int r = 0; r < t.rows; r++)
      memcpy(t.c + (t.i + r) * job->n + t.j, buffer + r * OWN_TILE, (size_t)t.columns * sizeof *buffer);
  }
}

/* Row-major with a leading dimension, or the transpose of that. */
static bool row_major(const hd_tensor *x) {
  return stride_from_end(x, 1) == 1 && stride_from_end(x, 2) >= size_from_end(x, 1);
}

static bool column_major(const hd_tensor *x) {
  return stride_from_end(x, 2) == 1 && stride_from_end(x, 1) >= size_from_end(x, 2);
}

static void blas_tiles(void *arg, int64_t first, int64_t last) {
  const product *job = arg;
  const bool a_rows = row_major(job->a), b_rows = row_major(job->b);
  const int64_t lda = stride_from_end(job->a, a_rows ? 2 : 1), ldb = stride_from_end(job->b, b_rows ? 2 : 1);
  for (int64_t part = first; part < last; part++) {
    const tile t = find_tile(job, part);
    job->blas->sgemm(HD_BLAS_ROW_MAJOR, a_rows ? HD_BLAS_NO_TRANS : HD_BLAS_TRANS,
                     b_rows ? HD_BLAS_NO_TRANS : HD_BLAS_TRANS, t.rows, t.columns, (int)job->k, 1.0f,
                     t.a + t.i * (a_rows ? lda : 1), (int)lda, t.b + t.j * (b_rows ? 1 : ldb), (int)ldb, 0.0f,
                     t.c + t.i * job->n + t.j, (int)job->n);
  }
}

/* ---- Laying out ---- */

static int64_t round_up(int64_t x) { return (x + 15) / 16 * 16; }

/* Dense rows of k floats for the kernel's contract: aligned, a row's stride (a) or the whole (b) padded to 16. */
static bool fits_own(const hd_tensor *x, bool dense) {
  bool fits = (uintptr_t)x->data % 64 == 0 && stride_from_end(x, 1) == 1;
  fits &= stride_from_end(x, 2) == size_from_end(x, 1) && (dense || stride_from_end(x, 2) % 16 == 0);
  for (int d = 0; d < x->ndim - 2; d++)
    fits &= x->stride[d] % 16 == 0;
  return fits;
}

/* A copy of x whose last dimension (or, if `dense`, the one before) is padded to a multiple of 16. */
static hd_status pack(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, bool dense) {
  const int padded = x->ndim - (dense ? 2 : 1);
  int64_t size[HD_TENSOR_MAX_DIMS];
  hd_tensor *whole;
  *out = NULL;
  if (fits_own(x, dense))
    return hd__tensor_share(out, ctx, x);
  memcpy(size, x->size, sizeof size);
  if (size[padded] > INT64_MAX - 16)
    return hd__fail(ctx, HD_E_SHAPE, "expected a tensor that fits memory, found %lld rows", (long long)size[padded]);
  size[padded] = round_up(size[padded]);
  HD_TRY(hd_tensor_zeros(&whole, ctx, HD_F32, x->ndim, size));
  hd_status status = hd_tensor_slice(out, ctx, whole, padded, 0, x->size[padded], 1);
  if (status == HD_OK)
    status = hd__tensor_keep(out, hd_tensor_copy(*out, ctx, x));
  hd_tensor_destroy(whole);
  return status;
}

static hd_status lay_out_own(hd_tensor **a, hd_tensor **b, hd_ctx *ctx, const hd_tensor *x, const hd_tensor *y) {
  hd_tensor *turned;
  HD_TRY(hd_tensor_transpose(&turned, ctx, y, -2, -1));
  hd_status status = pack(b, ctx, turned, true);
  hd_tensor_destroy(turned);
  return status == HD_OK ? pack(a, ctx, x, false) : status;
}

static hd_status lay_out_blas(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x) {
  bool fits = row_major(x) || column_major(x);
  fits &= stride_from_end(x, 1) <= INT32_MAX && stride_from_end(x, 2) <= INT32_MAX;
  return fits ? hd__tensor_share(out, ctx, x) : hd_tensor_clone(out, ctx, x);
}

/* ---- The call ---- */

static hd_status check_operands(hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b) {
  char left[HD_SIZES_TEXT_BYTES], right[HD_SIZES_TEXT_BYTES];
  HD_TRY(hd__tensors_together(ctx, a, b));
  if (a->dtype != HD_F32 || b->dtype != HD_F32)
    return hd__fail(ctx, HD_E_USAGE, "expected float32, found %s by %s; convert with hd_tensor_to_dtype",
                    hd__dtype_text(a->dtype), hd__dtype_text(b->dtype));
  if (a->ndim == 0 || b->ndim == 0)
    return hd__fail(ctx, HD_E_SHAPE, "expected matrices, found a single number; use hd_tensor_mul");
  const int64_t columns = a->size[a->ndim - 1], rows = b->size[b->ndim > 1 ? b->ndim - 2 : 0];
  if (columns != rows || columns > INT32_MAX)
    return hd__fail(ctx, HD_E_SHAPE,
                    "expected as many columns on the left as rows on the right, found %s by %s; transpose or reshape",
                    hd__sizes_text(left, a->ndim, a->size), hd__sizes_text(right, b->ndim, b->size));
  return HD_OK;
}

/* A handle without ownership on a matrix: a single dimension becomes a row or a column. */
static hd_tensor as_matrix(const hd_tensor *x, bool left) {
  hd_tensor matrix = *x;
  if (x->ndim == 1) {
    const int own = left ? 1 : 0, new = 1 - own;
    matrix.ndim = 2;
    matrix.size[own] = x->size[0];
    matrix.stride[own] = x->stride[0];
    matrix.size[new] = 1;
    matrix.stride[new] = own == 1 ? x->size[0] : 1;
  }
  return matrix;
}

/* The result's sizes; a dimension that an operand did not have is left out. */
static int result_sizes(int64_t *size, const product *job, const hd_tensor *a, const hd_tensor *b) {
  int ndim = job->batch_ndim;
  memcpy(size, job->batch_size, sizeof job->batch_size);
  if (a->ndim > 1)
    size[ndim++] = job->m;
  if (b->ndim > 1)
    size[ndim++] = job->n;
  return ndim;
}

/* Lays the operands out and runs the tiles. */
static hd_status multiply(product *job, hd_ctx *ctx) {
  hd_tensor *a = NULL, *b = NULL;
  int64_t batches = 1;
  job->tile = job->blas ? BLAS_TILE : OWN_TILE;
  job->row_tiles = (job->m + job->tile - 1) / job->tile;
  job->column_tiles = (job->n + job->tile - 1) / job->tile;
  for (int d = 0; d < job->batch_ndim; d++)
    batches *= job->batch_size[d];
  hd_status status;
  if (job->blas) {
    status = lay_out_blas(&a, ctx, job->a);
    status = status == HD_OK ? lay_out_blas(&b, ctx, job->b) : status;
  } else {
    status = lay_out_own(&a, &b, ctx, job->a, job->b);
  }
  if (status == HD_OK) {
    const double work = (double)batches * (double)job->m * (double)job->n * (double)job->k / 8;
    job->a = a;
    job->b = b;
    status = hd__team_run(ctx, batches * job->row_tiles * job->column_tiles, work < 0x1p60 ? (int64_t)work : 1LL << 60,
                          job->blas ? blas_tiles : own_tiles, job);
  }
  hd_tensor_destroy(a);
  hd_tensor_destroy(b);
  return status;
}

hd_status hd__matmul(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b, const hd_blas *blas) {
  *out = NULL;
  HD_TRY(check_operands(ctx, a, b));
  const hd_tensor left = as_matrix(a, true), right = as_matrix(b, false);
  hd_tensor left_batch = left, right_batch = right;
  product job = {.a = &left,
                 .b = &right,
                 .m = size_from_end(&left, 2),
                 .n = size_from_end(&right, 1),
                 .k = size_from_end(&left, 1)};
  left_batch.ndim -= 2;
  right_batch.ndim -= 2;
  HD_TRY(hd__broadcast(&job.batch_ndim, job.batch_size, ctx, &left_batch, &right_batch));
  int64_t size[HD_TENSOR_MAX_DIMS];
  const int ndim = result_sizes(size, &job, a, b);
  HD_TRY(hd__tensor_new(out, ctx, HD_F32, ndim, size));
  if (hd_tensor_elems(*out) == 0 || job.k == 0)
    return hd__tensor_keep(out, hd_tensor_fill(*out, ctx, 0));
  job.out = *out;
  if ((double)job.m * (double)job.n * (double)job.k >= LARGE_PRODUCT && job.n <= INT32_MAX)
    job.blas = blas;
  return hd__tensor_keep(out, multiply(&job, ctx));
}

hd_status hd_tensor_matmul(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b) {
  return hd__matmul(out, ctx, a, b, hd__blas());
}
