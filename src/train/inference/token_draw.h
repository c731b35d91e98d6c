/* Draws a token from its scores. The only text of it: a generator exported to C carries this header, which is written
 * in the common subset of C and C++. */
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/exact_exp.h"
#include "base/philox_words.h"

typedef struct token_score {
  float score;
  int32_t token;
} token_score;

/* How tokens are drawn, as heddle/generate.h has it, and room for one draw. */
typedef struct token_draws {
  double temperature, top_p;
  uint64_t seed;
  int32_t top_k, tokens;
  double *chance;     /* of the tokens, not normalised */
  token_score *order; /* the tokens by score */
} token_draws;

static inline int token_by_score(const void *a, const void *b) {
  const token_score *const s = (const token_score *)a, *const t = (const token_score *)b;
  return s->score != t->score ? (s->score < t->score) - (s->score > t->score)
                              : (s->token > t->token) - (s->token < t->token);
}

/* exp of a score, less the largest. */
static inline double token_chance(const token_draws *d, float score, float largest) {
  return hd__exp_of(((double)score - (double)largest) / d->temperature);
}

/* The least of the ordered scores that make up top_p of those from `least` on. */
static inline float token_least_of_share(const token_draws *d, float least) {
  const token_score *const order = d->order;
  double all = 0, sum = 0;
  int32_t i = 0;
  for (int32_t k = 0; k < d->tokens && order[k].score >= least; k++)
    all += token_chance(d, order[k].score, order->score);
  while (i < d->tokens && order[i].score >= least && sum < d->top_p * all)
    sum += token_chance(d, order[i++].score, order->score);
  return i > 0 ? order[i - 1].score : least;
}

/* The least score that may be drawn. */
static inline float token_least_drawn(const token_draws *d, const float *score) {
  const int some = d->top_k > 0 && d->top_k < d->tokens;
  const int share = d->top_p > 0 && d->top_p < 1;
  if (!some && !share)
    return -INFINITY;
  for (int32_t i = 0; i < d->tokens; i++) {
    d->order[i].score = score[i];
    d->order[i].token = i;
  }
  qsort(d->order, (size_t)d->tokens, sizeof *d->order, token_by_score);
  const float least = some ? d->order[d->top_k - 1].score : -INFINITY;
  return share ? token_least_of_share(d, least) : least;
}

/* The first of the largest scores. */
static inline int32_t token_most_likely(const token_draws *d, const float *score) {
  int32_t best = 0;
  for (int32_t i = 1; i < d->tokens; i++)
    best = score[i] > score[best] ? i : best;
  return best;
}

/* Token `number` of a text; scores are finite. */
static inline int32_t token_draw(const token_draws *d, const float *score, int64_t number, uint32_t text) {
  const uint32_t counter[4] = {(uint32_t)HD_RNG_GENERATE << 24 | text, 0, (uint32_t)number, (uint32_t)(number >> 32)};
  const int32_t best = token_most_likely(d, score);
  uint32_t word[4];
  if (d->temperature == 0)
    return best;
  const float least = token_least_drawn(d, score);
  double sum = 0;
  for (int32_t i = 0; i < d->tokens; i++) {
    d->chance[i] = score[i] >= least ? token_chance(d, score[i], score[best]) : 0;
    sum += d->chance[i];
  }
  hd__philox_rounds(word, d->seed, counter);
  double left = (double)word[0] / 4294967296.0 * sum;
  int32_t last = best;
  for (int32_t i = 0; i < d->tokens; i++) {
    if (d->chance[i] > 0 && left < d->chance[i])
      return i;
    last = d->chance[i] > 0 ? i : last;
    left -= d->chance[i];
  }
  return last;
}
