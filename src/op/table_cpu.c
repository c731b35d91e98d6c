/* The table of kernels of one instruction set: the reference, overridden by the kernels of this instruction set.
 *
 * Filled once per process, then immutable. A slot that no fill sets keeps the reference's kernel, which also computes
 * the shapes that the table's own kernels do not support. So a table is always complete; tests compare every slot with
 * the reference's bits. */
#include <pthread.h>

#include "kernel/cpu/cpu_fill.h"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

static hd_kernels table;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void) {
  table = *hd__kernels_reference();
  table.name = table.isa = TEXT(HD_ISA);
  table.others = hd__kernels_reference();
#define FILL(name) HD_SYM(name)(&table);
#include "kernel/cpu/cpu_fills.def"
#undef FILL
}

const hd_kernels *HD_SYM(cpu_table)(void) {
  pthread_once(&once, fill);
  return &table;
}
