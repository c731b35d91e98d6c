/* Products and convolutions by NVIDIA's libraries, in heddle's terms, on a GPU's compute stream; for --arithmetic
 * native.
 *
 * Matrices are row-major, images and windows as in kernel.h (NHWC, weights by output channel). The algorithms are
 * bit-for-bit reproducible on one model of GPU with one version of the libraries. All work is queued and can be
 * recorded. Not thread-safe, as hd_cuda. */
#pragma once

#include "exec/gpu/device/cuda_device.h"
#include "kernel/kernel.h"

/* The precision of factors; sums are in float. Bfloat16 factors are stored as such. */
typedef enum hd_cuda_precision { HD_CUDA_F32, HD_CUDA_TF32, HD_CUDA_BF16 } hd_cuda_precision;

typedef struct hd_cuda_native hd_cuda_native;

/* The GPU must outlive it. HD_E_UNSUPPORTED names what is missing. */
hd_status hd__cuda_native_create(hd_cuda_native **out, hd_ctx *ctx, hd_cuda *cuda);
void hd__cuda_native_destroy(hd_cuda_native *native); /* NULL is allowed */

/* "cuBLAS 13.0.2, cuDNN 9.13.0" */
const char *hd__cuda_native_name(const hd_cuda_native *native);

/* GPU memory for the libraries' internal use, at least HD_CUDA_WORKSPACE_BYTES, for all later calls. */
enum { HD_CUDA_WORKSPACE_BYTES = 32 << 20 };
hd_status hd__cuda_native_workspace(hd_cuda_native *native, hd_ctx *ctx, void *memory, int64_t bytes);

/* A factor of a product: rows of `stride` elements; or its transpose. */
typedef struct hd_cuda_matrix {
  const void *at;
  int64_t stride;
  bool transposed;
} hd_cuda_matrix;

/* c = a b: m by n floats in rows of `stride`; after transposition the factors are m by k and k by n. */
typedef struct hd_cuda_product {
  int64_t m, n, k;
  hd_cuda_matrix a, b;
  float *c;
  int64_t stride;
} hd_cuda_product;

hd_status hd__cuda_product(hd_cuda_native *native, hd_ctx *ctx, hd_cuda_precision precision, const hd_cuda_product *p);

/* A convolution of `rows` images without the operations fused with it, between x, w and y or their gradients:
 * elements are floats, or bfloat16 if that is the precision, also of the result. Strides count elements, from image
 * to image. */
typedef struct hd_cuda_conv {
  const hd_geom *g;
  hd_cuda_precision precision;
  int64_t rows, x_stride, y_stride;
} hd_cuda_conv;

typedef enum hd_cuda_conv_way { HD_CUDA_CONV_FORWARD, HD_CUDA_CONV_DATA, HD_CUDA_CONV_FILTER } hd_cuda_conv_way;

/* Bytes of workspace that a convolution needs. HD_E_UNSUPPORTED: cuDNN does not support it. */
hd_status hd__cuda_conv_bytes(int64_t *out, hd_cuda_native *native, hd_ctx *ctx, const hd_cuda_conv *conv,
                              hd_cuda_conv_way way);

/* FORWARD: y from x and w; DATA: x (its gradient) from y and w; FILTER: w (its gradient) from x and y. */
typedef struct hd_cuda_conv_arrays {
  void *x, *w, *y;
} hd_cuda_conv_arrays;

/* HD_E_UNSUPPORTED: cuDNN does not support it after all, and nothing was done. */
hd_status hd__cuda_conv_run(hd_cuda_native *native, hd_ctx *ctx, const hd_cuda_conv *conv, hd_cuda_conv_way way,
                            hd_cuda_conv_arrays at);
