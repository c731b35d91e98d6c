/* Memory of tensors on a GPU. It is allocated when a call returns, so that any thread may use it. */
#include "tensor/eager.h"

hd_status hd__storage_allocate(hd_storage *storage, hd_ctx *ctx, int gpu) {
  HD_TRY(hd__cuda_share(&storage->gpu, ctx, gpu));
  hd_cuda *cuda = hd__cuda_lock(storage->gpu);
  const hd_status status = hd__cuda_take_for(&storage->memory, cuda, ctx, storage->bytes, HD_GPU_TENSORS);
  if (status != HD_OK)
    hd__cuda_free(cuda, storage->memory);
  hd__cuda_unlock(storage->gpu);
  if (status != HD_OK)
    hd__cuda_unshare(storage->gpu);
  return status;
}

void hd__storage_free(hd_storage *storage) {
  hd__cuda_free(hd__cuda_lock(storage->gpu), storage->memory);
  hd__cuda_unlock(storage->gpu);
  hd__cuda_unshare(storage->gpu);
}
