/* Chains along the channels of a shard, sample by sample and pixel by pixel: the gradient of a convolution's bias,
 * the statistics of a batch and the gradients of its norm, and norms over the shard. A block has 32 channels. All
 * its threads load pixels into shared memory, then one thread for each channel runs through them. */
#pragma once

#include "kernel/cuda/cuda_channels_matrix.h"

/* The channels of a block: from a0 on, of `channels`; pixels are numbered over the whole shard. */
typedef struct cuda_channels {
  cuda_part part;
  int32_t channels, of_sample, pixels;
} cuda_channels;

/* 0: the batch has fewer shards. */
HD_BOTH int cuda_channels_begin(cuda_channels *w, const hd_cuda_call *c, int64_t block, cuda_part matrix,
                                int channels) {
  w->part = matrix;
  w->channels = channels;
  w->of_sample = matrix.steps;
  if (!cuda_place(&w->part, c, block, HD_BLOCK_CHANNELS, 1))
    return 0;
  w->pixels = w->part.steps;
  return 1;
}

/* Pixels that all threads load at a time, and the channel of thread t. */
enum { HD_BLOCK_PIXEL_ROWS = HD_CUDA_BLOCK / HD_BLOCK_CHANNELS };
HD_BOTH int cuda_channels_of_thread(const cuda_channels *w, int t) { return w->part.a0 + t % HD_BLOCK_CHANNELS; }

HD_BOTH const float *cuda_channels_in(const cuda_channels *w, int slot, int pixel, int channel) {
  return op_in(w->part.c, slot, w->part.row0 + pixel / w->of_sample) + (int64_t)(pixel % w->of_sample) * w->channels +
         channel;
}
HD_BOTH float *cuda_channels_out(const cuda_channels *w, int pixel, int channel) {
  return op_out(w->part.c, 0, w->part.row0 + pixel / w->of_sample) + (int64_t)(pixel % w->of_sample) * w->channels +
         channel;
}

/* Loads the share of thread t of the pixels from `first` on. */
HD_BOTH void cuda_load_pixels(float (*to)[HD_BLOCK_CHANNELS], const cuda_channels *w, int slot, int first, int t) {
  const int channel = cuda_channels_of_thread(w, t);
  for (int i = t / HD_BLOCK_CHANNELS; i < HD_BLOCK_PIXELS; i += HD_BLOCK_PIXEL_ROWS)
    if (first + i < w->pixels && channel < w->channels)
      to[i][t % HD_BLOCK_CHANNELS] = *cuda_channels_in(w, slot, first + i, channel);
}

/* Whether thread t has a channel, and how many pixels there are of it from `first` on, at most HD_BLOCK_PIXELS. */
HD_BOTH int cuda_channels_has(const cuda_channels *w, int t) {
  return t < HD_BLOCK_CHANNELS && w->part.a0 + t < w->channels;
}
HD_BOTH int cuda_channels_count(const cuda_channels *w, int first, int t) {
  const int left = w->pixels - first;
  return !cuda_channels_has(w, t) ? 0 : left < HD_BLOCK_PIXELS ? left : HD_BLOCK_PIXELS;
}

HD_BLOCK_KERNEL(conv_db, hd_cuda_call) {
  cuda_channels w;
  if (!cuda_channels_begin(&w, c, HD_BLOCK, conv_db_matrix(&c->g, c->step->rows), c->g.co))
    return;
  HD_SHARED(float, dy, [HD_BLOCK_PIXELS][HD_BLOCK_CHANNELS]);
  HD_PER_THREAD(float, sum, 1);
  HD_PHASE { HD_THIS(sum)[0] = 0; }
  for (int first = 0; first < w.pixels; first += HD_BLOCK_PIXELS) {
    HD_PHASE { cuda_load_pixels(dy, &w, 1, first, t); }
    HD_PHASE {
      const int count = cuda_channels_count(&w, first, t);
      HD_UNROLL_BY_8
      for (int i = 0; i < count; i++)
        HD_THIS(sum)[0] = HD_THIS(sum)[0] + dy[i][t];
    }
  }
  HD_PHASE {
    if (cuda_channels_has(&w, t))
      op_sums(c, 1, w.part.shard)[w.part.a0 + t] = HD_THIS(sum)[0];
  }
}

