/* The GPU's kernels, compiled by nvcc: see cuda_kernels.h. */
#include "kernel/cuda/cuda_kernels.h"
