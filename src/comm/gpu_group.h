/* Groups whose buffers are in the memory of GPUs, one for each rank: backend "nccl" of hd_group_init.
 *
 * Ranks use the barrier of any group, and compare each call before a byte of it moves; so calls that differ, late
 * ranks and lost ranks are reported as in other groups. Then NCCL moves the bytes from GPU to GPU. With portable
 * arithmetic NCCL only moves bytes: the inputs of all ranks are collected and added rank by rank, to the same bits
 * as with the other backends. With native arithmetic NCCL forms the sums. */
#ifndef HD_COMM_GPU_GROUP_H
#define HD_COMM_GPU_GROUP_H

#include "comm/group_state.h"

typedef struct hd_gpu_group hd_gpu_group;

/* Makes a group one of GPUs; a call of all its ranks. The message of HD_E_UNSUPPORTED names what is missing. */
hd_status hd__gpu_group_open(hd_group *group, hd_ctx *ctx, bool native);
void hd__gpu_group_close(hd_gpu_group *gpu); /* NULL is allowed */
bool hd__gpu_group_is_native(const hd_gpu_group *gpu);

/* A collective whose call all ranks have compared. */
hd_status hd__gpu_collective(hd_group *group, hd_ctx *ctx, const hd_group_call *call);

/* A send or a receive. */
hd_status hd__gpu_message(hd_group *group, hd_ctx *ctx, const hd_group_call *call);

/* Memory of this rank's GPU, cleared. */
hd_status hd__gpu_group_alloc(void **out, hd_group *group, hd_ctx *ctx, size_t bytes);
void hd__gpu_group_free(hd_group *group, void *memory);

/* Copies between it and the host. */
hd_status hd__gpu_group_upload(hd_group *group, hd_ctx *ctx, void *to, const void *from, size_t bytes);
hd_status hd__gpu_group_download(hd_group *group, hd_ctx *ctx, void *to, const void *from, size_t bytes);

#endif
