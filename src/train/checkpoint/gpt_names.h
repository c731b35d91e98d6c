/* Weights of GPT-2's names, as Hugging Face and nanoGPT write them, under the names of heddle's models:
 *
 *     [_orig_mod.][transformer.]h.0.attn.c_attn.weight    h1.attn_c_attn.weight
 *     [_orig_mod.][transformer.]h.0.ln_1.bias             h1.ln_1.bias
 *     wte.weight, wpe.weight, ln_f.weight, lm_head.weight the same
 *
 * Hugging Face keeps weights of linear layers as inputs x outputs, nanoGPT as outputs x inputs, which heddle does. The
 * shapes of a file say which, all of its matrices that are not square alike; a file of square ones alone is refused.
 * What a file has beside weights, the masks of attention, is left out; norms without bias have zeros. */
#pragma once

#include "base/safetensors.h"
#include "exec/weight_store.h"

/* The bytes of tensors that are not in the file. */
typedef struct hd_gpt_memory {
  void **block;
  int blocks;
} hd_gpt_memory;

/* What the context's message begins with after such a file. */
#define HD_GPT_NOTE "note: the weights have GPT-2's names, "

/* Renames the tensors of such a file, unless the model has their names itself; others stay as they are. */
hd_status hd__gpt_rename(hd_gpt_memory *memory, hd_st_list *list, hd_ctx *ctx, const char *path,
                         const hd_directory *directory);
void hd__gpt_memory_fini(hd_gpt_memory *memory);

#define HD_GPT_MEMORY_OWNED HD_RELEASED(hd__gpt_memory_fini) hd_gpt_memory
