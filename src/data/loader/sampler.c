/* Orders of epochs: permutations by radix sort, draws by bisection, shares of ranks by strides. */
#include "data/loader/sampler.h"

#include <math.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/rounding.h"

struct hd_sampler {
  int64_t count; /* of the whole order, all ranks together */
  int64_t rank, ranks;
  bool shuffles;
  int64_t samples;   /* that a weighted sampler draws from */
  uint32_t *members; /* samples by position; NULL: identity */
  double *upto;      /* weighted: inclusive prefix sums of the weights; NULL: not weighted */
};

/* One pass of a radix sort over 11 bits of the upper word; stable, so equal keys stay in index order. */
static void sort_pass(uint64_t *to, const uint64_t *from, int64_t count, int shift) {
  enum { BITS = 11, BUCKETS = 1 << BITS };
  int64_t start[BUCKETS] = {0}, sum = 0;
  for (int64_t i = 0; i < count; i++)
    start[from[i] >> shift & (BUCKETS - 1)]++;
  for (int b = 0; b < BUCKETS; b++) {
    int64_t here = start[b];
    start[b] = sum;
    sum += here;
  }
  for (int64_t i = 0; i < count; i++)
    to[start[from[i] >> shift & (BUCKETS - 1)]++] = from[i];
}

const uint64_t *hd__permute(uint64_t *scratch, int64_t count, uint64_t seed, hd_rng_purpose purpose, uint32_t epoch) {
  uint64_t *a = scratch, *b = scratch + count;
  for (int64_t i = 0; i < count; i += 4) { /* a block of four words gives the keys of four adjacent samples */
    uint32_t word[4];
    hd__rng_block(word, seed, purpose, epoch, (uint32_t)(i / 4), 0, 0);
    for (int64_t k = i; k < i + 4 && k < count; k++)
      a[k] = (uint64_t)word[k - i] << 32 | (uint64_t)k;
  }
  sort_pass(b, a, count, 32);
  sort_pass(a, b, count, 43);
  sort_pass(b, a, count, 54);
  return b;
}

/* The first sample whose sum is above u · total, u in [0, 1) of 53 bits. Samples of weight 0 are never drawn: their
 * sum equals the previous one. */
static uint32_t draw(const hd_sampler *s, uint64_t seed, uint32_t epoch, int64_t position) {
  uint32_t word[4];
  hd__rng_block(word, seed, HD_RNG_WEIGHTED, epoch, (uint32_t)position, 0, 0);
  const double u = (double)(((uint64_t)word[0] << 32 | word[1]) >> 11) * 0x1p-53, wanted = u * s->upto[s->samples - 1];
  int64_t low = 0, high = s->samples - 1;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (s->upto[middle] > wanted)
      high = middle;
    else
      low = middle + 1;
  }
  return (uint32_t)low;
}

int64_t hd__sampler_samples(const hd_sampler *s) {
  int64_t most = s->samples;
  for (int64_t i = 0; s->members && i < s->count; i++)
    most = i == 0 || s->members[i] + (int64_t)1 > most ? s->members[i] + (int64_t)1 : most;
  return most;
}

size_t hd__sampler_words(const hd_sampler *s) { return s->shuffles ? hd__permute_words(s->count) : 0; }

void hd__sampler_write(uint32_t *order, const hd_sampler *s, uint64_t *scratch, uint64_t seed, uint32_t epoch) {
  const uint64_t *sorted = s->shuffles ? hd__permute(scratch, s->count, seed, HD_RNG_SHUFFLE, epoch) : NULL;
  for (int64_t i = s->rank; i < s->count; i += s->ranks) {
    if (s->upto) {
      *order++ = draw(s, seed, epoch, i);
      continue;
    }
    uint32_t position = sorted ? (uint32_t)sorted[i] : (uint32_t)i;
    *order++ = s->members ? s->members[position] : position;
  }
}

int64_t hd_sampler_count(const hd_sampler *s) { return (s->count - s->rank + s->ranks - 1) / s->ranks; }

static hd_status check_count(hd_ctx *ctx, const char *what, int64_t count) {
  if (count < 1 || count > UINT32_MAX)
    return hd__fail(ctx, HD_E_USAGE, "expected 1 to %lld %s, found %lld", (long long)UINT32_MAX, what,
                    (long long)count);
  return HD_OK;
}

static hd_status create(hd_sampler **out, hd_ctx *ctx, int64_t count, bool shuffles) {
  *out = NULL;
  HD_TRY(check_count(ctx, "samples", count));
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for a sampler"));
  **out = (hd_sampler){.count = count, .ranks = 1, .shuffles = shuffles, .samples = count};
  return HD_OK;
}

