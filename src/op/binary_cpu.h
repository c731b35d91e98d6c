/* Operations of two values by groups of sixteen channels of a pixel; see binary.h. A sum over all elements is the
 * reference's: its operands are seldom contiguous.
 *
 * BINARY16(NAME) makes the kernels NAME and NAME_dx of NAME_16 and NAME_slope16, and their fill. */
#pragma once

#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

typedef g16 binary16(g16 a, g16 b);
typedef g16 binary_slope16(g16 dy, g16 a, g16 b, int part);

/* The pixels and channels of the output; values of one shape are one long pixel. */
typedef struct binary_sides {
  int64_t pixels, channels;
} binary_sides;

static inline binary_sides binary_sides_of(const hd_geom *g) {
  const int64_t pixels = (int64_t)g->ho * g->wo;
  return g->binary.spread[0] || g->binary.spread[1] ? (binary_sides){pixels, g->co} : (binary_sides){1, pixels * g->co};
}

/* Channels c to c + 15 of a pixel, of what lies at x. */
G16 g16 binary_operand(const float *x, int spread, int64_t pixel, int64_t c, binary_sides s) {
  if (!x)
    return g16_zero();
  if (spread & HD_SPREAD_CHANNELS)
    return g16_all(x[spread & HD_SPREAD_PIXELS ? 0 : pixel]);
  return g16_load_some(x + (spread & HD_SPREAD_PIXELS ? 0 : pixel * s.channels) + c, s.channels - c);
}

G16 void binary16_each(const hd_call *call, binary16 *f) {
  const binary_sides s = binary_sides_of(call->g);
  const int32_t *spread = call->g->binary.spread;
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t p = 0; p < s.pixels; p++)
      for (int64_t c = 0; c < s.channels; c += 16) {
        const g16 a = binary_operand(in_row(call, 0, n), spread[0], p, c, s);
        const g16 b = binary_operand(in_row(call, 1, n), spread[1], p, c, s);
        g16_store_some(out_row(call, 0, n) + p * s.channels + c, f(a, b), s.channels - c);
      }
}

G16 g16 binary16_slope(const hd_call *call, binary_slope16 *f, int64_t n, int64_t p, int64_t c, binary_sides s) {
  const hd_binary_geom *g = &call->g->binary;
  const float *a = call->in[1] ? in_row(call, 1, n) : NULL, *b = call->in[2] ? in_row(call, 2, n) : NULL;
  const g16 dy = g16_load_some(in_row(call, 0, n) + p * s.channels + c, s.channels - c);
  return f(dy, binary_operand(a, g->spread[0], p, c, s), binary_operand(b, g->spread[1], p, c, s), g->part);
}

/* Of an input that is spread over pixels: down each channel. */
G16 void binary16_down(const hd_call *call, binary_slope16 *f, int64_t n, binary_sides s) {
  for (int64_t c = 0; c < s.channels; c += 16) {
    g16 sum = g16_zero();
    for (int64_t p = 0; p < s.pixels; p++)
      sum = g16_add(sum, binary16_slope(call, f, n, p, c, s));
    g16_store_some(out_row(call, 0, n) + c, sum, s.channels - c);
  }
}

/* Of an input that is spread over channels: along each pixel. */
G16 void binary16_along(const hd_call *call, binary_slope16 *f, int64_t n, binary_sides s) {
  for (int64_t p = 0; p < s.pixels; p++) {
    g16 chains = g16_zero();
    for (int64_t c = 0; c < s.channels; c += 16)
      chains = g16_keep_tail(chains, g16_add(chains, binary16_slope(call, f, n, p, c, s)), s.channels - c);
    out_row(call, 0, n)[p] = g16_tree(chains);
  }
}

G16 void binary16_dx(const hd_call *call, binary_slope16 *f) {
  const binary_sides s = binary_sides_of(call->g);
  const int spread = call->g->binary.spread[call->g->binary.part];
  for (int64_t n = 0; n < call->rows; n++) {
    if (spread == HD_SPREAD_PIXELS)
      binary16_down(call, f, n, s);
    else if (spread == HD_SPREAD_CHANNELS)
      binary16_along(call, f, n, s);
    else
      for (int64_t p = 0; p < s.pixels; p++)
        for (int64_t c = 0; c < s.channels; c += 16)
          g16_store_some(out_row(call, 0, n) + p * s.channels + c, binary16_slope(call, f, n, p, c, s), s.channels - c);
  }
}

#define BINARY16(name)                                                                                                 \
  static void run_##name(const hd_call *call) { binary16_each(call, name##_16); }                                      \
  static void run_##name##_dx(const hd_call *call) {                                                                   \
    const hd_binary_geom *b = &call->g->binary;                                                                        \
    if (b->spread[b->part] == (HD_SPREAD_PIXELS | HD_SPREAD_CHANNELS))                                                 \
      hd__kernels_reference()->run[HD_OP_##name##_dx](call);                                                           \
    else                                                                                                               \
      binary16_dx(call, name##_slope16);                                                                               \
  }                                                                                                                    \
  void HD_SYM(name##_fill)(hd_kernels * table) {                                                                       \
    table->run[HD_OP_##name] = run_##name;                                                                             \
    table->run[HD_OP_##name##_dx] = run_##name##_dx;                                                                   \
  }
