/* A product and a sum with one rounding: fmaf() and fma(), the same bits. A build for every x86-64 calls libm for them;
 * where the CPU has the instruction, it stands here instead, at a third of the time. Not for a GPU. */
#pragma once

#include <math.h>

#if defined(__x86_64__) && !defined(__FMA__)
#define HD_FMA_BY_CPU
static inline int hd__has_fma(void) { return __builtin_expect(__builtin_cpu_supports("fma") != 0, 1); }
#endif

static inline float hd__fmaf(float a, float b, float c) {
#ifdef HD_FMA_BY_CPU
  if (hd__has_fma()) {
    __asm__("vfmadd231ss %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
    return c;
  }
#endif
  return fmaf(a, b, c);
}

static inline double hd__fma(double a, double b, double c) {
#ifdef HD_FMA_BY_CPU
  if (hd__has_fma()) {
    __asm__("vfmadd231sd %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
    return c;
  }
#endif
  return fma(a, b, c);
}
