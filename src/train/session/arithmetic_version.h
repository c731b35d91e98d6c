/* Which networks each version of the arithmetic changed: the table of docs/arithmetic.md as predicates. A run of an
 * earlier version is resumed and verified where none of the later ones changed its network. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/tools_api.h"
#include "train/settings/model_source.h"

typedef struct hd_arithmetic_change {
  int version;      /* the first one that changed the network; 0: none did */
  const char *what; /* what it changed, a clause; static */
} hd_arithmetic_change;

typedef enum hd_arithmetic_of {
  HD_ARITHMETIC_OF_STEPS,  /* changes of numbers: such a run cannot be resumed */
  HD_ARITHMETIC_OF_DIGESTS /* also those of the order of elements in files: such a digest cannot be reached again */
} hd_arithmetic_of;

/* What was changed in this network, trained with --precision bf16 or without, after version `found`, which is at most
 * HD_ARITHMETIC_VERSION. */
HD_TOOLS_API hd_status hd__arithmetic_changed(hd_arithmetic_change *out, hd_ctx *ctx, const hd_network *network,
                                              bool bf16, int64_t found, hd_arithmetic_of of);
