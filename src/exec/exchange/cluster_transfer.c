/* Transfers between hosts: exchanges (reused, so that a step allocates nothing), waiting for them, and the
 * collectives of leaders. See cluster_transfer.h. */
#include "exec/exchange/cluster_transfer.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "exec/exchange/cluster_faults.h"
#include "exec/exchange/cluster_state.h"
#include "exec/exchange/transfer_tags.h"
#include "platform/clock.h"
#include "platform/wait.h"

enum { CHECK_MS = 5, REST_US = 50 };

static const double LONG_S = 0.1;          /* a wait is a long one from here on: the rank may be slow on purpose */
static const double SHORT_TIMEOUT_S = 0.3; /* timeout of waits for a host while the job is being ended */

static void free_exchange(hd_cluster_exchange *m) {
  hd__free(m->part);
  hd__free(m->transfer);
  hd__free(m->peer);
  hd__free(m);
}

void hd__cluster_free_exchanges(struct hd_cluster *h) {
  for (hd_cluster_exchange *m = h->unused, *next; m; m = next) {
    next = m->next;
    free_exchange(m);
  }
  h->unused = NULL;
}

static bool make_room(hd_cluster_exchange *m, int parts) {
  if (m->room >= parts)
    return true;
  hd_transfer_part *part = hd__realloc(m->part, (size_t)parts * sizeof *part);
  m->part = part ? part : m->part;
  hd_transfer **transfer = hd__realloc(m->transfer, (size_t)parts * sizeof(hd_transfer *));
  m->transfer = transfer ? transfer : m->transfer;
  int *peer = hd__realloc(m->peer, (size_t)parts * sizeof *peer);
  m->peer = peer ? peer : m->peer;
  if (!part || !transfer || !peer)
    return false;
  m->room = parts;
  return true;
}

hd_cluster_exchange *hd__cluster_exchange(hd_local_group *local, int parts) {
  struct hd_cluster *h = hd__local_group_cluster(local);
  pthread_mutex_lock(&h->lock);
  hd_cluster_exchange *m = h->unused;
  if (m)
    h->unused = m->next;
  pthread_mutex_unlock(&h->lock);
  if (!m)
    m = hd__calloc(1, sizeof *m);
  if (m && !make_room(m, parts)) {
    free_exchange(m);
    m = NULL;
  }
  if (m)
    m->count = 0;
  return m;
}

void hd__cluster_keep_exchange(hd_local_group *local, hd_cluster_exchange *m) {
  struct hd_cluster *h = hd__local_group_cluster(local);
  pthread_mutex_lock(&h->lock);
  m->next = h->unused;
  h->unused = m;
  pthread_mutex_unlock(&h->lock);
}

/* Running transfers, one for each peer. */
typedef struct moving {
  struct hd_cluster *cluster;
  hd_transfer **transfer;
  int *peer;
  int count, left;
  int last; /* the peer whose transfer ended last, -1: none */
  double began_s, timeout_s;
  bool may_break; /* the timeout breaks the local group */
  const hd_transfer_watch *watch;
} moving;

/* A peer whose transfer has not ended; -1: none. */
static int missing(const moving *m) {
  for (int i = 0; i < m->count; i++)
    if (m->transfer[i])
      return m->peer[i];
  return -1;
}

static void check_timeouts(moving *m) {
  struct hd_cluster *h = m->cluster;
  const double now_s = hd__clock_s(), shortened_s = atomic_load(&h->shortened_s);
  hd__cluster_poll_faults(h->local);
  if (m->may_break && now_s - m->began_s > m->timeout_s)
    hd__cluster_give_up(h, missing(m), HD_FAULT_SILENT, (int32_t)m->timeout_s, "");
  if (shortened_s > 0 && now_s - shortened_s > SHORT_TIMEOUT_S && now_s - m->began_s > SHORT_TIMEOUT_S)
    hd__cluster_give_up(h, missing(m), HD_FAULT_ENDING, 0, "");
}

static bool is_watch_broken(const moving *m) { return m->watch && atomic_load(m->watch->broken) != 0; }

/* Cancels the transfers that have not ended: their memory may be freed. */
static void drop_rest(moving *m) {
  for (int i = 0; i < m->count; i++) {
    m->cluster->transport->drop(m->transfer[i]);
    m->transfer[i] = NULL;
  }
}

static void check_watch(const moving *m) {
  for (int i = 0; m->watch && i < m->count; i++)
    if (m->transfer[i])
      m->watch->check(m->watch->self, m->peer[i]);
}

