/* The service thread of a rank: it runs the functions that other ranks call, see rpc_state.h. */
#include "rpc/rpc_state.h"

/* Runs the next call in the queue; false: there is none. The caller writes the header before the entry. */
static bool serve_next(hd_rpc *rpc, unsigned *head) {
  atomic_uint *entry = &rpc->queue->entry[*head & (rpc->entries - 1)];
  const unsigned number = atomic_load(entry);
  if (number == 0)
    return false;
  atomic_store_explicit(entry, 0, memory_order_relaxed);
  ++*head;
  const int place = (int)((number - 1) / HD_RPC_CALLS), which = (int)((number - 1) % HD_RPC_CALLS);
  if (place >= rpc->group->here) /* another process has overwritten it */
    return true;
  hd_rpc_slot *slot = hd__rpc_slot(rpc, place, which);
  if (hd__rpc_state(slot) != HD_RPC_GIVEN_UP) {
    hd_rpc_header header = hd__rpc_header(slot);
    hd__rpc_run(rpc, &header, hd__rpc_elements(rpc, place, which), rpc->rank_at[place]);
    slot->header = header;
  }
  hd__rpc_finish(slot);
  return true;
}

/* Sleeps until a caller of this host wakes the thread, or for a nap. Either this thread sees the entry or the caller
 * sees `sleeps`. */
static void nap(hd_rpc *rpc, unsigned head, int naps) {
  atomic_store(&rpc->queue->sleeps, 1);
  if (atomic_load(&rpc->queue->entry[head & (rpc->entries - 1)]) == 0 && !atomic_load(&rpc->ends))
    hd__word_wait(&rpc->queue->sleeps, 1, hd__rpc_nap_ns(rpc, naps));
  atomic_store(&rpc->queue->sleeps, 0);
}

/* The thread polls for a while after it has served a call. Replies are mostly received by the waiting threads. */
void *hd__rpc_serve(void *arg) {
  hd_rpc *rpc = arg;
  unsigned head = 0;
  hd_wait wait = rpc->wait;
  for (int naps = 0; !atomic_load_explicit(&rpc->ends, memory_order_relaxed);) {
    const bool served = serve_next(rpc, &head), remote = hd__rpc_hosts_serve(rpc);
    if (served || remote) {
      wait = rpc->wait;
      naps = 0;
    } else if (hd__rpc_hosts_receive(rpc)) {
      naps = 0;
    } else if (!hd__wait_turn(&wait)) {
      nap(rpc, head, naps++);
      hd__group_check_rank(rpc->group, rpc->group->rank);
      if (hd__group_check(rpc->group, NULL) != HD_OK)
        break;
    }
  }
  return NULL;
}
