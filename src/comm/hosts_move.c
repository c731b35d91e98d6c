/* Moving bytes between hosts: movements, which rest between two uses so that a step allocates nothing, waiting for them,
 * and what leaders exchange. See hosts.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "comm/hosts_state.h"
#include "sys/clock.h"

enum { SPINS = 2000, LOOK_MS = 5, REST_US = 50 };

static const double HURRY_S = 0.3; /* how long one waits for a host while the job is being ended */

static void free_movement(hd_movement *m) {
  hd__free(m->part);
  hd__free(m->transfer);
  hd__free(m->peer);
  hd__free(m);
}

void hd__hosts_free_movements(hd_hosts *h) {
  for (hd_movement *m = h->resting, *next; m; m = next) {
    next = m->next;
    free_movement(m);
  }
  h->resting = NULL;
}

static bool make_room(hd_movement *m, int parts) {
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

hd_movement *hd__hosts_movement(hd_world *world, int parts) {
  hd_hosts *h = hd__world_hosts(world);
  pthread_mutex_lock(&h->lock);
  hd_movement *m = h->resting;
  if (m)
    h->resting = m->next;
  pthread_mutex_unlock(&h->lock);
  if (!m)
    m = hd__calloc(1, sizeof *m);
  if (m && !make_room(m, parts)) {
    free_movement(m);
    m = NULL;
  }
  if (m)
    m->count = 0;
  return m;
}

static void put_to_rest(hd_world *world, hd_movement *m) {
  hd_hosts *h = hd__world_hosts(world);
  pthread_mutex_lock(&h->lock);
  m->next = h->resting;
  h->resting = m;
  pthread_mutex_unlock(&h->lock);
}

/* Transfers on their way, one for each peer. */
typedef struct moving {
  hd_hosts *hosts;
  hd_transfer **transfer;
  int *peer;
  int count, left;
  int last; /* whose ended last, -1: nobody's */
  double began_s, patience_s;
  bool may_break; /* the world, when patience is at its end */
} moving;

/* Whoever is still waited for. */
static int missing(const moving *m) {
  for (int i = 0; i < m->count; i++)
    if (m->transfer[i])
      return m->peer[i];
  return -1;
}

static void look(moving *m) {
  hd_hosts *h = m->hosts;
  const double now_s = hd__clock_s(), hurried_s = atomic_load(&h->hurried_s);
  hd__hosts_listen(h->world);
  if (m->may_break && now_s - m->began_s > m->patience_s)
    hd__hosts_give_up(h, missing(m), HD_FAULT_SILENT, (int32_t)m->patience_s, "");
  if (hurried_s > 0 && now_s - hurried_s > HURRY_S && now_s - m->began_s > HURRY_S)
    hd__hosts_give_up(h, missing(m), HD_FAULT_ENDING, 0, "");
}

static void test_all(moving *m) {
  char why[HD_TRANSPORT_WHY_BYTES];
  for (int i = 0; i < m->count; i++) {
    const int done = m->transfer[i] ? m->hosts->transport->test(m->transfer[i], why) : 0;
    if (done < 0)
      hd__hosts_give_up(m->hosts, m->peer[i], HD_FAULT_CUT, 0, why);
    if (done == 0)
      continue;
    m->transfer[i] = NULL;
    m->last = m->peer[i];
    m->left--;
  }
}

/* Spins for a moment, then makes way, then rests between two looks. */
static hd_status wait_for(moving *m, hd_ctx *ctx) {
  const struct timespec rest = {.tv_nsec = REST_US * 1000L};
  const atomic_uint *broken = hd__world_broken_word(m->hosts->world);
  double looked_s = m->began_s = hd__clock_s();
  for (int i = 0; m->left > 0; i++) {
    test_all(m);
    if (i < SPINS || m->left == 0)
      continue;
    sched_yield();
    if (hd__clock_s() - looked_s < 1e-3 * LOOK_MS)
      continue;
    looked_s = hd__clock_s();
    look(m);
    nanosleep(&rest, NULL);
    if (atomic_load(broken) || (!m->may_break && looked_s - m->began_s > m->patience_s))
      break;
  }
  return hd__world_check(m->hosts->world, ctx);
}

static hd_status start_all(moving *m, hd_ctx *ctx, const hd_transfer_part *parts, int count) {
  char why[HD_TRANSPORT_WHY_BYTES];
  for (int first = 0, end; first < count; first = end) {
    for (end = first + 1; end < count && parts[end].peer == parts[first].peer; end++) {
    }
    m->peer[m->count] = parts[first].peer;
    if (m->hosts->transport->start(&m->transfer[m->count], parts + first, end - first, why) != 0) {
      hd__hosts_give_up(m->hosts, parts[first].peer, HD_FAULT_CUT, 0, why);
      return hd__world_check(m->hosts->world, ctx);
    }
    m->count++;
    m->left++;
  }
  return HD_OK;
}

static hd_status move(moving *m, hd_ctx *ctx, hd_movement *of) {
  m->transfer = of->transfer;
  m->peer = of->peer;
  m->last = -1;
  memset(of->transfer, 0, (size_t)of->count * sizeof(hd_transfer *));
  hd_status status = start_all(m, ctx, of->part, of->count);
  return status == HD_OK && of->count > 0 ? wait_for(m, ctx) : status;
}

hd_status hd__hosts_move_within(int *late, hd_world *world, hd_ctx *ctx, hd_movement *of, double patience_s) {
  moving m = {.hosts = hd__world_hosts(world), .patience_s = patience_s};
  *late = -1;
  hd_status status = move(&m, ctx, of);
  if (status == HD_OK && m.left > 0) {
    *late = missing(&m);
    for (int i = 0; i < m.count; i++)
      m.hosts->transport->drop(m.transfer[i]);
    status = hd__fail(ctx, HD_E_TIMEOUT, "expected rank %d within %g s, found that it did not come", *late, patience_s);
  }
  put_to_rest(world, of);
  return status;
}

hd_status hd__hosts_start(hd_transfer **out, hd_world *world, hd_ctx *ctx, const hd_transfer_part *parts, int count) {
  char why[HD_TRANSPORT_WHY_BYTES];
  hd_hosts *h = hd__world_hosts(world);
  if (h->transport->start(out, parts, count, why) == 0)
    return HD_OK;
  hd__hosts_give_up(h, parts[0].peer, HD_FAULT_CUT, 0, why);
  return hd__world_check(world, ctx);
}

int hd__hosts_test(hd_world *world, hd_transfer *transfer, int peer) {
  char why[HD_TRANSPORT_WHY_BYTES];
  hd_hosts *h = hd__world_hosts(world);
  const int done = h->transport->test(transfer, why);
  if (done < 0)
    hd__hosts_give_up(h, peer, HD_FAULT_CUT, 0, why);
  return done;
}

static char *block_of(const hd_blocks *blocks, int which) {
  char *at = blocks->data;
  for (int i = 0; i < which; i++)
    at += blocks->bytes[i];
  return at;
}

/* What this host and another one give each other of blocks. */
static void add_blocks(hd_movement *m, const hd_hosts *h, int other, const hd_blocks *b) {
  const int32_t peer = h->member[h->host[other].first];
  const int64_t theirs = b->to_first && h->mine > 0 ? 0 : b->bytes[other];
  const int64_t own = b->to_first && other > 0 ? 0 : b->bytes[h->mine];
  if (theirs > 0)
    m->part[m->count++] = (hd_transfer_part){block_of(b, other), theirs, peer, HD_TAG_HOSTS, 1};
  if (own > 0)
    m->part[m->count++] = (hd_transfer_part){block_of(b, h->mine), own, peer, HD_TAG_HOSTS, 0};
}

/* The bytes of rows that one host has filled and another one gets. */
static void add_slices(hd_movement *m, const hd_hosts *h, int filled, int gets, const hd_slices *s) {
  const bool receives = gets == h->mine;
  const int32_t peer = h->member[h->host[receives ? filled : gets].first];
  const int64_t bytes = s->from[gets + 1] - s->from[gets];
  for (int32_t row = s->row[filled]; row < s->row[filled + 1] && bytes > 0; row++)
    m->part[m->count++] =
        (hd_transfer_part){(char *)s->data + row * s->stride + s->from[gets], bytes, peer, HD_TAG_HOSTS, receives};
}

static int most_parts(const hd_hosts *h, int blocks, const hd_slices *s) {
  return 2 * blocks * h->count + (s ? s->row[h->count] + h->count * (s->row[h->mine + 1] - s->row[h->mine]) : 0);
}

hd_status hd__hosts_join_blocks(int *last, hd_world *world, hd_ctx *ctx, const hd_blocks *blocks, int count,
                                const hd_slices *slices) {
  hd_hosts *h = hd__world_hosts(world);
  if (last)
    *last = -1;
  if (!h || h->count == 1)
    return HD_OK;
  hd_movement *m = hd__hosts_movement(world, most_parts(h, count, slices));
  if (!m) {
    hd__world_give_up(world, "out of memory for what hosts exchange");
    return hd__world_check(world, ctx);
  }
  for (int i = 0; i < h->count; i++) {
    for (int b = 0; b < count && i != h->mine; b++)
      add_blocks(m, h, i, &blocks[b]);
    if (slices && i != h->mine) {
      add_slices(m, h, i, h->mine, slices);
      add_slices(m, h, h->mine, i, slices);
    }
  }
  moving way = {.hosts = h, .patience_s = hd__world_patience(world), .may_break = true};
  const hd_status status = move(&way, ctx, m);
  if (last)
    *last = way.last;
  put_to_rest(world, m);
  return status;
}

hd_status hd__hosts_spread(hd_world *world, hd_ctx *ctx, void *data, int64_t bytes) {
  const int hosts = hd__hosts_count(world);
  int64_t *of = hd__calloc((size_t)hosts, sizeof *of);
  if (!of)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d hosts", hosts);
  of[0] = bytes;
  hd_status status = hd__hosts_join_blocks(NULL, world, ctx, &(hd_blocks){.data = data, .bytes = of}, 1, NULL);
  hd__free(of);
  return status;
}
