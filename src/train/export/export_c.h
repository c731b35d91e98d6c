/* What the writers of C files share: export_c.c, and export_c_text.c for networks of texts. Its parts are in
 * export_c_parts.c. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "train/export/exported.h"

enum { HD_C_HEADERS = 256, HD_C_NAME_BYTES = 128 };

typedef struct hd_c_writer {
  FILE *to;
  hd_ctx *ctx;
  const hd_exported *network;
  const hd_plan *plan;
  char name[HD_C_NAME_BYTES];
  bool written[HD_C_HEADERS]; /* by the index in hd__embed_chains */
} hd_c_writer;

/* The text of a header and of those that it includes, unless it has been written. */
hd_status hd__c_header(hd_c_writer *w, const char *path);

/* The shortest decimal that reads back as the same number. C++ has hexadecimal floats only since 17. */
void hd__c_float(FILE *to, float x);
void hd__c_double(FILE *to, double x);

/* An address: floats of the network's memory, or weights. */
void hd__c_place(const hd_c_writer *w, const hd_place *place);

/* A call's geometry g and call c, in a block that is left open; and the loop over its units, which ends the block. */
void hd__c_begin_call(const hd_c_writer *w, const hd_plan_call *call);
void hd__c_end_call(const hd_c_writer *w, const hd_plan_call *call);

/* Whether a call computes the loss, which files leave out. */
bool hd__c_is_loss(const hd_plan_call *call);

/* Floats of working memory. */
int64_t hd__c_memory(const hd_c_writer *w);

/* Whether the classes have names, one for each score, and the declaration of these. */
bool hd__c_has_names(const hd_c_writer *w);
void hd__c_names_signature(const hd_c_writer *w);

/* ---- Of a network that reads windows of tokens ---- */

/* The lines of the comment at the file's beginning; the functions. */
void hd__c_text_head(const hd_c_writer *w);
hd_status hd__c_text(hd_c_writer *w);
