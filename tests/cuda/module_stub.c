/* A stub of heddle-cuda.so for builds without nvcc: no machine code, which the stub of the driver does not need. */
#include "kernel/cuda/cuda_call.h"
#include "kernel/cuda/cuda_module.h"

extern const hd_cuda_module hd_cuda_module_1;
__attribute__((visibility("default"))) const hd_cuda_module hd_cuda_module_1 = {
    .version = PACKAGE_VERSION, .args_bytes = HD_CUDA_ARGS_BYTES, .toolkit = 13000, .archs = "80 90", .image = "none"};
