/* Groups of processes, on one host or several, and their collectives: those of PyTorch's torch.distributed, in C.
 *
 *     hd_group *group;
 *     hd_group_init(&group, ctx, NULL);                    // rank and world size from the environment
 *     float sums[10];
 *     hd_group_all_reduce(sums, group, ctx, values, 10, HD_F32, HD_REDUCE_SUM);
 *     hd_group_destroy(group);
 *
 * Start the processes with `heddle launch -n 4 -- program`, torchrun, mpirun or srun, or by hand with RANK and
 * WORLD_SIZE in their environments. They share memory: no port is opened, no file made.
 *
 * All ranks of a group make the same calls in the same order. Ranks whose calls differ (another collective, number
 * of elements, type, operation or root) all get HD_E_USAGE with the difference, and may go on.
 *
 * Sums, products, minima and maxima are formed in the order of ranks: ((rank 0 + rank 1) + rank 2) + ..., for every
 * element and any number of elements. So all ranks, and all runs, get the same bits. Floats that underflow count as
 * zero, integers wrap around, an average of integers is rounded towards zero, NaN propagates. Sums of uint8 wrap at
 * 256.
 *
 * When a rank ends, is killed or is stopped, all calls of the other ranks return HD_E_PEER with a line that names
 * it, in less than a second. A call that waits longer than its timeout returns HD_E_TIMEOUT, with the missing ranks,
 * to all ranks of the group; the group cannot be used any more, and destroying it waits for no rank of another host.
 *
 * Thread safety: calls for one group come from one thread at a time; different groups are independent. */
#ifndef HEDDLE_GROUP_H
#define HEDDLE_GROUP_H

#include <stddef.h>
#include <stdint.h>

#include "heddle/dtype.h"
#include "heddle/options.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_group hd_group;
typedef struct hd_work hd_work;

/* How a group moves data. */
typedef enum hd_group_backend {
  HD_GROUP_ANY,  /* MPI if the ranks are on several hosts, else shared memory */
  HD_GROUP_SHM,  /* memory that the ranks of one host share */
  HD_GROUP_MPI,  /* MPI between hosts, for ranks that mpirun or srun started */
  HD_GROUP_NCCL, /* each rank has a GPU, numbered as the rank on its host, all buffers are in GPUs' memory (from
                    hd_group_alloc or from CUDA), and NCCL moves them; ranks find each other as for ANY */
} hd_group_backend;

/* How the processes of a group find each other. With rank and world_size -1 and all else 0 it is the same as NULL:
 * everything from the environment. */
typedef struct hd_group_settings {
  size_t struct_bytes; /* sizeof(hd_group_settings) */
  hd_group_backend backend;
  const char
      *init_method;   /* NULL or "env://"; "file://PATH", "tcp://HOST:PORT": a name that the ranks have in common */
  int32_t rank;       /* from 0 on; -1: from the environment */
  int32_t world_size; /* how many ranks, at most 1024; -1: from the environment */
  double timeout_s;   /* for joining, but for the start of MPI, which has none; and for calls that set none; 0: 1800 */
  hd_arithmetic_choice arithmetic; /* of NCCL: NATIVE: sums are NCCL's; PORTABLE: rank by rank, as everywhere */
} hd_group_settings;

/* Waits for all ranks. The environment is searched for the variables of `heddle launch`; then for RANK and
 * WORLD_SIZE as set by torchrun, with MASTER_ADDR and MASTER_PORT as a common name only, also of ranks whose settings
 * have both numbers; then for those of Open MPI, MPICH and srun. HD_E_USAGE: rank or size is missing, out of range, or
 * taken by another process; HD_E_TIMEOUT names the missing ranks; HD_E_UNSUPPORTED: the ranks are on several hosts, and
 * backend, launcher or build have no MPI; or there is no NCCL for its backend, or no GPU for a rank. The caller
 * destroys the group before the process ends: a process that ends with a group counts as a lost rank. */
HD_API hd_status hd_group_init(hd_group **out, hd_ctx *ctx, const hd_group_settings *settings);
HD_API void hd_group_destroy(hd_group *group); /* after its work was waited for; NULL is allowed */

/* Says that this rank cannot go on: calls of the other ranks, present and later ones, return HD_E_PEER with
 * "rank 1 (pid 4711 on host) gave up: WHY". The group is then only destroyed. */
HD_API void hd_group_give_up(hd_group *group, const char *why);

/* A group of some ranks of a group, numbered in the order of `ranks`: a collective call of all ranks of the parent,
 * with the same list, done after all collectives that were started. *out is NULL in ranks that are not on the list.
 * Destroyed before its parent, and after all messages sent in it were received. HD_E_USAGE: too many groups, buffers
 * and sessions exist at a time. */
HD_API hd_status hd_group_new(hd_group **out, hd_group *parent, hd_ctx *ctx, const int32_t *ranks, int32_t count);

HD_API int32_t hd_group_rank(const hd_group *group); /* 0 for NULL */
HD_API int32_t hd_group_size(const hd_group *group); /* 1 for NULL */

typedef enum hd_reduce_op { HD_REDUCE_SUM, HD_REDUCE_AVG, HD_REDUCE_MIN, HD_REDUCE_MAX, HD_REDUCE_PROD } hd_reduce_op;
enum { HD_REDUCE_OP_COUNT = HD_REDUCE_PROD + 1 };

