/* A stub of cuBLAS and cuDNN beside that of the driver: products and convolutions by plain loops, queued on the stream
 * like all work. Descriptors are counted: one that is left when its handle is destroyed aborts the program.
 *
 *   STUB_CUDNN_REFUSES=1   convolutions are refused when their workspace is requested; 2: only when they are to be
 *                          computed
 *   STUB_CUBLAS_FAILS=N    the N-th product fails, from 1
 *   STUB_CUDA_SAY=FILE     at the end, the number of calls for products and convolutions */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/gpu/device/cuda_libraries.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the libraries' own headers are not needed to build heddle */
#define STUB __attribute__((visibility("default"))) int

enum { NOT_SUPPORTED = 9, NOT_SUPPORTED_LAYOUT = 3004, FAILED = 13 };

typedef int queue_fn(cu_stream stream, void (*call)(const void *), const void *arguments, size_t bytes);

struct cu_blas {
  cu_stream stream;
};

struct cu_dnn {
  cu_stream stream;
};

struct cu_tensor {
  int type, n, c, h, w, n_stride, c_stride, h_stride, w_stride;
};

struct cu_filter {
  int type, k, c, h, w;
};

struct cu_conv {
  int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, groups, math;
};

static long products, convolutions, descriptors, products_bf16, products_tf32;

static void *of_driver(const char *name) {
  void *driver = dlopen(getenv("HEDDLE_CUDA_DRIVER"), RTLD_NOW | RTLD_LOCAL);
  void *symbol = driver ? dlsym(driver, name) : NULL;
  if (symbol)
    return symbol;
  fprintf(stderr, "stub library: the driver has no %s\n", name);
  abort();
}

static int queue(cu_stream stream, void (*call)(const void *), const void *arguments, size_t bytes) {
  queue_fn *to;
  void *symbol = of_driver("stub_cuda_call");
  memcpy(&to, &symbol, sizeof to);
  return to(stream, call, arguments, bytes) == CU_DONE ? 0 : FAILED;
}

/* Code for a shape is loaded when it is first computed, which a stream that records does not allow. */
static int is_loaded(cu_stream stream, long a, long b, long c, long d) {
  static struct { long key[4]; } seen[1024];
  static int count;
  int (*is_recording)(cu_stream);
  void *symbol = of_driver("stub_cuda_is_recording");
  memcpy(&is_recording, &symbol, sizeof is_recording);
  const long key[4] = {a, b, c, d};
  for (int i = 0; i < count; i++)
    if (!memcmp(seen[i].key, key, sizeof key))
      return 1;
  if (is_recording(stream) || count == 1024)
    return 0;
  memcpy(seen[count++].key, key, sizeof key);
  return 1;
}

static long number(const char *variable) {
  const char *text = getenv(variable);
  return text && *text ? atol(text) : 0;
}

/* ---- Elements ---- */

static float load(const void *at, int half, long i) {
  union {
    unsigned bits;
    float value;
  } u;
  if (!half)
    return ((const float *)at)[i];
  u.bits = (unsigned)((const unsigned short *)at)[i] << 16;
  return u.value;
}

static void store(void *at, int half, long i, float x) {
  union {
    float value;
    unsigned bits;
  } u;
  if (!half) {
    ((float *)at)[i] = x;
    return;
  }
  u.value = x;
  ((unsigned short *)at)[i] = (unsigned short)((u.bits + 0x7fff + (u.bits >> 16 & 1)) >> 16);
}

/* ---- cuBLAS ---- */

STUB cublasCreate_v2(cu_blas *handle) {
  *handle = calloc(1, sizeof **handle);
  return 0;
}

STUB cublasDestroy_v2(cu_blas handle) {
  free(handle);
  return 0;
}

STUB cublasGetVersion_v2(cu_blas handle, int *version) {
  *version = 130002;
  return 0;
}

STUB cublasSetStream_v2(cu_blas handle, cu_stream stream) {
  handle->stream = stream;
  return 0;
}

