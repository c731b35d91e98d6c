/* The setting of weigh. */
#pragma once

#include <stdint.h>

typedef struct hd_weigh_geom {
  int32_t at; /* elements of a target before its sample's weight */
} hd_weigh_geom;
