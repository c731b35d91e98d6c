/* Copies between the host and a GPU, and waiting for them. */
#include "exec/gpu/gpu_executor_state.h"

hd_status hd__exec_cuda_upload_on(cu_stream stream, const hd_exec_cuda *x, hd_ctx *ctx, void *to, const void *from,
                                  int64_t bytes) {
  return bytes == 0 ? HD_OK
                    : hd__cuda_check(x->cuda, ctx,
                                     x->cuda->driver.upload((cu_pointer)(uintptr_t)to, from, (size_t)bytes, stream),
                                     "copying to the GPU");
}

hd_status hd__exec_cuda_upload(const hd_exec_cuda *x, hd_ctx *ctx, void *to, const void *from, int64_t bytes) {
  return hd__exec_cuda_upload_on(x->cuda->compute, x, ctx, to, from, bytes);
}

hd_status hd__exec_cuda_clear(const hd_exec_cuda *x, hd_ctx *ctx, void *memory, int64_t bytes) {
  return hd__cuda_check(x->cuda, ctx,
                        x->cuda->driver.memory_clear((cu_pointer)(uintptr_t)memory, 0, (size_t)bytes, x->cuda->compute),
                        "clearing memory");
}

hd_status hd__exec_cuda_download(const hd_exec_cuda *x, hd_ctx *ctx, void *to, const void *from, int64_t bytes) {
  return bytes == 0 ? HD_OK
                    : hd__cuda_check(
                          x->cuda, ctx,
                          x->cuda->driver.download(to, (cu_pointer)(uintptr_t)from, (size_t)bytes, x->cuda->compute),
                          "copying from the GPU");
}

hd_status hd__exec_cuda_wait(const hd_exec_cuda *x, hd_ctx *ctx) {
  return hd__cuda_nccl_wait(x->share->nccl, ctx, x->cuda, NULL);
}
