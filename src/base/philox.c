/* Philox4x32-10 as calls. Integers only, hence equal on every machine. */
#include "base/philox.h"

#include <assert.h>

void hd__philox(uint32_t out[4], uint64_t seed, const uint32_t counter[4]) { hd__philox_rounds(out, seed, counter); }

void hd__rng_block(uint32_t out[4], uint64_t seed, uint32_t purpose, uint32_t epoch, uint32_t position, uint32_t node,
                   uint32_t block) {
  assert(purpose < 256 && node < 1u << 24);
  const uint32_t counter[4] = {purpose << 24 | node, epoch, position, block};
  hd__philox(out, seed, counter);
}
