/* The settings of embedding. */
#pragma once

#include <stdint.h>

typedef struct hd_embedding_geom {
  int32_t tokens; /* rows of the weight */
} hd_embedding_geom;
