/* Reference kernels of --precision bf16: scalar loops that state the chains; see kernel/bf16.h for the pair. */
#include <math.h>

#include "kernel/bf16.h"

static float rounded(float x) {
  uint32_t bits = (uint32_t)bf16_of(x) << 16;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Elements e and e + 1 of two sequences of `count`; what is beyond the end are zeros that take part. */
static float pair(const float *a, int64_t a_step, const float *b, int64_t b_step, int e, int count, float acc) {
  bool odd = e + 1 < count, even = e < count;
  acc = fmaf(odd ? rounded(a[(e + 1) * a_step]) : 0, odd ? rounded(b[(e + 1) * b_step]) : 0, acc);
  return fmaf(even ? rounded(a[e * a_step]) : 0, even ? rounded(b[e * b_step]) : 0, acc);
}

/* A kernel row of a window, zeros where it lies over the padding; channels of the output's group alone. */
static void gather_row(float *row, const hd_geom *g, const float *x, int y, int col, int first, int channels) {
  for (int kx = 0; kx < g->kw; kx++)
    for (int c = 0; c < channels; c++) {
      bool inside = y >= 0 && y < g->hi && col + kx >= 0 && col + kx < g->wi;
      row[kx * channels + c] = inside ? x[((int64_t)y * g->wi + col + kx) * g->ci + first + c] : 0;
    }
}

/* acc = bias or +0; ky ascending; the row's elements (kx, ci) in pairs. */
static float conv_at(const hd_call *call, float *row, const float *x, int oy, int ox, int co) {
  const hd_geom *g = call->g;
  const float *bias = call->in[2];
  int channels = g->ci / g->groups, first = co / (g->co / g->groups) * channels, run = g->kw * channels;
  const float *w = (const float *)call->in[1] + (int64_t)co * g->kh * run;
  float acc = bias ? bias[co] : 0;
  for (int ky = 0; ky < g->kh; ky++, w += run) {
    gather_row(row, g, x, oy * g->sh + ky - g->ph, ox * g->sw - g->pw, first, channels);
    for (int e = 0; e < run; e += 2)
      acc = pair(row, 1, w, 1, e, run, acc);
  }
  return acc;
}

static void window(const hd_call *call, float *row, int64_t n, int wy, int wx, int co) {
  const hd_geom *g = call->g;
  const float *x = (const float *)call->in[0] + n * call->in_stride[0];
  int64_t out = ((int64_t)wy * g->wp + wx) * g->co + co;
  float best = 0;
  int at = 0;
  for (int p = 0; p < g->pool * g->pool; p++) {
    float v = conv_at(call, row, x, wy * g->pool + p / g->pool, wx * g->pool + p % g->pool, co);
    if (p == 0 || v > best || v != v) {
      best = v;
      at = p;
    }
  }
  ((float *)call->out[0])[n * call->out_stride[0] + out] = g->relu && best < 0 ? 0 : best;
  if (call->out[1])
    ((uint8_t *)call->out[1])[n * call->out_stride[1] + out] = (uint8_t)at;
}

static void conv2d(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++)
    for (int wy = 0; wy < g->hp; wy++)
      for (int wx = 0; wx < g->wp; wx++)
        for (int co = 0; co < g->co; co++)
          window(call, call->scratch, n, wy, wx, co);
}

static int64_t conv_scratch(const hd_geom *g) { return (int64_t)g->kw * g->ci * (int64_t)sizeof(float); }

/* 16 chains, chain i takes the pairs i, i + 16, ...; zeros fill the last round up; the tree; then + bias. */
static void linear(const hd_call *call) {
  const hd_geom *g = call->g;
  const float *bias = call->in[2];
  for (int64_t n = 0; n < call->rows; n++)
    for (int j = 0; j < g->co; j++) {
      const float *x = (const float *)call->in[0] + n * call->in_stride[0];
      const float *w = (const float *)call->in[1] + (int64_t)j * g->ci;
      float chain[16] = {0};
      for (int e = 0; e < (g->ci + 31) / 32 * 32; e += 2)
        chain[e / 2 % 16] = pair(x, 1, w, 1, e, g->ci, chain[e / 2 % 16]);
      for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
          chain[i] = chain[i] + chain[i + half];
      float y = bias ? chain[0] + bias[j] : chain[0];
      ((float *)call->out[0])[n * call->out_stride[0] + j] = g->relu && y < 0 ? 0 : y;
    }
}

/* acc = +0; outputs in pairs. */
static void linear_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  const float *w = call->in[1];
  for (int64_t n = 0; n < call->rows; n++)
    for (int k = 0; k < g->ci; k++) {
      const float *dy = (const float *)call->in[0] + n * call->in_stride[0];
      float acc = 0;
      for (int j = 0; j < g->co; j += 2)
        acc = pair(dy, 1, w + k, g->ci, j, g->co, acc);
      ((float *)call->out[0])[n * call->out_stride[0] + k] = acc;
    }
}

void hd__bf16_reference_fill(hd_kernels *table) {
  table->supports[HD_OP_conv2d] = bf16_takes;
  table->run[HD_OP_conv2d] = conv2d;
  table->scratch_bytes[HD_OP_conv2d] = conv_scratch;
  table->run[HD_OP_linear] = linear;
  table->run_outputs[HD_OP_linear] = NULL;
  table->run[HD_OP_linear_dx] = linear_dx;
}
