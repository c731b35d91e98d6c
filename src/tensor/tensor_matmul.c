/* Products of matrices: tiles of the result, distributed over the threads.
 *
 * An element is one chain, k ascending, for any tile, number of threads, CPU and strides of the operands: the kernel
 * takes any strides, so nothing is packed first. Tiles are small enough that every thread gets some. */
#include "tensor/eager.h"

#include <string.h>

/* Rows and columns of a tile, columns in whole groups, and the number of tiles that a product is cut into if
 * possible. Tiles of one column are adjacent: a thread computes its range of them in one call, which loads b as
 * seldom as possible. */
enum { LEAST_ROWS = 12, MOST_ROWS = 384, TILE_COLUMNS = 256, COLUMN_GROUP = 64, WANTED_TILES = 16 };

/* A multiplication costs this much less than an element of ELEMS_WORTH_A_TEAM. */
enum { PRODUCTS_PER_ELEM = 64 };

typedef struct product {
  const hd_tensor *a, *b; /* [.., M, K] and [.., K, N] */
  hd_tensor *out;
  int batch_ndim;
  int64_t batch_size[HD_TENSOR_MAX_DIMS], batches;
  int64_t m, n, k, row_tiles, column_tiles;
} product;

static int64_t stride_from_end(const hd_tensor *x, int dim) { return x->stride[x->ndim - dim]; }
static int64_t size_from_end(const hd_tensor *x, int dim) { return x->size[x->ndim - dim]; }

/* The matrix number `batch` of x, whose leading dimensions are broadcast. */
static float *matrix_of(const product *job, const hd_tensor *x, int64_t batch) {
  int64_t offset = 0;
  for (int d = job->batch_ndim - 1; d >= 0; d--) {
    const int source = d - (job->batch_ndim - (x->ndim - 2));
    if (source >= 0 && x->size[source] != 1)
      offset += batch % job->batch_size[d] * x->stride[source];
    batch /= job->batch_size[d];
  }
  return (float *)(void *)x->data + offset;
}

/* The begin of range `at` of `parts` equal ones. */
static int64_t border(int64_t count, int64_t parts, int64_t at) {
  return count / parts * at + count % parts * at / parts;
}

static void run_tiles(void *arg, int64_t first, int64_t last) {
  const product *job = arg;
  const int64_t per_batch = job->row_tiles * job->column_tiles;
  const int64_t groups = (job->n + COLUMN_GROUP - 1) / COLUMN_GROUP;
  hd_gemm g = {.k = job->k, .c_row = job->n};
  g.a_row = stride_from_end(job->a, 2);
  g.a_step = stride_from_end(job->a, 1);
  g.b_step = stride_from_end(job->b, 2);
  g.b_column = stride_from_end(job->b, 1);
  for (int64_t part = first, taken; part < last; part += taken) {
    const int64_t batch = part / per_batch, column = part % per_batch / job->row_tiles, row = part % job->row_tiles;
    taken = job->row_tiles - row < last - part ? job->row_tiles - row : last - part;
    const int64_t i = border(job->m, job->row_tiles, row);
    const int64_t j = border(groups, job->column_tiles, column) * COLUMN_GROUP;
    const int64_t end = border(groups, job->column_tiles, column + 1) * COLUMN_GROUP;
    g.m = border(job->m, job->row_tiles, row + taken) - i;
    g.n = (end < job->n ? end : job->n) - j;
    g.a = matrix_of(job, job->a, batch) + i * g.a_row;
    g.b = matrix_of(job, job->b, batch) + j * g.b_column;
    g.c = (float *)(void *)job->out->data + (batch * job->m + i) * job->n + j;
    hd__tensor_kernels()->gemm(&g);
  }
}

static void cut(product *job) {
  job->batches = 1;
  for (int d = 0; d < job->batch_ndim; d++)
    job->batches *= job->batch_size[d];
  job->column_tiles = (job->n + TILE_COLUMNS - 1) / TILE_COLUMNS;
  const int64_t others = job->batches * job->column_tiles, fewest = (job->m + MOST_ROWS - 1) / MOST_ROWS;
  const int64_t wanted = (WANTED_TILES + others - 1) / others, most = (job->m + LEAST_ROWS - 1) / LEAST_ROWS;
  job->row_tiles = wanted > most ? most : wanted < fewest ? fewest : wanted;
}

