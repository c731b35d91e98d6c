/* A decoder computes the scores of the tokens that follow a text from what it keeps of the tokens before, instead of
 * all of it again: of each attention the queries, keys and values of the places so far, of each recurrent layer its
 * states. Every element is the chain that the whole forward pass computes (kernel/kernel.h), so the bits are the same.
 *
 * It takes plans whose layers compute a place from the same place, by causal attention from those before it as well, or
 * from the state of the one before it, on a CPU. Several texts of equal length go along together, divided among
 * threads; layers that read no other place see the places of a thread's texts as those of one sample, so that a weight
 * is read once for all of them.
 *
 *   values    texts of the thread x new places, one text after the other, in the plan's places
 *   kept      of each text and layer the places so far: an attention's input, a recurrent layer's outputs */
#pragma once

#include "exec/weight_store.h"
#include "plan/plan.h"
#include "platform/threads.h"

typedef struct hd_decoder hd_decoder;

/* Whether a plan of texts can be decoded so. */
bool hd__decoder_takes(const hd_plan *plan);

/* What a place of a call's output depends on; the floats that are kept for it, 0 for none. */
hd_op_places hd__decoder_places(const hd_plan_call *call);
int64_t hd__decoder_kept(const hd_plan_call *call);

/* The plan, which it takes, the store and the threads must outlive the decoder. */
hd_status hd__decoder_create(hd_decoder **out, hd_ctx *ctx, const hd_plan *plan, const hd_store *store,
                             hd_threads *threads, int32_t texts);
void hd__decoder_destroy(hd_decoder *decoder); /* NULL is allowed */

/* The texts of a thread: all of them are in one of `shares`. */
typedef struct hd_decoder_texts {
  int32_t first, count;
} hd_decoder_texts;

int hd__decoder_shares(const hd_decoder *decoder);
hd_decoder_texts hd__decoder_texts(const hd_decoder *decoder, int share);

/* Runs work(arg, share) for each share, in a thread of its own. */
hd_status hd__decoder_each(hd_decoder *decoder, hd_ctx *ctx, void (*work)(void *arg, int share), void *arg);

/* New places of all texts, behind the first `kept` ones, which a decoder has: token[i * stride + k] is token k of text
 * i, counted from these. kept + count is at most the plan's places. */
typedef struct hd_new_places {
  const int32_t *token;
  int64_t stride;
  int32_t kept, count;
} hd_new_places;

/* In such a work: computes the new places of a share's texts, and writes the scores of the last place of each of them,
 * those of text i at score + i * tokens. */
void hd__decoder_compute(hd_decoder *decoder, int share, const hd_new_places *places, float *score);
