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

/* Elements as doubles, `inner` of them beside each other: at[o * outer_stride + i * inner_stride]. */
static double *doubles(const void *at, int half, long outer, long inner, long outer_stride, long inner_stride) {
  double *out = malloc(sizeof *out * (size_t)(outer * inner + 1));
  for (long o = 0; o < outer; o++)
    for (long i = 0; i < inner; i++)
      out[o * inner + i] = (double)load(at, half, o * outer_stride + i * inner_stride);
  return out;
}

static void add_times(double *sum, const double *x, double factor, long count) {
  for (long i = 0; i < count; i++)
    sum[i] += x[i] * factor;
}

/* Column-major, as the real one. */
static void multiply(const void *arguments) {
  const product *p = arguments;
  double *a = doubles(p->a, p->half, p->k, p->m, p->ta ? 1 : p->lda, p->ta ? p->lda : 1);
  double *b = doubles(p->b, p->half, p->n, p->k, p->tb ? 1 : p->ldb, p->tb ? p->ldb : 1);
  double *sum = malloc(sizeof *sum * (size_t)p->m);
  for (long j = 0; j < p->n; j++) {
    memset(sum, 0, sizeof *sum * (size_t)p->m);
    for (long l = 0; l < p->k; l++)
      add_times(sum, a + l * p->m, b[j * p->k + l], p->m);
    for (long i = 0; i < p->m; i++)
      p->c[i + j * p->ldc] = (float)sum[i];
  }
  free(a);
  free(b);
  free(sum);
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

/* A tensor as doubles, channels beside each other. */
static double *pixels(const struct cu_tensor *t, const char *at, int half) {
  double *out = malloc(sizeof *out * ((size_t)t->n * (size_t)t->h * (size_t)t->w * (size_t)t->c + 1)), *next = out;
  for (int n = 0; n < t->n; n++)
    for (int h = 0; h < t->h; h++)
      for (int w = 0; w < t->w; w++)
        for (int c = 0; c < t->c; c++)
          *next++ = (double)load(at, half, place(t, n, c, h, w));
  return out;
}

static void store_pixels(const struct cu_tensor *t, char *at, int half, const double *from) {
  for (int n = 0; n < t->n; n++)
    for (int h = 0; h < t->h; h++)
      for (int w = 0; w < t->w; w++)
        for (int c = 0; c < t->c; c++)
          store(at, half, place(t, n, c, h, w), (float)*from++);
}

static double dot(const double *a, const double *b, int count) {
  double sum[4] = {0};
  int i = 0;
  for (; i + 4 <= count; i += 4)
    for (int j = 0; j < 4; j++)
      sum[j] += a[i + j] * b[i + j];
  for (; i < count; i++)
    sum[0] += a[i] * b[i];
  return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* What one tap of the filter gives to one pixel of y, of which it has `y` beside each other, or takes from it. */
static void tap(const convolution *c, double *x, double *w, double *y) {
  const int outputs = c->w.k / c->conv.groups, inputs = c->w.c;
  const long filter = (long)c->w.h * c->w.w * inputs;
  for (int k = 0; k < c->w.k; k++) {
    double *from = x + k / outputs * inputs, *by = w + k * filter;
    if (c->way == 0)
      y[k] += dot(from, by, inputs);
    else if (c->way == 1)
      add_times(from, by, y[k], inputs);
    else
      add_times(by, from, y[k], inputs);
  }
}

/* The sums of all elements of the result, in doubles: over all pairs of elements of the two others that contribute. */
static void convolve(const void *arguments) {
  const convolution *c = arguments;
  const struct cu_tensor *x = &c->x, *y = &c->y;
  const int half = x->type == CU_DNN_BFLOAT16;
  const size_t weights = (size_t)c->w.k * (size_t)(c->w.h * c->w.w * c->w.c);
  double *at[3] = {pixels(y, c->y_at, half), pixels(x, c->x_at, half), doubles(c->w_at, half, 1, (long)weights, 0, 1)};
  const size_t counts[3] = {(size_t)y->n * (size_t)(y->c * y->h * y->w), (size_t)x->n * (size_t)(x->c * x->h * x->w),
                            weights};
  memset(at[c->way], 0, sizeof **at * counts[c->way]);
  for (int n = 0; n < y->n; n++)
    for (int oy = 0; oy < y->h; oy++)
      for (int ox = 0; ox < y->w; ox++)
        for (int ky = 0; ky < c->w.h; ky++)
          for (int kx = 0; kx < c->w.w; kx++) {
            const int iy = oy * c->conv.stride_h + ky * c->conv.dilation_h - c->conv.pad_h;
            const int ix = ox * c->conv.stride_w + kx * c->conv.dilation_w - c->conv.pad_w;
            if (iy >= 0 && ix >= 0 && iy < x->h && ix < x->w)
              tap(c, at[1] + (((long)n * x->h + iy) * x->w + ix) * x->c, at[2] + ((long)ky * c->w.w + kx) * c->w.c,
                  at[0] + (((long)n * y->h + oy) * y->w + ox) * y->c);
          }
  if (c->way == 0)
    store_pixels(y, c->y_at, half, at[0]);
  else if (c->way == 1)
    store_pixels(x, c->x_at, half, at[1]);
  else
    for (size_t i = 0; i < weights; i++)
      store(c->w_at, half, (long)i, (float)at[2][i]);
  for (int i = 0; i < 3; i++)
    free(at[i]);
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
