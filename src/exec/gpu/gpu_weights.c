/* The weights and optimizer state between GPUs and the host's store: copied to all GPUs, and back from the first
 * one. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "exec/exchange/cluster.h"
#include "exec/gpu/gpu_executor_state.h"

static int64_t weight_bytes(const hd_exec_cuda *x) { return x->plan->size.param_elems * (int64_t)sizeof(float); }
static int64_t state_bytes(const hd_exec_cuda *x) { return x->plan->size.trained_elems * (int64_t)sizeof(float); }

/* Uploads both buffers: frozen parameters are in both. */
static hd_status upload_one(const hd_exec_cuda *x, hd_ctx *ctx) {
  const hd_store *store = x->store;
  const int64_t bad_bytes = x->plan->param_count * (int64_t)sizeof *x->bad;
  hd__cuda_use(x->cuda);
  for (int buffer = 0; buffer < 2; buffer++) {
    HD_TRY(hd__exec_cuda_upload(x, ctx, x->weights[buffer], store->weights[buffer], weight_bytes(x)));
    for (int s = 0; s < store->directory->states && x->state[buffer][s]; s++)
      HD_TRY(hd__exec_cuda_upload(x, ctx, x->state[buffer][s], store->state[buffer][s], state_bytes(x)));
  }
  HD_TRY(hd__exec_cuda_clear(x, ctx, x->bad, bad_bytes));
  HD_TRY(hd__exec_cuda_clear(x, ctx, x->flags, (int64_t)sizeof *x->flags));
  return hd__exec_cuda_wait(x, ctx);
}

hd_status hd__exec_cuda_upload_store(hd_exec_cuda *x, hd_ctx *ctx) {
  x->version = hd__store_version(x->store);
  for (const hd_exec_cuda *each = x; each; each = each->next)
    HD_TRY(upload_one(each, ctx));
  x->uploaded = true;
  return HD_OK;
}

hd_status hd__exec_cuda_upload_weights(const hd_exec_cuda *x, hd_ctx *ctx) {
  const hd_store *store = x->store;
  hd__cuda_use(x->cuda);
  HD_TRY(hd__exec_cuda_upload(x, ctx, x->weights[0], store->weights[hd__store_buffer(store)], weight_bytes(x)));
  return hd__exec_cuda_wait(x, ctx);
}

/* Every GPU has the whole store. */
hd_status hd__exec_cuda_download_store(hd_exec_cuda *x, hd_ctx *ctx) {
  hd_store *store = x->store;
  const int buffer = (int)(x->version & 1);
  hd__cuda_use(x->cuda);
  HD_TRY(hd__exec_cuda_download(x, ctx, store->weights[buffer], x->weights[buffer], weight_bytes(x)));
  for (int s = 0; s < store->directory->states; s++)
    HD_TRY(hd__exec_cuda_download(x, ctx, store->state[buffer][s], x->state[buffer][s], state_bytes(x)));
  HD_TRY(hd__exec_cuda_wait(x, ctx));
  hd__store_set_version(store, x->version);
  return HD_OK;
}

/* Weights are never exchanged, so NCCL's sums must have the same bits on all GPUs. This check compares, over all
 * GPUs of all ranks, a hash of the last whole version, computed on the host. */
static hd_status sum_weights(uint64_t *sum, const hd_exec_cuda *x, hd_ctx *ctx, float *copy) {
  HD_TRY(hd__exec_cuda_download(x, ctx, copy, x->weights[x->share->first->version & 1], weight_bytes(x)));
  HD_TRY(hd__exec_cuda_wait(x, ctx));
  *sum = hd__xxh3(copy, (size_t)weight_bytes(x));
  return HD_OK;
}

static hd_status compare_process(uint64_t *sum, const hd_exec_cuda *first, hd_ctx *ctx, float *copy) {
  for (const hd_exec_cuda *x = first; x; x = x->next) {
    uint64_t one;
    hd__cuda_use(x->cuda);
    HD_TRY(sum_weights(&one, x, ctx, copy));
    if (x != first && one != *sum)
      return hd__cuda_nccl_differs(ctx, x->cuda, "the first one");
    *sum = one;
  }
  return HD_OK;
}

hd_status hd__exec_cuda_compare_weights(const hd_exec_cuda *x, hd_ctx *ctx) {
  hd_local_group *local = x->share->local;
  const int ranks = hd__cluster_ranks(local);
  char other[32];
  if (!x->share->nccl)
    return HD_OK;
  uint64_t sum = 0, *all = hd__calloc((size_t)ranks, sizeof *all);
  float *copy = hd__malloc_aligned((size_t)weight_bytes(x));
  hd_status status = all && copy ? compare_process(&sum, x, ctx, copy)
                                 : hd__fail(ctx, HD_E_NOMEM, "out of memory for comparing the weights of GPUs");
  HD_THEN(status, hd__cluster_gather(all, local, ctx, &sum, sizeof sum));
  for (int r = 0; r < ranks && status == HD_OK; r++)
    if (all[r] != sum) {
      snprintf(other, sizeof other, "rank %d", r);
      status = hd__cuda_nccl_differs(ctx, x->cuda, other);
    }
  hd__free(all);
  hd__free(copy);
  return status;
}

/* Ranks of a host share the store: the first fills it. */
hd_status hd__exec_cuda_fill_store(hd_exec_cuda *x, hd_ctx *ctx) {
  hd_local_group *local = x->share->local;
  if (!hd__cuda_share_is_ranked(x->share))
    return hd__exec_cuda_download_store(x, ctx);
  if (hd__local_group_rank(local) == 0)
    HD_TRY(hd__exec_cuda_download_store(x, ctx));
  return hd__local_group_barrier(local, ctx);
}
