/* Transfers between GPUs, for groups and for training: a table of functions over NVIDIA's NCCL that a module
 * provides (src/exec/exchange/nccl), loaded on first use. The module loads libnccl.so.2 at run time.
 *
 * Calls queue work on a stream of the current GPU and return; only `open` waits. The caller polls `test` until the
 * work is done. A module includes this header and no other of heddle. */
#pragma once

#include <stdint.h>

enum { HD_NCCL_VERSION = 2, HD_NCCL_WHY_BYTES = 256, HD_NCCL_ID_BYTES = 128 };

/* Numbers of types and operations are those of hd_dtype and hd_reduce_op. */
typedef enum hd_nccl_kind {
  HD_NCCL_BROADCAST,
  HD_NCCL_ALL_REDUCE,
  HD_NCCL_REDUCE,
  HD_NCCL_ALL_GATHER,
  HD_NCCL_REDUCE_SCATTER,
  HD_NCCL_SEND,
  HD_NCCL_RECV
} hd_nccl_kind;

typedef struct hd_nccl_call {
  hd_nccl_kind kind;
  const void *input; /* of the GPU */
  void *output;
  int64_t count;
  int32_t dtype, op, peer; /* peer: the root, or the other rank */
} hd_nccl_call;

/* Functions that can fail return -1 then, and write to `why`, of HD_NCCL_WHY_BYTES. */
typedef struct hd_nccl {
  uint32_t version; /* HD_NCCL_VERSION of the module that made the table */

  /* Loads the library; NULL: libnccl.so.2. Further calls do nothing. */
  int (*open)(const char *library, char *why);
  /* The library's version, 22803 for 2.28.3. */
  int (*number)(int *version, char *why);
  /* The id of a communicator: one rank makes it, all ranks pass it to `begin`. */
  int (*make_id)(void *id, char *why);
  /* Calls of `begin` and `call` between the two form one operation over several communicators of this thread, as a
   * process with several GPUs needs. */
  int (*open_group)(char *why);
  int (*close_group)(char *why);
  /* *out must outlive the beginning of the communicator, when NCCL writes it again. */
  int (*begin)(void **out, const void *id, int rank, int ranks, char *why);
  /* 1: the operation is done, or queued on its stream; 0: not yet. */
  int (*test)(void *communicator, char *why);
  /* Queues all calls as one operation. */
  int (*call)(void *communicator, const hd_nccl_call *calls, int count, void *stream, char *why);
  /* Destroys the communicator; `aborts`: ends running operations at once. */
  void (*end)(void *communicator, int aborts);
} hd_nccl;

/* The name of a module's table. */
#define HD_NCCL_SYMBOL "hd_module_nccl"
