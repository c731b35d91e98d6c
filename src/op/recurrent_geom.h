/* Where recurrent layers begin. */
#pragma once

#include <stdint.h>

typedef struct hd_recurrent_geom {
  int32_t first; /* evaluation: the first place that is computed; the input has the places from there on alone, the
                    outputs have those before it too, with their values */
} hd_recurrent_geom;
