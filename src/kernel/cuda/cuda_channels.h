/* Chains along the channels of a shard, sample by sample and pixel by pixel: the gradient of a convolution's bias, the
 * statistics of a batch and the gradients of its norm, and norms of the shard itself. A block has 32 channels. All its
 * threads bring pixels into shared memory, then one thread for each channel walks them. */
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

/* Pixels that all threads bring at a time, and the channel of thread t. */
enum { HD_WALK_ROWS = HD_CUDA_BLOCK / HD_WALK_CHANNELS };
HD_BOTH int cuda_walk_channel(const cuda_walk *w, int t) { return w->part.a0 + t % HD_WALK_CHANNELS; }

HD_BOTH const float *cuda_walk_in(const cuda_walk *w, int slot, int pixel, int channel) {
  return cuda_in(w->part.c, slot, w->part.row0 + pixel / w->of_sample) + (int64_t)(pixel % w->of_sample) * w->channels +
         channel;
}
HD_BOTH float *cuda_walk_out(const cuda_walk *w, int pixel, int channel) {
  return cuda_out(w->part.c, 0, w->part.row0 + pixel / w->of_sample) + (int64_t)(pixel % w->of_sample) * w->channels +
         channel;
}

/* Of the pixels from `first` on, those that thread t brings. */
HD_BOTH void cuda_bring(float (*to)[HD_WALK_CHANNELS], const cuda_walk *w, int slot, int first, int t) {
  const int channel = cuda_walk_channel(w, t);
  for (int i = t / HD_WALK_CHANNELS; i < HD_WALK_PIXELS; i += HD_WALK_ROWS)
    if (first + i < w->pixels && channel < w->channels)
      to[i][t % HD_WALK_CHANNELS] = *cuda_walk_in(w, slot, first + i, channel);
}

/* Whether thread t walks a channel, and how many pixels of those from `first` on. */
HD_BOTH int cuda_walks(const cuda_walk *w, int t) { return t < HD_WALK_CHANNELS && w->part.a0 + t < w->channels; }
HD_BOTH int cuda_walked(const cuda_walk *w, int first, int t) {
  const int left = w->pixels - first;
  return !cuda_walks(w, t) ? 0 : left < HD_WALK_PIXELS ? left : HD_WALK_PIXELS;
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
    if (cuda_walks(&w, t))
      cuda_sums(c, 1, w.part.shard)[w.part.a0 + t] = MINE(sum)[0];
  }
}

/* The statistics of each channel, its thread's: mean and sum of squares. Twice: first for the mean, then for the
 * squares of what deviates from it. */
HD_BY_BLOCK void cuda_walk_stats(const cuda_walk *w, float (*x)[HD_WALK_CHANNELS], HD_OWNED(float, stats, 2)) {
  HD_OWN(float, sum, 1);
  HD_PHASE { MINE(sum)[0] = MINE(stats)[0] = MINE(stats)[1] = 0; }
  for (int pass = 0; pass < 2; pass++) {
    for (int first = 0; first < w->pixels; first += HD_WALK_PIXELS) {
      HD_PHASE { cuda_bring(x, w, 0, first, t); }
      HD_PHASE {
        const int count = cuda_walked(w, first, t);
        HD_UNROLL_BY_8
        for (int i = 0; i < count; i++) {
          const float d = x[i][t] - MINE(stats)[0];
          if (pass == 0)
            MINE(sum)[0] = MINE(sum)[0] + x[i][t];
          else
            MINE(stats)[1] = fmaf(d, d, MINE(stats)[1]);
        }
      }
    }
    HD_PHASE { MINE(stats)[0] = MINE(sum)[0] / (float)w->pixels; }
  }
}

HD_BLOCK_KERNEL(batch_stats_walk, hd_cuda_call) {
  cuda_walk w;
  if (!cuda_walk_begin(&w, c, HD_BLOCK, batch_stats_walk_matrix(&c->g, c->step->rows), c->g.ci))
    return;
  HD_SHARED(float, x, [HD_WALK_PIXELS][HD_WALK_CHANNELS]);
  HD_OWN(float, stats, 2);
  cuda_walk_stats(&w, x, stats);
  HD_PHASE {
    for (int k = 0; k < 2 && cuda_walks(&w, t); k++)
      cuda_sums(c, k, w.part.shard)[w.part.a0 + t] = k ? MINE(stats)[1] : MINE(stats)[0];
  }
}

/* The gradients of weight and bias of each channel, its thread's own[2] and own[3]; all threads know its mean and rate.
 */
