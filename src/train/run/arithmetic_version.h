/* Which networks each version of the arithmetic changed: the table of docs/arithmetic.md as predicates. A run of an
 * earlier version is resumed and verified where none of the later ones changed its network. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/tools_api.h"
#include "train/settings/model_source.h"
#include "train/settings/settings.h"

typedef struct hd_arithmetic_change {
  int version;      /* the first one that changed the network; 0: none did */
  const char *what; /* what it changed, a clause; static */
} hd_arithmetic_change;

/* Properties of a run, besides its network, that matter here. */
typedef struct hd_arithmetic_run {
  bool bf16;              /* --precision */
  bool lookahead;         /* --lookahead */
  const char *parameters; /* --parameters, "" without */
} hd_arithmetic_run;

typedef enum hd_arithmetic_of {
  HD_ARITHMETIC_OF_STEPS,  /* changes of numbers: such a run cannot be resumed */
  HD_ARITHMETIC_OF_DIGESTS /* also those of the order of elements in files: such a digest cannot be reached again */
} hd_arithmetic_of;

hd_arithmetic_run hd__arithmetic_of_settings(const hd_settings *settings);
HD_TOOLS_API hd_arithmetic_run hd__arithmetic_of_record(const json_t *record); /* of a run or a certificate */

/* The change in this run of a network after version `found`, which is at most HD_ARITHMETIC_VERSION. */
HD_TOOLS_API hd_status hd__arithmetic_changed(hd_arithmetic_change *out, hd_ctx *ctx, const hd_network *network,
                                              hd_arithmetic_run run, int64_t found, hd_arithmetic_of of);
