/* max by groups of sixteen: over the pixels, a group's channels; along the channels of a pixel, first the maximum and
 * then the first channel that has it. A line with a NaN is left to the chain itself. */
#include "op/max/max.h"
#include "op/softmax/softmax_cpu.h"
#include "op/window_cpu.h"

/* Which channel of a pixel. */
static int64_t channel_of(const hd_geom *g, const float *x) {
  const float most = largest(x, g->ci);
  if (most != most)
    return max_place(g, x);
  for (int c = 0;; c += 16) {
    const g16 hit = g16_choose(g16_equal(g16_load_some(x + c, g->ci - c), g16_all(most)), g16_all(1), g16_zero());
    const uint32_t bits = g16_nonzero(hit);
    if (bits)
      return c + __builtin_ctz(bits);
  }
}

static void over_pixels(const hd_geom *g, const float *x, float *y) {
  const window16 all = window16_all(g);
  for (int c = 0; c < g->ci; c += 16)
    g16_store_some(y + c, window16_most(g, &all, x + c, g->ci - c).value, g->ci - c);
}

static void max(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n);
    float *y = out_row(call, 0, n);
    if (!g->line.channels)
      over_pixels(g, x, y);
    for (int64_t p = 0; p < pixels_of(g) && g->line.channels; p++, x += g->ci)
      y[p] = x[channel_of(g, x)];
  }
}

static void over_pixels_dx(const hd_geom *g, const float *dy, const float *x, float *dx) {
  const window16 all = window16_all(g);
  for (int c = 0; c < g->ci; c += 16) {
    const g16 number = window16_most(g, &all, x + c, g->ci - c).number, d = g16_load_some(dy + c, g->ci - c);
    for (int64_t p = 0; p < pixels_of(g); p++)
      g16_store_some(dx + p * g->ci + c, g16_choose(g16_equal(number, g16_all((float)p)), d, g16_zero()), g->ci - c);
  }
}

static void max_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = in_row(call, 0, n), *x = in_row(call, 1, n);
    float *dx = out_row(call, 0, n);
    if (!g->line.channels)
      over_pixels_dx(g, dy, x, dx);
    for (int64_t p = 0; p < pixels_of(g) && g->line.channels; p++, x += g->ci, dx += g->ci) {
      const int64_t place = channel_of(g, x);
      for (int c = 0; c < g->ci; c += 16)
        g16_store_some(dx + c, g16_zero(), g->ci - c);
      dx[place] = dy[p];
    }
  }
}

static int takes(const hd_geom *g) { return pixels_of(g) < WINDOW_PIXELS; }

void HD_SYM(max_fill)(hd_kernels *table) {
  table->run[HD_OP_max] = max;
  table->run[HD_OP_max_dx] = max_dx;
  table->supports[HD_OP_max_dx] = takes;
}
