/* Internal interface of samplers: orders without allocation, and the permutation that splits use too. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/philox.h"
#include "heddle/sampler.h"

/* Words of scratch that hd__permute needs for so many positions. */
static inline size_t hd__permute_words(int64_t count) { return 2 * (size_t)count; }

/* Positions 0 .. count-1 sorted by (Philox word, position): they are the lower words of the returned array, which
 * lies in `scratch`. */
const uint64_t *hd__permute(uint64_t *scratch, int64_t count, uint64_t seed, hd_rng_purpose purpose, uint32_t epoch);

/* Words of scratch that hd__sampler_write needs; 0 for some samplers. */
size_t hd__sampler_words(const hd_sampler *sampler);

/* An upper bound, exclusive, of its samples. */
int64_t hd__sampler_samples(const hd_sampler *sampler);

/* hd_sampler_order with given scratch, which cannot fail. */
void hd__sampler_write(uint32_t *order, const hd_sampler *sampler, uint64_t *scratch, uint64_t seed, uint32_t epoch);
