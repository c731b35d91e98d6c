/* The rounds of Philox, and numbers from its words: what headers of operations need of philox.h, which explains it. */
#pragma once

#include <stdint.h>

#include "base/host_device.h"

typedef enum hd_rng_purpose {
  HD_RNG_INIT = 1,     /* first values of parameters: node, position = parameter of the node, block = element / 4 */
  HD_RNG_SHUFFLE = 2,  /* sort keys of an epoch's permutation: epoch, position = sample / 4 */
  HD_RNG_SPLIT = 3,    /* sort keys of the permutation that selects the validation set: position = sample / 4 */
  HD_RNG_AUGMENT = 4,  /* random transforms: epoch, position in the epoch, node = transform */
  HD_RNG_DROPOUT = 5,  /* masks: epoch, position in the epoch, node, block = element / 4 */
  HD_RNG_DIGITS = 6,   /* the built-in handwriting: epoch = split, position = sample */
  HD_RNG_TEST = 7,     /* inputs of tests and benches */
  HD_RNG_TENSOR = 8,   /* random tensors: node = 0 uniform, 1 normal; epoch, block = element / 4 (high and low word) */
  HD_RNG_WEIGHTED = 9, /* draws with replacement: epoch, position in the epoch */
  HD_RNG_SPOT = 10,    /* segments of a run to verify: block = draw */
  HD_RNG_SWEEP = 11,   /* settings of a sweep: position = its key, block = draw */
  HD_RNG_WINDOW = 12,  /* where the windows of a text begin: epoch */
  HD_RNG_SUMS = 13,    /* sort keys of the built-in sums: position = sum / 4 */
  HD_RNG_GENERATE = 14 /* text that a network writes: position = its token, node = its text */
} hd_rng_purpose;

/* Four random words for a whole counter: the rounds, with the constants of the paper. */
HD_BOTH void hd__philox_rounds(uint32_t out[4], uint64_t seed, const uint32_t counter[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u; /* added to the key after each round */
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/* [0, 1) in steps of 2^-24, from the upper 24 bits: exact in float, and never rounded up to 1. */
HD_BOTH float hd__rng_uniform(uint32_t bits) { return (float)(bits >> 8) * (1.0f / 16777216); }

/* [0, bound), by multiplication. Its bias is below bound / 2^32: enough for choices, too coarse for statistics over
 * bounds near 2^32. */
HD_BOTH uint32_t hd__rng_below(uint32_t bits, uint32_t bound) { return (uint32_t)(((uint64_t)bits * bound) >> 32); }
