/* Fills the slots of custom operations, which the caller's program implements. */
#ifndef HD_KERNEL_REF_CUSTOM_H
#define HD_KERNEL_REF_CUSTOM_H

#include "kernel/kernel.h"

void hd__ref_custom_fill(hd_kernels *table);

#endif
