/* Chains along the channels of a shard, sample by sample and pixel by pixel: the gradient of a convolution's bias,
 * the statistics of a batch and the gradients of its norm, and norms over the shard. A block has 32 channels. All
 * its threads load pixels into shared memory, then one thread for each channel runs through them.
 *
 * HD_CHANNELS(NAME) makes the kernel of an operation on all channels from NAME_of_channels(const cuda_channels *w). */
#pragma once

#include "kernel/cuda/cuda_block.h"

enum { HD_BLOCK_CHANNELS = 32, HD_BLOCK_PIXELS = 128 };

/* The channels of a block: from a0 on, of a_rows; pixels are numbered over the whole shard. */
typedef struct cuda_channels {
  cuda_part part;
  int32_t pixels;
} cuda_channels;

/* 0: the batch has fewer shards. */
HD_BOTH int cuda_channels_begin(cuda_channels *w, const hd_cuda_call *c, int64_t block) {
  if (!cuda_place(&w->part, c, block, HD_BLOCK_CHANNELS))
    return 0;
  w->pixels = w->part.steps;
  return 1;
}

/* Pixels that all threads load at a time, and the channel of thread t. */
enum { HD_BLOCK_PIXEL_ROWS = HD_CUDA_BLOCK / HD_BLOCK_CHANNELS };
HD_BOTH int cuda_channels_of_thread(const cuda_channels *w, int t) { return w->part.a0 + t % HD_BLOCK_CHANNELS; }

HD_BOTH const float *cuda_channels_in(const cuda_channels *w, int slot, int pixel, int channel) {
  const hd_cuda_call *c = w->part.c;
  return op_in(c, slot, w->part.row0 + cuda_over(pixel, c->cut.sample)) +
         (int64_t)cuda_rest(pixel, c->cut.sample) * w->part.a_rows + channel;
}
HD_BOTH float *cuda_channels_out(const cuda_channels *w, int pixel, int channel) {
  const hd_cuda_call *c = w->part.c;
  return op_out(c, 0, w->part.row0 + cuda_over(pixel, c->cut.sample)) +
         (int64_t)cuda_rest(pixel, c->cut.sample) * w->part.a_rows + channel;
}

/* Loads the share of thread t of the pixels from `first` on. */
HD_BOTH void cuda_load_pixels(float (*to)[HD_BLOCK_CHANNELS], const cuda_channels *w, int slot, int first, int t) {
  const int channel = cuda_channels_of_thread(w, t);
  for (int i = t / HD_BLOCK_CHANNELS; i < HD_BLOCK_PIXELS; i += HD_BLOCK_PIXEL_ROWS)
    if (first + i < w->pixels && channel < w->part.a_rows)
      to[i][t % HD_BLOCK_CHANNELS] = *cuda_channels_in(w, slot, first + i, channel);
}

/* Whether thread t has a channel, and the number of its pixels from `first` on, at most HD_BLOCK_PIXELS. */
HD_BOTH int cuda_channels_has(const cuda_channels *w, int t) {
  return t < HD_BLOCK_CHANNELS && w->part.a0 + t < w->part.a_rows;
}
HD_BOTH int cuda_channels_count(const cuda_channels *w, int first, int t) {
  const int left = w->pixels - first;
  return !cuda_channels_has(w, t) ? 0 : left < HD_BLOCK_PIXELS ? left : HD_BLOCK_PIXELS;
}

#define HD_CHANNELS(name)                                                                                              \
  HD_BOTH hd_cuda_cut name##_channels_matrix(const hd_geom *g, int64_t rows) {                                         \
    return cuda_matrix(g->ci, 1, op_pixels(g), 1, rows);                                                               \
  }                                                                                                                    \
  HD_BLOCK_KERNEL(name##_channels, hd_cuda_call) {                                                                     \
    cuda_channels w;                                                                                                   \
    if (cuda_channels_begin(&w, c, HD_BLOCK))                                                                          \
      name##_of_channels(&w);                                                                                          \
  }
