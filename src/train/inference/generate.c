/* Text from a trained network: see heddle/generate.h.
 *
 * A decoder's threads write texts of their own, a few tokens ahead of what is asked for, so that they do not wait for
 * each other at each token: first one, then twice as many each time, up to MOST_AHEAD. */
#include "heddle/generate.h"

#include <ctype.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rounding.h"
#include "base/utf8.h"
#include "platform/thread_start.h"
#include "train/inference/decoder.h"
#include "train/inference/text_network.h"
#include "train/inference/token_draw.h"
#include "train/inference/trained_model.h"

enum { MOST_AHEAD = 16 };

/* Of the windows of all texts the first `count` places have tokens, the last of the texts; of the first `kept` ones the
 * decoder has what it needs. */
typedef struct filled {
  int32_t count, kept;
} filled;

struct hd_generator {
  hd_config *config;
  hd_trained trained; /* of a checkpoint */
  hd_text_network of;
  int32_t texts, places, tokens;
  int shares;      /* of the texts, which threads write */
  int32_t *window; /* of each text `places` tokens */
  filled filled;
  int64_t written;     /* tokens that were asked for */
  int ahead, taken;    /* tokens of each text that were drawn at once; of these, tokens that were asked for */
  int32_t *drawn;      /* ahead x texts */
  atomic_int bad;      /* the first of them whose scores were not finite; `ahead`: none */
  token_draws *draws;  /* of each share of the texts */
  float *score;        /* of each text: those of its last token, or without a decoder those of all places */
  hd_decoder *decoder; /* NULL: the network computes the whole window for each token */
  hd_exec_outcome outcome;
};

bool hd__text_network_decodes(const hd_text_network *network) {
  return network->exec->device->threads_compute && hd__decoder_takes(network->plan);
}

static void use(hd_generator *g, const hd_text_network *network) {
  g->of = *network;
  g->places = network->places;
  g->tokens = network->tokens;
}

hd_status hd__generator_of(hd_generator **out, hd_ctx *ctx, const hd_text_network *network) {
  hd_generator *g = *out = hd__calloc(1, sizeof *g);
  HD_TRY(HD_ALLOCATED(g, ctx, "out of memory for a text"));
  use(g, network);
  return HD_OK;
}

static hd_status set_up(hd_generator *g, hd_ctx *ctx, const char *checkpoint, const hd_config *config) {
  const hd_trained *t = &g->trained;
  HD_TRY(config ? hd__config_copy(&g->config, ctx, config) : hd_config_create(&g->config, ctx));
  HD_TRY(hd__trained_open(&g->trained, ctx, checkpoint, g->config));
  if (!hd__network_reads_text(&t->network))
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "%s: expected a network that predicts the next token of a text, found one with one prediction for "
                    "each sample; use heddle predict",
                    checkpoint);
  use(g, &(hd_text_network){.plan = t->plan,
                            .store = t->store,
                            .threads = t->threads,
                            .exec = t->exec,
                            .class_name = t->class_name,
                            .class_names = t->class_names,
                            .bytes = hd__settings(t->run)->tokens == HD_TOKENS_BYTES,
                            .places = t->network.target.places,
                            .tokens = t->network.target.scores});
  return HD_OK;
}

hd_status hd_generator_create(hd_generator **out, hd_ctx *ctx, const char *checkpoint, const hd_config *config) {
  HD_ROUNDING_TO_NEAREST;
  *out = NULL;
  HD_TRY(hd__thread_check_stack(ctx));
  hd_generator *g = *out = hd__calloc(1, sizeof *g);
  HD_TRY(HD_ALLOCATED(g, ctx, "out of memory for a text"));
  const hd_status status = set_up(g, ctx, checkpoint, config);
  return HD_CREATED(status, out, hd_generator_destroy);
}

/* Releases what depends on the number of texts. */
static void release_texts(hd_generator *g) {
  hd__decoder_destroy(g->decoder);
  for (int i = 0; g->draws && i < g->shares; i++) {
    hd__free(g->draws[i].chance);
    hd__free(g->draws[i].order);
  }
  hd__free(g->draws);
  hd__free(g->window);
  hd__free(g->drawn);
  hd__free(g->score);
  hd__free(g->outcome.loss);
  hd__free(g->outcome.guess);
  g->decoder = NULL;
  g->draws = NULL;
  g->window = NULL;
  g->drawn = NULL;
  g->score = NULL;
  g->outcome = (hd_exec_outcome){0};
  g->texts = 0;
}

void hd_generator_destroy(hd_generator *g) {
  if (!g)
    return;
  release_texts(g);
  hd__trained_fini(&g->trained);
  hd_config_destroy(g->config);
  hd__free(g);
}

static hd_status make_draws(hd_generator *g, hd_ctx *ctx, int32_t texts) {
  HD_TRY(HD_NEW(g->draws, g->shares, ctx, "out of memory for %d texts", texts));
  for (int i = 0; i < g->shares; i++) {
    token_draws *draw = &g->draws[i];
    draw->tokens = g->tokens;
    draw->chance = hd__malloc((size_t)g->tokens * sizeof *draw->chance);
    draw->order = hd__malloc((size_t)g->tokens * sizeof *draw->order);
    HD_TRY(HD_ALLOCATED(draw->chance && draw->order, ctx, "out of memory for %d texts", texts));
  }
  return HD_OK;
}

