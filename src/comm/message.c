/* Boxes and bells: see message.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "comm/message.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "comm/hosts.h"
#include "comm/reduce.h"
#include "sys/clock.h"
#include "sys/relax.h"

enum { FRAGMENTS = 2, MOST_FRAGMENT_BYTES = 32 << 10, LEAST_FRAGMENT_BYTES = 256, ALL_FRAGMENT_BYTES = 64 << 20 };
enum { SPINS = 4000, SPINS_CROWDED = 50, YIELDS = 100 };

struct hd_bell {
  _Alignas(128) atomic_uint rings; /* a futex word */
  atomic_uint sleepers;
};

struct hd_box {
  _Alignas(64) atomic_uint sent;
  _Alignas(64) atomic_uint taken;
};

typedef struct fragment {
  _Alignas(64) uint64_t count; /* of the whole message */
  uint32_t dtype, length;      /* bytes of this fragment */
  _Alignas(64) char data[];
} fragment;

size_t hd__bells_bytes(int ranks) { return (size_t)ranks * sizeof(hd_bell); }

static size_t box_bytes(size_t fragment_bytes) {
  return sizeof(hd_box) + FRAGMENTS * (sizeof(fragment) + fragment_bytes);
}

size_t hd__boxes_bytes(size_t *fragment_bytes, int ranks) {
  const size_t pairs = (size_t)ranks * (size_t)ranks;
  size_t bytes = MOST_FRAGMENT_BYTES;
  while (bytes > LEAST_FRAGMENT_BYTES && bytes * FRAGMENTS * pairs > ALL_FRAGMENT_BYTES)
    bytes /= 2;
  *fragment_bytes = bytes;
  return pairs * box_bytes(bytes);
}

static hd_box *box_of(const hd_group *g, int from, int to) {
  return (hd_box *)(g->boxes + ((size_t)from * (size_t)g->ranks + (size_t)to) * box_bytes(g->fragment_bytes));
}

static fragment *fragment_of(const hd_group *g, hd_box *box, unsigned number) {
  char *first = (char *)box + sizeof *box;
  return (fragment *)(first + number % FRAGMENTS * (sizeof(fragment) + g->fragment_bytes));
}

/* ---- bells ---- */

unsigned hd__bell_seen(const hd_group *g) { return atomic_load(&g->bell[g->rank].rings); }

