/* A network that writes text, of a checkpoint or of a session at work, as heddle/generate.h has it. */
#pragma once

#include "exec/executor.h"
#include "heddle/generate.h"

/* What it computes with; all of it must outlive the generator. */
typedef struct hd_text_network {
  const hd_plan *plan; /* an evaluation's */
  const hd_store *store;
  hd_threads *threads;
  hd_exec *exec;
  const char *const *class_name; /* characters, `class_names` of them, or none */
  int32_t class_names;
  bool bytes;             /* tokens are bytes */
  int32_t places, tokens; /* of the window; scores of a place */
} hd_text_network;

/* Whether keys and values are kept, so that this process alone computes a text. */
bool hd__text_network_decodes(const hd_text_network *network);

hd_status hd__generator_of(hd_generator **out, hd_ctx *ctx, const hd_text_network *network);
