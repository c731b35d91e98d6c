/* Division by a number that is constant during a launch. A GPU has no instruction for it and takes some 20; with these
 * constants of the host it takes a multiplication and a shift. After Granlund and Montgomery, "Division by invariant
 * integers using multiplication", 1994. */
#pragma once

#include <stdint.h>

#include "base/host_device.h"

typedef struct hd_cuda_divisor {
  uint32_t by, factor, shift;
} hd_cuda_divisor;

/* A number below 1 is taken for 1. */
HD_BOTH hd_cuda_divisor cuda_divisor(int32_t number) {
  const uint32_t by = number > 1 ? (uint32_t)number : 1;
  uint32_t shift = 0;
  while ((uint64_t)1 << shift < by)
    shift++;
  const uint64_t rest = ((uint64_t)1 << shift) - by;
  const hd_cuda_divisor d = {by, (uint32_t)((rest << 32) / by + 1), shift};
  return d;
}

/* n / d.by and n % d.by, of n from 0 on. */
HD_BOTH int32_t cuda_over(int32_t n, hd_cuda_divisor d) {
  return (int32_t)(((uint32_t)((uint64_t)(uint32_t)n * d.factor >> 32) + (uint32_t)n) >> d.shift);
}
HD_BOTH int32_t cuda_rest(int32_t n, hd_cuda_divisor d) { return n - cuda_over(n, d) * (int32_t)d.by; }
