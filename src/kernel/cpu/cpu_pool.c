/* Pooling of any window, stride and padding, and its gradients: channels in vector lanes. Padding is never taken by a
 * maximum and adds nothing to a mean.
 *
 * Order of the gradients: per input element, over windows row-major: acc = acc + dy where the maximum was taken here,
 * acc = acc + dy / divisor for a mean. */
#include "kernel/cpu/argmax16.h"

/* The positions of a window that lie inside of the image: [y0, y1) by [x0, x1), counted inside the window. */
typedef struct pool_window {
  int top, left, y0, y1, x0, x1;
} pool_window;

static pool_window window_at(const hd_geom *g, int oy, int ox) {
  pool_window w = {.top = oy * g->sh - g->ph, .left = ox * g->sw - g->pw};
  w.y0 = w.top < 0 ? -w.top : 0;
  w.x0 = w.left < 0 ? -w.left : 0;
  w.y1 = w.top + g->kh > g->hi ? g->hi - w.top : g->kh;
  w.x1 = w.left + g->kw > g->wi ? g->wi - w.left : g->kw;
  return w;
}

/* One group of channels of one window; x: the group's channel of the image's first pixel. */
G16 void forward_group(const hd_geom *g, const pool_window *w, const float *x, float *y, uint8_t *argmax, int count) {
  g16 best = g16_zero(), taken = g16_zero();
  int first = 1;
  for (int ky = w->y0; ky < w->y1; ky++)
    for (int kx = w->x0; kx < w->x1; kx++) {
      g16 v = g16_load_some(x + ((int64_t)(w->top + ky) * g->wi + w->left + kx) * g->ci, count);
      g16 number = g16_all((float)(ky * g->kw + kx));
      g16_mask over = g16_or(g16_less(best, v), g16_nan(v));
      best = first ? v : g16_choose(over, v, best);
      taken = first ? number : g16_choose(over, number, taken);
      first = 0;
    }
  g16_store_some(y, best, count);
  if (argmax)
    g16_to_bytes(argmax, taken, count);
}

static void max_pool2d(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = (const float *)call->in[0] + n * call->in_stride[0];
    float *y = (float *)call->out[0] + n * call->out_stride[0];
    uint8_t *argmax = call->out[1] ? (uint8_t *)call->out[1] + n * call->out_stride[1] : NULL;
    for (int i = 0; i < g->ho * g->wo; i++) {
      pool_window w = window_at(g, i / g->wo, i % g->wo);
      for (int c = 0; c < g->ci; c += 16) {
        int64_t at = (int64_t)i * g->ci + c;
        forward_group(g, &w, x + c, y + at, argmax ? argmax + at : NULL, g->ci - c);
      }
    }
  }
}

/* Adds one window's group where its maxima were. */
G16 void backward_group(const hd_geom *g, const pool_window *w, const float *dy, const uint8_t *argmax, float *dx,
                        int count) {
  g16 d = g16_load_some(dy, count), taken = g16_from_bytes(argmax, count);
  for (int ky = w->y0; ky < w->y1; ky++)
    for (int kx = w->x0; kx < w->x1; kx++) {
      float *at = dx + ((int64_t)(w->top + ky) * g->wi + w->left + kx) * g->ci;
      g16 old = g16_load_some(at, count);
      g16_mask here = g16_equal(taken, g16_all((float)(ky * g->kw + kx)));
      g16_store_some(at, g16_choose(here, g16_add(old, d), old), count);
    }
}

static void max_pool2d_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = (const float *)call->in[0] + n * call->in_stride[0];
    const uint8_t *argmax = (const uint8_t *)call->in[1] + n * call->in_stride[1];
    float *dx = (float *)call->out[0] + n * call->out_stride[0];
    memset(dx, 0, (size_t)g->hi * (size_t)g->wi * (size_t)g->ci * sizeof *dx);
    for (int i = 0; i < g->ho * g->wo; i++) {
      pool_window w = window_at(g, i / g->wo, i % g->wo);
      for (int c = 0; c < g->ci; c += 16) {
        int64_t at = (int64_t)i * g->ci + c;
        backward_group(g, &w, dy + at, argmax + at, dx + c, g->ci - c);
      }
    }
  }
}

G16 g16 divisor_of(const hd_geom *g, const pool_window *w) {
  return g16_all((float)(g->count_include_pad ? g->kh * g->kw : (w->y1 - w->y0) * (w->x1 - w->x0)));
}

G16 g16 mean_group(const hd_geom *g, const pool_window *w, const float *x, int count) {
  g16 sum = g16_zero();
  for (int ky = w->y0; ky < w->y1; ky++)
    for (int kx = w->x0; kx < w->x1; kx++)
      sum = g16_add(sum, g16_load_some(x + ((int64_t)(w->top + ky) * g->wi + w->left + kx) * g->ci, count));
  return g16_div(sum, divisor_of(g, w));
}

static void avg_pool2d(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = (const float *)call->in[0] + n * call->in_stride[0];
    float *y = (float *)call->out[0] + n * call->out_stride[0];
    for (int i = 0; i < g->ho * g->wo; i++) {
      pool_window w = window_at(g, i / g->wo, i % g->wo);
      for (int c = 0; c < g->ci; c += 16)
        g16_store_some(y + (int64_t)i * g->ci + c, mean_group(g, &w, x + c, g->ci - c), g->ci - c);
    }
  }
}

/* Adds one window's share to each of its pixels. */
G16 void share_group(const hd_geom *g, const pool_window *w, g16 share, float *dx, int count) {
  for (int ky = w->y0; ky < w->y1; ky++)
    for (int kx = w->x0; kx < w->x1; kx++) {
      float *at = dx + ((int64_t)(w->top + ky) * g->wi + w->left + kx) * g->ci;
      g16_store_some(at, g16_add(g16_load_some(at, count), share), count);
    }
}

static void avg_pool2d_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = (const float *)call->in[0] + n * call->in_stride[0];
    float *dx = (float *)call->out[0] + n * call->out_stride[0];
    memset(dx, 0, (size_t)g->hi * (size_t)g->wi * (size_t)g->ci * sizeof *dx);
    for (int i = 0; i < g->ho * g->wo; i++) {
      pool_window w = window_at(g, i / g->wo, i % g->wo);
      for (int c = 0; c < g->ci; c += 16) {
        g16 d = g16_load_some(dy + (int64_t)i * g->ci + c, g->ci - c);
        share_group(g, &w, g16_div(d, divisor_of(g, &w)), dx + c, g->ci - c);
      }
    }
  }
}

void HD_SYM(pool_fill)(hd_kernels *table) {
  table->run[HD_OP_avg_pool2d] = table->run[HD_OP_global_avg_pool2d] = avg_pool2d;
  table->run[HD_OP_avg_pool2d_dx] = avg_pool2d_dx;
  table->run[HD_OP_max_pool2d] = max_pool2d;
  table->run[HD_OP_max_pool2d_dx] = max_pool2d_dx;
}
