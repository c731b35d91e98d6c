/* Reference kernels of --precision bf16: scalar loops that state the chains of bf16.h. */
#include "base/fma.h"
#include "kernel/bf16.h"
#include "op/linear/linear_form.h"

/* A sum: takes factor after factor, block after block. */
typedef struct chain {
  float sum, even, odd;
  int taken; /* of the block */
} chain;

static void take(chain *c, float a, float b) {
  float *half = c->taken % 2 ? &c->odd : &c->even;
  *half = hd__fmaf(bf16_round(a), bf16_round(b), *half);
  if (++c->taken < BF16_DEPTH)
    return;
  *c = (chain){.sum = c->sum + (c->even + c->odd)};
}

/* The last block is padded with zeros. */
static float finish(chain *c) {
  while (c->taken > 0)
    take(c, 0, 0);
  return c->sum;
}

static const float *row_of(const hd_call *call, int k, int64_t n) {
  return (const float *)call->in[k] + n * call->in_stride[k];
}
static float *out_of(const hd_call *call, int64_t n) { return (float *)call->out[0] + n * call->out_stride[0]; }

/* ---- Linear layers ---- */

/* y: inputs ascending; then + bias. */
static void linear(const hd_call *call) {
  const hd_geom *g = call->g;
  const float *bias = call->in[2];
  for (int64_t n = 0; n < call->rows; n++)
    for (int j = 0; j < g->co; j++) {
      const float *x = row_of(call, 0, n), *w = (const float *)call->in[1] + (int64_t)j * g->ci;
      chain c = {0};
      for (int k = 0; k < g->ci; k++)
        take(&c, x[k], w[k]);
      const float sum = finish(&c), y = bias ? sum + bias[j] : sum;
      out_of(call, n)[j] = g->relu && y < 0 ? 0 : y;
    }
}

/* dx: outputs ascending. */
static void linear_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  const float *w = call->in[1];
  for (int64_t n = 0; n < call->rows; n++)
    for (int k = 0; k < g->ci; k++) {
      chain c = {0};
      for (int j = 0; j < g->co; j++)
        take(&c, row_of(call, 0, n)[j], w[(int64_t)j * g->ci + k]);
      out_of(call, n)[k] = finish(&c);
    }
}

/* dw: per shard: samples ascending. db: as in float. */
static float shard_chain(const hd_form *f, int j, int k, int row0, int row1) {
  chain c = {0};
  for (int n = row0; n < row1; n++)
    take(&c, f->dy[n * f->dy_stride + j], f->x[n * f->x_stride + k]);
  return finish(&c);
}

static void form(const hd_form *f) {
  if (f->output == 0)
    hd__form_each(f, shard_chain);
  else
    hd__kernels_reference()->form[HD_OP_linear_dw](f);
}

/* The float kernel's bias alone. */
static void bias_of(const hd_call *call, hd_op op) {
  hd_call bias = *call;
  bias.out[0] = NULL;
  if (call->out[1])
    hd__kernels_reference()->run[op](&bias);
}

static void linear_dw(const hd_call *call) {
  const hd_geom *g = call->g;
  const hd_form f = {
      .x = call->in[0], .dy = call->in[1], .x_stride = call->in_stride[0], .dy_stride = call->in_stride[1]};
  bias_of(call, HD_OP_linear_dw);
  for (int64_t i = 0; i < (int64_t)g->co * g->ci && call->out[0]; i++)
    ((float *)call->out[0])[i] = shard_chain(&f, (int)(i / g->ci), (int)(i % g->ci), 0, (int)call->rows);
}

/* ---- Convolutions ---- */

/* Channel c of a pixel; 0 beside the image. */
static float pixel_of(const hd_geom *g, const float *x, int iy, int ix, int c) {
  return iy >= 0 && iy < g->hi && ix >= 0 && ix < g->wi ? x[((int64_t)iy * g->wi + ix) * g->ci + c] : 0;
}

/* (ky, kx, ci) ascending, ci over the channels of the output's group; then + bias. */
static float conv_at(const hd_call *call, int64_t n, int oy, int ox, int co) {
  const hd_geom *g = call->g;
  const int channels = g->ci / g->conv.groups, first = co / (g->co / g->conv.groups) * channels;
  const float *w = (const float *)call->in[1] + (int64_t)co * g->window.kh * g->window.kw * channels;
  chain c = {0};
  for (int k = 0; k < g->window.kh * g->window.kw * channels; k++) {
    const int tap = k / channels;
    take(&c,
         pixel_of(g, row_of(call, 0, n), oy * g->window.sh + tap / g->window.kw - g->window.ph,
                  ox * g->window.sw + tap % g->window.kw - g->window.pw, first + k % channels),
         w[k]);
  }
  const float sum = finish(&c);
  return call->in[2] ? sum + ((const float *)call->in[2])[co] : sum;
}

