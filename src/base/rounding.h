/* Rounding to nearest in calls that compute scalars (drawn weights, learning rates), or read or write numbers, on the
 * program's own thread, which may be in another rounding mode. The rest of its mode is unchanged; platform/fpmode.h is
 * for the kernels. */
#pragma once

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

/* strtod and printf go by the x87 unit's mode: both are set. */
enum { HD_X87_ROUNDING = 0x0c00 };

static inline uint64_t hd__rounding_enter(void) {
  const unsigned sse = _mm_getcsr();
  uint16_t x87, nearest;
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  nearest = (uint16_t)(x87 & ~HD_X87_ROUNDING);
  if (nearest != x87 || (sse & _MM_ROUND_MASK)) { /* writing takes longer than reading */
    __asm__ volatile("fldcw %0" ::"m"(nearest));
    _mm_setcsr(sse & ~(unsigned)_MM_ROUND_MASK);
  }
  return (uint64_t)x87 << 32 | sse;
}

static inline void hd__rounding_leave(const uint64_t *before) {
  const uint16_t x87 = (uint16_t)(*before >> 32);
  if (!(x87 & HD_X87_ROUNDING) && !((unsigned)*before & _MM_ROUND_MASK))
    return;
  _mm_setcsr((unsigned)*before);
  __asm__ volatile("fldcw %0" ::"m"(x87));
}

#elif defined(__aarch64__)

static inline uint64_t hd__rounding_enter(void) {
  uint64_t before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  __asm__ volatile("msr fpcr, %0" ::"r"(before & ~(UINT64_C(3) << 22)));
  return before;
}
static inline void hd__rounding_leave(const uint64_t *before) { __asm__ volatile("msr fpcr, %0" ::"r"(*before)); }

#else

static inline uint64_t hd__rounding_enter(void) { return 0; }
static inline void hd__rounding_leave(const uint64_t *before) { (void)before; }

#endif

/* Until the end of the scope. */
#define HD_ROUNDING_TO_NEAREST                                                                                         \
  __attribute__((cleanup(hd__rounding_leave), unused)) const uint64_t rounding_before = hd__rounding_enter()
