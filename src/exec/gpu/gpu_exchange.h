/* The exchange of partial sums between the GPUs of a run: publish, wait and finish of exec/exchange, for each way that
 * sums take. GPUs are numbered by hd__exchange_begin, for all of them.
 *
 *     by_copies   between the GPUs of one process, which copy from each other
 *     by_host     between ranks, over the host's shared memory and, with several hosts, their transport
 *     by_nccl     between all GPUs by NCCL's all-reduce, which leaves one sum on each
 *
 * Each function queues work on the GPUs of this process, after what is queued there so far. Exchange `index` is one of
 * the step's. */
#pragma once

#include <stdint.h>

#include "base/status.h"

struct cuda_share;

typedef struct gpu_exchange {
  hd_status (*publish)(struct cuda_share *s, hd_ctx *ctx, int index); /* this process's sums are on their way */
  /* The other GPUs' sums are there. Between ranks: *flags becomes the OR of those of all; HD_E_PEER: one is lost. */
  hd_status (*wait)(struct cuda_share *s, hd_ctx *ctx, int index, uint32_t *flags);
  hd_status (*finish)(struct cuda_share *s, hd_ctx *ctx, int index); /* each GPU has all of them before later work */
} gpu_exchange;

extern const gpu_exchange hd__gpu_exchange_by_copies, hd__gpu_exchange_by_host, hd__gpu_exchange_by_nccl;

/* Exchange `index` of a step: runs after the work queued on each GPU so far and before work queued later. Ranks wait at
 * a barrier and agree on flags; HD_E_PEER: a rank is lost. */
hd_status hd__gpu_exchange(struct cuda_share *share, hd_ctx *ctx, int index, uint32_t *flags);
