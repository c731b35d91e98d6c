/* The memory of all GPUs of a run, for the report: those of other ranks as they were when all was set up, after which
 * training takes no more; those of this process as they are when somebody asks. */
#ifndef HD_TRAIN_GPU_ACCOUNTS_H
#define HD_TRAIN_GPU_ACCOUNTS_H

#include "comm/world.h"
#include "cuda/cuda.h"

typedef struct hd_gpu_accounts {
  hd_gpu_memory *of; /* rank after rank */
  int count, own;    /* own: this process's first */
} hd_gpu_accounts;

/* Of all ranks, which call it together; `cuda` is the list of this process's, NULL: there is none. */
hd_status hd__gpu_accounts_gather(hd_gpu_accounts *accounts, hd_ctx *ctx, hd_world *world, hd_cuda *cuda);
void hd__gpu_accounts_read(hd_gpu_accounts *accounts, hd_cuda *cuda);
void hd__gpu_accounts_fini(hd_gpu_accounts *accounts);

#endif
