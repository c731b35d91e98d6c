/* Transfers between hosts: single ones, exchanges that are started together, and the collectives of leaders. */
#pragma once

#include "exec/exchange/local_group.h"
#include "exec/exchange/transport.h"

/* Transfers that are started together. Parts with the same peer are adjacent. */
typedef struct hd_cluster_exchange {
  hd_transfer_part *part;
  int count;
  int room; /* for parts */
  hd_transfer **transfer;
  int *peer;
  struct hd_cluster_exchange *next; /* in the list of unused ones */
} hd_cluster_exchange;

/* An empty exchange with room for `parts`. Exchanges are kept and reused, so that steps allocate nothing: running the
 * exchange returns it to the list of unused ones, as does hd__cluster_keep_exchange, without running it. NULL: out of
 * memory. Any thread. */
hd_cluster_exchange *hd__cluster_exchange(hd_local_group *local, int parts);
void hd__cluster_keep_exchange(hd_local_group *local, hd_cluster_exchange *exchange);

/* What ends a wait early: `check` is called regularly for each peer whose transfer has not ended, and the wait ends
 * when *broken is not zero. */
typedef struct hd_transfer_watch {
  const atomic_uint *broken;
  void (*check)(void *self, int peer);
  void *self;
} hd_transfer_watch;

/* Runs the exchange and waits for its end, at most `timeout_s`. HD_E_TIMEOUT does not break the local group, and
 * neither does HD_E_PEER, without a message, where the watch ended the wait; *missing is a rank whose transfer has
 * not ended. `watch` may be NULL. After a failure no transfer is running. Any rank. */
hd_status hd__cluster_exchange_within(int *missing, hd_local_group *local, hd_ctx *ctx, hd_cluster_exchange *exchange,
                                      double timeout_s, const hd_transfer_watch *watch);

/* Starts and tests one transfer without waiting: see hd_transport. The test returns 1, 0, or -1: the local group is
 * broken then. */
hd_status hd__cluster_start(hd_transfer **out, hd_local_group *local, hd_ctx *ctx, const hd_transfer_part *parts,
                            int count);
int hd__cluster_test(hd_local_group *local, hd_transfer *transfer, int peer);
void hd__cluster_drop(hd_local_group *local, hd_transfer *transfer); /* NULL is allowed */

/* Waits for transfers that were started (entries may be NULL) and clears the array; a host that is silent until the
 * timeout of the local group, and HD_OTHER_HOST_S more, breaks it. Returns hd__local_group_check. Any thread of any
 * rank. */
hd_status hd__cluster_await(hd_local_group *local, hd_ctx *ctx, hd_transfer **transfer, int *peer, int count);

/* Frees the exchanges in the list of unused ones. */
void hd__cluster_free_exchanges(struct hd_cluster *cluster);

/* Leaders: broadcasts `data` of the first host to all hosts. */
hd_status hd__cluster_broadcast(hd_local_group *local, hd_ctx *ctx, void *data, int64_t bytes);

/* Blocks that lie one after the other from `data` on, bytes[h] of host h. */
typedef struct hd_blocks {
  void *data;
  const int64_t *bytes;
  bool to_first; /* only the first host receives them */
} hd_blocks;

/* Rows of `stride` bytes that lie one after the other from `data` on: host h has filled [row[h], row[h + 1]), and
 * receives the bytes [from[h], from[h + 1]) of all rows. */
typedef struct hd_slices {
  void *data;
  int64_t stride;
  const int32_t *row;
  const int64_t *from;
} hd_slices;

/* Leaders: all-gather of blocks: host h has filled block h. `count` such arrays at once, together with slices unless
 * that is NULL. *last is the first rank of the host whose transfer ended last, -1: none; it may be NULL. A failure
 * breaks the local group, so that the barriers at which other ranks wait for this one fail, too. */
hd_status hd__cluster_join_blocks(int *last, hd_local_group *local, hd_ctx *ctx, const hd_blocks *blocks, int count,
                                  const hd_slices *slices);
