/* NCCL between the GPUs of a run, for --arithmetic native: the gradients of all of them become one sum by its all-reduce,
 * in its own order. Each GPU is a rank of one communicator, by its number in the run.
 *
 * A rank that is lost leaves the others' all-reduce waiting for ever, and with it everything behind it on the stream. So
 * whoever waits for a GPU waits here: it looks out for other ranks, for NCCL's errors and for GPUs that are lost, and
 * aborts what waits in vain. The sums of an aborted all-reduce are none: whether the last one had ended is known. */
#ifndef HD_EXEC_EXEC_CUDA_NCCL_H
#define HD_EXEC_EXEC_CUDA_NCCL_H

#include "comm/hosts.h"
#include "comm/nccl_find.h"
#include "cuda/cuda.h"

struct hd_exec_cuda;

enum { HD_CUDA_WHY_BYTES = 240 };

typedef struct cuda_nccl cuda_nccl;

/* Begins a communicator of all `count` GPUs of the run, of which this process has those of the list `own`, from number
 * `first` on. All ranks. Where one of them has no NCCL, nobody has: *out is NULL then, and `why` says what is missing. */
hd_status hd__cuda_nccl_begin(cuda_nccl **out, char why[HD_CUDA_WHY_BYTES], hd_ctx *ctx, hd_world *world, hd_cuda *own,
                              int first, int count);
void hd__cuda_nccl_end(cuda_nccl *nccl); /* NULL is allowed; the GPUs have done what was queued */

/* "NCCL 2.28.3" */
const char *hd__cuda_nccl_name(const cuda_nccl *nccl);

/* Queues the sum of `elems` floats at `own` of each GPU into its `covers`, on GPU after GPU of the list. */
hd_status hd__cuda_nccl_sum(cuda_nccl *nccl, hd_ctx *ctx, struct hd_exec_cuda *list, int64_t elems);

/* Until the GPU's compute stream is done, or with `event` only what that one marks. HD_E_PEER: a rank is lost. NULL as
 * `nccl`: the driver waits. */
hd_status hd__cuda_nccl_wait(cuda_nccl *nccl, hd_ctx *ctx, const hd_cuda *cuda, cu_event event);

/* The line for a GPU whose weights are not those of `whose`. */
hd_status hd__cuda_nccl_differs(hd_ctx *ctx, const hd_cuda *cuda, const char *whose);

/* Something failed: what waits in NCCL ends now. Again, and with NULL: does nothing. */
void hd__cuda_nccl_abort(cuda_nccl *nccl);

/* It was aborted before the last sum was there. */
bool hd__cuda_nccl_is_torn(const cuda_nccl *nccl);

#endif
