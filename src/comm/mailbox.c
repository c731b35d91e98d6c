/* Mailboxes and event counters: see mailbox.h. */
#include "comm/mailbox.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "exec/exchange/cluster.h"
#include "comm/rank_sums.h"
#include "platform/clock.h"
#include "platform/memory_word.h"
#include "platform/wait.h"

enum { FRAGMENTS = 2, MOST_FRAGMENT_BYTES = 32 << 10, LEAST_FRAGMENT_BYTES = 256, ALL_FRAGMENT_BYTES = 64 << 20 };

struct hd_event_counter {
  _Alignas(128) atomic_uint events; /* slept on */
  atomic_uint sleepers;
};

struct hd_mailbox {
  _Alignas(64) atomic_uint sent;
  _Alignas(64) atomic_uint taken;
};

typedef struct fragment {
  _Alignas(64) uint64_t count; /* of the whole message */
  uint32_t dtype, length;      /* bytes of this fragment */
  _Alignas(64) char data[];
} fragment;

size_t hd__event_counters_bytes(int ranks) { return (size_t)ranks * sizeof(hd_event_counter); }

static size_t mailbox_bytes(size_t fragment_bytes) {
  return sizeof(hd_mailbox) + FRAGMENTS * (sizeof(fragment) + fragment_bytes);
}

size_t hd__mailboxes_bytes(size_t *fragment_bytes, int ranks) {
  const size_t pairs = (size_t)ranks * (size_t)ranks;
  size_t bytes = MOST_FRAGMENT_BYTES;
  while (bytes > LEAST_FRAGMENT_BYTES && bytes * FRAGMENTS * pairs > ALL_FRAGMENT_BYTES)
    bytes /= 2;
  *fragment_bytes = bytes;
  return pairs * mailbox_bytes(bytes);
}

static hd_mailbox *mailbox_of(const hd_group *g, int from, int to) {
  return (hd_mailbox *)(g->mailboxes +
                        ((size_t)from * (size_t)g->ranks + (size_t)to) * mailbox_bytes(g->fragment_bytes));
}

static fragment *fragment_of(const hd_group *g, hd_mailbox *mailbox, unsigned number) {
  char *first = (char *)mailbox + sizeof *mailbox;
  return (fragment *)(first + number % FRAGMENTS * (sizeof(fragment) + g->fragment_bytes));
}

/* ---- event counters ---- */

unsigned hd__event_seen(const hd_group *g) { return atomic_load(&g->event_counter[g->rank].events); }

void hd__event_signal(hd_group *g, int rank) {
  atomic_fetch_add(&g->event_counter[rank].events, 1);
  if (atomic_load(&g->event_counter[rank].sleepers) > 0)
    hd__word_wake(&g->event_counter[rank].events);
}

static void sleep_until(hd_group *g, unsigned seen) {
  hd_event_counter *event_counter = &g->event_counter[g->rank];
  atomic_fetch_add(&event_counter->sleepers, 1);
  hd__word_wait(&event_counter->events, seen, HD_BARRIER_CHECK_MS * INT64_C(1000000));
  atomic_fetch_sub(&event_counter->sleepers, 1);
}

void hd__event_wait(hd_group *g, unsigned seen) {
  for (hd_wait wait = hd__wait_barrier(g->crowded); hd__event_seen(g) == seen;)
    if (!hd__wait_turn(&wait)) {
      sleep_until(g, seen);
      return;
    }
}

void hd__event_pause(void) {
  static const struct timespec rest = {.tv_nsec = 20000};
  nanosleep(&rest, NULL);
}

/* ---- messages ---- */

static const char *verb(const hd_group_call *call) { return call->kind == HD_GROUP_SEND ? "send" : "recv"; }

hd_status hd__message_check(const hd_group *g, hd_ctx *ctx, const hd_group_call *c) {
  const size_t size = hd__dtype_size(c->dtype);
  if (size == 0)
    return hd__fail(ctx, HD_E_USAGE, "%s expects HD_F32, HD_F64, HD_I32, HD_I64 or HD_U8, found type %d", verb(c),
                    (int)c->dtype);
  if (c->count < 0 || (uint64_t)c->count > (UINT64_MAX >> 12) / size)
    return hd__fail(ctx, HD_E_USAGE, "%s expects a number of elements, found %lld", verb(c), (long long)c->count);
  if (c->peer < 0 || c->peer >= g->ranks || c->peer == g->rank)
    return hd__fail(ctx, HD_E_USAGE, "%s expects another rank, from 0 to %d, found %d", verb(c), g->ranks - 1, c->peer);
  if (c->count > 0 && !(c->kind == HD_GROUP_SEND ? c->input : c->output))
    return hd__fail(ctx, HD_E_USAGE, "%s expects a buffer, found NULL", verb(c));
  return HD_OK;
}

