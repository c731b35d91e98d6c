/* Text from a trained network: see heddle/generate.h. */
#include "heddle/generate.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hdmath.h"
#include "base/philox.h"
#include "base/utf8.h"
#include "platform/thread_start.h"
#include "train/inference/trained_model.h"

struct hd_generator {
  hd_trained trained;
  hd_generation how;
  int32_t *window; /* `places` tokens, the first `count` of which are the text's last */
  int32_t count, places, tokens;
  int64_t written;
  float *score;   /* of all places */
  double *chance; /* of the tokens, not normalised */
  hd_exec_outcome outcome;
  float loss;
  int32_t guess;
};

static hd_status set_up(hd_generator *g, hd_ctx *ctx, const char *checkpoint, const hd_config *config) {
  HD_TRY(hd__trained_open(&g->trained, ctx, checkpoint, config));
  g->places = g->trained.network.target.places;
  g->tokens = g->trained.network.target.scores;
  if (g->places == 0)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "%s: expected a network that predicts the next token of a text, found one with one prediction for "
                    "each sample; use heddle predict",
                    checkpoint);
  g->window = hd__calloc((size_t)g->places, sizeof *g->window);
  g->score = hd__malloc((size_t)g->places * (size_t)g->tokens * sizeof *g->score);
  g->chance = hd__malloc((size_t)g->tokens * sizeof *g->chance);
  g->outcome = (hd_exec_outcome){.loss = &g->loss, .guess = &g->guess, .score = g->score};
  return HD_ALLOCATED(g->window && g->score && g->chance, ctx, "out of memory for a text");
}

hd_status hd_generator_create(hd_generator **out, hd_ctx *ctx, const char *checkpoint, const hd_config *config) {
  *out = NULL;
  HD_TRY(hd__thread_check_stack(ctx));
  hd_generator *g = *out = hd__calloc(1, sizeof *g);
  HD_TRY(HD_ALLOCATED(g, ctx, "out of memory for a text"));
  const hd_status status = set_up(g, ctx, checkpoint, config);
  return HD_CREATED(status, out, hd_generator_destroy);
}

void hd_generator_destroy(hd_generator *g) {
  if (!g)
    return;
  hd__trained_fini(&g->trained);
  hd__free(g->window);
  hd__free(g->score);
  hd__free(g->chance);
  hd__free(g);
}

/* ---- Tokens ---- */

typedef enum kind { CHARACTERS, BYTES, NUMBERS } kind;

static kind kind_of(const hd_generator *g) {
  return g->trained.class_names > 0                                ? CHARACTERS
         : hd__settings(g->trained.run)->tokens == HD_TOKENS_BYTES ? BYTES
                                                                   : NUMBERS;
}

/* Appends a token; a full window loses its first half. */
static void push(hd_generator *g, int32_t token) {
  if (g->count == g->places) {
    g->count -= (g->places + 1) / 2;
    memmove(g->window, g->window + g->places - g->count, (size_t)g->count * sizeof *g->window);
  }
  g->window[g->count++] = token;
}

static int32_t find_name(const hd_generator *g, const char *text, size_t bytes) {
  int32_t i = 0;
  while (i < g->trained.class_names &&
         (strlen(g->trained.class_name[i]) != bytes || memcmp(g->trained.class_name[i], text, bytes) != 0))
    i++;
  return i < g->trained.class_names && i < g->tokens ? i : -1;
}

static hd_status refuse_text(hd_ctx *ctx, const char *prompt, size_t at, size_t bytes) {
  char shown[32];
  hd__utf8_escape(shown, sizeof shown, prompt + at, bytes ? bytes : 1);
  return hd__fail(ctx, HD_E_USAGE, "the prompt: expected %s, found '%s' at byte %zu; leave it out",
                  bytes ? "characters of the training text" : "UTF-8", shown, at);
}

static hd_status take_characters(hd_generator *g, hd_ctx *ctx, const char *prompt, size_t length) {
  for (size_t at = 0, bytes; at < length; at += bytes) {
    uint32_t code;
    bytes = hd__utf8_decode(&code, prompt + at, length - at);
    const int32_t token = bytes ? find_name(g, prompt + at, code ? bytes : 0) : -1;
    if (token < 0)
      return refuse_text(ctx, prompt, at, bytes);
    push(g, token);
  }
  return HD_OK;
}

static hd_status take_numbers(hd_generator *g, hd_ctx *ctx, const char *prompt, size_t length) {
  for (size_t at = 0; at < length;) {
    int64_t number = 0;
    const size_t from = at;
    while (at < length && isdigit((unsigned char)prompt[at]) && number < g->tokens)
      number = 10 * number + (prompt[at++] - '0');
    if (number >= g->tokens || (at == from && !isspace((unsigned char)prompt[at])))
      return hd__fail(ctx, HD_E_USAGE,
                      "the prompt: expected numbers from 0 to %d, found another at byte %zu; give such", g->tokens - 1,
                      from);
    if (at > from)
      push(g, (int32_t)number);
    else
      at++;
  }
  return HD_OK;
}

