/* Samplers: each order is that of its kind, for every seed and epoch, and parts of ranks make up the whole. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "heddle/sampler.h"
#include "tap.h"

static hd_ctx *ctx;

static int64_t *order_of(const hd_sampler *sampler, uint64_t seed, uint32_t epoch) {
  int64_t *order = malloc((size_t)hd_sampler_count(sampler) * sizeof *order);
  if (hd_sampler_order(order, sampler, ctx, seed, epoch) != HD_OK)
    fail("an order: %s", hd_ctx_message(ctx));
  return order;
}

static int is_permutation(const int64_t *order, int64_t count) {
  char *seen = calloc((size_t)count, 1);
  int whole = 1;
  for (int64_t i = 0; i < count; i++)
    whole &= order[i] >= 0 && order[i] < count && !seen[order[i]]++;
  free(seen);
  return whole;
}

static void test_sequential(void) {
  hd_sampler *s;
  hd_sampler_sequential(&s, ctx, 5);
  int64_t *order = order_of(s, 3, 9), want[] = {0, 1, 2, 3, 4};
  is_int(hd_sampler_count(s), 5, "a sequential sampler has all samples");
  is_bytes(order, want, sizeof want, "in the order of the file");
  free(order);
  hd_sampler_destroy(s);
}

/* The definition, written down the slow way. */
static int is_sorted_by_key(const int64_t *order, int64_t count, uint64_t seed, uint32_t epoch) {
  uint64_t before = 0;
  for (int64_t i = 0; i < count; i++) {
    uint32_t word[4];
    hd__rng_block(word, seed, HD_RNG_SHUFFLE, epoch, (uint32_t)(order[i] / 4), 0, 0);
    uint64_t key = (uint64_t)word[order[i] % 4] << 32 | (uint64_t)order[i];
    if (i > 0 && key <= before)
      return 0;
    before = key;
  }
  return 1;
}

static void test_random(void) {
  const int64_t counts[] = {1, 2, 7, 64, 10007};
  for (int k = 0; k < 5; k++) {
    hd_sampler *s;
    hd_sampler_random(&s, ctx, counts[k]);
    int64_t *a = order_of(s, 1, 0), *again = order_of(s, 1, 0), *next = order_of(s, 1, 1), *other = order_of(s, 2, 0);
    size_t bytes = (size_t)counts[k] * sizeof *a;
    ok(is_permutation(a, counts[k]) && is_permutation(next, counts[k]), "%lld samples: each once",
       (long long)counts[k]);
    ok(is_sorted_by_key(a, counts[k], 1, 0), "sorted by Philox word and position");
    ok(!memcmp(a, again, bytes), "the same for the same seed and epoch");
    if (counts[k] > 7)
      ok(memcmp(a, next, bytes) && memcmp(a, other, bytes), "another one for another epoch or seed");
    free(a), free(again), free(next), free(other);
    hd_sampler_destroy(s);
  }
}

static void test_weighted(void) {
  enum { DRAWS = 100000 };
  const double weights[] = {0, 1, 0, 3, 4, 0};
  double count[6] = {0};
  hd_sampler *s;
  hd_sampler_weighted(&s, ctx, weights, 6, DRAWS);
  is_int(hd_sampler_count(s), DRAWS, "as many draws as requested");
  int64_t *order = order_of(s, 5, 2);
  for (int i = 0; i < DRAWS; i++)
    count[order[i]]++;
  ok(count[0] == 0 && count[2] == 0 && count[5] == 0, "samples of weight 0 are never drawn");
  near(count[1] / DRAWS, 0.125, 0.004, "weight 1 of 8");
  near(count[3] / DRAWS, 0.375, 0.006, "weight 3 of 8");
  near(count[4] / DRAWS, 0.5, 0.006, "weight 4 of 8");
  free(order);
  hd_sampler_destroy(s);
  const double bad[] = {1, -1}, nothing[] = {0, 0}, nan[] = {1, 0.0 / 0.0}, huge[] = {1e308, 1e308};
  const double *const all[] = {bad, nothing, nan, huge};
  for (int i = 0; i < 4; i++)
    ok(hd_sampler_weighted(&s, ctx, all[i], 2, 3) == HD_E_USAGE && !s, "refused: %s", hd_ctx_message(ctx));
  ok(hd_sampler_weighted(&s, ctx, weights, 6, 0) == HD_E_USAGE && !s, "refused: %s", hd_ctx_message(ctx));
}