hd_status hd_sampler_sequential(hd_sampler **out, hd_ctx *ctx, int64_t samples) {
  return create(out, ctx, samples, false);
}

hd_status hd_sampler_random(hd_sampler **out, hd_ctx *ctx, int64_t samples) { return create(out, ctx, samples, true); }

/* Sums of the weights, added in order. */
static hd_status sum_up(double *upto, hd_ctx *ctx, const double *weights, int64_t samples) {
  double sum = 0;
  for (int64_t i = 0; i < samples; i++) {
    if (!(weights[i] >= 0) || !isfinite(weights[i]))
      return hd__fail(ctx, HD_E_USAGE, "expected weights of at least 0, found %g for sample %lld", weights[i],
                      (long long)i);
    upto[i] = sum += weights[i];
  }
  if (!(sum > 0) || !isfinite(sum))
    return hd__fail(ctx, HD_E_USAGE, "expected weights with a finite sum above 0, found %g", sum);
  return HD_OK;
}

hd_status hd_sampler_weighted(hd_sampler **out, hd_ctx *ctx, const double *weights, int64_t samples, int64_t draws) {
  HD_ROUNDING_TO_NEAREST;
  *out = NULL;
  HD_TRY(check_count(ctx, "draws", draws));
  HD_TRY(create(out, ctx, samples, false));
  hd_sampler *s = *out;
  s->count = draws;
  s->upto = hd__malloc((size_t)samples * sizeof *s->upto);
  hd_status status = HD_ALLOCATED(s->upto, ctx, "out of memory for %lld weights", (long long)samples);
  HD_THEN(status, sum_up(s->upto, ctx, weights, samples));
  return HD_CREATED(status, out, hd_sampler_destroy);
}

hd_status hd_sampler_subset(hd_sampler **out, hd_ctx *ctx, const int64_t *members, int64_t count, int64_t samples,
                            int shuffle) {
  *out = NULL;
  HD_TRY(check_count(ctx, "samples", samples));
  HD_TRY(check_count(ctx, "members", count));
  for (int64_t i = 0; i < count; i++)
    if (members[i] < 0 || members[i] >= samples)
      return hd__fail(ctx, HD_E_USAGE, "expected members from 0 to %lld, found %lld at index %lld",
                      (long long)samples - 1, (long long)members[i], (long long)i);
  HD_TRY(create(out, ctx, count, shuffle != 0));
  uint32_t *copy = (*out)->members = hd__malloc((size_t)count * sizeof *copy);
  for (int64_t i = 0; copy && i < count; i++)
    copy[i] = (uint32_t)members[i];
  const hd_status status = HD_ALLOCATED(copy, ctx, "out of memory for %lld members", (long long)count);
  return HD_CREATED(status, out, hd_sampler_destroy);
}

hd_status hd_sampler_distribute(hd_sampler *s, hd_ctx *ctx, int rank, int ranks) {
  if (s->ranks != 1)
    return hd__fail(ctx, HD_E_USAGE, "expected a sampler of all samples, found the part of rank %d of %d", (int)s->rank,
                    (int)s->ranks);
  if (rank < 0 || rank >= ranks)
    return hd__fail(ctx, HD_E_USAGE, "expected a rank from 0 to %d, found %d", ranks - 1, rank);
  if (ranks > s->count)
    return hd__fail(ctx, HD_E_USAGE, "expected at most as many ranks as samples, found %d ranks for %lld", ranks,
                    (long long)s->count);
  s->rank = rank;
  s->ranks = ranks;
  return HD_OK;
}

hd_status hd_sampler_order(int64_t *order, const hd_sampler *s, hd_ctx *ctx, uint64_t seed, uint32_t epoch) {
  HD_ROUNDING_TO_NEAREST;
  int64_t count = hd_sampler_count(s);
  HD_OWNED uint64_t *scratch = hd__malloc(hd__sampler_words(s) * sizeof *scratch + 1);
  HD_OWNED uint32_t *narrow = hd__malloc((size_t)count * sizeof *narrow);
  HD_TRY(HD_ALLOCATED(scratch && narrow, ctx, "out of memory for the order of %lld samples", (long long)count));
  hd__sampler_write(narrow, s, scratch, seed, epoch);
  for (int64_t i = 0; i < count; i++)
    order[i] = narrow[i];
  return HD_OK;
}

void hd_sampler_destroy(hd_sampler *s) {
  if (!s)
    return;
  hd__free(s->members);
  hd__free(s->upto);
  hd__free(s);
}