/* `count` elements of `dtype` at `data`, or at `output` and `input`, which may be the same; n is the group's size.
 * Buffers that only the root uses may be NULL elsewhere. */
HD_API hd_status hd_group_barrier(hd_group *group, hd_ctx *ctx);
HD_API hd_status hd_group_broadcast(void *data, hd_group *group, hd_ctx *ctx, int64_t count, hd_dtype dtype,
                                    int32_t root);
HD_API hd_status hd_group_all_reduce(void *output, hd_group *group, hd_ctx *ctx, const void *input, int64_t count,
                                     hd_dtype dtype, hd_reduce_op op);
HD_API hd_status hd_group_reduce(void *output, hd_group *group, hd_ctx *ctx, const void *input, int64_t count,
                                 hd_dtype dtype, hd_reduce_op op, int32_t root);
/* output: n * count, rank by rank. */
HD_API hd_status hd_group_gather(void *output, hd_group *group, hd_ctx *ctx, const void *input, int64_t count,
                                 hd_dtype dtype, int32_t root);
HD_API hd_status hd_group_all_gather(void *output, hd_group *group, hd_ctx *ctx, const void *input, int64_t count,
                                     hd_dtype dtype);
/* input: n * count; rank r receives block r, of the root's input (scatter) or of the sum of all ranks
 * (reduce_scatter). */
HD_API hd_status hd_group_scatter(void *output, hd_group *group, hd_ctx *ctx, const void *input, int64_t count,
                                  hd_dtype dtype, int32_t root);
HD_API hd_status hd_group_reduce_scatter(void *output, hd_group *group, hd_ctx *ctx, const void *input, int64_t count,
                                         hd_dtype dtype, hd_reduce_op op);
/* input and output: n * count; block r of the input goes to rank r, block r of the output comes from it. */
HD_API hd_status hd_group_all_to_all(void *output, hd_group *group, hd_ctx *ctx, const void *input, int64_t count,
                                     hd_dtype dtype);
/* Between two ranks; messages arrive in the order in which they were sent. A send of a small message returns before
 * it is received, one of a large message waits for the receiver. Sender and receiver must name the same count and
 * type: else both get HD_E_USAGE, the sender perhaps at its next call, and the group cannot be used any more. */
HD_API hd_status hd_group_send(hd_group *group, hd_ctx *ctx, const void *input, int64_t count, hd_dtype dtype,
                               int32_t to);
HD_API hd_status hd_group_recv(void *output, hd_group *group, hd_ctx *ctx, int64_t count, hd_dtype dtype, int32_t from);

/* The same calls as data, with a timeout each, and asynchronously. */
typedef enum hd_group_kind {
  HD_GROUP_BARRIER,
  HD_GROUP_BROADCAST,
  HD_GROUP_ALL_REDUCE,
  HD_GROUP_REDUCE,
  HD_GROUP_GATHER,
  HD_GROUP_ALL_GATHER,
  HD_GROUP_SCATTER,
  HD_GROUP_REDUCE_SCATTER,
  HD_GROUP_ALL_TO_ALL,
  HD_GROUP_SEND,
  HD_GROUP_RECV
} hd_group_kind;

typedef struct hd_group_call {
  size_t struct_bytes; /* sizeof(hd_group_call) */
  hd_group_kind kind;
  void *output;
  const void *input;
  int64_t count;
  hd_dtype dtype;
  hd_reduce_op op;
  int32_t peer;     /* the root, or the other rank */
  double timeout_s; /* how long it may wait for another rank; 0: as the group */
} hd_group_call;

/* Does the call, as the functions above do, and returns when it is done. */
HD_API hd_status hd_group_run(hd_group *group, hd_ctx *ctx, const hd_group_call *call);

/* Returns at once; a thread of the group does the call, after all that were started before. Collectives are done in
 * order, each send and each receive in the order of those with the same rank. Buffers belong to the call until it
 * was waited for. */
HD_API hd_status hd_group_start(hd_work **out, hd_group *group, hd_ctx *ctx, const hd_group_call *call);

/* Waits until the call is done, frees the work and returns the status of the call. */
HD_API hd_status hd_work_wait(hd_work *work, hd_ctx *ctx);
HD_API int hd_work_is_done(hd_work *work); /* then waiting takes no time */

/* Allocates `bytes` per rank, zeroed, in memory that all ranks of the group map: all_reduce in place on it copies
 * nothing. A collective call, with the same number on all ranks. */
HD_API hd_status hd_group_alloc(void **out, hd_group *group, hd_ctx *ctx, size_t bytes);
HD_API void hd_group_free(hd_group *group, void *memory); /* this rank's; NULL is allowed */

/* With backend NCCL hd_group_alloc gives memory of this rank's GPU, which other ranks cannot access; these calls
 * copy to it and from it, and return when the copy is done. With the other backends they copy in the host's memory. */
HD_API hd_status hd_group_upload(void *to, hd_group *group, hd_ctx *ctx, const void *from, size_t bytes);
HD_API hd_status hd_group_download(void *to, hd_group *group, hd_ctx *ctx, const void *from, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
