/* Chooses the table of kernels for this CPU, or the one that a user named.
 *
 * All tables give the same bits, so the choice is about speed alone; it depends on the CPU, never on timing. The
 * build decides which instruction sets it holds (HD_HAVE_ISA_*); only this file checks which of them the CPU and the
 * operating system can run. It is itself compiled for the plain architecture. */
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#if defined(HD_HAVE_AMX)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernel/kernel.h"

const hd_kernels *hd__cpu_table_scalar(void);
const hd_kernels *hd__cpu_table_avx2(void);
const hd_kernels *hd__cpu_table_avx512(void);
const hd_kernels *hd__cpu_table_neon(void);

typedef struct isa_entry {
  const char *name;
  const hd_kernels *(*table)(void); /* NULL: not in this build */
  int (*runs)(void);
  const char *lacks;
} isa_entry;

static int always(void) { return 1; }

#if defined(HD_HAVE_ISA_AVX2)
static int runs_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif

#if defined(HD_HAVE_ISA_AVX512)
static int runs_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("fma");
}
#endif

#if defined(HD_HAVE_AMX)
static int amx;

/* CPUID 7: AMX-BF16, AMX-TILE and AVX512_BF16. Linux enables the tile registers for a process on request, and for
 * threads that are started later. */
static void find_amx(void) {
  enum { ASK = 0x1023, TILE_DATA = 18 };
  unsigned a = 0, b, c, d;
  if (!runs_avx512() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1) || !(d >> 24 & 1))
    return;
  amx = __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1) && syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0;
}

int hd__has_amx(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_amx);
  return amx;
}
#else
int hd__has_amx(void) { return 0; }
#endif

/* Best first; "amx" is "avx512", with tiles for bfloat16 (hd__kernels_bf16). "reference" comes last: complete
 * everywhere, and never chosen unless named. */
static const isa_entry entries[] = {
#if defined(HD_HAVE_ISA_AVX512)
    {"avx512", hd__cpu_table_avx512, runs_avx512, "this CPU lacks avx512f, bw, dq, vl or fma"},
#else
    {"avx512", NULL, always, "this build has no avx512 kernels"},
#endif
#if defined(HD_HAVE_AMX)
    {"amx", hd__cpu_table_avx512, hd__has_amx, "this CPU lacks amx_bf16, or the system does not allow its tiles"},
#else
    {"amx", NULL, always, "this build has no amx kernels"},
#endif
#if defined(HD_HAVE_ISA_AVX2)
    {"avx2", hd__cpu_table_avx2, runs_avx2, "this CPU lacks avx2 or fma"},
#else
    {"avx2", NULL, always, "this build has no avx2 kernels"},
#endif
#if defined(HD_HAVE_ISA_NEON)
    {"neon", hd__cpu_table_neon, always, ""},
#else
    {"neon", NULL, always, "this build has no neon kernels"},
#endif
#if defined(HD_HAVE_ISA_SCALAR)
    {"scalar", hd__cpu_table_scalar, always, ""},
#else
    {"scalar", NULL, always, "this build has no scalar kernels"},
#endif
    {"reference", hd__kernels_reference, always, ""},
};

enum { ENTRY_COUNT = sizeof entries / sizeof *entries };

static const hd_kernels *table_of(const isa_entry *entry) {
  return entry->table && entry->runs() ? entry->table() : NULL;
}

static const isa_entry *find(const char *isa) {
  for (int i = 0; i < ENTRY_COUNT; i++)
    if (!strcmp(entries[i].name, isa))
      return &entries[i];
  return NULL;
}

const hd_kernels *hd__kernels_of(const char *isa) {
  const isa_entry *entry = find(isa);
  return entry ? table_of(entry) : NULL;
}

static const hd_kernels *best(void) {
  for (int i = 0; i < ENTRY_COUNT; i++) {
    const hd_kernels *table = table_of(&entries[i]);
    if (table)
      return table;
  }
  return hd__kernels_reference();
}

const hd_kernels *hd__kernels_select(const char *isa, const char **why) {
  if (!isa || !*isa)
    return best();
  const isa_entry *entry = find(isa);
  const hd_kernels *table = entry ? table_of(entry) : NULL;
  if (!table && why)
    *why = entry ? entry->lacks : "the sets are avx512, amx, avx2, neon, scalar and reference";
  return table;
}
