/* Messages from rank to rank: a box for each ordered pair of them, in the group's memory, with two fragments.
 *
 *     box of (from, to):  | sent | taken | fragment 0 | fragment 1 |
 *
 * `sent` and `taken` count fragments; the sender alone writes the one, the receiver the other. A fragment says of how
 * many elements of which type its message is. Each rank has a bell, which others ring when they have changed one of its
 * boxes: who waits for several messages at once waits for that.
 *
 * A message to another host goes through the transport: what it is, then its elements. */
#ifndef HD_COMM_MESSAGE_H
#define HD_COMM_MESSAGE_H

#include "comm/group.h"
#include "comm/transport.h"

size_t hd__bells_bytes(int ranks);
size_t hd__boxes_bytes(size_t *fragment_bytes, int ranks);

/* What a message to another host is. */
typedef struct hd_letter {
  uint64_t count, dtype;
  int64_t group; /* that it was sent in */
} hd_letter;

/* A send or a receive on its way; all zero but for the call at first. */
typedef struct hd_message {
  const hd_group_call *call;
  hd_letter letter;
  hd_transfer *transfer; /* to another host, or from there */
  size_t moved;
  bool begun;
  int64_t since_ns; /* waiting, without progress; 0: not */
} hd_message;

/* HD_E_USAGE for a call that makes no sense. */
hd_status hd__message_check(const hd_group *group, hd_ctx *ctx, const hd_group_call *call);

/* Moves what can be moved now. */
hd_status hd__message_move(bool *done, hd_group *group, hd_ctx *ctx, hd_message *message);

/* After a wait in vain: whether this one has waited for too long, or the other rank has left; ends the group then. */
void hd__message_look(hd_group *group, hd_message *message);

/* What this rank's bell says now, and waiting until it says something else, or for a moment. */
unsigned hd__bell_seen(const hd_group *group);
void hd__bell_wait(hd_group *group, unsigned seen);
void hd__bell_rest(void); /* instead, where nobody rings: a message to another host is on its way */
void hd__bell_ring(hd_group *group, int rank);

/* A whole message in this thread. */
hd_status hd__message(hd_group *group, hd_ctx *ctx, const hd_group_call *call);

#endif