static void test_all(moving *m) {
  char why[HD_TRANSPORT_WHY_BYTES];
  for (int i = 0; i < m->count; i++) {
    const int done = m->transfer[i] ? m->cluster->transport->test(m->transfer[i], why) : 0;
    if (done < 0)
      hd__cluster_give_up(m->cluster, m->peer[i], HD_FAULT_CUT, 0, why);
    if (done == 0)
      continue;
    m->transfer[i] = NULL;
    m->last = m->peer[i];
    m->left--;
  }
}

/* Spins, then yields the CPU and sleeps at intervals; in a long wait it sleeps between any two tests. */
static hd_status wait_for(moving *m, hd_ctx *ctx) {
  const struct timespec rest = {.tv_nsec = REST_US * 1000L};
  const atomic_uint *broken = hd__local_group_broken_word(m->cluster->local);
  double checked_s = m->began_s = hd__clock_s();
  for (hd_wait wait = hd__wait_transfer(); m->left > 0;) {
    test_all(m);
    if (m->left == 0 || hd__wait_turn(&wait))
      continue;
    sched_yield();
    const double now_s = hd__clock_s();
    if (now_s - checked_s < 1e-3 * CHECK_MS && now_s - m->began_s < LONG_S)
      continue;
    checked_s = now_s;
    check_timeouts(m);
    check_watch(m);
    nanosleep(&rest, NULL);
    if (atomic_load(broken) || is_watch_broken(m) || (!m->may_break && checked_s - m->began_s > m->timeout_s))
      break;
  }
  return hd__local_group_check(m->cluster->local, ctx);
}

static hd_status start_all(moving *m, hd_ctx *ctx, const hd_transfer_part *parts, int count) {
  char why[HD_TRANSPORT_WHY_BYTES];
  for (int first = 0, end; first < count; first = end) {
    for (end = first + 1; end < count && parts[end].peer == parts[first].peer; end++) {
    }
    m->peer[m->count] = parts[first].peer;
    if (m->cluster->transport->start(&m->transfer[m->count], parts + first, end - first, why) != 0) {
      hd__cluster_give_up(m->cluster, parts[first].peer, HD_FAULT_CUT, 0, why);
      return hd__local_group_check(m->cluster->local, ctx);
    }
    m->count++;
    m->left++;
  }
  return HD_OK;
}

static hd_status move(moving *m, hd_ctx *ctx, hd_cluster_exchange *of) {
  m->transfer = of->transfer;
  m->peer = of->peer;
  m->last = -1;
  memset(of->transfer, 0, (size_t)of->count * sizeof(hd_transfer *));
  hd_status status = start_all(m, ctx, of->part, of->count);
  return status == HD_OK && of->count > 0 ? wait_for(m, ctx) : status;
}

hd_status hd__cluster_exchange_within(int *late, hd_local_group *local, hd_ctx *ctx, hd_cluster_exchange *of,
                                      double timeout_s, const hd_transfer_watch *watch) {
  moving m = {.cluster = hd__local_group_cluster(local), .timeout_s = timeout_s, .watch = watch};
  *late = -1;
  hd_status status = move(&m, ctx, of);
  if (status == HD_OK && m.left > 0) {
    *late = missing(&m);
    status = is_watch_broken(&m) ? HD_E_PEER
                                 : hd__fail(ctx, HD_E_TIMEOUT, "rank %d did not answer within %g s", *late, timeout_s);
  }
  drop_rest(&m);
  hd__cluster_keep_exchange(local, of);
  return status;
}

hd_status hd__cluster_start(hd_transfer **out, hd_local_group *local, hd_ctx *ctx, const hd_transfer_part *parts,
                            int count) {
  char why[HD_TRANSPORT_WHY_BYTES];
  struct hd_cluster *h = hd__local_group_cluster(local);
  if (h->transport->start(out, parts, count, why) == 0)
    return HD_OK;
  hd__cluster_give_up(h, parts[0].peer, HD_FAULT_CUT, 0, why);
  return hd__local_group_check(local, ctx);
}

int hd__cluster_test(hd_local_group *local, hd_transfer *transfer, int peer) {
  char why[HD_TRANSPORT_WHY_BYTES];
  struct hd_cluster *h = hd__local_group_cluster(local);
  const int done = h->transport->test(transfer, why);
  if (done < 0)
    hd__cluster_give_up(h, peer, HD_FAULT_CUT, 0, why);
  return done;
}

