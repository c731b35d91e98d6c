/* The memory of all GPUs of a run, for the report: for other ranks as it was after set-up, after which training takes
 * no more; for this process as it is when read. */
#ifndef HD_TRAIN_SESSION_GPU_MEMORY_REPORT_H
#define HD_TRAIN_SESSION_GPU_MEMORY_REPORT_H

#include "exec/exchange/local_group.h"
#include "exec/gpu/device/cuda_device.h"

typedef struct hd_gpu_accounts {
  hd_gpu_memory *of;     /* in the order of ranks */
  int count, first_here; /* first_here: index of this process's first */
} hd_gpu_accounts;

/* Collective over all ranks; `cuda` is the list of this process's GPUs, NULL: there is none. */
hd_status hd__gpu_accounts_gather(hd_gpu_accounts *accounts, hd_ctx *ctx, hd_local_group *local, hd_cuda *cuda);
void hd__gpu_accounts_read(hd_gpu_accounts *accounts, hd_cuda *cuda);
void hd__gpu_accounts_fini(hd_gpu_accounts *accounts);

#endif
