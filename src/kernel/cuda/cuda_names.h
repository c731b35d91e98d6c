/* The numbers of the kernels: first the operations (hd_op), then the others. */
#pragma once

#include "kernel/cuda/cuda_call.h"

enum { HD_CUDA_BLOCK = 256 }; /* threads of a block, at most */

/* Kernels of no operation. KERNEL(name, arguments) */
#define HD_CUDA_EXTRA(KERNEL)                                                                                          \
  KERNEL(gradients, hd_cuda_chunks)                                                                                    \
  KERNEL(reduce, hd_cuda_reduce)                                                                                       \
  KERNEL(reduce_stats, hd_cuda_reduce)                                                                                 \
  KERNEL(partial_sums, hd_cuda_reduce)                                                                                 \
  KERNEL(partial_stats, hd_cuda_reduce)                                                                                \
  KERNEL(ranks, hd_cuda_ranks)                                                                                         \
  KERNEL(running, hd_cuda_running)                                                                                     \
  KERNEL(gather, hd_cuda_gather)                                                                                       \
  KERNEL(narrow, hd_cuda_convert)                                                                                      \
  KERNEL(widen, hd_cuda_convert)                                                                                       \
  KERNEL(blank, hd_cuda_convert)                                                                                       \
  KERNEL(finish, hd_cuda_call)                                                                                         \
  KERNEL(spread, hd_cuda_call)

/* Block kernels of operations, faster than a thread for each element, see cuda_block.h; those of an operation from the
 * largest part of its outputs a block to the smallest. SIXTEEN(operation, what, T) is what_T, made as
 * cuda_sixteen.h says, PRODUCT(operation, what, TA, TB) is what_TA_TB, as cuda_product.h says, LIVE(operation, what, R,
 * threads) what_R, as cuda_conv_live.h says, SCATTER(operation, what, elements) is what_elements, as
 * cuda_conv_scatter.h says; CHANNELS(operation, what) is what, written in cuda_channels.h; ROWS(operation, T) is
 * operation_rows_T, of T rows a block, and SHARD_ROWS(operation) is operation_rows, see cuda_rows.h. */
#define HD_CUDA_TILED(SIXTEEN, PRODUCT, LIVE, SCATTER, CHANNELS, ROWS, SHARD_ROWS)                                     \
  SIXTEEN(linear, linear_sums, 8)                                                                                      \
  SIXTEEN(linear, linear_sums, 4)                                                                                      \
  SIXTEEN(linear, linear_sums, 2)                                                                                      \
  PRODUCT(linear_dx, linear_dx_product, 4, 4)                                                                          \
  PRODUCT(linear_dx, linear_dx_product, 2, 2)                                                                          \
  PRODUCT(linear_dw, linear_dw_product, 4, 4)                                                                          \
  PRODUCT(linear_dw, linear_dw_product, 2, 2)                                                                          \
  SIXTEEN(conv2d, conv_tiles, 8)                                                                                       \
  SIXTEEN(conv2d, conv_tiles, 4)                                                                                       \
  PRODUCT(conv2d, conv_sums, 2, 4)                                                                                     \
  PRODUCT(conv2d, conv_sums, 2, 2)                                                                                     \
  SIXTEEN(conv2d_dx, conv_dx_tiles, 8)                                                                                 \
  SIXTEEN(conv2d_dx, conv_dx_tiles, 4)                                                                                 \
  SCATTER(conv2d_dx, conv_dx_scatter, 8192)                                                                            \
  SCATTER(conv2d_dx, conv_dx_scatter, 2048)                                                                            \
  PRODUCT(conv2d_dx, conv_dx_sums, 2, 4)                                                                               \
  PRODUCT(conv2d_dx, conv_dx_sums, 2, 2)                                                                               \
  SIXTEEN(conv2d_dw, conv_dw_tiles, 4)                                                                                 \
  SIXTEEN(conv2d_dw, conv_dw_tiles, 2)                                                                                 \
  LIVE(conv2d_dw, conv_dw_live, 9, 128)                                                                                \
  LIVE(conv2d_dw, conv_dw_thin, 1, 64)                                                                                 \
  PRODUCT(conv2d_dw, conv_dw_sums, 4, 2)                                                                               \
  PRODUCT(conv2d_dw, conv_dw_sums, 2, 2)                                                                               \
  CHANNELS(batch_stats, batch_stats_channels)                                                                          \
  CHANNELS(batch_norm_dw, batch_norm_dw_channels)                                                                      \
  CHANNELS(shard_norm, shard_norm_channels)                                                                            \
  CHANNELS(shard_norm_dx, shard_norm_dx_channels)                                                                      \
  ROWS(layer_norm, 16)                                                                                                 \
  ROWS(layer_norm, 1)                                                                                                  \
  ROWS(layer_norm_dx, 16)                                                                                              \
  ROWS(layer_norm_dx, 1)                                                                                               \
  ROWS(softmax, 16)                                                                                                    \
  ROWS(softmax, 1)                                                                                                     \
  ROWS(softmax_dx, 16)                                                                                                 \
  ROWS(softmax_dx, 1)                                                                                                  \
  ROWS(cross_entropy, 16)                                                                                              \
  ROWS(cross_entropy, 1)                                                                                               \
  ROWS(cross_entropy_dx, 16)                                                                                           \
  ROWS(cross_entropy_dx, 1)                                                                                            \
  ROWS(mse, 16)                                                                                                        \
  ROWS(mse, 1)                                                                                                         \
  ROWS(l1, 16)                                                                                                         \
  ROWS(l1, 1)                                                                                                          \
  ROWS(huber, 16)                                                                                                      \
  ROWS(huber, 1)                                                                                                       \
  ROWS(bce_with_logits, 16)                                                                                            \
  ROWS(bce_with_logits, 1)                                                                                             \
  SHARD_ROWS(layer_norm_dw)

/* The other block kernels. */
#define HD_CUDA_BLOCKS(KERNEL)                                                                                         \
  KERNEL(conv_db, hd_cuda_call)                                                                                        \
  KERNEL(squares, hd_cuda_chunks)                                                                                      \
  KERNEL(clip, hd_cuda_chunks)                                                                                         \
  KERNEL(close, hd_cuda_chunks)

typedef enum hd_cuda_extra {
  HD_CUDA_before_extra = HD_OP_COUNT - 1,
#define KERNEL(name, args) HD_CUDA_##name,
  HD_CUDA_EXTRA(KERNEL) HD_CUDA_BLOCKS(KERNEL)
#undef KERNEL
#define SIXTEEN(op, what, T) HD_CUDA_##what##_##T,
#define PRODUCT(op, what, TA, TB) HD_CUDA_##what##_##TA##_##TB,
#define LIVE(op, what, R, threads) HD_CUDA_##what##_##R,
#define SCATTER(op, what, elements) HD_CUDA_##what##_##elements,
#define CHANNELS(op, what) HD_CUDA_##what,
#define ROWS(op, T) HD_CUDA_##op##_rows_##T,
#define SHARD_ROWS(op) HD_CUDA_##op##_rows,
      HD_CUDA_TILED(SIXTEEN, PRODUCT, LIVE, SCATTER, CHANNELS, ROWS, SHARD_ROWS)
#undef SIXTEEN
#undef LIVE
#undef SCATTER
#undef CHANNELS
#undef PRODUCT
#undef ROWS
#undef SHARD_ROWS
          HD_CUDA_COUNT
} hd_cuda_extra;
