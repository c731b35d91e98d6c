/* What optimizers share: NAME_at updates element e of a parameter, whose gradient is g, and returns whether all numbers
 * are finite. Reads version t from w, m, v; writes version t + 1 to w1, m1, v1. */
#pragma once

#include "op/unit.h"

#ifndef HD_OP_CUDA
typedef hd_update op_update;
#endif

HD_BOTH int update_finite(float x) { return x - x == 0; }
