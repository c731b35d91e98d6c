/* Faults of other hosts, and ranks that have left: see cluster_faults.h. */
#include "exec/exchange/cluster_faults.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "exec/exchange/cluster_state.h"
#include "exec/exchange/transfer_tags.h"
#include "platform/clock.h"

static const double ARRIVED_S = 0.5; /* after that, everything that a rank sent before it left has arrived */
static const double LEAVE_S = 0.5;   /* timeout of waiting for the other leaders to leave */

static bool receive_left(struct hd_cluster *h, char *why) {
  const hd_transfer_part part = {.data = &h->received_left,
                                 .bytes = sizeof h->received_left,
                                 .peer = HD_TRANSPORT_ANY_RANK,
                                 .tag = HD_TAG_LEFT,
                                 .receives = 1};
  return h->transport->start(&h->left_receive, &part, 1, why) == 0;
}

hd_status hd__cluster_receive_faults(struct hd_cluster *h, hd_ctx *ctx) {
  char why[HD_TRANSPORT_WHY_BYTES];
  const hd_transfer_part part = {.data = &h->received_fault,
                                 .bytes = sizeof h->received_fault,
                                 .peer = HD_TRANSPORT_ANY_RANK,
                                 .tag = HD_TAG_FAULT,
                                 .receives = 1};
  const int ranks = hd__local_group_ranks(h->local);
  h->sent_left = hd__malloc((size_t)ranks * sizeof *h->sent_left);
  h->left_send = hd__calloc((size_t)ranks * (size_t)h->count, sizeof *h->left_send);
  HD_TRY(HD_ALLOCATED(h->sent_left && h->left_send, ctx, "out of memory for the ranks of %d hosts", h->count));
  for (int r = 0; r < ranks; r++)
    h->sent_left[r] = -1;
  if (h->transport->start(&h->fault_receive, &part, 1, why) != 0 || !receive_left(h, why))
    return hd__fail(ctx, HD_E_SYSTEM, "cannot receive from other hosts: %s", why);
  return HD_OK;
}

/* A fault of another host breaks this host's local group, too; rank -1: none of its ranks failed. One thread tests at a
 * time: a test that succeeds frees the transfer. */
static void receive_fault(struct hd_cluster *h) {
  char why[HD_TRANSPORT_WHY_BYTES];
  if (pthread_mutex_trylock(&h->lock))
    return;
  const int got = h->fault_receive ? h->transport->test(h->fault_receive, why) : 0;
  const bool received = got == 1;
  if (got != 0)
    h->fault_receive = NULL;
  pthread_mutex_unlock(&h->lock);
  if (!received)
    return;
  h->received_fault.rank = -1;
  hd__local_group_break(h->local, &h->received_fault);
}

/* ---- ranks that have left ---- */

/* Notes all ranks of other hosts that were reported. Under the lock, like the calls below. */
static void note_left(struct hd_cluster *h) {
  char why[HD_TRANSPORT_WHY_BYTES];
  for (int got; h->left_receive && (got = h->transport->test(h->left_receive, why)) != 0;) {
    h->left_receive = NULL;
    if (got < 0)
      return;
    if (h->received_left >= 0 && h->received_left < h->ranks)
      atomic_store(&h->left_s[h->received_left], hd__clock_s());
    receive_left(h, why);
  }
}

/* Reports to the other leaders, once, that a rank of this host has left. */
static void send_left(struct hd_cluster *h, int local_rank) {
  char why[HD_TRANSPORT_WHY_BYTES];
  if (h->sent_left[local_rank] >= 0)
    return;
  h->sent_left[local_rank] = hd__cluster_global_rank(h, local_rank);
  for (int i = 0; i < h->count; i++) {
    const hd_transfer_part part = {.data = &h->sent_left[local_rank],
                                   .bytes = sizeof *h->sent_left,
                                   .peer = h->member[h->host[i].first],
                                   .tag = HD_TAG_LEFT};
    hd_transfer **send = &h->left_send[local_rank * h->count + i];
    if (i != h->this_host && h->transport->start(send, &part, 1, why) != 0)
      *send = NULL;
  }
}

/* Whether all sends are done. */
static bool test_sends(struct hd_cluster *h) {
  char why[HD_TRANSPORT_WHY_BYTES];
  bool gone = true;
  for (int i = 0; i < h->count * hd__local_group_ranks(h->local); i++) {
    if (h->left_send[i] && h->transport->test(h->left_send[i], why) != 0)
      h->left_send[i] = NULL;
    gone &= !h->left_send[i];
  }
  return gone;
}

static void pass_on_left(struct hd_cluster *h) {
  if (pthread_mutex_trylock(&h->lock))
    return;
  note_left(h);
  for (int r = 0; h->left_receive && r < hd__local_group_ranks(h->local); r++)
    if (hd__local_group_view(h->local, r).state == HD_RANK_LEFT)
      send_left(h, r);
  if (h->left_receive)
    test_sends(h);
  pthread_mutex_unlock(&h->lock);
}

bool hd__cluster_has_left(const hd_local_group *local, int rank) {
  const struct hd_cluster *h = hd__local_group_cluster(local);
  const double noted_s = h && h->left_s ? atomic_load(&h->left_s[rank]) : 0;
  return noted_s > 0 && hd__clock_s() - noted_s > ARRIVED_S;
}

static bool all_leave(const struct hd_cluster *h) {
  for (int i = 0; i < h->count; i++)
    if (i != h->this_host && atomic_load(&h->left_s[h->member[h->host[i].first]]) == 0)
      return false;
  return true;
}

void hd__cluster_leave(struct hd_cluster *h) {
  if (!h->left_receive)
    return;
  pthread_mutex_lock(&h->lock);
  send_left(h, 0);
  for (const double end_s = hd__clock_s() + LEAVE_S; hd__clock_s() < end_s; sched_yield()) {
    note_left(h);
    if (test_sends(h) && all_leave(h))
      break;
  }
  for (int i = 0; i < h->count * hd__local_group_ranks(h->local); i++)
    h->transport->drop(h->left_send[i]);
  h->transport->drop(h->left_receive);
  h->left_receive = NULL;
  pthread_mutex_unlock(&h->lock);
}

void hd__cluster_poll_faults(hd_local_group *local) {
  struct hd_cluster *h = hd__local_group_cluster(local);
  if (!h || hd__local_group_rank(local) != 0)
    return;
  receive_fault(h);
  pass_on_left(h);
}

/* ---- breaking and timeouts ---- */

/* The pid is only known for leaders. */
void hd__cluster_give_up(struct hd_cluster *h, int rank, hd_fault_kind kind, int32_t seconds, const char *text) {
  const int which = hd__cluster_host_of(h, rank);
  const int64_t step = hd__local_group_view(h->local, hd__local_group_rank(h->local)).step;
  hd_fault fault = {
      .kind = kind, .rank = -1, .global_rank = rank, .pid = h->host[which].pid, .number = seconds, .step = step};
  memcpy(fault.host, h->host[which].name, sizeof fault.host);
  snprintf(fault.text, sizeof fault.text, "%s", text);
  hd__local_group_break(h->local, &fault);
}

void hd__cluster_shorten_timeout(hd_local_group *local) {
  struct hd_cluster *h = hd__local_group_cluster(local);
  if (h && atomic_load(&h->shortened_s) == 0)
    atomic_store(&h->shortened_s, hd__clock_s());
}

void hd__cluster_restore_timeout(hd_local_group *local) {
  struct hd_cluster *h = hd__local_group_cluster(local);
  if (h)
    atomic_store(&h->shortened_s, 0);
}
