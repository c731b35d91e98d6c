/* Text from a network in a C file that heddle exported: what heddle generate writes, for one text. Such files carry
 * this header, which is written in the common subset of C and C++; train/inference/generate.c is heddle's own. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/inference/token_draw.h"

enum { TEXT_TOKEN_BYTES = 16 };

/* What a token stands for. */
typedef enum text_kind { TEXT_CHARACTERS, TEXT_BYTES, TEXT_NUMBERS } text_kind;

/* Instead of the byte of a prompt that is no token: */
enum { TEXT_GOOD = -1, TEXT_NOT_FINITE = -2, TEXT_NO_MEMORY = -3, TEXT_NOT_WRITTEN = -4 };

typedef struct text_settings {
  double temperature; /* 0: always the largest score */
  double top_p;       /* 0 or 1: from all */
  int32_t top_k;      /* 0: from all */
  uint64_t seed;
} text_settings;

typedef struct text_network {
  text_kind kind;
  const char *const *character; /* of each token, "" for the character 0; `characters` of them */
  int32_t characters, places, tokens;
  /* The scores of the token behind count tokens; of the first `kept` memory has what the calls before left there. */
  void (*scores)(float *score, const int32_t *token, int32_t kept, int32_t count, float *memory);
} text_network;

/* A text under way. */
typedef struct text_generator {
  const text_network *network;
  token_draws draws;
  int32_t *window; /* the first `count` are the last tokens, */
  float *score, *memory;
  int32_t count, kept; /* and the first `kept` of these have been computed */
  int64_t written;
} text_generator;

/* A full window loses its first half. */
static inline void text_push(text_generator *g, int32_t token) {
  if (g->count == g->network->places) {
    g->count -= (g->network->places + 1) / 2;
    g->kept = 0;
    memmove(g->window, g->window + g->network->places - g->count, (size_t)g->count * sizeof *g->window);
  }
  g->window[g->count++] = token;
}

static inline size_t text_bytes(const char *character) { return *character ? strlen(character) : 1; }

/* The token that a prompt begins with; -1: none. Characters in UTF-8 do not begin with each other. */
static inline int32_t text_find(const text_network *net, const char *prompt, size_t length, size_t *bytes) {
  *bytes = 1;
  if (net->kind == TEXT_BYTES)
    return (unsigned char)*prompt < net->tokens ? (unsigned char)*prompt : -1;
  for (int32_t i = 0; i < net->characters && i < net->tokens; i++) {
    *bytes = text_bytes(net->character[i]);
    if (*bytes <= length && !memcmp(net->character[i], prompt, *bytes))
      return i;
  }
  return -1;
}

static inline int text_is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The number that a prompt begins with, likewise; blanks are -2. */
static inline int32_t text_number(const text_network *net, const char *prompt, size_t length, size_t *bytes) {
  int64_t number = 0;
  size_t at = 0;
  for (; at < length && prompt[at] >= '0' && prompt[at] <= '9' && number < net->tokens; at++)
    number = 10 * number + (prompt[at] - '0');
  *bytes = at > 0 ? at : 1;
  if (at == 0)
    return text_is_blank(*prompt) ? -2 : -1;
  return number < net->tokens ? (int32_t)number : -1;
}

/* Begins a text with a prompt; an empty one stands for the end of a line, or the token 0. TEXT_GOOD, or the byte of the
 * prompt at which there is no token. */
static inline int64_t text_begin(text_generator *g, const char *prompt, size_t length, const text_settings *how) {
  const text_network *net = g->network;
  size_t bytes;
  g->draws.temperature = how->temperature;
  g->draws.top_p = how->top_p;
  g->draws.top_k = how->top_k;
  g->draws.seed = how->seed;
  g->count = g->kept = 0;
  g->written = 0;
  for (size_t at = 0; at < length; at += bytes) {
    const int32_t token = net->kind == TEXT_NUMBERS ? text_number(net, prompt + at, length - at, &bytes)
                                                    : text_find(net, prompt + at, length - at, &bytes);
    if (token == -1)
      return (int64_t)at;
    if (token >= 0)
      text_push(g, token);
  }
  if (g->count == 0) {
    const int32_t newline = net->kind == TEXT_NUMBERS ? 0 : text_find(net, "\n", 1, &bytes);
    text_push(g, newline < 0 ? 0 : newline);
  }
  return TEXT_GOOD;
}

static inline size_t text_put(char text[TEXT_TOKEN_BYTES], const text_network *net, int32_t token) {
  const char *character = token < net->characters ? net->character[token] : "?";
  size_t bytes = text_bytes(character);
  if (net->kind == TEXT_NUMBERS)
    return (size_t)snprintf(text, TEXT_TOKEN_BYTES, " %d", (int)token);
  if (net->kind == TEXT_BYTES) {
    *text = (char)token;
    return 1;
  }
  bytes = bytes < TEXT_TOKEN_BYTES ? bytes : TEXT_TOKEN_BYTES - 1;
  memcpy(text, character, bytes);
  return bytes;
}

