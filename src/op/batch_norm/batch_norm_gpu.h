/* Statistics, gradients of weight and bias, and norms over a shard, by blocks of channels; the chains are those of
 * batch_norm.h. */
#pragma once

#include "kernel/cuda/cuda_channels.h"
#include "op/batch_norm/batch_norm.h"

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

HD_BY_BLOCK void batch_stats_of_channels(const cuda_channels *w) {
  const hd_cuda_call *c = w->part.c;
  HD_SHARED(float, x, [HD_BLOCK_PIXELS][HD_BLOCK_CHANNELS]);
  HD_PER_THREAD(float, stats, 2);
  cuda_channels_stats(w, x, stats);
  HD_PHASE {
    for (int k = 0; k < 2 && cuda_channels_has(w, t); k++)
      op_sums(c, k, w->part.shard)[w->part.a0 + t] = k ? HD_THIS(stats)[1] : HD_THIS(stats)[0];
  }
}
HD_CHANNELS(batch_stats)

/* The gradients of weight and bias of each channel, acc[2] and acc[3] of its thread; mean and rate of the channel,
 * acc[0] and acc[1] of all threads. */
HD_BY_BLOCK void cuda_channels_gradients(const cuda_channels *w, int x_slot, int dy_slot, int mean_slot,
                                         float (*x)[HD_BLOCK_CHANNELS], float (*dy)[HD_BLOCK_CHANNELS],
                                         HD_PER_THREAD_ARG(float, acc, 4)) {
  HD_PHASE {
    const hd_cuda_call *c = w->part.c;
    const int channel = cuda_channels_of_thread(w, t) < w->part.a_rows ? cuda_channels_of_thread(w, t) : 0;
    HD_THIS(acc)[0] = op_in(c, mean_slot, w->part.row0)[channel];
    HD_THIS(acc)[1] = norm_rate(&c->g, op_in(c, mean_slot + 1, w->part.row0)[channel]);
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

HD_BY_BLOCK void batch_norm_dw_of_channels(const cuda_channels *w) {
  const hd_cuda_call *c = w->part.c;
  HD_SHARED(float, x, [HD_BLOCK_PIXELS][HD_BLOCK_CHANNELS]);
  HD_SHARED(float, dy, [HD_BLOCK_PIXELS][HD_BLOCK_CHANNELS]);
  HD_PER_THREAD(float, acc, 4);
  cuda_channels_gradients(w, 0, 1, 2, x, dy, acc);
  HD_PHASE {
    for (int k = 0; k < 2 && cuda_channels_has(w, t); k++)
      if (c->out[k])
        op_sums(c, k, w->part.shard)[w->part.a0 + t] = k ? HD_THIS(acc)[3] : HD_THIS(acc)[2];
  }
}
HD_CHANNELS(batch_norm_dw)

/* ---- Norms over a shard: sums as above, then all threads compute the elements. ---- */

HD_BY_BLOCK void shard_norm_of_channels(const cuda_channels *w) {
  const hd_cuda_call *c = w->part.c;
  HD_SHARED(float, x, [HD_BLOCK_PIXELS][HD_BLOCK_CHANNELS]);
  HD_SHARED(float, mean, [HD_BLOCK_CHANNELS]);
  HD_SHARED(float, scale, [HD_BLOCK_CHANNELS]);
  HD_PER_THREAD(float, stats, 2);
  cuda_channels_stats(w, x, stats);
  HD_PHASE {
    if (!cuda_channels_has(w, t))
      continue;
    const float var = HD_THIS(stats)[1] / (float)w->pixels;
    mean[t] = op_out(c, 1, w->part.row0)[w->part.a0 + t] = HD_THIS(stats)[0];
    op_out(c, 2, w->part.row0)[w->part.a0 + t] = var;
    scale[t] = batch_norm_scale(&c->g, op_param(c, 1)[w->part.a0 + t], var);
  }
  HD_PHASE {
    const int channel = cuda_channels_of_thread(w, t), k = t % HD_BLOCK_CHANNELS;
    if (channel >= w->part.a_rows)
      continue;
    const float bias = op_param(c, 2)[channel];
    for (int pixel = t / HD_BLOCK_CHANNELS; pixel < w->pixels; pixel += HD_BLOCK_PIXEL_ROWS)
      *cuda_channels_out(w, pixel, channel) = fmaf(*cuda_channels_in(w, 0, pixel, channel) - mean[k], scale[k], bias);
  }
}
HD_CHANNELS(shard_norm)

HD_BY_BLOCK void shard_norm_dx_of_channels(const cuda_channels *w) {
  const hd_cuda_call *c = w->part.c;
  HD_SHARED(float, x, [HD_BLOCK_PIXELS][HD_BLOCK_CHANNELS]);
  HD_SHARED(float, dy, [HD_BLOCK_PIXELS][HD_BLOCK_CHANNELS]);
  HD_SHARED(float, dw, [HD_BLOCK_CHANNELS]);
  HD_SHARED(float, db, [HD_BLOCK_CHANNELS]);
  HD_PER_THREAD(float, acc, 4);
  cuda_channels_gradients(w, 2, 0, 3, x, dy, acc);
  HD_PHASE {
    if (!cuda_channels_has(w, t))
      continue;
    dw[t] = HD_THIS(acc)[2];
    db[t] = HD_THIS(acc)[3];
  }
  HD_PHASE {
    const int channel = cuda_channels_of_thread(w, t), k = t % HD_BLOCK_CHANNELS;
    if (channel >= w->part.a_rows)
      continue;
    const float weight = op_param(c, 1)[channel];
    for (int pixel = t / HD_BLOCK_CHANNELS; pixel < w->pixels; pixel += HD_BLOCK_PIXEL_ROWS)
      *cuda_channels_out(w, pixel, channel) =
          batch_norm_slope(*cuda_channels_in(w, 0, pixel, channel), *cuda_channels_in(w, 2, pixel, channel), weight,
                           HD_THIS(acc)[0], HD_THIS(acc)[1], dw[k], db[k], (float)w->pixels);
  }
}
HD_CHANNELS(shard_norm_dx)
