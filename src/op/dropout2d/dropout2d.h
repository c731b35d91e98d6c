/* dropout2d: as dropout, but whole channels; the mask is never stored. A NaN passes. */
#pragma once

#include "kernel/unit.h"

#include "base/philox.h"

/* y: `x * (u < p ? 0 : 1 / (1 - p))`; u of the channel as that of an element in `dropout`, channels counted in place of
 * elements. In evaluation: x. */
HD_BOTH int64_t dropout2d_count(const hd_geom *g) { return g->ci; }
HD_BOTH void dropout2d_at(const op_call *c, int64_t n, int64_t channel) {
  const hd_geom *g = op_geom(c);
  const hd_draw draw = op_draw(c);
  const uint32_t counter[4] = {(uint32_t)HD_RNG_DROPOUT << 24 | draw.node, draw.epoch, draw.position + (uint32_t)n,
                               (uint32_t)(channel / 4)};
  uint32_t word[4];
  hd__philox_rounds(word, draw.seed, counter);
  const real factor = hd__rng_uniform(word[channel % 4]) < g->dropout.p ? 0 : 1 / (1 - (real)g->dropout.p);
  for (int64_t i = channel; i < op_elems(g); i += g->ci)
    op_out(c, 0, n)[i] = op_in(c, 0, n)[i] * factor;
}

/* dx: `dy` times the same factor, drawn again */
HD_BOTH int64_t dropout2d_dx_count(const hd_geom *g) { return g->ci; }
HD_BOTH void dropout2d_dx_at(const op_call *c, int64_t n, int64_t channel) { dropout2d_at(c, n, channel); }