/* The next token: how many bytes of text; 0: the scores are not finite. */
static inline size_t text_next(text_generator *g, char text[TEXT_TOKEN_BYTES]) {
  const text_network *net = g->network;
  net->scores(g->score, g->window, g->kept, g->count, g->memory);
  g->kept = g->count;
  for (int32_t i = 0; i < net->tokens; i++)
    if (g->score[i] - g->score[i] != 0)
      return 0;
  const int32_t token = token_draw(&g->draws, g->score, g->written++, 0);
  text_push(g, token);
  return text_put(text, net, token);
}

/* Writes a prompt and `length` tokens that follow it, and ends the line. */
static inline int64_t text_write(FILE *to, text_generator *g, const char *prompt, int64_t length,
                                 const text_settings *how) {
  const size_t bytes = strlen(prompt);
  const int64_t begun = text_begin(g, prompt, bytes, how);
  char text[TEXT_TOKEN_BYTES], last = bytes ? prompt[bytes - 1] : '\n';
  if (begun != TEXT_GOOD)
    return begun;
  fwrite(prompt, 1, bytes, to);
  for (int64_t i = 0; i < length && !ferror(to); i++) {
    const size_t count = text_next(g, text);
    if (count == 0)
      return TEXT_NOT_FINITE;
    fwrite(text, 1, count, to);
    fflush(to);
    last = text[count - 1];
  }
  if (last != '\n')
    fputc('\n', to);
  return fflush(to) || ferror(to) ? TEXT_NOT_WRITTEN : TEXT_GOOD;
}

/* ---- A program ---- */

typedef struct text_arguments {
  const char *prompt;
  double length, seed, top_k;
  text_settings how;
} text_arguments;

/* A number within bounds, whole unless `real`; NAN: another text. */
static inline double text_argument(const char *text, double least, double most, int real) {
  char *end;
  const double x = strtod(text, &end);
  return end == text || *end || !(x >= least && x <= most) || (!real && x != floor(x)) ? (double)NAN : x;
}

/* Takes an option with its value; 0: there is none such. */
static inline int text_take(text_arguments *a, const char *option, const char *value) {
  double number = 0;
  if (!strcmp(option, "--prompt"))
    a->prompt = value;
  else if (!strcmp(option, "--length"))
    number = a->length = text_argument(value, 0, 1e9, 0);
  else if (!strcmp(option, "--seed"))
    number = a->seed = text_argument(value, 0, 9007199254740992.0, 0);
  else if (!strcmp(option, "--temperature"))
    number = a->how.temperature = text_argument(value, 0, 1e6, 1);
  else if (!strcmp(option, "--top-p"))
    number = a->how.top_p = text_argument(value, 1e-6, 1, 1);
  else if (!strcmp(option, "--top-k"))
    number = a->top_k = text_argument(value, 1, 1e6, 0);
  else
    return 0;
  return number == number;
}

/* Returns the exit code, as heddle's: 2 for a prompt that cannot be taken, else 1. */
static inline int text_fail(const char *program, int64_t why) {
  if (why >= 0)
    fprintf(stderr, "%s: the prompt: expected tokens of the training text, found others at byte %lld; leave them out\n",
            program, (long long)why);
  else
    fprintf(stderr, "%s: %s\n", program,
            why == TEXT_NOT_FINITE  ? "expected finite scores, found NaN or infinity; the network is not trained"
            : why == TEXT_NO_MEMORY ? "out of memory for a text"
                                    : "cannot write the text");
  return why >= 0 ? 2 : 1;
}

/* heddle generate, of one text: the options of the same names. */
static inline int text_main(text_generator *g, int argc, char **argv) {
  text_arguments a = {"", 500, 0, 0, {1, 1, 0, 0}};
  for (int i = 1; i < argc; i += 2)
    if (i + 1 == argc || !text_take(&a, argv[i], argv[i + 1])) {
      fprintf(stderr,
              "usage: %s [--prompt TEXT] [--length N] [--temperature T] [--top-k K] [--top-p P] [--seed N]; found "
              "'%s %s'\n",
              argv[0], argv[i], i + 1 == argc ? "" : argv[i + 1]);
      return 2;
    }
  a.how.seed = (uint64_t)a.seed;
  a.how.top_k = (int32_t)a.top_k;
  if (!g)
    return text_fail(argv[0], TEXT_NO_MEMORY);
  const int64_t written = text_write(stdout, g, a.prompt, (int64_t)a.length, &a.how);
  return written == TEXT_GOOD ? 0 : text_fail(argv[0], written);
}
