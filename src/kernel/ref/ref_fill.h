/* Fills the slots of the reference table that belong to no operation, one function for each file. */
#pragma once

#include "kernel/kernel.h"

void hd__ref_array_fill(hd_kernels *table);
void hd__ref_image_fill(hd_kernels *table);
void hd__ref_limits_fill(hd_kernels *table);
void hd__ref_gemm_fill(hd_kernels *table);
void hd__ref_reduce_fill(hd_kernels *table);
