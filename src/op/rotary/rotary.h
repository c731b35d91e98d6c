/* rotary: rotary position embedding of the queries and keys that attention reads; see op/attention/attention.h for how
 * they lie in a place. Channel k of the first half of a head and channel k of its second half are a pair, which is
 * turned by an angle: the place's number times base^(-2k / d). Values are copied. */
#pragma once

#include "kernel/unit.h"
#include "op/rotary/rotary_angle.h"

/* Channels of a head, pairs of it, and the heads that are turned. */
HD_BOTH int rotary_key_heads(const hd_geom *g) {
  return g->attention.key_heads ? g->attention.key_heads : g->attention.heads;
}
HD_BOTH int rotary_heads(const hd_geom *g) { return g->attention.heads + rotary_key_heads(g); }
HD_BOTH int rotary_width(const hd_geom *g) { return g->ci / (rotary_heads(g) + rotary_key_heads(g)); }

/* base^(-2k / d) */
HD_BOTH double rotary_frequency(const hd_geom *g, int k) {
  const double ratio = (double)g->rotary.ratio + (double)g->rotary.rest;
  double frequency = 1;
  for (int i = 0; i < k; i++)
    frequency = frequency * ratio;
  return frequency;
}

/* Turns pair k of all heads of a place, or back; pair 0 has the values with it. */
HD_BOTH void rotary_turn(const hd_geom *g, const real *x, real *y, int64_t unit, int back) {
  const int width = rotary_width(g), half = width / 2, k = (int)(unit % half);
  const int64_t place = unit / half;
  float c, s;
  x += place * g->ci;
  y += place * g->ci;
  rotary_cos_sin(&c, &s, (double)(g->attention.first + place) * rotary_frequency(g, k));
  s = back ? -s : s;
  for (int at = k; at < rotary_heads(g) * width; at += width) {
    const real a = x[at], b = x[at + half];
    y[at] = REAL_FMA(-b, s, a * c);
    y[at + half] = REAL_FMA(a, s, b * c);
  }
  for (int at = rotary_heads(g) * width; k == 0 && at < g->ci; at++)
    y[at] = x[at];
}

/* y: of channels a and b of a pair: `fma(-b, s, a * c)` and `fma(a, s, b * c)`; c and s are cos and sin of `t * f` for
 * place t and pair k, in double: `f = 1`, k times `f = f * base^(-2 / d)`; `q` = t f 2 / pi, rounded, `r = ((t f - q
 * P1) - q P2) - q P3`, Taylor's series to r^11 and r^10, rounded to float. Values: x */
HD_BOTH int64_t rotary_count(const hd_geom *g) { return op_pixels(g) * (rotary_width(g) / 2); }
HD_BOTH void rotary_at(const op_call *c, int64_t n, int64_t i) {
  rotary_turn(op_geom(c), op_in(c, 0, n), op_out(c, 0, n), i, 0);
}

/* dx: the same of dy with -s */
HD_BOTH int64_t rotary_dx_count(const hd_geom *g) { return rotary_count(g); }
HD_BOTH void rotary_dx_at(const op_call *c, int64_t n, int64_t i) {
  rotary_turn(op_geom(c), op_in(c, 0, n), op_out(c, 0, n), i, 1);
}