hd_status hd__cluster_await(hd_local_group *local, hd_ctx *ctx, hd_transfer **transfer, int *peer, int count) {
  moving m = {.cluster = hd__local_group_cluster(local),
              .transfer = transfer,
              .peer = peer,
              .count = count,
              .timeout_s = hd__local_group_timeout(local) + HD_OTHER_HOST_S,
              .may_break = true};
  for (int i = 0; i < count; i++)
    m.left += transfer[i] != NULL;
  const hd_status status = m.left > 0 ? wait_for(&m, ctx) : HD_OK;
  drop_rest(&m);
  return status;
}

void hd__cluster_drop(hd_local_group *local, hd_transfer *transfer) {
  hd__local_group_cluster(local)->transport->drop(transfer);
}

static char *block_of(const hd_blocks *blocks, int which) {
  char *at = blocks->data;
  for (int i = 0; i < which; i++)
    at += blocks->bytes[i];
  return at;
}

/* Adds the transfers of blocks between this host and another one. */
static void add_blocks(hd_cluster_exchange *m, const struct hd_cluster *h, int other, const hd_blocks *b) {
  const int32_t peer = h->member[h->host[other].first];
  const int64_t received = b->to_first && h->this_host > 0 ? 0 : b->bytes[other];
  const int64_t sent = b->to_first && other > 0 ? 0 : b->bytes[h->this_host];
  if (received > 0)
    m->part[m->count++] = (hd_transfer_part){block_of(b, other), received, peer, HD_TAG_HOSTS, 1};
  if (sent > 0)
    m->part[m->count++] = (hd_transfer_part){block_of(b, h->this_host), sent, peer, HD_TAG_HOSTS, 0};
}

/* Adds the transfers of the bytes of rows that one host has filled and another one receives. */
static void add_slices(hd_cluster_exchange *m, const struct hd_cluster *h, int filled, int gets, const hd_slices *s) {
  const bool receives = gets == h->this_host;
  const int32_t peer = h->member[h->host[receives ? filled : gets].first];
  const int64_t bytes = s->from[gets + 1] - s->from[gets];
  for (int32_t row = s->row[filled]; row < s->row[filled + 1] && bytes > 0; row++)
    m->part[m->count++] =
        (hd_transfer_part){(char *)s->data + row * s->stride + s->from[gets], bytes, peer, HD_TAG_HOSTS, receives};
}

static int most_parts(const struct hd_cluster *h, int blocks, const hd_slices *s) {
  return 2 * blocks * h->count +
         (s ? s->row[h->count] + h->count * (s->row[h->this_host + 1] - s->row[h->this_host]) : 0);
}

hd_status hd__cluster_join_blocks(int *last, hd_local_group *local, hd_ctx *ctx, const hd_blocks *blocks, int count,
                                  const hd_slices *slices) {
  struct hd_cluster *h = hd__local_group_cluster(local);
  if (last)
    *last = -1;
  if (!h || h->count == 1)
    return HD_OK;
  hd_cluster_exchange *m = hd__cluster_exchange(local, most_parts(h, count, slices));
  if (!m) {
    hd__local_group_give_up(local, "out of memory for what hosts exchange");
    return hd__local_group_check(local, ctx);
  }
  for (int i = 0; i < h->count; i++) {
    for (int b = 0; b < count && i != h->this_host; b++)
      add_blocks(m, h, i, &blocks[b]);
    if (slices && i != h->this_host) {
      add_slices(m, h, i, h->this_host, slices);
      add_slices(m, h, h->this_host, i, slices);
    }
  }
  moving way = {.cluster = h, .timeout_s = hd__local_group_timeout(local) + HD_OTHER_HOST_S, .may_break = true};
  const hd_status status = move(&way, ctx, m);
  if (last)
    *last = way.last;
  drop_rest(&way);
  hd__cluster_keep_exchange(local, m);
  return status;
}

hd_status hd__cluster_broadcast(hd_local_group *local, hd_ctx *ctx, void *data, int64_t bytes) {
  const struct hd_cluster *h = hd__local_group_cluster(local);
  const int hosts = h ? h->count : 1;
  HD_OWNED int64_t *of = NULL;
  HD_TRY(HD_NEW(of, hosts, ctx, "out of memory for %d hosts", hosts));
  of[0] = bytes;
  return hd__cluster_join_blocks(NULL, local, ctx, &(hd_blocks){.data = data, .bytes = of}, 1, NULL);
}
