/* The reference product of matrices. */
#include "base/fma.h"
#include "kernel/ref/ref_fill.h"

/* acc = +0; p ascending: acc = fma(a[i][p], b[p][j], acc). */
static void gemm(const hd_gemm *g) {
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      float acc = 0;
      for (int64_t p = 0; p < g->k; p++)
        acc = hd__fmaf(g->a[i * g->a_row + p * g->a_step], g->b[p * g->b_step + j * g->b_column], acc);
      g->c[i * g->c_row + j] = acc;
    }
}

void hd__ref_gemm_fill(hd_kernels *table) { table->gemm = gemm; }