static bool send_some(hd_group *g, hd_message *m) {
  const hd_group_call *call = m->call;
  hd_mailbox *mailbox = mailbox_of(g, g->rank, call->peer);
  const size_t bytes = (size_t)call->count * hd__dtype_size(call->dtype);
  while (!m->begun || m->moved < bytes) {
    const unsigned sent = atomic_load_explicit(&mailbox->sent, memory_order_relaxed);
    if (sent - atomic_load_explicit(&mailbox->taken, memory_order_acquire) == FRAGMENTS)
      return false;
    fragment *f = fragment_of(g, mailbox, sent);
    const size_t rest = bytes - m->moved, length = rest < g->fragment_bytes ? rest : g->fragment_bytes;
    f->count = (uint64_t)call->count;
    f->dtype = (uint32_t)call->dtype;
    f->length = (uint32_t)length;
    if (length)
      memcpy(f->data, (const char *)call->input + m->moved, length);
    atomic_store_explicit(&mailbox->sent, sent + 1, memory_order_release);
    hd__event_signal(g, call->peer);
    m->moved += length;
    m->begun = true;
    m->since_ns = 0;
  }
  return true;
}

/* The length of the next fragment follows from the call; the sender's numbers are only compared with it. */
static bool fits(const fragment *f, const hd_group_call *call, size_t length) {
  return f->count == (uint64_t)call->count && f->dtype == (uint32_t)call->dtype && f->length == length;
}

static bool receive_some(hd_group *g, hd_message *m) {
  const hd_group_call *call = m->call;
  hd_mailbox *mailbox = mailbox_of(g, call->peer, g->rank);
  const size_t bytes = (size_t)call->count * hd__dtype_size(call->dtype);
  while (!m->begun || m->moved < bytes) {
    const unsigned taken = atomic_load_explicit(&mailbox->taken, memory_order_relaxed);
    if (atomic_load_explicit(&mailbox->sent, memory_order_acquire) == taken)
      return false;
    const fragment *f = fragment_of(g, mailbox, taken);
    const size_t rest = bytes - m->moved, length = rest < g->fragment_bytes ? rest : g->fragment_bytes;
    if (!fits(f, call, length)) {
      hd__group_break(g, HD_E_USAGE,
                      "expected a message of %lld %s from rank %d to rank %d, found one of %llu %s; do both give the "
                      "same count and type?",
                      (long long)call->count, hd__dtype_name(call->dtype), call->peer, g->rank,
                      (unsigned long long)f->count, hd__dtype_name((hd_dtype)f->dtype));
      return false;
    }
    if (length)
      memcpy((char *)call->output + m->moved, f->data, length);
    m->moved += length;
    m->begun = true;
    m->since_ns = 0;
    atomic_store_explicit(&mailbox->taken, taken + 1, memory_order_release);
    hd__event_signal(g, call->peer);
  }
  return true;
}

/* ---- to other hosts ---- */

/* Starts the next transfer of a message: `begun` after the header was started, moved = 1 after the elements were. */
static hd_status start_remote(hd_group *g, hd_ctx *ctx, hd_message *m, bool elements) {
  const hd_group_call *call = m->call;
  const int32_t receives = call->kind == HD_GROUP_RECV, peer = g->member[call->peer], tag = g->tag + 1;
  const hd_transfer_part header = {&m->header, sizeof m->header, peer, tag, receives};
  const int64_t bytes = call->count * (int64_t)hd__dtype_size(call->dtype);
  const hd_transfer_part body = {receives ? call->output : (void *)(uintptr_t)call->input, bytes, peer, tag, receives};
  const hd_transfer_part parts[2] = {header, body};
  m->begun = true;
  if (!receives) {
    m->header = (hd_message_header){(uint64_t)call->count, (uint64_t)call->dtype, g->number};
    m->moved = 1;
    return hd__cluster_start(&m->transfer, g->local, ctx, parts, 2);
  }
  m->moved = elements;
  return hd__cluster_start(&m->transfer, g->local, ctx, elements ? &body : &header, 1);
}

