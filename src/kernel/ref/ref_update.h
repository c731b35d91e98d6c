/* Fills the reference table's slots that have no double version. */
#ifndef HD_KERNEL_REF_UPDATE_H
#define HD_KERNEL_REF_UPDATE_H

#include "kernel/kernel.h"

void hd__ref_update_fill(hd_kernels *table);

#endif
