/* The tables of --precision bf16: those of another table, with the kernels of bf16.h overridden. This file is
 * compiled for the plain architecture and checks the CPU. */
#include <pthread.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernel/bf16.h"

static hd_kernels reference, avx512;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool has_avx512_bf16(void) {
#if defined(__x86_64__) && defined(HD_HAVE_BF16)
  unsigned a = 0, b, c, d;
  return hd__kernels_of("avx512") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
#else
  return false;
#endif
}

static void fill(void) {
  reference = *hd__kernels_reference();
  reference.others = hd__kernels_reference();
  hd__bf16_reference_fill(&reference);
  reference.isa = reference.name = "reference_bf16";
#if defined(HD_HAVE_BF16)
  if (!has_avx512_bf16())
    return;
  avx512 = *hd__kernels_of("avx512");
  avx512.others = hd__kernels_of("avx512");
  hd__bf16_conv_fill(&avx512);
  hd__bf16_linear_fill(&avx512);
  avx512.isa = avx512.name = "avx512_bf16";
#endif
}

const hd_kernels *hd__kernels_bf16(const hd_kernels *table, const char **why) {
  pthread_once(&once, fill);
  if (table == hd__kernels_reference())
    return &reference;
  if (table == hd__kernels_of("avx512") && avx512.name)
    return &avx512;
  if (why)
    *why = !has_avx512_bf16() ? "this CPU or this build has no avx512_bf16" : "HEDDLE_ISA names a set without bf16";
  return NULL;
}