/* Breaks the local group, which sends the fault to the other host: a break of the group alone stays on this host. */
static hd_status refuse_header(hd_group *g, hd_ctx *ctx, const hd_message *m) {
  const hd_group_call *call = m->call;
  char text[HD_GROUP_TEXT_BYTES];
  if (m->header.group != g->number)
    snprintf(text, sizeof text,
             "expected a message of this group from rank %d to rank %d, found one of a destroyed group; receive all "
             "messages before destroying a group",
             call->peer, g->rank);
  else
    snprintf(text, sizeof text,
             "expected a message of %lld %s from rank %d to rank %d, found one of %llu %s; do both give the same count "
             "and type?",
             (long long)call->count, hd__dtype_name(call->dtype), call->peer, g->rank,
             (unsigned long long)m->header.count, hd__dtype_name((hd_dtype)m->header.dtype));
  hd__local_group_give_up(g->local, text);
  return hd__fail(ctx, HD_E_USAGE, "%s", text);
}

static hd_status move_remote(bool *done, hd_group *g, hd_ctx *ctx, hd_message *m) {
  const hd_group_call *call = m->call;
  *done = false;
  if (!m->begun)
    HD_TRY(start_remote(g, ctx, m, false));
  const int moved = hd__cluster_test(g->local, m->transfer, g->member[call->peer]);
  if (moved != 0)
    m->transfer = NULL;
  if (moved <= 0)
    return hd__group_check(g, ctx);
  m->since_ns = 0;
  *done = m->moved;
  if (*done)
    return HD_OK;
  if (m->header.count != (uint64_t)call->count || m->header.dtype != (uint64_t)call->dtype ||
      m->header.group != g->number)
    return refuse_header(g, ctx, m);
  return start_remote(g, ctx, m, true);
}

/* After a look that found nothing; `left`: the other rank had left before it. The first such look after progress only
 * begins the wait: the elements of a message from another host arrive one look after its header. */
static void check_wait(hd_group *g, hd_message *m, bool left) {
  const hd_group_call *call = m->call;
  const int64_t now_ns = hd__clock_ns();
  const double timeout_s = call->timeout_s > 0 ? call->timeout_s : g->timeout_s;
  if (m->since_ns == 0)
    m->since_ns = now_ns;
  else if (left)
    hd__group_break_left(g, call->peer);
  else if ((double)(now_ns - m->since_ns) > 1e9 * timeout_s)
    hd__group_break(g, HD_E_TIMEOUT, "expected rank %d to %s within %g s, but it did not, while rank %d waited",
                    call->peer, call->kind == HD_GROUP_SEND ? "receive" : "send", timeout_s, g->rank);
}

hd_status hd__message_move(bool *done, hd_group *g, hd_ctx *ctx, hd_message *m, bool waited) {
  const hd_group_call *call = m->call;
  *done = false;
  const bool left = waited && hd__group_has_left(g, call->peer); /* asked first: it may send and then leave */
  HD_TRY(hd__group_check(g, ctx));
  if (hd__group_is_remote(g, call->peer))
    HD_TRY(move_remote(done, g, ctx, m));
  else
    *done = call->kind == HD_GROUP_SEND ? send_some(g, m) : receive_some(g, m);
  if (*done)
    return HD_OK;
  if (waited)
    check_wait(g, m, left);
  return hd__group_check(g, ctx);
}

void hd__message_drop(hd_group *g, hd_message *m) {
  if (m->transfer)
    hd__cluster_drop(g->local, m->transfer);
  m->transfer = NULL;
}

static hd_status move_whole(hd_group *g, hd_ctx *ctx, hd_message *m) {
  bool done = false, waited = false;
  for (;;) {
    const unsigned seen = hd__event_seen(g);
    HD_TRY(hd__message_move(&done, g, ctx, m, waited));
    if (done)
      return HD_OK;
    if (hd__group_is_remote(g, m->call->peer))
      hd__event_pause();
    else
      hd__event_wait(g, seen);
    waited = hd__event_seen(g) == seen;
  }
}

hd_status hd__message(hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  hd_message message = {.call = call};
  HD_TRY(hd__message_check(g, ctx, call));
  const hd_status status = move_whole(g, ctx, &message);
  hd__message_drop(g, &message);
  return status;
}
