/* Text that a network writes, token by token: the same on every machine.
 *
 *     hd_generator *g;
 *     hd_generator_create(&g, ctx, "runs/gpt-nano-1", config);
 *     hd_generator_begin(g, ctx, "ROMEO:", 6, &(hd_generation){.temperature = 1, .seed = 7});
 *     for (int i = 0; i < 500; i++) {
 *       char text[HD_TOKEN_BYTES];
 *       size_t bytes;
 *       hd_generator_next(g, ctx, text, &bytes);
 *       fwrite(text, 1, bytes, stdout);
 *     }
 *
 * The network reads a window of the last tokens. When it is full, its first half is dropped.
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

/* How tokens are drawn from the scores: `exp(score / temperature)` over the `top_k` largest scores. The draws are keyed
 * by the seed and the token's number. */
typedef struct hd_generation {
  double temperature; /* 0: always the largest score */
  int32_t top_k;      /* 0: all */
  uint64_t seed;
} hd_generation;

enum { HD_TOKEN_BYTES = 16 };

/* Opens a checkpoint, a run's folder (its last step) or a step's; of the configuration it uses threads and device.
 * HD_E_UNSUPPORTED: the network does not predict the next token of a text. On success *out must be released with
 * hd_generator_destroy; on failure it is NULL. */
HD_API hd_status hd_generator_create(hd_generator **out, hd_ctx *ctx, const char *checkpoint, const hd_config *config);

/* NULL is allowed. */
HD_API void hd_generator_destroy(hd_generator *generator);

/* Begins a text with a prompt, as the run's data is written: UTF-8 of known characters, any bytes, or for a run on
 * numbers of tokens these numbers with blanks between. An empty prompt stands for the end of a line, or the token 0.
 * HD_E_USAGE: the prompt has something else; the temperature or top_k is negative. */
HD_API hd_status hd_generator_begin(hd_generator *generator, hd_ctx *ctx, const char *prompt, size_t bytes,
                                    const hd_generation *how);

/* The next token: *bytes bytes of text, without a NUL; of numbers a blank and the number. HD_E_NOTFINITE: the network's
 * scores are not finite. */
HD_API hd_status hd_generator_next(hd_generator *generator, hd_ctx *ctx, char text[HD_TOKEN_BYTES], size_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
