/* What the GPU memory of all ranks is used for: see gpu_memory_report.h. */
#include "train/session/gpu_memory_report.h"

#include "base/alloc.h"
#include "exec/exchange/cluster.h"

_Static_assert(sizeof(hd_gpu_memory) <= HD_LOCAL_GROUP_GATHER_BYTES, "an account is gathered whole");

void hd__gpu_accounts_read(hd_gpu_accounts *a, hd_cuda *first) {
  int i = a->first_here;
  for (hd_cuda *cuda = first; cuda; cuda = cuda->next, i++) {
    const int32_t rank = a->of[i].rank;
    hd__cuda_memory(&a->of[i], cuda);
    a->of[i].rank = rank;
  }
}

/* The number of GPUs of each rank, and the sum. */
static hd_status count_all(int32_t *of_rank, hd_gpu_accounts *a, hd_ctx *ctx, hd_local_group *local,
                           const hd_cuda *first) {
  int32_t this_rank = 0;
  for (const hd_cuda *cuda = first; cuda; cuda = cuda->next)
    this_rank++;
  HD_TRY(hd__cluster_gather(of_rank, local, ctx, &this_rank, sizeof this_rank));
  for (int r = 0; r < hd__cluster_ranks(local); r++) {
    a->first_here = r == hd__cluster_rank(local) ? a->count : a->first_here;
    a->count += of_rank[r];
  }
  return HD_OK;
}

/* Gathers each rank's first GPU, then each rank's second, and so on. */
static hd_status gather_all(hd_gpu_accounts *a, hd_ctx *ctx, hd_local_group *local, hd_cuda *first,
                            const int32_t *of_rank) {
  const int ranks = hd__cluster_ranks(local);
  hd_gpu_memory *all = hd__calloc((size_t)ranks, sizeof *all), this_rank = {0};
  hd_status status = HD_ALLOCATED(all, ctx, "out of memory for the accounts of GPUs");
  hd_cuda *cuda = first;
  for (int round = 0, left = a->count; left > 0 && status == HD_OK; round++) {
    if (cuda)
      hd__cuda_memory(&this_rank, cuda);
    this_rank.rank = hd__cluster_rank(local);
    status = hd__cluster_gather(all, local, ctx, &this_rank, sizeof this_rank);
    for (int r = 0, before = 0; r < ranks; before += of_rank[r++])
      if (round < of_rank[r]) {
        a->of[before + round] = all[r];
        left--;
      }
    cuda = cuda ? cuda->next : NULL;
  }
  hd__free(all);
  return status;
}

/* Names are pointers to texts of the process that reported them: replaces them by this process's. */
static void name_parts(hd_gpu_accounts *a, hd_cuda *cuda) {
  hd_gpu_memory named;
  hd__cuda_memory(&named, cuda);
  for (int i = 0; i < a->count; i++)
    for (int p = 0; p < HD_GPU_PARTS; p++)
      a->of[i].part[p].name = named.part[p].name;
}

hd_status hd__gpu_accounts_gather(hd_gpu_accounts *a, hd_ctx *ctx, hd_local_group *local, hd_cuda *cuda) {
  hd__gpu_accounts_fini(a);
  int32_t *of_rank = hd__calloc((size_t)hd__cluster_ranks(local), sizeof *of_rank);
  HD_TRY(HD_ALLOCATED(of_rank, ctx, "out of memory for the accounts of GPUs"));
  hd_status status = count_all(of_rank, a, ctx, local, cuda);
  if (status == HD_OK && a->count > 0) {
    a->of = hd__calloc((size_t)a->count, sizeof *a->of);
    status = a->of ? gather_all(a, ctx, local, cuda, of_rank)
                   : hd__fail(ctx, HD_E_NOMEM, "out of memory for the accounts of GPUs");
  }
  if (status == HD_OK && cuda)
    name_parts(a, cuda);
  hd__free(of_rank);
  return status;
}

void hd__gpu_accounts_fini(hd_gpu_accounts *a) {
  hd__free(a->of);
  *a = (hd_gpu_accounts){0};
}
