/* Faults of other hosts: see cluster_faults.h. */
#include "exec/exchange/cluster_faults.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "exec/exchange/cluster_state.h"
#include "exec/exchange/transfer_tags.h"
#include "platform/clock.h"

hd_status hd__cluster_receive_faults(struct hd_cluster *h, hd_ctx *ctx) {
  char why[HD_TRANSPORT_WHY_BYTES];
  const hd_transfer_part part = {.data = &h->received_fault,
                                 .bytes = sizeof h->received_fault,
                                 .peer = HD_TRANSPORT_ANY_RANK,
                                 .tag = HD_TAG_FAULT,
                                 .receives = 1};
  if (h->transport->start(&h->fault_receive, &part, 1, why) != 0)
    return hd__fail(ctx, HD_E_SYSTEM, "expected to receive from other hosts, found: %s", why);
  return HD_OK;
}

/* A fault of another host breaks this host's local group, too; rank -1: none of its ranks failed. One thread tests at a
 * time: a test that succeeds frees the transfer. */
static void receive_fault(struct hd_cluster *h) {
  char why[HD_TRANSPORT_WHY_BYTES];
  if (pthread_mutex_trylock(&h->lock))
    return;
  const bool received = h->fault_receive && h->transport->test(h->fault_receive, why) == 1;
  if (received)
    h->fault_receive = NULL;
  pthread_mutex_unlock(&h->lock);
  if (!received)
    return;
  h->received_fault.rank = -1;
  hd__local_group_break(h->local, &h->received_fault);
}

void hd__cluster_poll_faults(hd_local_group *local) {
  struct hd_cluster *h = hd__local_group_cluster(local);
  if (h && hd__local_group_rank(local) == 0)
    receive_fault(h);
}

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
