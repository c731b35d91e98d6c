/* Functions that a GPU's kernels share with everybody else: compiled by nvcc they exist on both sides. They use the
 * common subset of C and CUDA C++. */
#ifndef HD_BASE_BOTH_H
#define HD_BASE_BOTH_H

#ifdef __CUDACC__
#define HD_BOTH static __host__ __device__ inline
#else
#define HD_BOTH static inline
#endif

#endif
