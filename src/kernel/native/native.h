/* --arithmetic native: products of a BLAS instead of some kernels.
 *
 * The one exception from the rule that any two tables give the same bits. The order of sums in a BLAS may depend on the
 * number of rows. A call is therefore exactly one shard, whatever the layout, and no layer is divided by its outputs.
 * Whether the BLAS is used follows from the shape, the nominal rows of a shard and the library's core type by a fixed
 * table, never from timing. Evaluation has no shards and uses heddle's kernels. */
#pragma once

#include "kernel/kernel.h"

/* cblas_sgemm, with its enums as int. */
typedef void hd_sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);

/* `table` for training in shards of so many rows, with large products by `sgemm` of a library of that core type. One
 * library a process: later calls must name the same one. */
const hd_kernels *hd__kernels_native(const hd_kernels *table, hd_sgemm_fn *sgemm, const char *core, int64_t rows);
