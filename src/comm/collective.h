/* Collectives of data in the host's memory, in the caller's thread. */
#ifndef HD_COMM_COLLECTIVE_H
#define HD_COMM_COLLECTIVE_H

#include "comm/group_state.h"

hd_status hd__collective(hd_group *group, hd_ctx *ctx, const hd_group_call *call);

/* Waits for all ranks and compares their calls; moves no data. */
hd_status hd__collective_compare(hd_group *group, hd_ctx *ctx, const hd_group_call *call);

/* All-gather of bytes in the host's memory, in a group of GPUs, too. */
hd_status hd__group_gather_host(void *all, hd_group *group, hd_ctx *ctx, const void *input, int64_t bytes);

#endif
