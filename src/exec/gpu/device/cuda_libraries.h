/* The functions of cuBLAS and cuDNN that heddle calls, loaded at run time, for --arithmetic native on a GPU.
 * HEDDLE_CUDA_LIBRARIES names one file with all of them, such as a test double. As in cuda_driver.h, the functions
 * in use are declared here as NVIDIA documents them, so that heddle is built without the toolkit. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "exec/gpu/device/cuda_driver.h"

typedef struct cu_blas *cu_blas;
typedef struct cu_dnn *cu_dnn;
typedef struct cu_tensor *cu_tensor;
typedef struct cu_filter *cu_filter;
typedef struct cu_conv *cu_conv;

/* cuBLAS: element types, the ways to multiply, transposition. */
enum {
  CU_BLAS_DONE = 0,
  CU_R_32F = 0,
  CU_R_16BF = 14,
  CU_COMPUTE_32F = 68,
  CU_COMPUTE_32F_TF32 = 77,
  CU_GEMM_DEFAULT = -1,
  CU_OP_N = 0,
  CU_OP_T = 1
};

/* cuDNN. Of the algorithms for gradients number 1 is bit-for-bit reproducible. */
enum {
  CU_DNN_DONE = 0,
  CU_DNN_OLD_REFUSAL = 9,
  CU_DNN_REFUSALS = 3000,
  CU_DNN_FLOAT = 0,
  CU_DNN_BFLOAT16 = 9,
  CU_DNN_NHWC = 1,
  CU_DNN_CROSS_CORRELATION = 1,
  CU_DNN_TENSOR_OPS = 1, /* floats rounded to TF32 */
  CU_DNN_FMA = 3,
  CU_DNN_FORWARD_PRECOMPUTED = 1,
  CU_DNN_BACKWARD_DATA_1 = 1,
  CU_DNN_BACKWARD_FILTER_1 = 1
};

/* CALL(field, name in the library, parameters); those of cuBLAS and those of cuDNN. Matrices are column-major. */
#define HD_CUDA_BLAS_CALLS(CALL)                                                                                       \
  CALL(blas_create, "cublasCreate_v2", (cu_blas * handle))                                                             \
  CALL(blas_destroy, "cublasDestroy_v2", (cu_blas handle))                                                             \
  CALL(blas_version, "cublasGetVersion_v2", (cu_blas handle, int *version))                                            \
  CALL(blas_stream, "cublasSetStream_v2", (cu_blas handle, cu_stream stream))                                          \
  CALL(blas_workspace, "cublasSetWorkspace_v2", (cu_blas handle, void *workspace, size_t bytes))                       \
  CALL(gemm, "cublasGemmEx",                                                                                           \
       (cu_blas handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int a_type,         \
        int a_lead, const void *b, int b_type, int b_lead, const void *beta, void *c, int c_type, int c_lead,          \
        int compute, int algorithm))

#define HD_CUDA_DNN_CALLS(CALL)                                                                                        \
  CALL(dnn_create, "cudnnCreate", (cu_dnn * handle))                                                                   \
  CALL(dnn_destroy, "cudnnDestroy", (cu_dnn handle))                                                                   \
  CALL(dnn_stream, "cudnnSetStream", (cu_dnn handle, cu_stream stream))                                                \
  CALL(tensor_create, "cudnnCreateTensorDescriptor", (cu_tensor * tensor))                                             \
  CALL(tensor_destroy, "cudnnDestroyTensorDescriptor", (cu_tensor tensor))                                             \
  CALL(tensor_set, "cudnnSetTensor4dDescriptorEx",                                                                     \
       (cu_tensor tensor, int type, int n, int c, int h, int w, int n_stride, int c_stride, int h_stride,              \
        int w_stride))                                                                                                 \
  CALL(filter_create, "cudnnCreateFilterDescriptor", (cu_filter * filter))                                             \
  CALL(filter_destroy, "cudnnDestroyFilterDescriptor", (cu_filter filter))                                             \
  CALL(filter_set, "cudnnSetFilter4dDescriptor", (cu_filter filter, int type, int format, int k, int c, int h, int w)) \
  CALL(conv_create, "cudnnCreateConvolutionDescriptor", (cu_conv * conv))                                              \
  CALL(conv_destroy, "cudnnDestroyConvolutionDescriptor", (cu_conv conv))                                              \
  CALL(conv_set, "cudnnSetConvolution2dDescriptor",                                                                    \
       (cu_conv conv, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w, int mode,      \
        int type))                                                                                                     \
  CALL(conv_groups, "cudnnSetConvolutionGroupCount", (cu_conv conv, int groups))                                       \
  CALL(conv_math, "cudnnSetConvolutionMathType", (cu_conv conv, int math))                                             \
  CALL(forward_bytes, "cudnnGetConvolutionForwardWorkspaceSize",                                                       \
       (cu_dnn handle, cu_tensor x, cu_filter w, cu_conv conv, cu_tensor y, int algorithm, size_t *bytes))             \
  CALL(forward, "cudnnConvolutionForward",                                                                             \
       (cu_dnn handle, const void *alpha, cu_tensor x, const void *x_at, cu_filter w, const void *w_at, cu_conv conv,  \
        int algorithm, void *workspace, size_t bytes, const void *beta, cu_tensor y, void *y_at))                      \
  CALL(data_bytes, "cudnnGetConvolutionBackwardDataWorkspaceSize",                                                     \
       (cu_dnn handle, cu_filter w, cu_tensor dy, cu_conv conv, cu_tensor dx, int algorithm, size_t *bytes))           \
  CALL(data, "cudnnConvolutionBackwardData",                                                                           \
       (cu_dnn handle, const void *alpha, cu_filter w, const void *w_at, cu_tensor dy, const void *dy_at,              \
        cu_conv conv, int algorithm, void *workspace, size_t bytes, const void *beta, cu_tensor dx, void *dx_at))      \
  CALL(filter_bytes, "cudnnGetConvolutionBackwardFilterWorkspaceSize",                                                 \
       (cu_dnn handle, cu_tensor x, cu_tensor dy, cu_conv conv, cu_filter dw, int algorithm, size_t *bytes))           \
  CALL(filter, "cudnnConvolutionBackwardFilter",                                                                       \
       (cu_dnn handle, const void *alpha, cu_tensor x, const void *x_at, cu_tensor dy, const void *dy_at,              \
        cu_conv conv, int algorithm, void *workspace, size_t bytes, const void *beta, cu_filter dw, void *dw_at))

typedef struct hd_cuda_libraries {
#define CALL(field, name, parameters) int(*field) parameters;
  HD_CUDA_BLAS_CALLS(CALL)
  HD_CUDA_DNN_CALLS(CALL)
#undef CALL
  size_t (*dnn_version)(void);
  const char *(*blas_words)(int error);
  const char *(*dnn_words)(int error);
} hd_cuda_libraries;

/* Loads both. HD_E_UNSUPPORTED names what is missing, and a remedy. They stay loaded. */
hd_status hd__cuda_libraries_open(hd_cuda_libraries *libraries, hd_ctx *ctx);
