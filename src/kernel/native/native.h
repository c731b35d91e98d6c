/* --arithmetic native: products of a BLAS in the place of some kernels.
 *
 * A BLAS may choose another order of sums for another number of rows. So a call is exactly one shard, whatever the
 * layout, and whether there is one follows from the shape, the shard's nominal rows and the library's core type by a
 * fixed table, never from timing. Evaluation has no shards and stays with the own kernels. */
#ifndef HD_KERNEL_NATIVE_NATIVE_H
#define HD_KERNEL_NATIVE_NATIVE_H

#include "kernel/kernel.h"

/* cblas_sgemm, with its enums as int. */
typedef void hd_sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);

/* The table that computes like `table`, but hands large products to `sgemm`, the library's of that core type. One
 * library a process: later calls must name the same one. */
const hd_kernels *hd__kernels_native(const hd_kernels *table, hd_sgemm_fn *sgemm, const char *core);

#endif
