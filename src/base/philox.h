/* Random numbers that depend on their purpose alone, not on the caller or the time of the call: Philox4x32-10.
 *
 * Philox is a counter-based generator (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011): ten rounds of multiplications turn a 128-bit counter and a 64-bit key into four random words. There is no
 * state. heddle's key is the run's seed; the counter names the use:
 *
 *     word 0          word 1   word 2     word 3
 *     purpose<<24     epoch    position   block: which four words
 *       | node                 in epoch   of this use
 *
 * so any thread, worker or rank draws the same numbers for the same sample, and a new purpose changes no other. A
 * use that has no epoch, position or node passes 0. `node` has 24 bits. Published
 * digests depend on the numbers of purposes: they are never changed.
 *
 * Thread safety: pure functions. */
#pragma once

#include <stdint.h>

#include "base/philox_words.h"
#include "base/tools_api.h"

/* The same as a call. */
HD_TOOLS_API void hd__philox(uint32_t out[4], uint64_t seed, const uint32_t counter[4]);

/* The same for a counter composed as drawn above. node < 2^24. */
HD_TOOLS_API void hd__rng_block(uint32_t out[4], uint64_t seed, uint32_t purpose, uint32_t epoch, uint32_t position,
                                uint32_t node, uint32_t block);
