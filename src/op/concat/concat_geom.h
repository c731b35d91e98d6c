/* The inputs of concat. */
#pragma once

#include <stdint.h>

enum { HD_CONCAT_INPUTS = 7 };

typedef struct hd_concat_geom {
  int32_t part[HD_CONCAT_INPUTS]; /* channels of each input, 0 behind the last */
  int32_t first;                  /* concat_dx: the first of its channels in the output */
} hd_concat_geom;
