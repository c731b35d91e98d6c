/* The GPU's kernels, compiled by nvcc: see op/kernels_gpu.h. */
#include "op/kernels_gpu.h"
