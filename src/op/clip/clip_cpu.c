/* clip by groups of sixteen. */
#include "kernel/cpu/each16.h"

G16 g16 clip_16(const hd_geom *g, g16 x) {
  const g16 min = g16_all(g->clip.min), max = g16_all(g->clip.max);
  return g16_choose(g16_less(x, min), min, g16_choose(g16_less(max, x), max, x));
}

G16 g16 clip_dx_16(const hd_geom *g, g16 dy, g16 x) {
  const g16_mask out = g16_or(g16_less(x, g16_all(g->clip.min)), g16_less(g16_all(g->clip.max), x));
  return g16_choose(out, g16_zero(), dy);
}

EACH16(clip)