static hd_status take_prompt(hd_generator *g, hd_ctx *ctx, const char *prompt, size_t length) {
  const kind is = kind_of(g);
  if (is == CHARACTERS)
    return take_characters(g, ctx, prompt, length);
  if (is == NUMBERS)
    return take_numbers(g, ctx, prompt, length);
  for (size_t i = 0; i < length; i++) {
    if ((unsigned char)prompt[i] >= g->tokens)
      return hd__fail(ctx, HD_E_USAGE, "the prompt: expected bytes from 0 to %d, found %d at byte %zu; leave it out",
                      g->tokens - 1, (unsigned char)prompt[i], i);
    push(g, (unsigned char)prompt[i]);
  }
  return HD_OK;
}

hd_status hd_generator_begin(hd_generator *g, hd_ctx *ctx, const char *prompt, size_t bytes, const hd_generation *how) {
  if (!(how->temperature >= 0) || !isfinite(how->temperature) || how->top_k < 0)
    return hd__fail(ctx, HD_E_USAGE, "expected a temperature and a top_k of at least 0, found %g and %d; give such",
                    how->temperature, how->top_k);
  g->how = *how;
  g->count = 0;
  g->written = 0;
  HD_TRY(take_prompt(g, ctx, prompt, bytes));
  if (g->count > 0)
    return HD_OK;
  const int32_t newline = kind_of(g) == CHARACTERS ? find_name(g, "\n", 1) : kind_of(g) == BYTES ? '\n' : 0;
  push(g, newline < 0 || newline >= g->tokens ? 0 : newline);
  return HD_OK;
}

static size_t write_token(char *text, const hd_generator *g, int32_t token) {
  const kind is = kind_of(g);
  if (is == NUMBERS)
    return (size_t)snprintf(text, HD_TOKEN_BYTES, " %d", token);
  if (is == BYTES) {
    text[0] = (char)token;
    return 1;
  }
  const char *name = token < g->trained.class_names ? g->trained.class_name[token] : "?";
  const size_t bytes = strlen(name);
  *text = 0;
  memcpy(text, name, bytes < HD_TOKEN_BYTES ? bytes : HD_TOKEN_BYTES - 1);
  return bytes ? bytes : 1; /* the character 0 */
}

/* ---- Scores ---- */

static hd_status fetch(void *self, hd_ctx *ctx, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to) {
  const hd_generator *g = self;
  for (int32_t i = 0; i < g->places; i++) {
    to->x[i] = i < g->count ? (float)g->window[i] : 0;
    ((int32_t *)to->target)[i] = -1;
  }
  return HD_OK;
}

/* The least score that may be drawn, and the largest. */
static void find_bounds(double *least, double *largest, hd_generator *g, const float *score) {
  *largest = -INFINITY;
  *least = -INFINITY;
  for (int32_t i = 0; i < g->tokens; i++)
    *largest = fmax(*largest, (double)score[i]);
  if (g->how.top_k == 0 || g->how.top_k >= g->tokens)
    return;
  *least = INFINITY;
  for (int32_t taken = 0; taken < g->how.top_k;) { /* the next smaller score, and how many have it */
    double next = -INFINITY;
    for (int32_t i = 0; i < g->tokens; i++)
      next = (double)score[i] < *least && (double)score[i] > next ? (double)score[i] : next;
    for (int32_t i = 0; i < g->tokens; i++)
      taken += (double)score[i] == next;
    *least = next;
  }
}

static int32_t draw(hd_generator *g, const float *score) {
  double least, largest, sum = 0;
  uint32_t word[4];
  int32_t last = 0;
  find_bounds(&least, &largest, g, score);
  for (int32_t i = 0; i < g->tokens; i++) {
    const bool taken = g->how.temperature > 0 ? (double)score[i] >= least : (double)score[i] == largest;
    g->chance[i] = !taken ? 0 : g->how.temperature > 0 ? hd__exp(((double)score[i] - largest) / g->how.temperature) : 1;
    sum += g->chance[i];
  }
  hd__rng_block(word, g->how.seed, HD_RNG_GENERATE, 0, (uint32_t)g->written, 0, (uint32_t)(g->written >> 32));
  double left = g->how.temperature > 0 ? (double)word[0] * 0x1p-32 * sum : 0;
  for (int32_t i = 0; i < g->tokens; i++) {
    if (g->chance[i] > 0 && left < g->chance[i])
      return i;
    last = g->chance[i] > 0 ? i : last;
    left -= g->chance[i];
  }
  return last;
}

hd_status hd_generator_next(hd_generator *g, hd_ctx *ctx, char text[HD_TOKEN_BYTES], size_t *bytes) {
  const hd_step_source source = {.self = g, .fetch = fetch};
  *bytes = 0;
  HD_TRY(hd__exec_evaluate(g->trained.exec, ctx, &source, 1, &g->outcome));
  const float *score = g->score + (int64_t)(g->count - 1) * g->tokens;
  for (int32_t i = 0; i < g->tokens; i++)
    if (!isfinite(score[i]))
      return hd__fail(ctx, HD_E_NOTFINITE, "expected finite scores, found NaN or infinity; the network is not trained");
  const int32_t token = draw(g, score);
  g->written++;
  push(g, token);
  *bytes = write_token(text, g, token);
  return HD_OK;
}
