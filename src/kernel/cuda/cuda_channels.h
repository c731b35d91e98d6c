/* Chains along the channels of a shard, sample by sample and pixel by pixel: the gradient of a convolution's bias, the
 * statistics of a batch and the gradients of its norm. A block has 32 channels. All its threads bring pixels into shared
 * memory, then one thread for each channel walks them. */
#ifndef HD_KERNEL_CUDA_CHANNELS_H
#define HD_KERNEL_CUDA_CHANNELS_H

#include "kernel/cuda/cuda_channels_matrix.h"

/* A block's channels: from a0 on, of `channels`; pixels of the shard are counted through. */
typedef struct cuda_walk {
  cuda_part part;
  int32_t channels, of_sample, pixels;
} cuda_walk;

/* 0: the batch has fewer shards. */
HD_BOTH int cuda_walk_begin(cuda_walk *w, const hd_cuda_call *c, int64_t block, cuda_part matrix, int channels) {
  w->part = matrix;
  w->channels = channels;
  w->of_sample = matrix.steps;
  if (!cuda_place(&w->part, c, block, HD_WALK_CHANNELS, 1))
    return 0;
  w->pixels = w->part.steps;
  return 1;
}

/* Of the pixels from `first` on, those that thread t brings. */
HD_BOTH void cuda_bring(float (*to)[HD_WALK_CHANNELS], const cuda_walk *w, int slot, int first, int t) {
  const int channel = w->part.a0 + t % HD_WALK_CHANNELS;
  for (int i = t / HD_WALK_CHANNELS; i < HD_WALK_PIXELS; i += HD_CUDA_BLOCK / HD_WALK_CHANNELS) {
    const int pixel = first + i;
    if (pixel < w->pixels && channel < w->channels)
      to[i][t % HD_WALK_CHANNELS] =
          cuda_in(w->part.c, slot,
                  w->part.row0 + pixel / w->of_sample)[(int64_t)(pixel % w->of_sample) * w->channels + channel];
  }
}

/* How many of them a channel's thread walks; other threads none. */
HD_BOTH int cuda_walked(const cuda_walk *w, int first, int t) {
  const int left = w->pixels - first;
  if (t >= HD_WALK_CHANNELS || w->part.a0 + t >= w->channels)
    return 0;
  return left < HD_WALK_PIXELS ? left : HD_WALK_PIXELS;
}

HD_BLOCK_KERNEL(conv_db, hd_cuda_call) {
  cuda_walk w;
  if (!cuda_walk_begin(&w, c, HD_BLOCK, conv_db_matrix(&c->g, c->step->rows), c->g.co))
    return;
  HD_SHARED(float, dy, [HD_WALK_PIXELS][HD_WALK_CHANNELS]);
  HD_OWN(float, sum, 1);
  HD_PHASE { MINE(sum)[0] = 0; }
  for (int first = 0; first < w.pixels; first += HD_WALK_PIXELS) {
    HD_PHASE { cuda_bring(dy, &w, 1, first, t); }
    HD_PHASE {
      const int count = cuda_walked(&w, first, t);
      HD_UNROLL_BY_8
      for (int i = 0; i < count; i++)
        MINE(sum)[0] = MINE(sum)[0] + dy[i][t];
    }
  }
  HD_PHASE {
    if (t < HD_WALK_CHANNELS && w.part.a0 + t < w.channels)
      cuda_sums(c, 1, w.part.shard)[w.part.a0 + t] = MINE(sum)[0];
  }
}

/* Twice: first for the mean, then for the squares of what deviates from it. */
HD_BLOCK_KERNEL(batch_stats_walk, hd_cuda_call) {
  cuda_walk w;
  if (!cuda_walk_begin(&w, c, HD_BLOCK, batch_stats_walk_matrix(&c->g, c->step->rows), c->g.ci))
    return;
  HD_SHARED(float, x, [HD_WALK_PIXELS][HD_WALK_CHANNELS]);
  HD_OWN(float, sum, 1);
  HD_OWN(float, m2, 1);
  HD_OWN(float, mean, 1);
  HD_PHASE { MINE(sum)[0] = MINE(m2)[0] = MINE(mean)[0] = 0; }
  for (int pass = 0; pass < 2; pass++) {
    for (int first = 0; first < w.pixels; first += HD_WALK_PIXELS) {
      HD_PHASE { cuda_bring(x, &w, 0, first, t); }
      HD_PHASE {
        const int count = cuda_walked(&w, first, t);
        HD_UNROLL_BY_8
        for (int i = 0; i < count; i++) {
          const float d = x[i][t] - MINE(mean)[0];
          if (pass == 0)
            MINE(sum)[0] = MINE(sum)[0] + x[i][t];
          else
            MINE(m2)[0] = fmaf(d, d, MINE(m2)[0]);
        }
      }
    }
    HD_PHASE { MINE(mean)[0] = MINE(sum)[0] / (float)w.pixels; }
  }
  HD_PHASE {
    if (t < HD_WALK_CHANNELS && w.part.a0 + t < w.channels) {
      cuda_sums(c, 0, w.part.shard)[w.part.a0 + t] = MINE(mean)[0];
      cuda_sums(c, 1, w.part.shard)[w.part.a0 + t] = MINE(m2)[0];
    }
  }
}

HD_BLOCK_KERNEL(batch_norm_dw_walk, hd_cuda_call) {
  cuda_walk w;
  if (!cuda_walk_begin(&w, c, HD_BLOCK, batch_norm_dw_walk_matrix(&c->g, c->step->rows), c->g.ci))
    return;
  HD_SHARED(float, x, [HD_WALK_PIXELS][HD_WALK_CHANNELS]);
  HD_SHARED(float, dy, [HD_WALK_PIXELS][HD_WALK_CHANNELS]);
  HD_OWN(float, own, 4); /* mean, rate, dw, db */
  HD_PHASE {
    const int channel = w.part.a0 + t % HD_WALK_CHANNELS < w.channels ? w.part.a0 + t % HD_WALK_CHANNELS : 0;
    MINE(own)[0] = cuda_in(c, 2, w.part.row0)[channel];
    MINE(own)[1] = cuda_norm_rate(&c->g, cuda_in(c, 3, w.part.row0)[channel]);
    MINE(own)[2] = MINE(own)[3] = 0;
  }
  for (int first = 0; first < w.pixels; first += HD_WALK_PIXELS) {
    HD_PHASE {
      cuda_bring(x, &w, 0, first, t);
      cuda_bring(dy, &w, 1, first, t);
    }
    HD_PHASE {
      const int count = cuda_walked(&w, first, t);
      HD_UNROLL_BY_8
      for (int i = 0; i < count; i++) {
        MINE(own)[2] = fmaf(dy[i][t], (x[i][t] - MINE(own)[0]) * MINE(own)[1], MINE(own)[2]);
        MINE(own)[3] = MINE(own)[3] + dy[i][t];
      }
    }
  }
  HD_PHASE {
    for (int k = 0; k < 2 && t < HD_WALK_CHANNELS && w.part.a0 + t < w.channels; k++)
      if (c->out[k])
        cuda_sums(c, k, w.part.shard)[w.part.a0 + t] = k ? MINE(own)[3] : MINE(own)[2];
  }
}

#endif