static hd_status make_texts(hd_generator *g, hd_ctx *ctx, int32_t texts) {
  const bool decoded = hd__text_network_decodes(&g->of);
  const size_t scores = (size_t)texts * (size_t)g->tokens * (decoded ? 1 : (size_t)g->places);
  g->window = hd__calloc((size_t)texts * (size_t)g->places, sizeof *g->window);
  g->drawn = hd__malloc((size_t)texts * MOST_AHEAD * sizeof *g->drawn);
  g->score = hd__malloc(scores * sizeof *g->score);
  g->outcome = (hd_exec_outcome){.loss = hd__malloc((size_t)texts * sizeof(float)),
                                 .guess = hd__malloc((size_t)texts * sizeof(int32_t)),
                                 .score = g->score};
  HD_TRY(HD_ALLOCATED(g->window && g->drawn && g->score && g->outcome.loss && g->outcome.guess, ctx,
                      "out of memory for %d texts", texts));
  if (decoded)
    HD_TRY(hd__decoder_create(&g->decoder, ctx, g->of.plan, g->of.store, g->of.threads, texts));
  g->shares = decoded ? hd__decoder_shares(g->decoder) : 1;
  HD_TRY(make_draws(g, ctx, texts));
  g->texts = texts;
  return HD_OK;
}

/* ---- Tokens ---- */

typedef enum kind { CHARACTERS, BYTES, NUMBERS } kind;

static kind kind_of(const hd_generator *g) {
  return g->of.class_names > 0 ? CHARACTERS : g->of.bytes ? BYTES : NUMBERS;
}

/* A full window loses its first half to make room for a token. */
static int32_t lost_of(const hd_generator *g, const filled *f) {
  return f->count == g->places ? (g->places + 1) / 2 : 0;
}

/* What is filled when a token has been appended. */
static filled appended(const hd_generator *g, const filled *f) {
  const int32_t lost = lost_of(g, f);
  return (filled){f->count - lost + 1, lost > 0 ? 0 : f->kept};
}

/* Appends a token to each of some texts: token[i * step] to text i of all. */
static void append(hd_generator *g, const filled *f, hd_decoder_texts texts, const int32_t *token, int step) {
  const int32_t lost = lost_of(g, f), left = f->count - lost;
  for (int64_t i = texts.first; i < texts.first + texts.count; i++) {
    int32_t *window = g->window + i * g->places;
    if (lost > 0)
      memmove(window, window + lost, (size_t)left * sizeof *window);
    window[left] = token[i * step];
  }
}

static hd_decoder_texts all_texts(const hd_generator *g) { return (hd_decoder_texts){0, g->texts}; }

static void push_to_all(hd_generator *g, int32_t token) {
  append(g, &g->filled, all_texts(g), &token, 0);
  g->filled = appended(g, &g->filled);
}

static int32_t find_name(const hd_generator *g, const char *text, size_t bytes) {
  int32_t i = 0;
  while (i < g->of.class_names &&
         (strlen(g->of.class_name[i]) != bytes || memcmp(g->of.class_name[i], text, bytes) != 0))
    i++;
  return i < g->of.class_names && i < g->tokens ? i : -1;
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
    push_to_all(g, token);
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
      push_to_all(g, (int32_t)number);
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
    push_to_all(g, (unsigned char)prompt[i]);
  }
  return HD_OK;
}

static hd_status check(hd_ctx *ctx, const hd_generation *how) {
  if (!(how->temperature >= 0) || !isfinite(how->temperature) || how->top_k < 0)
    return hd__fail(ctx, HD_E_USAGE, "expected a temperature and a top_k of at least 0, found %g and %d; give such",
                    how->temperature, how->top_k);
  if (!(how->top_p >= 0 && how->top_p <= 1))
    return hd__fail(ctx, HD_E_USAGE, "expected a top_p from 0 to 1, found %g; give such", how->top_p);
  if (how->count < 0 || how->count > HD_MOST_TEXTS)
    return hd__fail(ctx, HD_E_USAGE, "expected a count from 0 to %d, found %d; give such", HD_MOST_TEXTS, how->count);
  return HD_OK;
}