STUB cublasSetWorkspace_v2(cu_blas handle, void *workspace, size_t bytes) {
  memset(workspace, 0x7f, bytes < 4096 ? bytes : 4096);
  return 0;
}

typedef struct product {
  int ta, tb, m, n, k, half, lda, ldb, ldc;
  const void *a, *b;
  float *c;
} product;

/* Column-major, as the real one. */
static void multiply(const void *arguments) {
  const product *p = arguments;
  for (long j = 0; j < p->n; j++)
    for (long i = 0; i < p->m; i++) {
      double sum = 0;
      for (long l = 0; l < p->k; l++)
        sum += (double)load(p->a, p->half, p->ta ? l + i * p->lda : i + l * p->lda) *
               load(p->b, p->half, p->tb ? j + l * p->ldb : l + j * p->ldb);
      p->c[i + j * p->ldc] = (float)sum;
    }
}

STUB cublasGemmEx(cu_blas handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int a_type,
                  int a_lead, const void *b, int b_type, int b_lead, const void *beta, void *c, int c_type, int c_lead,
                  int compute, int algorithm) {
  const product p = {.ta = op_a == CU_OP_T,
                     .tb = op_b == CU_OP_T,
                     .m = m,
                     .n = n,
                     .k = k,
                     .half = a_type == CU_R_16BF,
                     .lda = a_lead,
                     .ldb = b_lead,
                     .ldc = c_lead,
                     .a = a,
                     .b = b,
                     .c = c};
  if (++products == number("STUB_CUBLAS_FAILS"))
    return FAILED;
  if (m <= 0 || n <= 0 || k <= 0 || a_type != b_type || c_type != CU_R_32F || *(const float *)alpha != 1 ||
      *(const float *)beta != 0 || a_lead < (p.ta ? k : m) || b_lead < (p.tb ? n : k) || c_lead < m ||
      algorithm != CU_GEMM_DEFAULT)
    return 7;
  if (!is_loaded(handle->stream, m, n, k, 2 * a_type + compute))
    return FAILED;
  products_bf16 += p.half;
  products_tf32 += compute == CU_COMPUTE_32F_TF32;
  return queue(handle->stream, multiply, &p, sizeof p);
}

__attribute__((visibility("default"))) const char *cublasGetStatusString(int error) {
  return error == FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED" : "CUBLAS_STATUS_INVALID_VALUE";
}

/* ---- cuDNN ---- */

STUB cudnnCreate(cu_dnn *handle) {
  *handle = calloc(1, sizeof **handle);
  return 0;
}

STUB cudnnDestroy(cu_dnn handle) {
  const char *file = getenv("STUB_CUDA_SAY");
  FILE *to = file ? fopen(file, "a") : NULL;
  if (to) {
    fprintf(to, "products %ld bf16 %ld tf32 %ld convolutions %ld\n", products, products_bf16, products_tf32,
            convolutions);
    fclose(to);
  }
  free(handle);
  if (descriptors == 0)
    return 0;
  fprintf(stderr, "stub library: %ld descriptors were not destroyed\n", descriptors);
  abort();
}

STUB cudnnSetStream(cu_dnn handle, cu_stream stream) {
  handle->stream = stream;
  return 0;
}

__attribute__((visibility("default"))) size_t cudnnGetVersion(void) { return 91300; }

__attribute__((visibility("default"))) const char *cudnnGetErrorString(int error) {
  return error == NOT_SUPPORTED          ? "CUDNN_STATUS_NOT_SUPPORTED"
         : error == NOT_SUPPORTED_LAYOUT ? "CUDNN_STATUS_NOT_SUPPORTED_LAYOUT"
                                         : "CUDNN_STATUS_EXECUTION_FAILED";
}

#define LIFE(kind, create, destroy)                                                                                    \
  STUB create(struct kind **out) {                                                                                     \
    *out = calloc(1, sizeof **out);                                                                                    \
    descriptors++;                                                                                                     \
    return 0;                                                                                                          \
  }                                                                                                                    \
  STUB destroy(struct kind *old) {                                                                                     \
    free(old);                                                                                                         \
    descriptors--;                                                                                                     \
    return 0;                                                                                                          \
  }
