/* How cuda_channels.h splits its work into blocks: channels of a shard, over the pixels of its samples. */
#pragma once

#include "kernel/cuda/cuda_block.h"
#include "kernel/cuda/cuda_ops.h"

enum { HD_BLOCK_CHANNELS = 32, HD_BLOCK_PIXELS = 128 };

HD_BOTH cuda_part conv_db_matrix(const hd_geom *g, int64_t rows) {
  return cuda_matrix(g->co, 1, (int64_t)g->hp * g->wp, 1, rows);
}
HD_BOTH cuda_part batch_stats_channels_matrix(const hd_geom *g, int64_t rows) {
  return cuda_matrix(g->ci, 1, op_pixels(g), 1, rows);
}
HD_BOTH cuda_part batch_norm_dw_channels_matrix(const hd_geom *g, int64_t rows) {
  return cuda_matrix(g->ci, 1, op_pixels(g), 1, rows);
}
HD_BOTH cuda_part shard_norm_channels_matrix(const hd_geom *g, int64_t rows) {
  return batch_stats_channels_matrix(g, rows);
}
HD_BOTH cuda_part shard_norm_dx_channels_matrix(const hd_geom *g, int64_t rows) {
  return batch_stats_channels_matrix(g, rows);
}
