/* Reference convolution and its gradients: scalar loops that state the chains.
 *
 * Positions of the padding are zeros that take part in every sum. Wide 3 x 3 convolutions are computed by tiles, see
 * ref_winograd.c; behind a pool their gradients are not, since most of dy is zero there. */
#include "kernel/ref/ref_winograd.h"

enum { MOST_POSITIONS = 256 }; /* of a window */

/* Element (y, x, c) of a padded image; y and x may lie outside. */
static real pixel(const hd_geom *g, const real *x, int y, int col, int c) {
  if (y < 0 || y >= g->hi || col < 0 || col >= g->wi)
    return 0;
  return x[((int64_t)y * g->wi + col) * g->ci + c];
}

/* The input channels that an output channel reads: its group's. */
static int group_channels(const hd_geom *g) { return g->ci / g->groups; }
static int first_channel(const hd_geom *g, int co) { return co / (g->co / g->groups) * group_channels(g); }

static const real *weights_of(const hd_geom *g, const real *w, int co) {
  return w + (int64_t)co * g->kh * g->kw * group_channels(g);
}

/* acc = bias or +0; for ky, kx, ci ascending over the group's channels: acc = fma(x, w, acc). */
static real conv_at(const hd_geom *g, const real *x, const real *w, const real *b, int oy, int ox, int co) {
  real acc = b ? b[co] : 0;
  const real *wo = weights_of(g, w, co);
  int first = first_channel(g, co), channels = group_channels(g);
  for (int ky = 0; ky < g->kh; ky++)
    for (int kx = 0; kx < g->kw; kx++)
      for (int ci = 0; ci < channels; ci++)
        acc = REAL_FMA(pixel(g, x, oy * g->sh + ky - g->ph, ox * g->sw + kx - g->pw, first + ci),
                       wo[(ky * g->kw + kx) * channels + ci], acc);
  return acc;
}

/* One sample of a call. */
typedef struct sample {
  const hd_geom *g;
  const real *x, *w, *b;
  real *y;
  uint8_t *argmax;
} sample;

/* The maximum over the window's positions, row-major, by takes_over; then the ReLU: y < 0 ? 0 : y. */
static void put_window(const sample *s, int wy, int wx, int co, const real *value) {
  const hd_geom *g = s->g;
  int64_t out = ((int64_t)wy * g->wp + wx) * g->co + co;
  int at = 0;
  for (int p = 1; p < g->pool * g->pool; p++)
    at = takes_over(value[p], value[at]) ? p : at;
  s->y[out] = g->relu && value[at] < 0 ? 0 : value[at];
  if (s->argmax)
    s->argmax[out] = (uint8_t)at;
}

static void direct(const sample *s, int co) {
  const hd_geom *g = s->g;
  real value[MOST_POSITIONS];
  for (int window = 0; window < g->hp * g->wp; window++) {
    int oy = window / g->wp * g->pool, ox = window % g->wp * g->pool;
    for (int p = 0; p < g->pool * g->pool; p++)
      value[p] = conv_at(g, s->x, s->w, s->b, oy + p / g->pool, ox + p % g->pool, co);
    put_window(s, window / g->wp, window % g->wp, co, value);
  }
}

/* A tile is a window of the pool, or without one four windows, of which those beyond the image are dropped. */
static void by_tiles(const sample *s, int co) {
  const hd_geom *g = s->g;
  winograd_map map = {g->hi, g->wi, g->ci, g->ph, g->pw};
  winograd_weight w = {weights_of(g, s->w, co), g->ci, 1};
  int side = 2 / g->pool; /* of a tile, in windows */
  real value[4];
  for (int ty = 0; ty * side < g->hp; ty++)
    for (int tx = 0; tx * side < g->wp; tx++) {
      REF(winograd_tile)(value, &map, s->x, ty, tx, &w, s->b ? s->b[co] : 0);
      for (int i = 0; i < side * side; i++)
        if (ty * side + i / side < g->hp && tx * side + i % side < g->wp)
          put_window(s, ty * side + i / side, tx * side + i % side, co, value + i);
    }
}

static void conv2d(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    sample s = {.g = g,
                .x = (const real *)call->in[0] + n * call->in_stride[0],
                .w = call->in[1],
                .b = call->in[2],
                .y = (real *)call->out[0] + n * call->out_stride[0],
                .argmax = call->out[1] ? (uint8_t *)call->out[1] + n * call->out_stride[1] : NULL};
    for (int co = 0; co < g->co; co++)
      if (hd_geom_is_winograd(g))
        by_tiles(&s, co);
      else
        direct(&s, co);
  }
}

/* Adds one window's element to all inputs it came from: one step of each one's chain. */
static void scatter(const hd_geom *g, real *dx, const real *w, real dy, int oy, int ox, int co) {
  const real *wo = weights_of(g, w, co);
  int channels = group_channels(g);
  for (int ky = 0; ky < g->kh; ky++)
    for (int kx = 0; kx < g->kw; kx++) {
      int y = oy * g->sh + ky - g->ph, x = ox * g->sw + kx - g->pw;
      if (y < 0 || y >= g->hi || x < 0 || x >= g->wi)
        continue;
      real *d = dx + ((int64_t)y * g->wi + x) * g->ci + first_channel(g, co);
      for (int ci = 0; ci < channels; ci++)
        d[ci] = REAL_FMA(dy, wo[(ky * g->kw + kx) * channels + ci], d[ci]);
    }
}

