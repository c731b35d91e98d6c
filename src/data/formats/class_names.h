/* Names of classes: an array owned by the caller, or the lines of a file. */
#ifndef HD_DATA_FORMATS_CLASS_NAMES_H
#define HD_DATA_FORMATS_CLASS_NAMES_H

#include "base/status.h"

typedef struct hd_names {
  const char **name; /* `count` of them; NULL: none */
  char *text;        /* the names, each with its NUL */
  int count;
} hd_names;

/* Reads a file of exactly `count` lines; empty ones do not count. Names are cleaned to valid UTF-8 without control
 * characters. */
hd_status hd__names_read(hd_names *out, hd_ctx *ctx, const char *path, int count);
void hd__names_fini(hd_names *names);

#endif
