/* Finds cuBLAS and cuDNN; see cuda_libraries.h. */
#include "exec/gpu/device/cuda_libraries.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct call {
  size_t offset;
  const char *name;
} call;

static const call blas_calls[] = {
#define CALL(field, name, parameters) {offsetof(hd_cuda_libraries, field), name},
    HD_CUDA_BLAS_CALLS(CALL){offsetof(hd_cuda_libraries, blas_words), "cublasGetStatusString"}, {0, NULL}};

static const call dnn_calls[] = {HD_CUDA_DNN_CALLS(CALL){offsetof(hd_cuda_libraries, dnn_version), "cudnnGetVersion"},
                                 {offsetof(hd_cuda_libraries, dnn_words), "cudnnGetErrorString"},
#undef CALL
                                 {0, NULL}};

/* Newest first; the functions in use have the same signatures in all of them. */
static const char *const blas_names[] = {"libcublas.so.13", "libcublas.so.12", NULL};
static const char *const dnn_names[] = {"libcudnn.so.9", "libcudnn.so.8", NULL};

static hd_status find_calls(hd_cuda_libraries *to, hd_ctx *ctx, void *library, const char *name, const call *calls) {
  for (; calls->name; calls++) {
    void *function = dlsym(library, calls->name);
    if (!function)
      return hd__fail(ctx, HD_E_UNSUPPORTED,
                      "--arithmetic native on a GPU expects a newer version of %.96s, found one without %s; install "
                      "CUDA 12 or 13 and cuDNN 9, or use --arithmetic portable",
                      name, calls->name);
    memcpy((char *)to + calls->offset, &function, sizeof function);
  }
  return HD_OK;
}

static hd_status load(hd_cuda_libraries *to, hd_ctx *ctx, const char *const *names, const call *calls,
                      const char *what) {
  const char *wanted = secure_getenv("HEDDLE_CUDA_LIBRARIES");
  const char *const only[] = {wanted, NULL};
  for (const char *const *name = wanted && *wanted ? only : names; *name; name++) {
    void *library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    if (library)
      return find_calls(to, ctx, library, *name, calls);
  }
  return hd__fail(ctx, HD_E_UNSUPPORTED,
                  "--arithmetic native on a GPU expects %s, found none: %.96s cannot be loaded; install it, name its "
                  "folder in LD_LIBRARY_PATH, or use --arithmetic portable",
                  what, wanted && *wanted ? wanted : names[0]);
}

hd_status hd__cuda_libraries_open(hd_cuda_libraries *libraries, hd_ctx *ctx) {
  HD_TRY(load(libraries, ctx, blas_names, blas_calls, "cuBLAS"));
  return load(libraries, ctx, dnn_names, dnn_calls, "cuDNN");
}
