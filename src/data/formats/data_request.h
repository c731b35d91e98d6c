/* What data set to open, and how. */
#pragma once

#include <stdbool.h>

/* Where decoded samples are kept. */
typedef enum hd_cache_kind { HD_CACHE_RAM, HD_CACHE_DISK, HD_CACHE_NONE } hd_cache_kind;

typedef struct hd_data_request {
  const char *name;     /* or path */
  const char *data_dir; /* searched first for named sets; may be NULL or "" */
  int ignored;          /* a label that need not be a class; -1: none */
  hd_cache_kind cache;
  bool skip; /* skip unreadable samples, in formats that read samples one by one */
} hd_data_request;