LIFE(cu_tensor, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor)
LIFE(cu_filter, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor)
LIFE(cu_conv, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor)

STUB cudnnSetTensor4dDescriptorEx(cu_tensor t, int type, int n, int c, int h, int w, int n_stride, int c_stride,
                                  int h_stride, int w_stride) {
  *t = (struct cu_tensor){type, n, c, h, w, n_stride, c_stride, h_stride, w_stride};
  return 0;
}

STUB cudnnSetFilter4dDescriptor(cu_filter f, int type, int format, int k, int c, int h, int w) {
  *f = (struct cu_filter){type, k, c, h, w};
  return format == CU_DNN_NHWC ? 0 : NOT_SUPPORTED;
}

STUB cudnnSetConvolution2dDescriptor(cu_conv conv, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
                                     int dilation_w, int mode, int type) {
  *conv = (struct cu_conv){pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, 1, 0};
  return dilation_h >= 1 && dilation_w >= 1 && mode == CU_DNN_CROSS_CORRELATION && type == CU_DNN_FLOAT ? 0 : 3;
}

STUB cudnnSetConvolutionGroupCount(cu_conv conv, int groups) {
  conv->groups = groups;
  return 0;
}

STUB cudnnSetConvolutionMathType(cu_conv conv, int math) {
  conv->math = math;
  return 0;
}

typedef struct convolution {
  struct cu_tensor x, y;
  struct cu_filter w;
  struct cu_conv conv;
  char *x_at, *w_at, *y_at;
  int way; /* 0 forward, 1 data, 2 filter */
} convolution;

static long place(const struct cu_tensor *t, int n, int c, int h, int w) {
  return (long)n * t->n_stride + (long)c * t->c_stride + (long)h * t->h_stride + (long)w * t->w_stride;
}

/* The sum of an element of the result, in doubles: over all pairs of elements of the two others that contribute. */
static void convolve(const void *arguments) {
  const convolution *c = arguments;
  const struct cu_tensor *x = &c->x, *y = &c->y;
  const int half = x->type == CU_DNN_BFLOAT16, outputs = c->w.k / c->conv.groups;
  const long weights = (long)c->w.k * c->w.h * c->w.w * c->w.c, images = (long)x->n * x->c * x->h * x->w;
  const long results = c->way == 1 ? images : c->way == 2 ? weights : 0;
  double *sum = calloc((size_t)results + 1, sizeof *sum);
  for (int n = 0; n < y->n; n++)
    for (int oy = 0; oy < y->h; oy++)
      for (int ox = 0; ox < y->w; ox++)
        for (int k = 0; k < y->c; k++) {
          double out = 0;
          const long at_y = place(y, n, k, oy, ox);
          const double of_y = c->way == 0 ? 0 : (double)load(c->y_at, half, at_y);
          for (int ky = 0; ky < c->w.h; ky++)
            for (int kx = 0; kx < c->w.w; kx++) {
              const int iy = oy * c->conv.stride_h + ky * c->conv.dilation_h - c->conv.pad_h;
              const int ix = ox * c->conv.stride_w + kx * c->conv.dilation_w - c->conv.pad_w;
              const int channel = k / outputs * c->w.c;
              if (iy < 0 || ix < 0 || iy >= x->h || ix >= x->w)
                continue;
              const long at_x = place(x, n, channel, iy, ix), at_w = (((long)k * c->w.h + ky) * c->w.w + kx) * c->w.c;
              double *to = c->way == 0
                               ? NULL
                               : sum + (c->way == 2 ? at_w : (((long)n * x->h + iy) * x->w + ix) * x->c + channel);
              for (int ci = 0; ci < c->w.c; ci++)
                if (c->way == 0)
                  out += (double)load(c->x_at, half, at_x + ci * x->c_stride) * load(c->w_at, half, at_w + ci);
                else if (c->way == 1)
                  to[ci] += of_y * load(c->w_at, half, at_w + ci);
                else
                  to[ci] += of_y * load(c->x_at, half, at_x + ci * x->c_stride);
            }
          if (c->way == 0)
            store(c->y_at, half, at_y, (float)out);
        }
  for (long i = 0; i < results; i++)
    if (c->way == 2)
      store(c->w_at, half, i, (float)sum[i]);
    else
      store(c->x_at, half,
            place(x, (int)(i / ((long)x->c * x->h * x->w)), (int)(i % x->c), (int)(i / x->c / x->w % x->h),
                  (int)(i / x->c % x->w)),
            (float)sum[i]);
  free(sum);
}

