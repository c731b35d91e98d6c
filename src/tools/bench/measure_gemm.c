/* Products of matrices: heddle's kernels against OpenBLAS, on one thread, in turns.
 *
 * Both read dense row-major matrices and write a matrix that exists; a library's packing is part of its time. The first
 * and the last product of a turn's list are as far apart as the list is long, so neither library finds its operands in
 * the caches because of the other. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "tools/bench/machine_limits.h"
#include "train/settings/config.h"
#include "heddle/tensor.h"
#include "platform/clock.h"
#include "platform/threads.h"
#include "tensor/blas.h"
#include "tools/tune/scaling.h"

enum { TURNS = 9 };

static const int32_t squares[] = {64, 96, 128, 192, 256, 384, 512, 768, 1024};
static const int32_t odd[][3] = {{64, 10, 784}, {64, 128, 1600}, {256, 800, 256},
                                 {17, 65, 129}, {333, 77, 501},  {1000, 1000, 16}};

typedef struct product {
  hd_tensor *a, *b, *c;
  double flops;
  double heddle[TURNS], openblas[TURNS]; /* GFLOP/s */
} product;

typedef struct experiment {
  hd_ctx *ctx;
  hd_bench_gemm_result *out;
  product *products;
  const hd_blas *blas;
  double seconds; /* of one product by one library in one turn */
  hd_status status;
} experiment;

static hd_status run_heddle(experiment *e, int i) {
  return hd_tensor_matmul_into(e->products[i].c, e->ctx, e->products[i].a, e->products[i].b);
}

static hd_status run_openblas(experiment *e, int i) {
  const hd_bench_product *p = &e->out->products[i];
  e->blas->sgemm(HD_BLAS_ROW_MAJOR, HD_BLAS_NO_TRANS, HD_BLAS_NO_TRANS, p->m, p->n, p->k, 1,
                 hd_tensor_data(e->products[i].a), p->k, hd_tensor_data(e->products[i].b), p->n, 0,
                 hd_tensor_data(e->products[i].c), p->n);
  return HD_OK;
}

static hd_status time_product(double *gflops, experiment *e, int i, hd_status (*run)(experiment *, int)) {
  int64_t calls = 0;
  HD_TRY(run(e, i));
  double start = hd__clock_s(), spent;
  do {
    HD_TRY(run(e, i));
    calls++;
    spent = hd__clock_s() - start;
  } while (spent < e->seconds);
  *gflops = 1e-9 * e->products[i].flops * (double)calls / spent;
  return HD_OK;
}

static hd_status all_turns(experiment *e) {
  for (int t = 0; t < TURNS; t++)
    for (int i = 0; i < e->out->count; i++) {
      HD_TRY(time_product(&e->products[i].heddle[t], e, i, run_heddle));
      if (e->blas)
        HD_TRY(time_product(&e->products[i].openblas[t], e, i, run_openblas));
    }
  return HD_OK;
}

static void run_thread(void *arg, int thread) {
  experiment *e = arg;
  e->status = all_turns(e);
}

static hd_status fill_matrix(hd_tensor **out, hd_ctx *ctx, int32_t rows, int32_t columns) {
  const int64_t size[] = {rows, columns};
  HD_TRY(hd_tensor_zeros(out, ctx, HD_F32, 2, size));
  float *x = hd_tensor_data(*out);
  for (int64_t i = 0; i < (int64_t)rows * columns; i++)
    x[i] = (float)(i % 7) - 3;
  return HD_OK;
}