/* The statistics of each channel, in its thread: mean and sum of squared deviations, in two passes. */
HD_BY_BLOCK void cuda_channels_stats(const cuda_channels *w, float (*x)[HD_BLOCK_CHANNELS],
                                     HD_PER_THREAD_ARG(float, stats, 2)) {
  HD_PER_THREAD(float, sum, 1);
  HD_PHASE { HD_THIS(sum)[0] = HD_THIS(stats)[0] = HD_THIS(stats)[1] = 0; }
  for (int pass = 0; pass < 2; pass++) {
    for (int first = 0; first < w->pixels; first += HD_BLOCK_PIXELS) {
      HD_PHASE { cuda_load_pixels(x, w, 0, first, t); }
      HD_PHASE {
        const int count = cuda_channels_count(w, first, t);
        HD_UNROLL_BY_8
        for (int i = 0; i < count; i++) {
          const float d = x[i][t] - HD_THIS(stats)[0];
          if (pass == 0)
            HD_THIS(sum)[0] = HD_THIS(sum)[0] + x[i][t];
          else
            HD_THIS(stats)[1] = fmaf(d, d, HD_THIS(stats)[1]);
        }
      }
    }
    HD_PHASE { HD_THIS(stats)[0] = HD_THIS(sum)[0] / (float)w->pixels; }
  }
}

HD_BLOCK_KERNEL(batch_stats_channels, hd_cuda_call) {
  cuda_channels w;
  if (!cuda_channels_begin(&w, c, HD_BLOCK, batch_stats_channels_matrix(&c->g, c->step->rows), c->g.ci))
    return;
  HD_SHARED(float, x, [HD_BLOCK_PIXELS][HD_BLOCK_CHANNELS]);
  HD_PER_THREAD(float, stats, 2);
  cuda_channels_stats(&w, x, stats);
  HD_PHASE {
    for (int k = 0; k < 2 && cuda_channels_has(&w, t); k++)
      op_sums(c, k, w.part.shard)[w.part.a0 + t] = k ? HD_THIS(stats)[1] : HD_THIS(stats)[0];
  }
}

/* The gradients of weight and bias of each channel, acc[2] and acc[3] of its thread; mean and rate of the channel,
 * acc[0] and acc[1] of all threads. */
HD_BY_BLOCK void cuda_channels_gradients(const cuda_channels *w, int x_slot, int dy_slot, int mean_slot,
                                         float (*x)[HD_BLOCK_CHANNELS], float (*dy)[HD_BLOCK_CHANNELS],
                                         HD_PER_THREAD_ARG(float, acc, 4)) {
  HD_PHASE {
    const hd_cuda_call *c = w->part.c;
    const int channel = cuda_channels_of_thread(w, t) < w->channels ? cuda_channels_of_thread(w, t) : 0;
    HD_THIS(acc)[0] = op_in(c, mean_slot, w->part.row0)[channel];
    HD_THIS(acc)[1] = batch_norm_rate(&c->g, op_in(c, mean_slot + 1, w->part.row0)[channel]);
    HD_THIS(acc)[2] = HD_THIS(acc)[3] = 0;
  }
  for (int first = 0; first < w->pixels; first += HD_BLOCK_PIXELS) {
    HD_PHASE {
      cuda_load_pixels(x, w, x_slot, first, t);
      cuda_load_pixels(dy, w, dy_slot, first, t);
    }
    HD_PHASE {
      const int count = cuda_channels_count(w, first, t);
      HD_UNROLL_BY_8
      for (int i = 0; i < count; i++) {
        HD_THIS(acc)[2] = fmaf(dy[i][t], (x[i][t] - HD_THIS(acc)[0]) * HD_THIS(acc)[1], HD_THIS(acc)[2]);
        HD_THIS(acc)[3] = HD_THIS(acc)[3] + dy[i][t];
      }
    }
  }
}

