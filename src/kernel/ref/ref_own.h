/* Fills the slots of operations that the caller's program brings. */
#ifndef HD_KERNEL_REF_OWN_H
#define HD_KERNEL_REF_OWN_H

#include "kernel/kernel.h"

void hd__ref_own_fill(hd_kernels *table);

#endif
