/* Rounding to nearest in calls that compute scalars (drawn weights, learning rates) on the program's own thread, which
 * may be in another rounding mode. The rest of its mode is unchanged; fpmode.h is for the kernels. */
#pragma once

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

static inline uint64_t hd__rounding_enter(void) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before & ~(unsigned)_MM_ROUND_MASK);
  return before;
}
static inline void hd__rounding_leave(const uint64_t *before) { _mm_setcsr((unsigned)*before); }

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
