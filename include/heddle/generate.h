/* Text that a network writes, token by token: the same on every machine.
 *
 *     hd_generator *g;
 *     hd_generator_create(&g, ctx, "runs/gpt-nano-1", NULL);
 *     hd_generator_begin(g, ctx, "ROMEO:", 6, &(hd_generation){.temperature = 1, .seed = 7});
 *     for (int i = 0; i < 500; i++) {
 *       char text[HD_TOKEN_BYTES];
 *       size_t bytes;
 *       hd_generator_next(g, ctx, text, &bytes);
 *       fwrite(text, 1, bytes, stdout);
 *     }
 *
 * The network reads a window of the last tokens. When it is full, its first half is dropped, and the other half becomes
 * the window's first half: positions, which a network learns for a window from its first token on, begin anew. Keys and
 * values of the window's tokens are kept, so that a token costs one place of the network, not a window of them; the
 * text is the same. Networks of other layers than those of a GPT, and GPUs, compute the whole window for each token.
 *
 * Thread safety: a generator belongs to one thread at a time. */
#ifndef HEDDLE_GENERATE_H
#define HEDDLE_GENERATE_H

#include <stddef.h>
#include <stdint.h>

#include "heddle/config.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_generator hd_generator;

/* How tokens are drawn from the scores: `exp(score / temperature)` over the `top_k` largest scores, and of these over
 * the fewest whose probabilities add up to `top_p`; equal scores are drawn together or not at all. The draws are keyed
 * by the seed, the token's number and the text's. Set fields that are not used to 0. */
typedef struct hd_generation {
  double temperature; /* 0: always the largest score */
  int32_t top_k;      /* 0: all */
  uint64_t seed;
  double top_p;  /* 0 or 1: all */
  int32_t count; /* texts that begin alike and are written at the same time, at most HD_MOST_TEXTS; 0: one */
} hd_generation;

enum { HD_TOKEN_BYTES = 16, HD_MOST_TEXTS = 65536 };

/* Opens a checkpoint, a run's folder (its last step) or a step's; of the configuration (NULL: all defaults) it uses
 * threads and device. HD_E_UNSUPPORTED: the network does not predict the next token of a text. On success *out must be
 * released with hd_generator_destroy; on failure it is NULL. */
HD_API hd_status hd_generator_create(hd_generator **out, hd_ctx *ctx, const char *checkpoint, const hd_config *config);

/* NULL is allowed. */
HD_API void hd_generator_destroy(hd_generator *generator);

/* Begins a text with a prompt, as the run's data is written: UTF-8 of known characters, any bytes, or for a run on
 * numbers of tokens these numbers with blanks between. An empty prompt stands for the end of a line, or the token 0.
 * HD_E_USAGE: the prompt has something else; the temperature or top_k is negative, top_p or count out of range. */
HD_API hd_status hd_generator_begin(hd_generator *generator, hd_ctx *ctx, const char *prompt, size_t bytes,
                                    const hd_generation *how);

/* The next token: *bytes bytes of text, without a NUL; of numbers a blank and the number. Of several texts, that of
 * text i at text + i * HD_TOKEN_BYTES, of bytes[i] bytes. The first text is the same whatever the count.
 * HD_E_NOTFINITE: the network's scores are not finite. */
HD_API hd_status hd_generator_next(hd_generator *generator, hd_ctx *ctx, char *text, size_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