/* Per input element: acc = +0; over the output's pixels row-major (oy, ox), inside over the co of its group ascending:
 * acc = fma(dy, w, acc); behind a pool, dy is that of a window at the pixel it was taken from and zero at the others;
 * at last acc + 0, so that it makes no difference whether zero dy are left out: without it a flushed sum could keep
 * the sign of its zero. */
static void scattered_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  int64_t elems = (int64_t)g->hi * g->wi * g->ci;
  for (int64_t n = 0; n < call->rows; n++) {
    const real *dy = (const real *)call->in[0] + n * call->in_stride[0];
    const uint8_t *argmax = call->in[2] ? (const uint8_t *)call->in[2] + n * call->in_stride[2] : NULL;
    real *dx = (real *)call->out[0] + n * call->out_stride[0];
    for (int64_t i = 0; i < elems; i++)
      dx[i] = 0;
    for (int oy = 0; oy < g->hp * g->pool; oy++)
      for (int ox = 0; ox < g->wp * g->pool; ox++)
        for (int co = 0; co < g->co; co++) {
          int64_t at = ((int64_t)(oy / g->pool) * g->wp + ox / g->pool) * g->co + co;
          if (dy[at] != 0 && (argmax ? argmax[at] : 0) == oy % g->pool * g->pool + ox % g->pool)
            scatter(g, dx, call->in[1], dy[at], oy, ox, co);
        }
    for (int64_t i = 0; i < elems; i++)
      dx[i] = dx[i] + 0;
  }
}

/* By tiles of the input: a convolution of dy, every kernel turned around, with as much padding as it then takes. */
static void tiled_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  winograd_map map = {g->hp, g->wp, g->co, 2 - g->ph, 2 - g->pw};
  for (int64_t n = 0; n < call->rows; n++) {
    const real *dy = (const real *)call->in[0] + n * call->in_stride[0];
    real *dx = (real *)call->out[0] + n * call->out_stride[0], value[4];
    for (int ci = 0; ci < g->ci; ci++) {
      winograd_weight w = {(const real *)call->in[1] + 8 * g->ci + ci, -g->ci, 9 * (int64_t)g->ci};
      for (int y = 0; y < g->hi; y += 2)
        for (int x = 0; x < g->wi; x += 2) {
          REF(winograd_tile)(value, &map, dy, y / 2, x / 2, &w, 0);
          for (int i = 0; i < 4; i++)
            if (y + i / 2 < g->hi && x + i % 2 < g->wi)
              dx[((int64_t)(y + i / 2) * g->wi + x + i % 2) * g->ci + ci] = value[i];
        }
    }
  }
}

static void conv2d_dx(const hd_call *call) {
  if (hd_geom_is_winograd(call->g) && call->g->pool == 1)
    tiled_dx(call);
  else
    scattered_dx(call);
}

/* Per weight: acc = +0; over samples ascending, windows row-major: acc = fma(dy, x, acc); at last acc + 0, as above. */
static void weight_chain(const hd_call *call, int co, real *dw) {
  const hd_geom *g = call->g;
  int channels = group_channels(g), first = first_channel(g, co), columns = g->kh * g->kw * channels;
  for (int i = 0; i < columns; i++)
    dw[i] = 0;
  for (int64_t n = 0; n < call->rows; n++) {
    const real *x = (const real *)call->in[0] + n * call->in_stride[0];
    const real *dy = (const real *)call->in[1] + n * call->in_stride[1];
    const uint8_t *argmax = call->in[2] ? (const uint8_t *)call->in[2] + n * call->in_stride[2] : NULL;
    for (int window = 0; window < g->hp * g->wp; window++) {
      int64_t at = (int64_t)window * g->co + co;
      int p = argmax ? argmax[at] : 0;
      int oy = window / g->wp * g->pool + p / g->pool, ox = window % g->wp * g->pool + p % g->pool;
      if (dy[at] == 0)
        continue;
      for (int i = 0; i < columns; i++) {
        int ky = i / channels / g->kw, kx = i / channels % g->kw;
        real v = pixel(g, x, oy * g->sh + ky - g->ph, ox * g->sw + kx - g->pw, first + i % channels);
        dw[i] = REAL_FMA(dy[at], v, dw[i]);
      }
    }
  }
  for (int i = 0; i < columns; i++)
    dw[i] = dw[i] + 0;
}

/* The bias's gradient: acc = +0; samples ascending, windows row-major: acc = acc + dy. */
static void conv2d_dw(const hd_call *call) {
  const hd_geom *g = call->g;
  real *dw = call->out[0], *db = call->out[1];
  for (int co = 0; co < g->co; co++) {
    if (dw && hd_geom_is_winograd(g) && g->pool == 1)
      REF(winograd_dw)(call, co, dw + (int64_t)co * 9 * g->ci);
    else if (dw)
      weight_chain(call, co, dw + (int64_t)co * g->kh * g->kw * group_channels(g));
    if (!db)
      continue;
    real acc = 0;
    for (int64_t n = 0; n < call->rows; n++)
      for (int window = 0; window < g->hp * g->wp; window++)
        acc = acc + ((const real *)call->in[1])[n * call->in_stride[1] + (int64_t)window * g->co + co];
    db[co] = acc;
  }
}

void REF(conv_fill)(hd_kernels *table) {
  table->run[HD_OP_conv2d] = conv2d;
  table->run[HD_OP_conv2d_dx] = conv2d_dx;
  table->run[HD_OP_conv2d_dw] = conv2d_dw;
}
