/* Philox4x32-10: the rounds. The constants are those of the paper; tests/unit/test_philox.c holds its published
 * known-answer vectors. Integers only, hence equal on every machine. */
#include "base/philox.h"

#include <assert.h>

enum { ROUNDS = 10 };

static const uint32_t MULTIPLIER_0 = 0xD2511F53u, MULTIPLIER_1 = 0xCD9E8D57u;
static const uint32_t WEYL_0 = 0x9E3779B9u, WEYL_1 = 0xBB67AE85u; /* what the key grows by after each round */

void hd__philox(uint32_t out[4], uint64_t seed, const uint32_t counter[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t p0 = (uint64_t)MULTIPLIER_0 * c0, p1 = (uint64_t)MULTIPLIER_1 * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += WEYL_0;
    k1 += WEYL_1;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

void hd__rng_block(uint32_t out[4], uint64_t seed, uint32_t purpose, uint32_t epoch, uint32_t position, uint32_t node,
                   uint32_t block) {
  assert(purpose < 256 && node < 1u << 24);
  const uint32_t counter[4] = {purpose << 24 | node, epoch, position, block};
  hd__philox(out, seed, counter);
}
