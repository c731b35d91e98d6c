/* The map of ranks to hosts, and sending a fault to the other hosts: see cluster_state.h. */
#include "exec/exchange/cluster_state.h"

#include <sched.h>

#include "exec/exchange/transfer_tags.h"
#include "platform/clock.h"

static const double SEND_FAULT_S = 0.2; /* timeout of sending a fault to other hosts */

int hd__cluster_place_of(const struct hd_cluster *h, int rank) {
  int place = 0;
  while (h->member[place] != rank)
    place++;
  return place;
}

int hd__cluster_host_of(const struct hd_cluster *h, int rank) {
  const int place = hd__cluster_place_of(h, rank);
  int which = 0;
  while (h->host[which + 1].first <= place)
    which++;
  return which;
}

int hd__cluster_global_rank(const struct hd_cluster *h, int local_rank) {
  return h ? h->member[h->host[h->this_host].first + local_rank] : local_rank;
}

void hd__cluster_send_fault(struct hd_cluster *h, const hd_fault *fault) {
  char why[HD_TRANSPORT_WHY_BYTES];
  int left = 0;
  if (!h || h->count == 1 || fault->rank < 0 || atomic_fetch_add(&h->fault_sends, 1))
    return;
  h->sent_fault = *fault;
  for (int i = 0; i < h->count; i++) {
    const hd_transfer_part part = {.data = &h->sent_fault,
                                   .bytes = sizeof h->sent_fault,
                                   .peer = h->member[h->host[i].first],
                                   .tag = HD_TAG_FAULT};
    if (i != h->this_host && h->transport->start(&h->host[i].fault_send, &part, 1, why) == 0)
      left++;
  }
  for (double end_s = hd__clock_s() + SEND_FAULT_S; left > 0 && hd__clock_s() < end_s; sched_yield())
    for (int i = 0; i < h->count; i++)
      if (h->host[i].fault_send && h->transport->test(h->host[i].fault_send, why) != 0) {
        h->host[i].fault_send = NULL;
        left--;
      }
}
