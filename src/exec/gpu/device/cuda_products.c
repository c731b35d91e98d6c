/* Calls cuBLAS and cuDNN; see cuda_products.h. To the libraries, which are column-major, a row-major matrix is its
 * transpose, so the factors are swapped. */
#include "exec/gpu/device/cuda_products.h"

#include <stdio.h>

#include "base/alloc.h"
#include "exec/gpu/device/cuda_libraries.h"

enum { NAME_BYTES = 64 };

struct hd_cuda_native {
  hd_cuda *cuda;
  hd_cuda_libraries lib;
  cu_blas blas;
  cu_dnn dnn;
  void *workspace;
  int64_t workspace_bytes;
  char name[NAME_BYTES];
};

static const float one = 1, zero = 0;

static hd_status failed(const hd_cuda_native *n, hd_ctx *ctx, const char *library, const char *doing,
                        const char *words) {
  return hd__fail(ctx, HD_E_SYSTEM,
                  "GPU %d (%s): %s failed while %s (%s); see dmesg and nvidia-smi, or use --arithmetic portable",
                  n->cuda->index, n->cuda->name, library, doing, words ? words : "it has no words for it");
}

static hd_status check_blas(const hd_cuda_native *n, hd_ctx *ctx, int error, const char *doing) {
  return error == CU_BLAS_DONE ? HD_OK : failed(n, ctx, "cuBLAS", doing, n->lib.blas_words(error));
}

static hd_status check_dnn(const hd_cuda_native *n, hd_ctx *ctx, int error, const char *doing) {
  return error == CU_DNN_DONE ? HD_OK : failed(n, ctx, "cuDNN", doing, n->lib.dnn_words(error));
}

/* ---- Opening ---- */

static hd_status start(hd_cuda_native *n, hd_ctx *ctx) {
  int blas = 0;
  HD_TRY(hd__cuda_libraries_open(&n->lib, ctx));
  HD_TRY(check_blas(n, ctx, n->lib.blas_create(&n->blas), "starting"));
  HD_TRY(check_blas(n, ctx, n->lib.blas_stream(n->blas, n->cuda->compute), "starting"));
  HD_TRY(check_blas(n, ctx, n->lib.blas_version(n->blas, &blas), "starting"));
  HD_TRY(check_dnn(n, ctx, n->lib.dnn_create(&n->dnn), "starting"));
  HD_TRY(check_dnn(n, ctx, n->lib.dnn_stream(n->dnn, n->cuda->compute), "starting"));
  /* 13.0.2 is 130002, cuDNN's 9.13.0 is 91300, its 8.9.7 was 8907 */
  const size_t dnn = n->lib.dnn_version(), major = dnn >= 90000 ? 10000 : 1000;
  snprintf(n->name, sizeof n->name, "cuBLAS %d.%d.%d, cuDNN %zu.%zu.%zu", blas / 10000, blas / 100 % 100, blas % 100,
           dnn / major, dnn % major / 100, dnn % 100);
  return HD_OK;
}

hd_status hd__cuda_native_create(hd_cuda_native **out, hd_ctx *ctx, hd_cuda *cuda) {
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for the GPU's libraries"));
  hd_cuda_native *n = *out;
  n->cuda = cuda;
  const hd_status status = start(n, ctx);
  return HD_CREATED(status, out, hd__cuda_native_destroy);
}

void hd__cuda_native_destroy(hd_cuda_native *n) {
  if (!n)
    return;
  if (n->dnn)
    n->lib.dnn_destroy(n->dnn);
  if (n->blas)
    n->lib.blas_destroy(n->blas);
  hd__free(n);
}

const char *hd__cuda_native_name(const hd_cuda_native *n) { return n->name; }

hd_status hd__cuda_native_workspace(hd_cuda_native *n, hd_ctx *ctx, void *memory, int64_t bytes) {
  n->workspace = memory;
  n->workspace_bytes = bytes;
  return check_blas(n, ctx, n->lib.blas_workspace(n->blas, memory, (size_t)bytes), "taking its workspace");
}

/* ---- Products ---- */

hd_status hd__cuda_product(hd_cuda_native *n, hd_ctx *ctx, hd_cuda_precision precision, const hd_cuda_product *p) {
  const int type = precision == HD_CUDA_BF16 ? CU_R_16BF : CU_R_32F;
  const int compute = precision == HD_CUDA_TF32 ? CU_COMPUTE_32F_TF32 : CU_COMPUTE_32F;
  return check_blas(n, ctx,
                    n->lib.gemm(n->blas, p->b.transposed ? CU_OP_T : CU_OP_N, p->a.transposed ? CU_OP_T : CU_OP_N,
                                (int)p->n, (int)p->m, (int)p->k, &one, p->b.at, type, (int)p->b.stride, p->a.at, type,
                                (int)p->a.stride, &zero, p->c, CU_R_32F, (int)p->stride, compute, CU_GEMM_DEFAULT),
                    "multiplying");
}

/* ---- Convolutions ---- */

typedef struct descriptors {
  cu_tensor x, y;
  cu_filter w;
  cu_conv conv;
} descriptors;

