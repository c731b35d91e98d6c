/* What data set to open, and how. */
#pragma once

#include <stdbool.h>

#include "heddle/options.h"

typedef struct hd_data_request {
  const char *name;      /* or path */
  const char *data_dir;  /* searched first for named sets; may be NULL or "" */
  int ignored;           /* a label that need not be a class; -1: none */
  hd_cache_choice cache; /* where decoded samples are kept */
  bool skip;             /* skip unreadable samples, in formats that read samples one by one */
} hd_data_request;