static void test_subset(void) {
  const int64_t members[] = {9, 2, 2, 7}, outside[] = {3, 10};
  hd_sampler *s;
  hd_sampler_subset(&s, ctx, members, 4, 10, 0);
  int64_t *order = order_of(s, 0, 0);
  is_bytes(order, members, sizeof members, "a subset comes in its order");
  free(order);
  hd_sampler_destroy(s);
  hd_sampler_subset(&s, ctx, members, 4, 10, 1);
  int64_t *a = order_of(s, 0, 0);
  int sum = 0;
  for (int i = 0; i < 4; i++)
    sum += (int)a[i];
  is_int(sum, 20, "shuffled, it has the same members");
  free(a);
  hd_sampler_destroy(s);
  ok(hd_sampler_subset(&s, ctx, outside, 2, 10, 0) == HD_E_USAGE && !s, "refused: %s", hd_ctx_message(ctx));
}

/* Position i of the whole order is position i / ranks of rank i mod ranks. */
static void test_distributed(void) {
  const int all_ranks[] = {1, 2, 3, 4, 10};
  for (int k = 0; k < 5; k++) {
    const int ranks = all_ranks[k];
    hd_sampler *whole;
    hd_sampler_random(&whole, ctx, 10);
    int64_t *order = order_of(whole, 4, 1), taken = 0;
    int same = 1;
    for (int rank = 0; rank < ranks; rank++) {
      hd_sampler *s;
      hd_sampler_random(&s, ctx, 10);
      hd_sampler_distribute(s, ctx, rank, ranks);
      int64_t *part = order_of(s, 4, 1);
      for (int64_t i = 0; i < hd_sampler_count(s); i++, taken++)
        same &= rank + i * ranks < 10 && part[i] == order[rank + i * ranks];
      free(part);
      hd_sampler_destroy(s);
    }
    ok(same && taken == 10, "parts of %d ranks are the whole: none lost, none twice", ranks);
    free(order);
    hd_sampler_destroy(whole);
  }
  hd_sampler *s;
  hd_sampler_random(&s, ctx, 3);
  ok(hd_sampler_distribute(s, ctx, 0, 4) == HD_E_USAGE, "refused: %s", hd_ctx_message(ctx));
  ok(hd_sampler_distribute(s, ctx, 2, 2) == HD_E_USAGE, "refused: %s", hd_ctx_message(ctx));
  ok(hd_sampler_distribute(s, ctx, -1, 2) == HD_E_USAGE, "refused: %s", hd_ctx_message(ctx));
  hd_sampler_distribute(s, ctx, 1, 2);
  ok(hd_sampler_distribute(s, ctx, 0, 2) == HD_E_USAGE, "refused: %s", hd_ctx_message(ctx));
  hd_sampler_destroy(s);
}

int main(void) {
  hd_sampler *s;
  hd_ctx_create(&ctx);
  test_sequential();
  test_random();
  test_weighted();
  test_subset();
  test_distributed();
  ok(hd_sampler_random(&s, ctx, 0) == HD_E_USAGE && !s, "refused: %s", hd_ctx_message(ctx));
  ok(hd_sampler_sequential(&s, ctx, (int64_t)1 << 32) == HD_E_USAGE && !s, "refused: %s", hd_ctx_message(ctx));
  hd_sampler_destroy(NULL);
  hd_ctx_destroy(ctx);
  return done_testing();
}
