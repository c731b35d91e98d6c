/* The layout of queues, slots and elements, reading headers, and waiting: see rpc_state.h. */
#include "comm/rank_sums.h"
#include "rpc/rpc_state.h"

enum { PAGE_BYTES = 4096 };

/* ---- waiting ---- */

int64_t hd__rpc_nap_ns(const hd_rpc *rpc, int naps) {
  enum { LEAST_US = 20, MOST_US = 1000, NAPS_OF_A_LENGTH = 64, DOUBLINGS = 6 };
  if (!rpc->hosts)
    return HD_BARRIER_CHECK_MS * INT64_C(1000000);
  const int doublings = naps / NAPS_OF_A_LENGTH < DOUBLINGS ? naps / NAPS_OF_A_LENGTH : DOUBLINGS;
  const int64_t us = (int64_t)LEAST_US << doublings;
  return 1000 * (us < MOST_US ? us : MOST_US);
}

/* ---- memory ---- */

static size_t queue_bytes(const hd_rpc *rpc) {
  const size_t bytes = sizeof(hd_rpc_queue) + rpc->entries * sizeof(atomic_uint);
  return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

size_t hd__rpc_range_bytes(const hd_rpc *rpc) {
  return queue_bytes(rpc) + HD_RPC_CALLS * (sizeof(hd_rpc_slot) + 2 * rpc->room);
}

static char *range_of(const hd_rpc *rpc, int place) {
  const hd_group_buffer *b = &rpc->group->buffer[0];
  return (char *)b->map.base + (size_t)place * b->stride;
}

hd_rpc_queue *hd__rpc_queue(const hd_rpc *rpc, int place) { return (hd_rpc_queue *)range_of(rpc, place); }

hd_rpc_slot *hd__rpc_slot(const hd_rpc *rpc, int place, int slot) {
  return (hd_rpc_slot *)(range_of(rpc, place) + queue_bytes(rpc)) + slot;
}

char *hd__rpc_elements(const hd_rpc *rpc, int place, int slot) {
  return (char *)hd__rpc_slot(rpc, place, HD_RPC_CALLS) + 2 * (size_t)slot * rpc->room;
}

char *hd__rpc_result(const hd_rpc *rpc, const hd_rpc_header *h, char *elements) {
  return h->in_place ? elements : elements + rpc->room;
}

/* ---- slots and arrays ---- */

unsigned hd__rpc_state(hd_rpc_slot *slot) { return atomic_load(&slot->state) & ~(unsigned)HD_RPC_SLEEPS; }

void hd__rpc_finish(hd_rpc_slot *slot) {
  if (atomic_exchange(&slot->state, HD_RPC_DONE) & HD_RPC_SLEEPS)
    hd__word_wake(&slot->state);
}

static int64_t least_size(const hd_rpc_header *h) {
  int64_t least = 1;
  for (int i = 0; i < h->ndim; i++)
    least = h->size[i] < least ? h->size[i] : least;
  return least;
}

hd_rpc_header hd__rpc_header(const hd_rpc_slot *slot) {
  const hd_rpc_header header = slot->header;
  atomic_signal_fence(memory_order_seq_cst); /* the compiler must not read the memory again */
  return header;
}

size_t hd__rpc_bytes(const hd_rpc_header *h, size_t most) {
  size_t bytes = hd__dtype_size((hd_dtype)h->dtype);
  if (bytes == 0 || h->ndim < 0 || h->ndim > HD_RPC_MAX_DIMS)
    return SIZE_MAX;
  if (least_size(h) <= 0)
    return least_size(h) < 0 ? SIZE_MAX : 0;
  for (int i = 0; i < h->ndim; i++) {
    if (bytes > most / (size_t)h->size[i])
      return SIZE_MAX;
    bytes *= (size_t)h->size[i];
  }
  return bytes <= most ? bytes : SIZE_MAX;
}
