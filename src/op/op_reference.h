/* Fills the slots of operations in the reference tables, of float and of double. */
#ifndef HD_OP_OP_REFERENCE_H
#define HD_OP_OP_REFERENCE_H

#include "kernel/kernel.h"

void hd__op_fill_reference(hd_kernels *table);
void hd__op_fill_reference_f64(hd_kernels *table); /* run[] alone; no custom operations, no updates */

#endif
