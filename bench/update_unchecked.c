/* The optimizer updates of this instruction set without the check for values that are not finite: the difference is the
 * cost of the check. All else is the source of the kernels. */
#include "kernel/cpu/group16.h"

static inline __attribute__((always_inline)) g16 leave_out(g16 seen, g16 x) { return seen; }
#define g16_note_not_finite leave_out
#define hd__sgd_fill_avx512 unchecked_sgd_fill /* HD_ISA is avx512 */
#define hd__adam_fill_avx512 unchecked_adam_fill
static void unchecked_sgd_fill(hd_kernels *table);
static void unchecked_adam_fill(hd_kernels *table);
void hd__update_fill_unchecked(hd_kernels *table);

#include "optimizer/adam/adam_cpu.c"
#include "optimizer/sgd/sgd_cpu.c"

void hd__update_fill_unchecked(hd_kernels *table) {
  unchecked_sgd_fill(table);
  unchecked_adam_fill(table);
}
