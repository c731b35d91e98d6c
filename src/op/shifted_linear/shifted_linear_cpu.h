/* Shared by the kernels of shifted_linear. */
#pragma once

#include "kernel/cpu/group16.h"

/* shifted_linear_start of sixteen outputs. */
G16 g16 shifted_linear_start16(float shift, g16 sum, g16 constant) {
  return g16_fma(g16_zero(), sum, g16_fma(g16_all(shift), sum, constant));
}
