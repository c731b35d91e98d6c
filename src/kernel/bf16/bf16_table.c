/* The tables of --precision bf16: those of the instruction sets, with the kernels of bf16.h overridden. This file is
 * compiled for the plain architecture. */
#include <pthread.h>
#include <stdbool.h>

#include "kernel/bf16.h"

#define FILLS(isa)                                                                                                     \
  void hd__bf16_linear_fill_##isa(hd_kernels *table);                                                                  \
  void hd__bf16_form_fill_##isa(hd_kernels *table);                                                                    \
  void hd__bf16_conv_fill_##isa(hd_kernels *table);                                                                    \
  void hd__bf16_conv_dw_fill_##isa(hd_kernels *table);                                                                 \
  static void fill_##isa(hd_kernels *table) {                                                                          \
    hd__bf16_linear_fill_##isa(table);                                                                                 \
    hd__bf16_form_fill_##isa(table);                                                                                   \
    hd__bf16_conv_fill_##isa(table);                                                                                   \
    hd__bf16_conv_dw_fill_##isa(table);                                                                                \
  }
#define TABLE(of, isa)                                                                                                 \
  { .base = of, .name = #isa "_bf16", .fill = fill_##isa }

typedef struct bf16_table {
  const char *base, *name; /* base: the table of floats */
  void (*fill)(hd_kernels *table);
  hd_kernels table; /* without a name if this CPU lacks it */
} bf16_table;

#if defined(HD_HAVE_AMX)
FILLS(amx)
#endif
#if defined(HD_HAVE_ISA_AVX512)
FILLS(avx512)
#endif
#if defined(HD_HAVE_ISA_AVX2)
FILLS(avx2)
#endif
#if defined(HD_HAVE_ISA_NEON)
FILLS(neon)
#endif
#if defined(HD_HAVE_ISA_SCALAR)
FILLS(scalar)
#endif

/* AMX first, so that it is the best of those over "avx512". */
static bf16_table tables[] = {
#if defined(HD_HAVE_AMX)
    TABLE("avx512", amx),
#endif
#if defined(HD_HAVE_ISA_AVX512)
    TABLE("avx512", avx512),
#endif
#if defined(HD_HAVE_ISA_AVX2)
    TABLE("avx2", avx2),
#endif
#if defined(HD_HAVE_ISA_NEON)
    TABLE("neon", neon),
#endif
#if defined(HD_HAVE_ISA_SCALAR)
    TABLE("scalar", scalar),
#endif
    {.base = "reference", .name = "reference_bf16", .fill = hd__bf16_reference_fill},
};
enum { TABLES = sizeof tables / sizeof *tables };

static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool runs(const bf16_table *t) {
#if defined(HD_HAVE_AMX)
  if (t->fill == fill_amx && !hd__has_amx())
    return false;
#endif
  return hd__kernels_of(t->base) != NULL;
}

static void fill(void) {
  for (int i = 0; i < TABLES; i++) {
    bf16_table *t = &tables[i];
    if (!runs(t))
      continue;
    t->table = *hd__kernels_of(t->base);
    t->table.others = hd__kernels_of(t->base);
    t->fill(&t->table);
    t->table.isa = t->table.name = t->name;
  }
}

const hd_kernels *hd__kernels_bf16(const hd_kernels *table, const char *isa) {
  const bool plain = isa && !strcmp(isa, "avx512");
  pthread_once(&once, fill);
  for (int i = 0; i < TABLES; i++)
    if (tables[i].table.name && tables[i].table.others == table && !(plain && !strcmp(tables[i].name, "amx_bf16")))
      return &tables[i].table;
  return NULL;
}