static void forget(const hd_cuda_native *n, descriptors *d) {
  if (d->x)
    n->lib.tensor_destroy(d->x);
  if (d->y)
    n->lib.tensor_destroy(d->y);
  if (d->w)
    n->lib.filter_destroy(d->w);
  if (d->conv)
    n->lib.conv_destroy(d->conv);
}

static int make(descriptors *d, const hd_cuda_native *n) {
  int error = n->lib.tensor_create(&d->x);
  error = error ? error : n->lib.tensor_create(&d->y);
  error = error ? error : n->lib.filter_create(&d->w);
  return error ? error : n->lib.conv_create(&d->conv);
}

static int fill(const descriptors *d, const hd_cuda_native *n, const hd_cuda_conv *c) {
  const hd_geom *g = c->g;
  const int type = c->precision == HD_CUDA_BF16 ? CU_DNN_BFLOAT16 : CU_DNN_FLOAT;
  int error =
      n->lib.tensor_set(d->x, type, (int)c->rows, g->ci, g->hi, g->wi, (int)c->x_stride, 1, g->wi * g->ci, g->ci);
  error = error ? error
                : n->lib.tensor_set(d->y, type, (int)c->rows, g->co, g->ho, g->wo, (int)c->y_stride, 1, g->wo * g->co,
                                    g->co);
  error = error ? error
                : n->lib.filter_set(d->w, type, CU_DNN_NHWC, g->co, g->ci / g->conv.groups, g->window.kh, g->window.kw);
  error = error ? error
                : n->lib.conv_set(d->conv, g->window.ph, g->window.pw, g->window.sh, g->window.sw,
                                  g->window.dilation[0], g->window.dilation[1], CU_DNN_CROSS_CORRELATION, CU_DNN_FLOAT);
  error = error ? error : n->lib.conv_groups(d->conv, g->conv.groups);
  return error ? error : n->lib.conv_math(d->conv, c->precision == HD_CUDA_F32 ? CU_DNN_FMA : CU_DNN_TENSOR_OPS);
}

static hd_status describe(descriptors *d, const hd_cuda_native *n, hd_ctx *ctx, const hd_cuda_conv *c) {
  *d = (descriptors){0};
  int error = make(d, n);
  error = error ? error : fill(d, n, c);
  if (error)
    forget(n, d);
  return check_dnn(n, ctx, error, "describing a convolution");
}

/* cuDNN has several such numbers since 9, one before. */
static bool is_refusal(int error) { return error == CU_DNN_OLD_REFUSAL || error / 1000 == CU_DNN_REFUSALS / 1000; }

static hd_status refused(const hd_cuda_native *n, hd_ctx *ctx, int error) {
  return hd__fail(ctx, HD_E_UNSUPPORTED, "cuDNN does not compute this convolution (%s)", n->lib.dnn_words(error));
}

hd_status hd__cuda_conv_bytes(int64_t *out, hd_cuda_native *n, hd_ctx *ctx, const hd_cuda_conv *c,
                              hd_cuda_conv_way way) {
  descriptors d;
  size_t bytes = 0;
  int error = 0;
  HD_TRY(describe(&d, n, ctx, c));
  switch (way) {
  case HD_CUDA_CONV_FORWARD:
    error = n->lib.forward_bytes(n->dnn, d.x, d.w, d.conv, d.y, CU_DNN_FORWARD_PRECOMPUTED, &bytes);
    break;
  case HD_CUDA_CONV_DATA:
    error = n->lib.data_bytes(n->dnn, d.w, d.y, d.conv, d.x, CU_DNN_BACKWARD_DATA_1, &bytes);
    break;
  case HD_CUDA_CONV_FILTER:
    error = n->lib.filter_bytes(n->dnn, d.x, d.y, d.conv, d.w, CU_DNN_BACKWARD_FILTER_1, &bytes);
    break;
  }
  forget(n, &d);
  *out = (int64_t)bytes;
  return error ? refused(n, ctx, error) : HD_OK;
}

hd_status hd__cuda_conv_run(hd_cuda_native *n, hd_ctx *ctx, const hd_cuda_conv *c, hd_cuda_conv_way way,
                            hd_cuda_conv_arrays at) {
  descriptors d;
  const size_t bytes = (size_t)n->workspace_bytes;
  int error = 0;
  HD_TRY(describe(&d, n, ctx, c));
  switch (way) {
  case HD_CUDA_CONV_FORWARD:
    error = n->lib.forward(n->dnn, &one, d.x, at.x, d.w, at.w, d.conv, CU_DNN_FORWARD_PRECOMPUTED, n->workspace, bytes,
                           &zero, d.y, at.y);
    break;
  case HD_CUDA_CONV_DATA:
    error = n->lib.data(n->dnn, &one, d.w, at.w, d.y, at.y, d.conv, CU_DNN_BACKWARD_DATA_1, n->workspace, bytes, &zero,
                        d.x, at.x);
    break;
  case HD_CUDA_CONV_FILTER:
    error = n->lib.filter(n->dnn, &one, d.x, at.x, d.y, at.y, d.conv, CU_DNN_BACKWARD_FILTER_1, n->workspace, bytes,
                          &zero, d.w, at.w);
    break;
  }
  forget(n, &d);
  return is_refusal(error) ? refused(n, ctx, error) : check_dnn(n, ctx, error, "computing a convolution");
}