HD_BY_BLOCK void cuda_walk_gradients(const cuda_walk *w, int x_slot, int dy_slot, int mean_slot,
                                     float (*x)[HD_WALK_CHANNELS], float (*dy)[HD_WALK_CHANNELS],
                                     HD_OWNED(float, own, 4)) {
  HD_PHASE {
    const hd_cuda_call *c = w->part.c;
    const int channel = cuda_walk_channel(w, t) < w->channels ? cuda_walk_channel(w, t) : 0;
    MINE(own)[0] = cuda_in(c, mean_slot, w->part.row0)[channel];
    MINE(own)[1] = cuda_norm_rate(&c->g, cuda_in(c, mean_slot + 1, w->part.row0)[channel]);
    MINE(own)[2] = MINE(own)[3] = 0;
  }
  for (int first = 0; first < w->pixels; first += HD_WALK_PIXELS) {
    HD_PHASE {
      cuda_bring(x, w, x_slot, first, t);
      cuda_bring(dy, w, dy_slot, first, t);
    }
    HD_PHASE {
      const int count = cuda_walked(w, first, t);
      HD_UNROLL_BY_8
      for (int i = 0; i < count; i++) {
        MINE(own)[2] = fmaf(dy[i][t], (x[i][t] - MINE(own)[0]) * MINE(own)[1], MINE(own)[2]);
        MINE(own)[3] = MINE(own)[3] + dy[i][t];
      }
    }
  }
}

HD_BLOCK_KERNEL(batch_norm_dw_walk, hd_cuda_call) {
  cuda_walk w;
  if (!cuda_walk_begin(&w, c, HD_BLOCK, batch_norm_dw_walk_matrix(&c->g, c->step->rows), c->g.ci))
    return;
  HD_SHARED(float, x, [HD_WALK_PIXELS][HD_WALK_CHANNELS]);
  HD_SHARED(float, dy, [HD_WALK_PIXELS][HD_WALK_CHANNELS]);
  HD_OWN(float, own, 4);
  cuda_walk_gradients(&w, 0, 1, 2, x, dy, own);
  HD_PHASE {
    for (int k = 0; k < 2 && cuda_walks(&w, t); k++)
      if (c->out[k])
        cuda_sums(c, k, w.part.shard)[w.part.a0 + t] = k ? MINE(own)[3] : MINE(own)[2];
  }
}

/* ---- Norms over a shard: sums as above, and then all threads make the elements. ---- */

HD_BLOCK_KERNEL(shard_norm_walk, hd_cuda_call) {
  cuda_walk w;
  if (!cuda_walk_begin(&w, c, HD_BLOCK, shard_norm_walk_matrix(&c->g, c->step->rows), c->g.ci))
    return;
  HD_SHARED(float, x, [HD_WALK_PIXELS][HD_WALK_CHANNELS]);
  HD_SHARED(float, mean, [HD_WALK_CHANNELS]);
  HD_SHARED(float, scale, [HD_WALK_CHANNELS]);
  HD_OWN(float, stats, 2);
  cuda_walk_stats(&w, x, stats);
  HD_PHASE {
    if (!cuda_walks(&w, t))
      continue;
    const float var = MINE(stats)[1] / (float)w.pixels;
    mean[t] = cuda_out(c, 1, w.part.row0)[w.part.a0 + t] = MINE(stats)[0];
    cuda_out(c, 2, w.part.row0)[w.part.a0 + t] = var;
    scale[t] = cuda_param(c, 1)[w.part.a0 + t] / sqrtf(var + c->g.eps);
  }
  HD_PHASE {
    const int channel = cuda_walk_channel(&w, t), k = t % HD_WALK_CHANNELS;
    if (channel >= w.channels)
      continue;
    const float bias = cuda_param(c, 2)[channel];
    for (int pixel = t / HD_WALK_CHANNELS; pixel < w.pixels; pixel += HD_WALK_ROWS)
      *cuda_walk_out(&w, pixel, channel) = fmaf(*cuda_walk_in(&w, 0, pixel, channel) - mean[k], scale[k], bias);
  }
}

HD_BLOCK_KERNEL(shard_norm_dx_walk, hd_cuda_call) {
  cuda_walk w;
  if (!cuda_walk_begin(&w, c, HD_BLOCK, shard_norm_dx_walk_matrix(&c->g, c->step->rows), c->g.ci))
    return;
  HD_SHARED(float, x, [HD_WALK_PIXELS][HD_WALK_CHANNELS]);
  HD_SHARED(float, dy, [HD_WALK_PIXELS][HD_WALK_CHANNELS]);
  HD_SHARED(float, dw, [HD_WALK_CHANNELS]);
  HD_SHARED(float, db, [HD_WALK_CHANNELS]);
  HD_OWN(float, own, 4);
  cuda_walk_gradients(&w, 2, 0, 3, x, dy, own);
  HD_PHASE {
    if (!cuda_walks(&w, t))
      continue;
    dw[t] = MINE(own)[2];
    db[t] = MINE(own)[3];
  }
  HD_PHASE {
    const int channel = cuda_walk_channel(&w, t), k = t % HD_WALK_CHANNELS;
    if (channel >= w.channels)
      continue;
    const float weight = cuda_param(c, 1)[channel];
    for (int pixel = t / HD_WALK_CHANNELS; pixel < w.pixels; pixel += HD_WALK_ROWS)
      *cuda_walk_out(&w, pixel, channel) =
          cuda_norm_dx(*cuda_walk_in(&w, 0, pixel, channel), *cuda_walk_in(&w, 2, pixel, channel), weight, MINE(own)[0],
                       MINE(own)[1], dw[k], db[k], (float)w.pixels);
  }
}

#endif
