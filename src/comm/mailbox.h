/* Messages from rank to rank: a mailbox for each ordered pair of ranks, in the group's memory, with two fragments.
 *
 *     mailbox of (from, to):  | sent | taken | fragment 0 | fragment 1 |
 *
 * `sent` and `taken` count fragments; only the sender writes `sent`, only the receiver writes `taken`. A fragment
 * holds the count and type of the elements of its message. Each rank has an event counter, which other ranks
 * increment after a change to one of its mailboxes, so that it can wait for several messages at once.
 *
 * A message to another host goes through the transport: a header, then the elements. */
#pragma once

#include "comm/group_state.h"
#include "exec/exchange/transport.h"

size_t hd__event_counters_bytes(int ranks);
size_t hd__mailboxes_bytes(size_t *fragment_bytes, int ranks);

/* The header of a message to another host. */
typedef struct hd_message_header {
  uint64_t count, dtype;
  int64_t group; /* number of the group that it was sent in */
} hd_message_header;

/* A running send or receive; initially all zero but for the call. */
typedef struct hd_message {
  const hd_group_call *call;
  hd_message_header header;
  hd_transfer *transfer; /* to or from another host; NULL: none is running */
  size_t moved;
  bool begun;
  int64_t since_ns; /* begin of the wait without progress; 0: none */
} hd_message;

/* HD_E_USAGE for an invalid call. */
hd_status hd__message_check(const hd_group *group, hd_ctx *ctx, const hd_group_call *call);

/* Makes progress without waiting. `waited`: after a wait without an event, then without progress it breaks the group if
 * the timeout has passed or the other rank has left. */
hd_status hd__message_move(bool *done, hd_group *group, hd_ctx *ctx, hd_message *message, bool waited);

/* Cancels the transfer of a message that has failed. */
void hd__message_drop(hd_group *group, hd_message *message);

/* The value of this rank's event counter; waiting until it differs from `seen`, or a limited time. */
unsigned hd__event_seen(const hd_group *group);
void hd__event_wait(hd_group *group, unsigned seen);
void hd__event_pause(void); /* a short sleep, for transfers to other hosts, which change no event counter */
void hd__event_signal(hd_group *group, int rank);

/* Sends or receives a whole message in this thread. */
hd_status hd__message(hd_group *group, hd_ctx *ctx, const hd_group_call *call);
