/* NCCL between the GPUs of a run, for --arithmetic native: the gradients of all of them become one sum by its
 * all-reduce (hd__gpu_exchange_by_nccl), in NCCL's order. Each GPU is a rank of one communicator, by its number in the
 * run.
 *
 * If a rank is lost, the all-reduce of the other ranks never ends, nor does any later work on the stream. So every wait
 * for a GPU goes through hd__cuda_nccl_wait, which checks for lost ranks, NCCL errors and lost GPUs, and then aborts
 * the communicators. An aborted all-reduce leaves no sums; hd__cuda_nccl_is_torn returns whether the last one was
 * aborted. */
#pragma once

#include "exec/exchange/cluster.h"
#include "exec/exchange/nccl_find.h"
#include "exec/gpu/device/cuda_device.h"

enum { HD_CUDA_WHY_BYTES = 240 };

typedef struct cuda_nccl cuda_nccl;

/* Begins a communicator of all `count` GPUs of the run; this process has those of the list `gpus`, from number
 * `first` on. Collective over all ranks. If one rank has no NCCL, none uses it: *out is NULL, and `why` names what
 * is missing. */
hd_status hd__cuda_nccl_begin(cuda_nccl **out, char why[HD_CUDA_WHY_BYTES], hd_ctx *ctx, hd_local_group *local,
                              hd_cuda *gpus, int first, int count);
void hd__cuda_nccl_end(cuda_nccl *nccl); /* NULL is allowed; all queued work must be done */

/* "NCCL 2.28.3" */
const char *hd__cuda_nccl_name(const cuda_nccl *nccl);

/* Waits for the GPU's compute stream or, if `event` is given, for that event. HD_E_PEER: a rank is lost. With NULL for
 * `nccl` it only calls the driver. */
hd_status hd__cuda_nccl_wait(cuda_nccl *nccl, hd_ctx *ctx, const hd_cuda *cuda, cu_event event);

/* The error for a GPU whose weights differ from those of `whose`. */
hd_status hd__cuda_nccl_differs(hd_ctx *ctx, const hd_cuda *cuda, const char *whose);

/* Ends all waiting in NCCL after a failure. A second call and NULL do nothing. */
void hd__cuda_nccl_abort(cuda_nccl *nccl);

/* Whether it was aborted before the last sum was complete. */
bool hd__cuda_nccl_is_torn(const cuda_nccl *nccl);
