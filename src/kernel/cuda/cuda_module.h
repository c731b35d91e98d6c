/* The contents of the module heddle-cuda.so: the kernels as machine code, and the versions they were compiled for.
 * It holds no other code: heddle works without it, and all code around the kernels is tested in builds without it. */
#pragma once

#include <stdint.h>

typedef struct hd_cuda_module {
  const char *version; /* heddle's */
  uint32_t args_bytes; /* sum of the sizes of all argument types: kernels of another layout are refused */
  int32_t toolkit;     /* that compiled them, 13000 for CUDA 13.0 */
  const char *archs;   /* compute capabilities with machine code, "80 90"; the driver translates for others above 80 */
  const void *image;   /* a fat binary */
} hd_cuda_module;

#define HD_CUDA_MODULE_SYMBOL "hd_cuda_module_1"

#define HD_CUDA_ARGS_BYTES                                                                                             \
  ((uint32_t)(sizeof(hd_cuda_call) + sizeof(hd_cuda_chunks) + sizeof(hd_cuda_reduce) + sizeof(hd_cuda_running) +       \
              sizeof(hd_cuda_gather) + sizeof(hd_cuda_ranks) + sizeof(hd_cuda_convert) + sizeof(hd_cuda_step) +        \
              sizeof(hd_cuda_chunk) + sizeof(hd_cuda_use) + sizeof(hd_cuda_result)))
