/* The units of operations for the GPU: a thread computes one, in the plain kernels (cuda_kernels.h). The fast block
 * kernels take the chains from here too. */
#pragma once

#define HD_OP_CUDA
#include "kernel/cuda/cuda_call.h"

typedef hd_cuda_call op_call;
typedef hd_cuda_chunks op_update;

#include "op/op_headers.h"