void hd__bell_ring(hd_group *g, int rank) {
  atomic_fetch_add(&g->bell[rank].rings, 1);
  if (atomic_load(&g->bell[rank].sleepers) > 0)
    syscall(SYS_futex, &g->bell[rank].rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void hd__bell_wait(hd_group *g, unsigned seen) {
  const struct timespec look = {.tv_nsec = HD_MEETING_LOOK_MS * 1000000L};
  const int spins = g->crowded ? SPINS_CROWDED : SPINS;
  for (int i = 0; i < spins + YIELDS; i++) {
    if (hd__bell_seen(g) != seen)
      return;
    if (i < spins)
      hd__relax();
    else
      sched_yield();
  }
  hd_bell *bell = &g->bell[g->rank];
  atomic_fetch_add(&bell->sleepers, 1);
  syscall(SYS_futex, &bell->rings, FUTEX_WAIT, seen, &look, NULL, 0);
  atomic_fetch_sub(&bell->sleepers, 1);
}

void hd__bell_rest(void) {
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
  hd_box *box = box_of(g, g->rank, call->peer);
  const size_t bytes = (size_t)call->count * hd__dtype_size(call->dtype);
  while (!m->begun || m->moved < bytes) {
    const unsigned sent = atomic_load_explicit(&box->sent, memory_order_relaxed);
    if (sent - atomic_load_explicit(&box->taken, memory_order_acquire) == FRAGMENTS)
      return false;
    fragment *f = fragment_of(g, box, sent);
    const size_t rest = bytes - m->moved, length = rest < g->fragment_bytes ? rest : g->fragment_bytes;
    f->count = (uint64_t)call->count;
    f->dtype = (uint32_t)call->dtype;
    f->length = (uint32_t)length;
    if (length)
      memcpy(f->data, (const char *)call->input + m->moved, length);
    atomic_store_explicit(&box->sent, sent + 1, memory_order_release);
    hd__bell_ring(g, call->peer);
    m->moved += length;
    m->begun = true;
    m->since_ns = 0;
  }
  return true;
}

static bool fits(const fragment *f, const hd_group_call *call) {
  return f->count == (uint64_t)call->count && f->dtype == (uint32_t)call->dtype;
}

static bool receive_some(hd_group *g, hd_message *m) {
  const hd_group_call *call = m->call;
  hd_box *box = box_of(g, call->peer, g->rank);
  const size_t bytes = (size_t)call->count * hd__dtype_size(call->dtype);
  while (!m->begun || m->moved < bytes) {
    const unsigned taken = atomic_load_explicit(&box->taken, memory_order_relaxed);
    if (atomic_load_explicit(&box->sent, memory_order_acquire) == taken)
      return false;
    const fragment *f = fragment_of(g, box, taken);
    if (!fits(f, call)) {
      hd__group_break(g, HD_E_USAGE,
                      "expected a message of %lld %s from rank %d to rank %d, found one of %llu %s; do both name the "
                      "same count and type?",
                      (long long)call->count, hd__dtype_name(call->dtype), call->peer, g->rank,
                      (unsigned long long)f->count, hd__dtype_name((hd_dtype)f->dtype));
      return false;
    }
    if (f->length)
      memcpy((char *)call->output + m->moved, f->data, f->length);
    m->moved += f->length;
    m->begun = true;
    m->since_ns = 0;
    atomic_store_explicit(&box->taken, taken + 1, memory_order_release);
    hd__bell_ring(g, call->peer);
  }
  return true;
}

/* ---- to other hosts ---- */

/* Starts what comes next; the message is begun when its letter is on its way, and its elements are when moved is 1. */
static hd_status start_far(hd_group *g, hd_ctx *ctx, hd_message *m, bool elements) {
  const hd_group_call *call = m->call;
  const int32_t receives = call->kind == HD_GROUP_RECV, peer = g->member[call->peer], tag = g->tag + 1;
  const hd_transfer_part letter = {&m->letter, sizeof m->letter, peer, tag, receives};
  const int64_t bytes = call->count * (int64_t)hd__dtype_size(call->dtype);
  const hd_transfer_part body = {receives ? call->output : (void *)(uintptr_t)call->input, bytes, peer, tag, receives};
  const hd_transfer_part parts[2] = {letter, body};
  m->begun = true;
  if (!receives) {
    m->letter = (hd_letter){(uint64_t)call->count, (uint64_t)call->dtype, g->number};
    m->moved = 1;
    return hd__hosts_start(&m->transfer, g->world, ctx, parts, 2);
  }
  m->moved = elements;
  return hd__hosts_start(&m->transfer, g->world, ctx, elements ? &body : &letter, 1);
}

/* The other host cannot see why this one ends: the world tells it. */
static hd_status refuse_letter(hd_group *g, hd_ctx *ctx, const hd_message *m) {
  const hd_group_call *call = m->call;
  char text[HD_GROUP_TEXT_BYTES];
  if (m->letter.group != g->number)
    snprintf(text, sizeof text,
             "expected a message of this group from rank %d to rank %d, found one of a group that is no more; receive "
             "what was sent before a group is destroyed",
             call->peer, g->rank);
  else
    snprintf(text, sizeof text,
             "expected a message of %lld %s from rank %d to rank %d, found one of %llu %s; do both name the same count "
             "and type?",
             (long long)call->count, hd__dtype_name(call->dtype), call->peer, g->rank,
             (unsigned long long)m->letter.count, hd__dtype_name((hd_dtype)m->letter.dtype));
  hd__world_give_up(g->world, text);
  return hd__fail(ctx, HD_E_USAGE, "%s", text);
}

static hd_status move_far(bool *done, hd_group *g, hd_ctx *ctx, hd_message *m) {
  const hd_group_call *call = m->call;
  *done = false;
  if (!m->begun)
    HD_TRY(start_far(g, ctx, m, false));
  const int moved = hd__hosts_test(g->world, m->transfer, g->member[call->peer]);
  if (moved <= 0)
    return hd__group_check(g, ctx);
  *done = m->moved;
  if (*done)
    return HD_OK;
  if (m->letter.count != (uint64_t)call->count || m->letter.dtype != (uint64_t)call->dtype ||
      m->letter.group != g->number)
    return refuse_letter(g, ctx, m);
  return start_far(g, ctx, m, true);
}

hd_status hd__message_move(bool *done, hd_group *g, hd_ctx *ctx, hd_message *m) {
  *done = false;
  HD_TRY(hd__group_check(g, ctx));
  if (hd__group_is_far(g, m->call->peer))
    return move_far(done, g, ctx, m);
  *done = m->call->kind == HD_GROUP_SEND ? send_some(g, m) : receive_some(g, m);
  return *done ? HD_OK : hd__group_check(g, ctx);
}

void hd__message_look(hd_group *g, hd_message *m) {
  const hd_group_call *call = m->call;
  const int64_t now_ns = hd__clock_ns();
  const double patience_s = call->timeout_s > 0 ? call->timeout_s : g->timeout_s;
  if (m->since_ns == 0)
    m->since_ns = now_ns;
  hd__group_look(g, call->peer);
  if ((double)(now_ns - m->since_ns) > 1e9 * patience_s)
    hd__group_break(g, HD_E_TIMEOUT, "expected rank %d to %s within %g s, found that it did not, while rank %d waited",
                    call->peer, call->kind == HD_GROUP_SEND ? "receive" : "send", patience_s, g->rank);
}

hd_status hd__message(hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  hd_message message = {.call = call};
  HD_TRY(hd__message_check(g, ctx, call));
  for (;;) {
    const unsigned seen = hd__bell_seen(g);
    bool done;
    HD_TRY(hd__message_move(&done, g, ctx, &message));
    if (done)
      return HD_OK;
    if (hd__group_is_far(g, call->peer))
      hd__bell_rest();
    else
      hd__bell_wait(g, seen);
    if (hd__bell_seen(g) == seen)
      hd__message_look(g, &message);
  }
}
