/* A decoder computes the scores of the tokens that follow a text from what it keeps of the tokens before, instead of
 * all of it again: of each attention the queries, keys and values of the places so far. Every element is the chain that
 * the whole forward pass computes (kernel/kernel.h), so the bits are the same.
 *
 * It takes plans whose layers compute a place from the same place, or by causal attention from those before it as well,
 * on a CPU. Several texts of equal length go along together, divided among threads; layers other than attention see
 * the places of a thread's texts as those of one sample.
 *
 *   values    texts of the thread x new places, one text after the other, in the plan's places
 *   kept      of each attention: texts x places x channels of its input */
#pragma once

#include "exec/weight_store.h"
#include "plan/plan.h"
#include "platform/threads.h"

typedef struct hd_decoder hd_decoder;

/* Whether a plan of texts can be decoded so. */
bool hd__decoder_takes(const hd_plan *plan);

/* What a place of a call's output depends on; the floats that are kept of its input, 0 for none. */
hd_op_places hd__decoder_places(const hd_plan_call *call);
int64_t hd__decoder_kept(const hd_plan_call *call);

/* The plan, which it takes, the store and the threads must outlive the decoder. */
hd_status hd__decoder_create(hd_decoder **out, hd_ctx *ctx, const hd_plan *plan, const hd_store *store,
                             hd_threads *threads, int32_t texts);
void hd__decoder_destroy(hd_decoder *decoder); /* NULL is allowed */

/* Goes on after the first `kept` places, which it has, with `count` more: token[i * stride + k] is token k of text i,
 * counted from these. Writes the scores of the last place of each text, one text after the other. kept + count is at
 * most the plan's places. */
hd_status hd__decoder_run(hd_decoder *decoder, hd_ctx *ctx, const int32_t *token, int64_t stride, int32_t kept,
                          int32_t count, float *score);
