/* dropout: the mask is never stored; each use draws it again from the keys of the call. A NaN passes. */
#pragma once

#include "kernel/unit.h"

#include "base/philox.h"

/* y: `x * (u < p ? 0 : 1 / (1 - p))`; u of element i (counted as images lie in memory) is the upper 24 bits, as a
 * fraction, of word i mod 4 of the Philox block keyed by seed, purpose, epoch, the sample's position in the epoch, node
 * and floor(i / 4). In evaluation: x. */
HD_BOTH int64_t dropout_count(const hd_geom *g) { return (op_elems(g) + 3) / 4; }
HD_BOTH void dropout_at(const op_call *c, int64_t n, int64_t block) {
  const hd_geom *g = op_geom(c);
  const hd_draw draw = op_draw(c);
  const uint32_t counter[4] = {(uint32_t)HD_RNG_DROPOUT << 24 | draw.node, draw.epoch, draw.position + (uint32_t)n,
                               (uint32_t)block};
  const real kept = 1 / (1 - (real)g->dropout.p);
  uint32_t word[4];
  hd__philox_rounds(word, draw.seed, counter);
  HD_UNROLL
  for (int k = 0; k < 4; k++) {
    const int64_t i = block * 4 + k;
    if (i < op_elems(g))
      op_out(c, 0, n)[i] = op_in(c, 0, n)[i] * (hd__rng_uniform(word[k]) < g->dropout.p ? 0 : kept);
  }
}

/* dx: `dy` times the same factor, drawn again */
HD_BOTH int64_t dropout_dx_count(const hd_geom *g) { return dropout_count(g); }
HD_BOTH void dropout_dx_at(const op_call *c, int64_t n, int64_t block) { dropout_at(c, n, block); }