/* ---- The call ---- */

static hd_status check_operands(hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b) {
  char left[HD_SIZES_TEXT_BYTES], right[HD_SIZES_TEXT_BYTES];
  HD_TRY(hd__tensors_beside(ctx, a, b));
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

/* A matrix view without a reference to the storage: a single dimension becomes a row or a column. */
static hd_tensor as_matrix(const hd_tensor *x, bool left) {
  hd_tensor matrix = *x;
  if (x->ndim == 1) {
    const int source = left ? 1 : 0, new = 1 - source;
    matrix.ndim = 2;
    matrix.size[source] = x->size[0];
    matrix.stride[source] = x->stride[0];
    matrix.size[new] = 1;
    matrix.stride[new] = source == 1 ? x->size[0] : 1;
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

/* A product and its operands as matrices. */
typedef struct prepared {
  product job;
  hd_tensor a, b;
  int ndim;
  int64_t size[HD_TENSOR_MAX_DIMS]; /* of the result */
} prepared;

static hd_status prepare(prepared *p, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b) {
  HD_TRY(check_operands(ctx, a, b));
  HD_TRY(hd__tensor_here(ctx, a));
  p->a = as_matrix(a, true);
  p->b = as_matrix(b, false);
  p->job = (product){
      .a = &p->a, .b = &p->b, .m = size_from_end(&p->a, 2), .n = size_from_end(&p->b, 1), .k = size_from_end(&p->a, 1)};
  if (a->ndim > 2 || b->ndim > 2) {
    hd_tensor left = p->a, right = p->b;
    left.ndim -= 2;
    right.ndim -= 2;
    HD_TRY(hd__broadcast(&p->job.batch_ndim, p->job.batch_size, ctx, &left, &right));
  }
  p->ndim = result_sizes(p->size, &p->job, a, b);
  return HD_OK;
}

static hd_status multiply(product *job, hd_ctx *ctx, hd_tensor *out) {
  if (hd_tensor_elems(out) == 0 || job->k == 0)
    return hd_tensor_fill(out, ctx, 0);
  job->out = out;
  cut(job);
  const double work = (double)job->batches * (double)job->m * (double)job->n * (double)job->k / PRODUCTS_PER_ELEM;
  return hd__team_run(ctx, job->batches * job->row_tiles * job->column_tiles,
                      work < 0x1p60 ? (int64_t)work : INT64_C(1) << 60, run_tiles, job);
}

hd_status hd_tensor_matmul(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b) {
  prepared p;
  *out = NULL;
  HD_TRY(check_operands(ctx, a, b));
  if (hd__tensor_on_gpu(a))
    return hd__gpu_matmul(out, ctx, a, b);
  HD_TRY(prepare(&p, ctx, a, b));
  HD_TRY(hd__tensor_new(out, ctx, HD_F32, p.ndim, p.size));
  return hd__tensor_keep(out, multiply(&p.job, ctx, *out));
}

hd_status hd_tensor_matmul_into(hd_tensor *x, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b) {
  char wanted[HD_SIZES_TEXT_BYTES], found[HD_SIZES_TEXT_BYTES];
  prepared p;
  HD_TRY(prepare(&p, ctx, a, b));
  HD_TRY(hd__tensors_together(ctx, a, x));
  if (x->dtype != HD_F32 || x->ndim != p.ndim || memcmp(x->size, p.size, (size_t)p.ndim * sizeof *p.size))
    return hd__fail(ctx, HD_E_SHAPE, "expected float32 of sizes %s for the product, found %s of %s; create another",
                    hd__sizes_text(wanted, p.ndim, p.size), hd__dtype_text(x->dtype),
                    hd__sizes_text(found, x->ndim, x->size));
  if (!hd__tensor_contiguous(x) || x->storage == a->storage || x->storage == b->storage)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected a contiguous tensor with elements of its own for the product, found a view; write to a "
                    "clone");
  return multiply(&p.job, ctx, x);
}