static void window(const hd_call *call, int64_t n, int wy, int wx, int co) {
  const hd_geom *g = call->g;
  const int64_t out = ((int64_t)wy * g->wp + wx) * g->co + co;
  float best = 0;
  int at = 0;
  for (int p = 0; p < g->conv.pool * g->conv.pool; p++) {
    const float v = conv_at(call, n, wy * g->conv.pool + p / g->conv.pool, wx * g->conv.pool + p % g->conv.pool, co);
    if (p == 0 || v > best || v != v) {
      best = v;
      at = p;
    }
  }
  out_of(call, n)[out] = g->relu && best < 0 ? 0 : best;
  if (call->out[1])
    ((uint8_t *)call->out[1])[n * call->out_stride[1] + out] = (uint8_t)at;
}

static void conv2d(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++)
    for (int wy = 0; wy < g->hp; wy++)
      for (int wx = 0; wx < g->wp; wx++)
        for (int co = 0; co < g->co; co++)
          window(call, n, wy, wx, co);
}

/* The gradient of an output before the pool; dy is in[k]. */
static float dy_at(const hd_call *call, int k, int64_t n, int oy, int ox, int co) {
  const hd_geom *g = call->g;
  if (oy < 0 || ox < 0 || oy >= g->hp * g->conv.pool || ox >= g->wp * g->conv.pool)
    return 0;
  const int64_t at = ((int64_t)(oy / g->conv.pool) * g->wp + ox / g->conv.pool) * g->co + co;
  if (g->conv.pool > 1) {
    const uint8_t *taken = (const uint8_t *)call->in[2] + n * call->in_stride[2];
    if (taken[at] != oy % g->conv.pool * g->conv.pool + ox % g->conv.pool)
      return 0;
  }
  return row_of(call, k, n)[at];
}

/* dx: the output's pixels (oy, ox) ascending whose windows reach the pixel, inside the channels co of the group. */
static float conv_dx_at(const hd_call *call, int64_t n, int iy, int ix, int ci) {
  const hd_geom *g = call->g;
  const int channels = g->ci / g->conv.groups, outputs = g->co / g->conv.groups, first = ci / channels * outputs;
  const float *w = call->in[1];
  chain c = {0};
  for (int ky = g->window.kh - 1; ky >= 0; ky--)
    for (int kx = g->window.kw - 1; kx >= 0; kx--) {
      const int y = iy + g->window.ph - ky, x = ix + g->window.pw - kx;
      if ((y % g->window.sh + g->window.sh) % g->window.sh || (x % g->window.sw + g->window.sw) % g->window.sw)
        continue;
      for (int co = first; co < first + outputs; co++)
        take(&c, y < 0 || x < 0 ? 0 : dy_at(call, 0, n, y / g->window.sh, x / g->window.sw, co),
             w[(((int64_t)co * g->window.kh + ky) * g->window.kw + kx) * channels + ci % channels]);
    }
  return finish(&c);
}

static void conv2d_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  const int64_t elems = (int64_t)g->hi * g->wi * g->ci;
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < elems; i++)
      out_of(call, n)[i] = conv_dx_at(call, n, (int)(i / g->ci / g->wi), (int)(i / g->ci % g->wi), (int)(i % g->ci));
}

/* dw: per shard: sets of ceil(32 / pixels) samples; samples ascending, pixels of the output ascending, behind a pool at
 * all positions of its windows; each set is filled up with zeros to whole blocks. */
static float conv_dw_at(const hd_call *call, int co, int ky, int kx, int channel) {
  const hd_geom *g = call->g;
  const int width = g->wp * g->conv.pool, pixels = g->hp * g->conv.pool * width,
            set = (BF16_DEPTH + pixels - 1) / pixels;
  chain c = {0};
  for (int64_t n = 0; n < call->rows; n++) {
    for (int p = 0; p < pixels; p++)
      take(&c, dy_at(call, 1, n, p / width, p % width, co),
           pixel_of(g, row_of(call, 0, n), p / width * g->window.sh + ky - g->window.ph,
                    p % width * g->window.sw + kx - g->window.pw, channel));
    if ((n + 1) % set == 0)
      finish(&c);
  }
  return finish(&c);
}

static void conv2d_dw(const hd_call *call) {
  const hd_geom *g = call->g;
  const int channels = g->ci / g->conv.groups, factors = g->window.kh * g->window.kw * channels;
  bias_of(call, HD_OP_conv2d_dw);
  for (int64_t i = 0; i < (int64_t)g->co * factors && call->out[0]; i++) {
    const int co = (int)(i / factors), k = (int)(i % factors), tap = k / channels;
    ((float *)call->out[0])[i] = conv_dw_at(call, co, tap / g->window.kw, tap % g->window.kw,
                                            co / (g->co / g->conv.groups) * channels + k % channels);
  }
}

void hd__bf16_reference_fill(hd_kernels *table) {
  static const hd_op convolutions[] = {HD_OP_conv2d, HD_OP_conv2d_dx, HD_OP_conv2d_dw};
  static hd_run_fn *const runs[] = {conv2d, conv2d_dx, conv2d_dw};
  for (int i = 0; i < 3; i++) {
    table->supports[convolutions[i]] = bf16_takes;
    table->run[convolutions[i]] = runs[i];
  }
  table->run[HD_OP_linear] = linear;
  table->run_outputs[HD_OP_linear] = NULL;
  table->run[HD_OP_linear_dx] = linear_dx;
  table->run[HD_OP_linear_dw] = linear_dw;
  table->form[HD_OP_linear_dw] = form;
}