hd_status hd_generator_begin(hd_generator *g, hd_ctx *ctx, const char *prompt, size_t bytes, const hd_generation *how) {
  HD_ROUNDING_TO_NEAREST;
  HD_TRY(check(ctx, how));
  const int32_t texts = how->count ? how->count : 1;
  if (texts != g->texts) {
    release_texts(g);
    HD_TRY(make_texts(g, ctx, texts));
  }
  for (int i = 0; i < g->shares; i++) {
    g->draws[i].temperature = how->temperature;
    g->draws[i].top_p = how->top_p;
    g->draws[i].top_k = how->top_k;
    g->draws[i].seed = how->seed;
  }
  g->filled = (filled){0};
  g->written = 0;
  g->ahead = g->taken = 0;
  const hd_status status = take_prompt(g, ctx, prompt, bytes);
  g->filled.count = status == HD_OK ? g->filled.count : 0;
  HD_TRY(status);
  if (g->filled.count > 0)
    return HD_OK;
  const int32_t newline = kind_of(g) == CHARACTERS ? find_name(g, "\n", 1) : kind_of(g) == BYTES ? '\n' : 0;
  push_to_all(g, newline < 0 || newline >= g->tokens ? 0 : newline);
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
  const char *name = token < g->of.class_names ? g->of.class_name[token] : "?";
  const size_t bytes = strnlen(name, HD_TOKEN_BYTES - 1); /* a damaged record may have longer ones */
  *text = 0;
  memcpy(text, name, bytes);
  return bytes ? bytes : 1; /* the character 0 */
}

/* ---- Scores ---- */

static hd_status fetch(void *self, hd_ctx *ctx, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to) {
  const hd_generator *g = self;
  for (int64_t r = 0; r < rows; r++) {
    const int32_t *window = g->window + (first + r) * g->places;
    int32_t *label = (int32_t *)to->target + r * to->target_stride;
    for (int32_t i = 0; i < g->places; i++) {
      to->x[r * to->x_stride + i] = i < g->filled.count ? (float)window[i] : 0;
      label[i] = -1;
    }
  }
  return HD_OK;
}

/* Draws the token `number` of those ahead for some texts from their scores, which lie `stride` apart, and appends it;
 * false: one of the scores is not finite. */
static bool draw(hd_generator *g, int share, hd_decoder_texts texts, int number, const filled *f) {
  const int64_t stride = (int64_t)g->tokens * (g->decoder ? 1 : g->places);
  const float *score = g->score + (g->decoder ? 0 : f->count - 1) * (int64_t)g->tokens;
  int32_t *drawn = g->drawn + (int64_t)number * g->texts;
  for (int64_t i = texts.first; i < texts.first + texts.count; i++) {
    for (int32_t k = 0; k < g->tokens; k++)
      if (!isfinite(score[i * stride + k]))
        return false;
    drawn[i] = token_draw(&g->draws[share], score + i * stride, g->written + number, (uint32_t)i);
  }
  append(g, f, texts, drawn, 1);
  return true;
}

/* The tokens ahead of a share's texts. */
static void write_share(void *self, int share) {
  hd_generator *g = self;
  const hd_decoder_texts texts = hd__decoder_texts(g->decoder, share);
  filled f = g->filled;
  for (int number = 0; number < g->ahead; number++) {
    const hd_new_places places = {g->window + f.kept, g->places, f.kept, f.count - f.kept};
    hd__decoder_compute(g->decoder, share, &places, g->score);
    f.kept = f.count;
    if (!draw(g, share, texts, number, &f)) {
      for (int bad = atomic_load(&g->bad); number < bad;)
        if (atomic_compare_exchange_weak(&g->bad, &bad, number))
          break;
      return;
    }
    f = appended(g, &f);
  }
}

/* Draws tokens ahead. */
static hd_status write_ahead(hd_generator *g, hd_ctx *ctx) {
  const hd_step_source source = {.self = g, .fetch = fetch};
  g->ahead = g->shares == 1 || g->ahead == 0 ? 1 : g->ahead < MOST_AHEAD ? 2 * g->ahead : MOST_AHEAD;
  g->taken = 0;
  g->bad = g->ahead;
  if (g->decoder)
    HD_TRY(hd__decoder_each(g->decoder, ctx, write_share, g));
  else
    HD_TRY(hd__exec_evaluate(g->of.exec, ctx, &source, g->texts, &g->outcome));
  if (!g->decoder && !draw(g, 0, all_texts(g), 0, &g->filled))
    g->bad = 0;
  for (int number = 0; number < g->ahead; number++) {
    g->filled.kept = g->filled.count;
    g->filled = appended(g, &g->filled);
  }
  return HD_OK;
}

hd_status hd_generator_next(hd_generator *g, hd_ctx *ctx, char *text, size_t *bytes) {
  HD_ROUNDING_TO_NEAREST;
  if (g->filled.count == 0)
    return hd__fail(ctx, HD_E_USAGE, "expected a text that hd_generator_begin began, found none; call it first");
  memset(bytes, 0, (size_t)g->texts * sizeof *bytes);
  const hd_status status = g->taken == g->ahead ? write_ahead(g, ctx) : HD_OK;
  g->ahead = status == HD_OK ? g->ahead : g->taken; /* nothing was drawn */
  HD_TRY(status);
  if (g->taken == g->bad)
    return hd__fail(ctx, HD_E_NOTFINITE, "expected finite scores, found NaN or infinity; the network is not trained");
  for (int32_t i = 0; i < g->texts; i++)
    bytes[i] = write_token(text + (int64_t)i * HD_TOKEN_BYTES, g, g->drawn[(int64_t)g->taken * g->texts + i]);
  g->taken++;
  g->written++;
  return HD_OK;
}
