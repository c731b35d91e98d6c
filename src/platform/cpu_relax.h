/* The pause instruction of a spin loop. */
#ifndef HD_PLATFORM_CPU_RELAX_H
#define HD_PLATFORM_CPU_RELAX_H

static inline void hd__relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
