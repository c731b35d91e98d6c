/* Setting the floating-point control register of the calling thread. */
#include "platform/fpmode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

enum { FLUSH_TO_ZERO = 1 << 15, DENORMALS_ARE_ZERO = 1 << 6, ALL_MASKED = 0x1f80 };

uint64_t hd__fpmode_enter(void) {
  unsigned before = _mm_getcsr();
  _mm_setcsr(ALL_MASKED | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
  return before;
}

void hd__fpmode_leave(uint64_t before) { _mm_setcsr((unsigned)before); }

#elif defined(__aarch64__)

uint64_t hd__fpmode_enter(void) {
  uint64_t before, mode = UINT64_C(1) << 24; /* FZ, round to nearest, no traps */
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  __asm__ volatile("msr fpcr, %0" ::"r"(mode));
  return before;
}

void hd__fpmode_leave(uint64_t before) { __asm__ volatile("msr fpcr, %0" ::"r"(before)); }

#else

uint64_t hd__fpmode_enter(void) { return 0; }

void hd__fpmode_leave(uint64_t before) { (void)before; }

#endif