static hd_status make_products(experiment *e, hd_ctx *ctx, const hd_bench_product *given, int32_t count) {
  hd_bench_gemm_result *r = e->out;
  int regular = sizeof squares / sizeof *squares, all = regular + (int)(sizeof odd / sizeof *odd);
  r->count = count ? count : all;
  r->products = hd__calloc((size_t)r->count, sizeof *r->products);
  e->products = hd__calloc((size_t)r->count, sizeof *e->products);
  HD_TRY(HD_ALLOCATED(r->products && e->products, ctx, "out of memory for a measurement"));
  for (int i = 0; i < r->count; i++) {
    hd_bench_product *p = &r->products[i];
    if (count)
      *p = given[i];
    else if (i < regular)
      p->m = p->n = p->k = squares[i];
    else
      *p = (hd_bench_product){.m = odd[i - regular][0], .n = odd[i - regular][1], .k = odd[i - regular][2]};
    HD_TRY(fill_matrix(&e->products[i].a, ctx, p->m, p->k));
    HD_TRY(fill_matrix(&e->products[i].b, ctx, p->k, p->n));
    HD_TRY(fill_matrix(&e->products[i].c, ctx, p->m, p->n));
    e->products[i].flops = 2.0 * p->m * p->n * p->k;
  }
  return HD_OK;
}

static void conclude(experiment *e) {
  for (int i = 0; i < e->out->count; i++) {
    hd_bench_product *p = &e->out->products[i];
    p->gflops = hd__median(e->products[i].heddle, TURNS).value;
    p->openblas_gflops = e->blas ? hd__median(e->products[i].openblas, TURNS).value : NAN;
  }
}

static hd_status run(experiment *e, hd_ctx *ctx, const hd_config *config, const hd_bench_product *given, int32_t count,
                     double seconds) {
  hd_placement_request request = hd__config_placement(config);
  hd_threads *threads;
  HD_TRY(hd__bench_machine_measure(&e->out->machine, ctx, config));
  HD_TRY(make_products(e, ctx, given, count));
  HD_TRY(hd_tensor_set_threads(ctx, 1));
  e->blas = hd__blas();
  snprintf(e->out->openblas, sizeof e->out->openblas, "%s", e->blas ? e->blas->name : "");
  e->seconds = seconds / TURNS / e->out->count / 2;
  request.threads = 1;
  HD_TRY(hd__threads_open(&threads, ctx, &request));
  hd_status status = hd__threads_run(threads, ctx, run_thread, e);
  hd__threads_destroy(threads);
  HD_TRY(status);
  HD_TRY(e->status);
  conclude(e);
  return HD_OK;
}

static hd_status check(hd_ctx *ctx, const hd_bench_product *p, int32_t count) {
  for (int i = 0; i < count; i++)
    if (p[i].m < 1 || p[i].n < 1 || p[i].k < 1 || p[i].m > 16384 || p[i].n > 16384 || p[i].k > 16384)
      return hd__fail(ctx, HD_E_USAGE,
                      "expected a product's sizes from 1 to 16384, found %dx%dx%d; keep each within these", p[i].m,
                      p[i].n, p[i].k);
  return HD_OK;
}

hd_status hd_bench_gemm(hd_bench_gemm_result **out, hd_ctx *ctx, const hd_config *config,
                        const hd_bench_product *products, int32_t count, double seconds) {
  *out = NULL;
  HD_TRY(hd__bench_check_seconds(ctx, seconds));
  HD_TRY(check(ctx, products, count));
  experiment e = {.ctx = ctx, .out = hd__calloc(1, sizeof *e.out)};
  HD_TRY(HD_ALLOCATED(e.out, ctx, "out of memory for a measurement"));
  hd_status status = run(&e, ctx, config, products, count, seconds);
  for (int i = 0; e.products && i < e.out->count; i++) {
    hd_tensor_destroy(e.products[i].a);
    hd_tensor_destroy(e.products[i].b);
    hd_tensor_destroy(e.products[i].c);
  }
  hd__free(e.products);
  *out = e.out;
  return HD_CREATED(status, out, hd_bench_gemm_destroy);
}

void hd_bench_gemm_destroy(hd_bench_gemm_result *result) {
  if (!result)
    return;
  hd__free((void *)result->machine);
  hd__free(result->products);
  hd__free(result);
}
