/* Checks of the code that computes: heddle's instruction set, and OpenBLAS' choice of kernels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/doctor_checks.h"
#include "tensor/blas.h"

enum { SIZE = 256 };
static const double FLOPS = 2.0 * SIZE * SIZE * SIZE, TOO_SLOW = 1.3;

static hd_status heddle_gflops(double *out, hd_ctx *ctx, const hd_kernels *kernels) {
  hd_product product;
  HD_TRY(hd__product_init(&product, ctx, kernels, SIZE));
  *out = hd__work_gflops(hd__product_run, &product, FLOPS);
  hd__product_fini(&product);
  return HD_OK;
}

hd_status hd__check_isa(hd_finding *out, hd_ctx *ctx, const hd_machine_facts *facts) {
  double taken, best;
  if (strcmp(facts->kernels->isa, facts->best->isa)) {
    HD_TRY(heddle_gflops(&taken, ctx, facts->kernels));
    HD_TRY(heddle_gflops(&best, ctx, facts->best));
    hd__find(out, best / taken, "unset HEDDLE_ISA",
             "the %s kernels run although this CPU has %s: %.1f instead of %.1f GFLOP/s", facts->kernels->isa,
             facts->best->isa, taken, best);
  } else if (!strcmp(facts->best->isa, "scalar")) {
    HD_TRY(heddle_gflops(&taken, ctx, facts->best));
    hd__find(out, NAN, "use a CPU with AVX2, AVX-512 or NEON, and a build for it",
             "this CPU or this build has no vector instructions that heddle knows: %.1f GFLOP/s", taken);
  }
  return HD_OK;
}

/* A product by OpenBLAS, of the same operands: heddle itself does not use it by default, but other programs do. */
typedef struct blas_product {
  const hd_blas *blas;
  hd_product operands;
} blas_product;

static void run_blas(void *self) {
  blas_product *p = self;
  int stride = (int)p->operands.call.in_stride[0];
  p->blas->sgemm(HD_BLAS_ROW_MAJOR, HD_BLAS_NO_TRANS, HD_BLAS_TRANS, SIZE, SIZE, SIZE, 1, p->operands.x, stride,
                 p->operands.w, SIZE, 0, p->operands.y, stride);
}

hd_status hd__check_blas(hd_finding *out, hd_ctx *ctx, const hd_machine_facts *facts) {
  blas_product product = {.blas = hd__blas()};
  const char *core = getenv("OPENBLAS_CORETYPE");
  double heddle, openblas;
  if (!product.blas)
    return HD_OK;
  HD_TRY(heddle_gflops(&heddle, ctx, facts->best));
  HD_TRY(hd__product_init(&product.operands, ctx, facts->best, SIZE));
  openblas = hd__work_gflops(run_blas, &product, FLOPS);
  hd__product_fini(&product.operands);
  if (heddle < TOO_SLOW * openblas)
    return HD_OK;
  hd__find(out, heddle / openblas,
           core && *core                         ? "unset OPENBLAS_CORETYPE"
           : !strcmp(facts->best->isa, "avx512") ? "export OPENBLAS_CORETYPE=SkylakeX"
                                                 : "install a newer OpenBLAS (libopenblas0-pthread)",
           "a product of %d x %d matrices by %s runs at %.0f GFLOP/s on one core; heddle's own kernels reach %.0f: "
           "this slows "
           "down --arithmetic native and other programs, not --arithmetic portable",
           SIZE, SIZE, product.blas->name, openblas, heddle);
  return HD_OK;
}
