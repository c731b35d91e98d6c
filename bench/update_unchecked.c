/* The optimizer updates of this instruction set without the check for values that are not finite: the difference is the
 * cost of the check. All else is the source of the kernel. */
#include "kernel/cpu/group16.h"

static inline __attribute__((always_inline)) g16 leave_out(g16 seen, g16 x) { return seen; }
#define g16_note_not_finite leave_out
#define hd__update_fill_avx512 hd__update_fill_unchecked /* HD_ISA is avx512 */
void hd__update_fill_unchecked(hd_kernels *table);

#include "kernel/cpu/cpu_update.c"