HD_BLOCK_KERNEL(batch_norm_dw_channels, hd_cuda_call) {
  cuda_channels w;
  if (!cuda_channels_begin(&w, c, HD_BLOCK, batch_norm_dw_channels_matrix(&c->g, c->step->rows), c->g.ci))
    return;
  HD_SHARED(float, x, [HD_BLOCK_PIXELS][HD_BLOCK_CHANNELS]);
  HD_SHARED(float, dy, [HD_BLOCK_PIXELS][HD_BLOCK_CHANNELS]);
  HD_PER_THREAD(float, acc, 4);
  cuda_channels_gradients(&w, 0, 1, 2, x, dy, acc);
  HD_PHASE {
    for (int k = 0; k < 2 && cuda_channels_has(&w, t); k++)
      if (c->out[k])
        op_sums(c, k, w.part.shard)[w.part.a0 + t] = k ? HD_THIS(acc)[3] : HD_THIS(acc)[2];
  }
}

/* ---- Norms over a shard: sums as above, then all threads compute the elements. ---- */

HD_BLOCK_KERNEL(shard_norm_channels, hd_cuda_call) {
  cuda_channels w;
  if (!cuda_channels_begin(&w, c, HD_BLOCK, shard_norm_channels_matrix(&c->g, c->step->rows), c->g.ci))
    return;
  HD_SHARED(float, x, [HD_BLOCK_PIXELS][HD_BLOCK_CHANNELS]);
  HD_SHARED(float, mean, [HD_BLOCK_CHANNELS]);
  HD_SHARED(float, scale, [HD_BLOCK_CHANNELS]);
  HD_PER_THREAD(float, stats, 2);
  cuda_channels_stats(&w, x, stats);
  HD_PHASE {
    if (!cuda_channels_has(&w, t))
      continue;
    const float var = HD_THIS(stats)[1] / (float)w.pixels;
    mean[t] = op_out(c, 1, w.part.row0)[w.part.a0 + t] = HD_THIS(stats)[0];
    op_out(c, 2, w.part.row0)[w.part.a0 + t] = var;
    scale[t] = op_param(c, 1)[w.part.a0 + t] / sqrtf(var + c->g.eps);
  }
  HD_PHASE {
    const int channel = cuda_channels_of_thread(&w, t), k = t % HD_BLOCK_CHANNELS;
    if (channel >= w.channels)
      continue;
    const float bias = op_param(c, 2)[channel];
    for (int pixel = t / HD_BLOCK_CHANNELS; pixel < w.pixels; pixel += HD_BLOCK_PIXEL_ROWS)
      *cuda_channels_out(&w, pixel, channel) = fmaf(*cuda_channels_in(&w, 0, pixel, channel) - mean[k], scale[k], bias);
  }
}

HD_BLOCK_KERNEL(shard_norm_dx_channels, hd_cuda_call) {
  cuda_channels w;
  if (!cuda_channels_begin(&w, c, HD_BLOCK, shard_norm_dx_channels_matrix(&c->g, c->step->rows), c->g.ci))
    return;
  HD_SHARED(float, x, [HD_BLOCK_PIXELS][HD_BLOCK_CHANNELS]);
  HD_SHARED(float, dy, [HD_BLOCK_PIXELS][HD_BLOCK_CHANNELS]);
  HD_SHARED(float, dw, [HD_BLOCK_CHANNELS]);
  HD_SHARED(float, db, [HD_BLOCK_CHANNELS]);
  HD_PER_THREAD(float, acc, 4);
  cuda_channels_gradients(&w, 2, 0, 3, x, dy, acc);
  HD_PHASE {
    if (!cuda_channels_has(&w, t))
      continue;
    dw[t] = HD_THIS(acc)[2];
    db[t] = HD_THIS(acc)[3];
  }
  HD_PHASE {
    const int channel = cuda_channels_of_thread(&w, t), k = t % HD_BLOCK_CHANNELS;
    if (channel >= w.channels)
      continue;
    const float weight = op_param(c, 1)[channel];
    for (int pixel = t / HD_BLOCK_CHANNELS; pixel < w.pixels; pixel += HD_BLOCK_PIXEL_ROWS)
      *cuda_channels_out(&w, pixel, channel) =
          batch_norm_slope(*cuda_channels_in(&w, 0, pixel, channel), *cuda_channels_in(&w, 2, pixel, channel), weight,
                           HD_THIS(acc)[0], HD_THIS(acc)[1], dw[k], db[k], (float)w.pixels);
  }
}
