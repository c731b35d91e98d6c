/* Fills the slots of operations in the reference tables, of float and of double. */
#pragma once

#include "kernel/kernel.h"

void hd__op_fill_reference(hd_kernels *table);
void hd__op_fill_reference_f64(hd_kernels *table); /* run[] alone; no custom operations, no updates */
