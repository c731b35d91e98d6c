/* How cuda_rows.h splits its work into blocks: some rows of a batch each, or the samples of a shard. */
#pragma once

#include "kernel/cuda/cuda_block.h"
#include "kernel/cuda/cuda_ops.h"

/* Rows of `length` elements, `of_sample` of them in each of `rows` samples. */
HD_BOTH cuda_part cuda_rows_matrix(int64_t length, int64_t of_sample, int64_t rows) {
  return cuda_matrix(1, of_sample * rows, length, 1, HD_NO_SHARDS);
}

HD_BOTH cuda_part layer_norm_rows_matrix(const hd_geom *g, int64_t rows) {
  return cuda_rows_matrix(op_elems(g), 1, rows);
}
HD_BOTH cuda_part layer_norm_dx_rows_matrix(const hd_geom *g, int64_t rows) {
  return cuda_rows_matrix(op_elems(g), 1, rows);
}

/* A block for each shard; its steps are samples. */
HD_BOTH cuda_part layer_norm_dw_rows_matrix(const hd_geom *g, int64_t rows) {
  return op_elems(g) > INT32_MAX / 2 ? cuda_no_matrix() : cuda_matrix(1, 1, 1, 1, rows);
}

HD_BOTH cuda_part softmax_rows_matrix(const hd_geom *g, int64_t rows) {
  return cuda_rows_matrix(g->ci, op_pixels(g), rows);
}
HD_BOTH cuda_part softmax_dx_rows_matrix(const hd_geom *g, int64_t rows) { return softmax_rows_matrix(g, rows); }

#define HD_LOSS_MATRIX(name)                                                                                           \
  HD_BOTH cuda_part name##_rows_matrix(const hd_geom *g, int64_t rows) { return cuda_rows_matrix(g->ci, 1, rows); }
HD_LOSS_MATRIX(cross_entropy)
HD_LOSS_MATRIX(cross_entropy_dx)
HD_LOSS_MATRIX(mse)
HD_LOSS_MATRIX(l1)
HD_LOSS_MATRIX(huber)
HD_LOSS_MATRIX(bce_with_logits)
#undef HD_LOSS_MATRIX
