/* Reference reductions, sums of squares and the gathering of samples; float only. */
#include "base/fma.h"
#include "kernel/kernel.h"
#include "kernel/ref/ref_fill.h"

static void reduce(float *out, const float *const *term, const hd_reduction *f, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    float stack[HD_MAX_REDUCTION_DEPTH] = {0};
    for (hd_walk w = hd__reduction_walk(f); hd__walk_push(&w);)
      for (stack[w.top] = term[w.step->term][i]; hd__walk_merge(&w);)
        stack[w.top] = stack[w.top] + stack[w.top + 1];
    out[i] = stack[0];
  }
}

static void merge_stats(hd_stats left, hd_stats right, int64_t count, hd_chan factors) {
  for (int64_t i = 0; i < count; i++) {
    float d = right.mean[i] - left.mean[i];
    left.mean[i] = hd__fmaf(d, factors.share, left.mean[i]);
    left.m2[i] = hd__fmaf(d * d, factors.both, left.m2[i] + right.m2[i]);
  }
}

static void average(float *out, const float *average, const float *x, float share, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    out[i] = hd__fmaf(share, x[i] - average[i], average[i]);
}

static double sum_squares(const float *x, int64_t count) {
  double chain[16] = {0};
  for (int64_t i = 0; i < count; i++)
    chain[i % 16] = hd__fma((double)x[i], (double)x[i], chain[i % 16]);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; i++)
      chain[i] = chain[i] + chain[i + half];
  return chain[0];
}

static void gather_u8(float *out, const uint8_t *pixels, int64_t plane, int32_t channels, const float *scale,
                      const float *shift) {
  for (int64_t i = 0; i < plane; i++)
    for (int32_t c = 0; c < channels; c++)
      out[i * channels + c] = hd__fmaf((float)pixels[c * plane + i], scale[c], shift[c]);
}

static void gather_f32(float *out, const float *pixels, int64_t plane, int32_t channels, const float *scale,
                       const float *shift) {
  for (int64_t i = 0; i < plane; i++)
    for (int32_t c = 0; c < channels; c++)
      out[i * channels + c] = hd__fmaf(pixels[c * plane + i], scale[c], shift[c]);
}

void hd__ref_reduce_fill(hd_kernels *table) {
  table->reduce = reduce;
  table->merge_stats = merge_stats;
  table->average = average;
  table->sum_squares = sum_squares;
  table->gather_u8 = gather_u8;
  table->gather_f32 = gather_f32;
}
