/* Marks functions shared by GPU kernels and host code: nvcc compiles them for both. They use the common subset of C and
 * CUDA C++. */
#pragma once

#ifdef __CUDACC__
#define HD_BOTH static __host__ __device__ inline
#else
#define HD_BOTH static inline
#endif
