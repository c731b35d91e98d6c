/* The list of shared GPUs: see shared_gpus.h. */
#include "exec/gpu/device/shared_gpus.h"

#include <pthread.h>

#include "base/alloc.h"

struct hd_cuda_shared {
  struct hd_cuda_shared *next;
  hd_cuda *cuda;
  int users;
  pthread_mutex_t lock;
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static hd_cuda_shared *list;

static hd_status open_shared(hd_cuda_shared **out, hd_ctx *ctx, int index) {
  hd_cuda_shared *shared;
  HD_TRY(HD_NEW(shared, 1, ctx, "out of memory for a GPU"));
  const hd_status status = hd__cuda_open(&shared->cuda, ctx, index);
  if (status != HD_OK) {
    hd__free(shared);
    return status;
  }
  pthread_mutex_init(&shared->lock, NULL);
  shared->next = list;
  *out = list = shared;
  return HD_OK;
}

hd_status hd__cuda_share(hd_cuda_shared **out, hd_ctx *ctx, int index) {
  hd_status status = HD_OK;
  pthread_mutex_lock(&list_lock);
  for (*out = list; *out && (*out)->cuda->index != index;)
    *out = (*out)->next;
  if (!*out)
    status = open_shared(out, ctx, index);
  if (status == HD_OK)
    (*out)->users++;
  pthread_mutex_unlock(&list_lock);
  return status;
}

void hd__cuda_unshare(hd_cuda_shared *shared) {
  pthread_mutex_lock(&list_lock);
  if (--shared->users == 0) {
    hd_cuda_shared **at = &list;
    while (*at != shared)
      at = &(*at)->next;
    *at = shared->next;
    hd__cuda_close(shared->cuda);
    pthread_mutex_destroy(&shared->lock);
    hd__free(shared);
  }
  pthread_mutex_unlock(&list_lock);
}

hd_cuda *hd__cuda_lock(hd_cuda_shared *shared) {
  pthread_mutex_lock(&shared->lock);
  hd__cuda_use(shared->cuda);
  return shared->cuda;
}

void hd__cuda_unlock(hd_cuda_shared *shared) { pthread_mutex_unlock(&shared->lock); }
