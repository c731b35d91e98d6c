/* The module heddle-cuda.so: the fat binary that nvcc made, between two labels. The build defines HD_CUDA_IMAGE (its
 * file), HD_CUDA_ARCHS and HD_CUDA_TOOLKIT. */
#include "kernel/cuda/cuda_module.h"

#include "kernel/cuda/cuda_call.h"

__asm__(".section .rodata\n"
        ".balign 64\n"
        "hd_cuda_image:\n"
        ".incbin \"" HD_CUDA_IMAGE "\"\n"
        ".balign 64\n"
        ".previous\n");
extern const unsigned char hd_cuda_image[] __attribute__((visibility("hidden")));

extern const hd_cuda_module hd_cuda_module_1;
__attribute__((visibility("default"))) const hd_cuda_module hd_cuda_module_1 = {.version = PACKAGE_VERSION,
                                                                                .args_bytes = HD_CUDA_ARGS_BYTES,
                                                                                .toolkit = HD_CUDA_TOOLKIT,
                                                                                .archs = HD_CUDA_ARCHS,
                                                                                .image = hd_cuda_image};
