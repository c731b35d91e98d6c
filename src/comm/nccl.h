/* What moves bytes between GPUs, for a group and for training: a table of functions over NVIDIA's NCCL, that a module
 * fills in (src/comm/nccl), loaded when it is used. The module finds libnccl.so.2 while the program runs.
 *
 * Calls queue work on a stream of the GPU that is in use and return; nothing waits but `open`. Who has begun something
 * asks `test` until it is done. A module knows this header and nothing else of heddle. */
#ifndef HD_COMM_NCCL_H
#define HD_COMM_NCCL_H

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
  uint32_t version; /* HD_NCCL_VERSION of whoever made the table */

  /* Finds the library; NULL: libnccl.so.2. Again: does nothing. */
  int (*open)(const char *library, char *why);
  /* The library's version, 22803 for 2.28.3. */
  int (*number)(int *version, char *why);
  /* What the ranks of a communicator have in common: one makes it, all begin with it. */
  int (*make_id)(void *id, char *why);
  /* What is begun and called between the two is one, over several communicators of this thread: a process with several
   * GPUs begins them so, and makes calls that all of them take part in. */
  int (*open_group)(char *why);
  int (*close_group)(char *why);
  int (*begin)(void **out, const void *id, int rank, int ranks, char *why);
  /* 1: what was begun is done, or queued on its stream; 0: not yet. */
  int (*test)(void *communicator, char *why);
  /* Queues all of them as one. */
  int (*call)(void *communicator, const hd_nccl_call *calls, int count, void *stream, char *why);
  /* Gives it back; `aborts`: whatever is under way ends at once. */
  void (*end)(void *communicator, int aborts);
} hd_nccl;

/* The name of a module's table. */
#define HD_NCCL_SYMBOL "hd_module_nccl"

#endif
