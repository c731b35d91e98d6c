/* What carries bytes between hosts: a table of functions that a module fills in (src/comm/mpi), loaded when it is used.
 *
 * Ranks are those of the whole job. Nothing here adds numbers: orders of sums are not the transport's business. Calls
 * come from any thread; the module lets one in at a time, and only init, gather and finalize wait for other ranks. A
 * table may wrap another one, to delay what it carries, say. A module knows this header and nothing else of heddle. */
#ifndef HD_COMM_TRANSPORT_H
#define HD_COMM_TRANSPORT_H

#include <stdint.h>

enum { HD_TRANSPORT_VERSION = 1, HD_TRANSPORT_WHY_BYTES = 256, HD_TRANSPORT_ANYBODY = -1, HD_TRANSPORT_TAGS = 32768 };

/* Bytes to one rank, or from it. Those of one pair of ranks and one tag arrive in the order in which they were sent,
 * and are as many as the receiver expects. */
typedef struct hd_transfer_part {
  void *data;
  int64_t bytes;
  int32_t peer, tag; /* tag: 0 .. HD_TRANSPORT_TAGS - 1; a receiver may expect HD_TRANSPORT_ANYBODY */
  int32_t receives;
} hd_transfer_part;

typedef struct hd_transfer hd_transfer;

/* Functions that can fail return -1 then, and write to `why`, of HD_TRANSPORT_WHY_BYTES. */
typedef struct hd_transport {
  uint32_t version; /* HD_TRANSPORT_VERSION of whoever made the table */

  /* Once, by all ranks of the job: which one this is, and of how many. */
  int (*init)(int32_t *rank, int32_t *ranks, char *why);
  /* What it is, and of which version; after init. */
  const char *(*name)(void);
  /* Everybody's `bytes`, in the order of ranks. */
  int (*gather)(void *all, const void *mine, int64_t bytes, char *why);

  /* Begins to move bytes; they are the transfer's until it is done. */
  int (*start)(hd_transfer **out, const hd_transfer_part *parts, int32_t count, char *why);
  /* 1: all were moved, and the transfer is gone; 0: not yet. */
  int (*test)(hd_transfer *transfer, char *why);
  /* Does not wait for it any more. */
  void (*drop)(hd_transfer *transfer);

  /* Ends all processes of the job. */
  void (*abort)(int32_t code);
  /* By all ranks. */
  int (*finalize)(char *why);
} hd_transport;

/* The name of a module's table. */
#define HD_TRANSPORT_SYMBOL "hd_module_transport"

#endif
