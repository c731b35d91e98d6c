/* Reference folds over shards, the forming of a linear layer's gradient inside a fold, the sum of squares, and the gathering
 * of pixels. */
#include <math.h>

#include "kernel/ref/ref_update.h"

/* After a push: the two topmost entries become (lower + upper), `merges` times. Returns the new depth. */
static int fold_merge(float *stack, int depth, int merges) {
  for (; merges > 0; merges--, depth--)
    stack[depth - 2] = stack[depth - 2] + stack[depth - 1];
  return depth;
}

void hd__ref_fold(float *out, const float *const *piece, const hd_fold *fold, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    float stack[HD_MAX_FOLD_DEPTH];
    int depth = 0;
    for (int s = 0; s < fold->count; s++) {
      stack[depth++] = piece[fold->step[s].piece][i];
      depth = fold_merge(stack, depth, fold->step[s].merges);
    }
    out[i] = stack[0];
  }
}

/* One shard's sum as linear_dw has it. Weight: acc = +0; over rows ascending: acc = fma(dy[j], x[k], acc). Bias: acc + dy[j]. */
static float form_shard(const hd_form *f, const hd_fold_step *step, int64_t j, int64_t k) {
  float acc = 0;
  for (int64_t row = step->row0; row < step->row1; row++) {
    float dy = f->dy[row * f->dy_stride + j];
    acc = f->output ? acc + dy : fmaf(dy, f->x[row * f->x_stride + k], acc);
  }
  return acc;
}

static float form_element(const hd_form *f, int64_t j, int64_t k) {
  float stack[HD_MAX_FOLD_DEPTH];
  int depth = 0;
  for (int s = 0; s < f->fold->count; s++) {
    stack[depth++] = form_shard(f, &f->fold->step[s], j, k);
    depth = fold_merge(stack, depth, f->fold->step[s].merges);
  }
  return stack[0];
}

void hd__ref_linear_form(const hd_form *f) {
  for (int64_t j = f->j0; j < f->j1; j++) {
    if (f->output)
      f->out[j - f->j0] = form_element(f, j, 0);
    for (int64_t k = f->k0; !f->output && k < f->k1; k++)
      f->out[(j - f->j0) * f->out_ld + (k - f->k0)] = form_element(f, j, k);
  }
}

/* 16 interleaved chains of double FMA, element i in chain i mod 16, from zero; then the fixed tree. */
double hd__ref_sum_squares(const float *x, int64_t count) {
  double s[16] = {0};
  for (int64_t i = 0; i < count; i++)
    s[i % 16] = fma((double)x[i], (double)x[i], s[i % 16]);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; i++)
      s[i] = s[i] + s[i + half];
  return s[0];
}

void hd__ref_gather_u8(float *out, const uint8_t *pixels, int64_t plane, int32_t channels, const float *scale,
                       const float *shift) {
  for (int64_t i = 0; i < plane; i++)
    for (int64_t c = 0; c < channels; c++)
      out[i * channels + c] = fmaf((float)pixels[c * plane + i], scale[c], shift[c]);
}
