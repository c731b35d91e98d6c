/* Marks functions shared by GPU kernels and host code: nvcc compiles them for both. They use the common subset of C and
 * CUDA C++. */
#ifndef HD_BASE_HOST_DEVICE_H
#define HD_BASE_HOST_DEVICE_H

#ifdef __CUDACC__
#define HD_BOTH static __host__ __device__ inline
#else
#define HD_BOTH static inline
#endif

#endif
