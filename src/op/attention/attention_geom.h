/* The settings of attention. */
#pragma once

#include <stdint.h>

typedef struct hd_attention_geom {
  int32_t heads, key_heads; /* of queries; of keys and values, a divisor of it, 0: as many */
  int32_t causal;           /* 1: a place attends to itself and those before it */
  int32_t first;            /* evaluation: the first place with a query; y has the places from there on alone */
  int32_t room;             /* places that the keys in out[1] have room for, a multiple of 16; 0: there are none */
  float dropout;            /* the probability that a weight becomes zero; 0 in evaluation */
} hd_attention_geom;