static int bytes_of(size_t *bytes) {
  *bytes = 1000;
  return number("STUB_CUDNN_REFUSES") == 1 ? NOT_SUPPORTED : 0;
}

STUB cudnnGetConvolutionForwardWorkspaceSize(cu_dnn handle, cu_tensor x, cu_filter w, cu_conv conv, cu_tensor y,
                                             int algorithm, size_t *bytes) {
  return bytes_of(bytes);
}

STUB cudnnGetConvolutionBackwardDataWorkspaceSize(cu_dnn handle, cu_filter w, cu_tensor dy, cu_conv conv, cu_tensor dx,
                                                  int algorithm, size_t *bytes) {
  return bytes_of(bytes);
}

STUB cudnnGetConvolutionBackwardFilterWorkspaceSize(cu_dnn handle, cu_tensor x, cu_tensor dy, cu_conv conv,
                                                    cu_filter dw, int algorithm, size_t *bytes) {
  return bytes_of(bytes);
}

static int start(cu_dnn handle, const convolution *c, int algorithm, void *workspace, size_t bytes) {
  const int tall = (c->x.h + 2 * c->conv.pad_h - c->conv.dilation_h * (c->w.h - 1) - 1) / c->conv.stride_h + 1;
  if (number("STUB_CUDNN_REFUSES") == 2)
    return NOT_SUPPORTED_LAYOUT;
  convolutions++;
  if (!workspace || bytes < 1000 || algorithm != 1 || tall != c->y.h || c->y.c != c->w.k ||
      c->w.c * c->conv.groups != c->x.c)
    return 3;
  if (!is_loaded(handle->stream, -1 - c->way, (long)c->x.c * c->x.h * c->x.w, (long)c->y.c * c->y.h * c->y.w,
                 c->x.type))
    return FAILED;
  return queue(handle->stream, convolve, c, sizeof *c);
}

STUB cudnnConvolutionForward(cu_dnn handle, const void *alpha, cu_tensor x, const void *x_at, cu_filter w,
                             const void *w_at, cu_conv conv, int algorithm, void *workspace, size_t bytes,
                             const void *beta, cu_tensor y, void *y_at) {
  const convolution c = {*x, *y, *w, *conv, (char *)(uintptr_t)x_at, (char *)(uintptr_t)w_at, y_at, 0};
  return start(handle, &c, algorithm, workspace, bytes);
}

STUB cudnnConvolutionBackwardData(cu_dnn handle, const void *alpha, cu_filter w, const void *w_at, cu_tensor dy,
                                  const void *dy_at, cu_conv conv, int algorithm, void *workspace, size_t bytes,
                                  const void *beta, cu_tensor dx, void *dx_at) {
  const convolution c = {*dx, *dy, *w, *conv, dx_at, (char *)(uintptr_t)w_at, (char *)(uintptr_t)dy_at, 1};
  return start(handle, &c, algorithm, workspace, bytes);
}

STUB cudnnConvolutionBackwardFilter(cu_dnn handle, const void *alpha, cu_tensor x, const void *x_at, cu_tensor dy,
                                    const void *dy_at, cu_conv conv, int algorithm, void *workspace, size_t bytes,
                                    const void *beta, cu_filter dw, void *dw_at) {
  const convolution c = {*x, *dy, *dw, *conv, (char *)(uintptr_t)x_at, dw_at, (char *)(uintptr_t)dy_at, 2};
  return start(handle, &c, algorithm, workspace, bytes);
}
