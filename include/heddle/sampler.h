/* Samplers: in which order an epoch takes the samples of a data set.
 *
 *     hd_sampler *sampler;
 *     hd_sampler_random(&sampler, ctx, 60000);
 *     hd_sampler_distribute(sampler, ctx, rank, ranks);            // this rank's share, with several ranks
 *     int64_t count = hd_sampler_count(sampler), *order = malloc(count * sizeof *order);
 *     hd_sampler_order(order, sampler, ctx, seed, epoch);
 *     hd_sampler_destroy(sampler);
 *
 * An order is a pure function of sampler, seed and epoch: it is the same on every machine and for any number of
 * threads or workers, and does not depend on earlier epochs. A random one sorts positions by (Philox4x32-10 word,
 * position).
 *
 * A sampler is immutable once it is distributed; any thread may read it. The caller owns it; NULL may be destroyed. */
#ifndef HEDDLE_SAMPLER_H
#define HEDDLE_SAMPLER_H

#include <stdint.h>

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_sampler hd_sampler;

/* Samples 0 .. samples-1 in the order of the file. 1 to 2^32 - 1 samples, here and below; HD_E_USAGE for others. */
HD_API hd_status hd_sampler_sequential(hd_sampler **out, hd_ctx *ctx, int64_t samples);

/* All of them, another permutation in each epoch. */
HD_API hd_status hd_sampler_random(hd_sampler **out, hd_ctx *ctx, int64_t samples);

/* `draws` samples an epoch, each drawn independently, with replacement: sample i with probability weights[i] / sum.
 * Weights are finite, at least 0, and one of them is above 0; HD_E_USAGE names the first that is not. They are
 * copied. */
HD_API hd_status hd_sampler_weighted(hd_sampler **out, hd_ctx *ctx, const double *weights, int64_t samples,
                                     int64_t draws);

/* Only these samples, in this order or, with `shuffle`, in a new one in each epoch. A sample that is named twice
 * occurs twice. HD_E_USAGE for a number that is not in 0 .. samples-1. They are copied. */
HD_API hd_status hd_sampler_subset(hd_sampler **out, hd_ctx *ctx, const int64_t *members, int64_t count,
                                   int64_t samples, int shuffle);

/* Restricts the sampler to the share of `rank` among `ranks`: positions rank, rank + ranks, ... of the whole order.
 * Nothing is padded and nothing left out: shares differ by at most one sample, and together they are the whole
 * order. HD_E_USAGE unless 0 <= rank < ranks and every rank gets a sample, and for a sampler that is already
 * distributed. */
HD_API hd_status hd_sampler_distribute(hd_sampler *sampler, hd_ctx *ctx, int rank, int ranks);

/* Samples of an epoch in this rank's share. */
HD_API int64_t hd_sampler_count(const hd_sampler *sampler);

/* Writes the numbers of an epoch's samples in their order, hd_sampler_count of them. HD_E_NOMEM. */
HD_API hd_status hd_sampler_order(int64_t *order, const hd_sampler *sampler, hd_ctx *ctx, uint64_t seed,
                                  uint32_t epoch);

/* NULL is allowed. */
HD_API void hd_sampler_destroy(hd_sampler *sampler);

#ifdef __cplusplus
}
#endif
#endif
