/* mean by groups of sixteen: over the pixels a group's channels are one after the other added; along the channels of a
 * pixel the lanes are the 16 chains, four pixels at a time. */
#include "op/line.h"
#include "op/window_cpu.h"

static void over_pixels(const hd_geom *g, const float *x, float *y) {
  const window16 all = window16_all(g);
  const g16 pixels = g16_all((float)pixels_of(g));
  for (int c = 0; c < g->ci; c += 16)
    g16_store_some(y + c, window16_mean(g, &all, pixels, x + c, g->ci - c), g->ci - c);
}

G16 g16 chains_of(const float *x, int channels) {
  g16 chains = g16_zero();
  for (int c = 0; c < channels; c += 16)
    chains = g16_keep_tail(chains, g16_add(chains, g16_load_some(x + c, channels - c)), channels - c);
  return chains;
}

static void over_channels(const hd_geom *g, const float *x, float *y) {
  const int64_t pixels = pixels_of(g);
  const float channels = (float)g->ci;
  int64_t p = 0;
  for (; p + 4 <= pixels; p += 4, x += 4 * (int64_t)g->ci) {
    float sum[4];
    g16_tree4(sum, chains_of(x, g->ci), chains_of(x + g->ci, g->ci), chains_of(x + 2 * (int64_t)g->ci, g->ci),
              chains_of(x + 3 * (int64_t)g->ci, g->ci));
    for (int k = 0; k < 4; k++)
      y[p + k] = sum[k] / channels;
  }
  for (; p < pixels; p++, x += g->ci)
    y[p] = g16_tree(chains_of(x, g->ci)) / channels;
}

static void mean(const hd_call *call) {
  for (int64_t n = 0; n < call->rows; n++)
    (call->g->line.channels ? over_channels : over_pixels)(call->g, in_row(call, 0, n), out_row(call, 0, n));
}

static void mean_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  const float length = (float)line_length(g);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = in_row(call, 0, n);
    float *dx = out_row(call, 0, n);
    for (int c = 0; c < g->ci && !g->line.channels; c += 16) /* once for all pixels, in the first one */
      g16_store_some(dx + c, g16_div(g16_load_some(dy + c, g->ci - c), g16_all(length)), g->ci - c);
    for (int64_t p = !g->line.channels; p < pixels_of(g); p++) {
      const g16 share = g16_all(g->line.channels ? dy[p] / length : 0);
      for (int c = 0; c < g->ci; c += 16)
        g16_store_some(dx + p * g->ci + c, g->line.channels ? share : g16_load_some(dx + c, g->ci - c), g->ci - c);
    }
  }
}

void HD_SYM(mean_fill)(hd_kernels *table) {
  table->run[HD_OP_mean] = mean;
  table->run[HD_OP_mean_dx] = mean_dx;
}
