/* The transport between hosts: a table of functions that a module provides (src/exec/exchange/mpi), loaded on first
 * use.
 *
 * Ranks are those of the whole job. A transport adds no numbers, so it cannot change the order of a sum. Any thread
 * may call; the module serialises the calls, and only init, gather and finalize wait for other ranks. A table may
 * wrap another one, for instance to delay transfers. A module includes this header and no other of heddle. */
#pragma once

#include <stdint.h>

enum { HD_TRANSPORT_VERSION = 1, HD_TRANSPORT_WHY_BYTES = 256, HD_TRANSPORT_ANY_RANK = -1, HD_TRANSPORT_TAGS = 32768 };

/* Bytes to one rank, or from it. Those of one pair of ranks and one tag arrive in the order in which they were sent,
 * and are as many as the receiver expects. */
typedef struct hd_transfer_part {
  void *data;
  int64_t bytes;
  int32_t peer, tag; /* tag: 0 .. HD_TRANSPORT_TAGS - 1; the peer of a receive may be HD_TRANSPORT_ANY_RANK */
  int32_t receives;
} hd_transfer_part;

typedef struct hd_transfer hd_transfer;

/* Functions that can fail return -1 then, and write to `why`, of HD_TRANSPORT_WHY_BYTES. */
typedef struct hd_transport {
  uint32_t version; /* HD_TRANSPORT_VERSION of the module that made the table */

  /* Once, by all ranks of the job: the rank of this process, and the number of ranks. */
  int (*init)(int32_t *rank, int32_t *ranks, char *why);
  /* Name and version of the library; after init. */
  const char *(*name)(void);
  /* All-gather of `bytes` of each rank, in the order of ranks. */
  int (*gather)(void *all, const void *input, int64_t bytes, char *why);

  /* Starts a transfer; the bytes belong to it until it is done. */
  int (*start)(hd_transfer **out, const hd_transfer_part *parts, int32_t count, char *why);
  /* 1: all bytes were moved, and the transfer is freed; 0: not yet. */
  int (*test)(hd_transfer *transfer, char *why);
  /* Cancels a transfer. */
  void (*drop)(hd_transfer *transfer);

  /* Ends all processes of the job. */
  void (*abort)(int32_t code);
  /* By all ranks. */
  int (*finalize)(char *why);
} hd_transport;

/* The name of a module's table. */
#define HD_TRANSPORT_SYMBOL "hd_module_transport"
