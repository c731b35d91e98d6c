/* Collectives, in rounds of put, barrier, take: see group_state.h. One table lists how they differ.
 *
 * There are three algorithms, by size. Up to 8 bytes are sent in the notes of the barrier: one cache line per rank.
 * Below `PARTS_FROM` bytes over all ranks, each rank puts all of its data into its slot, and every rank sums all of
 * it: one barrier. Larger sums are split: each rank sums one part of a chunk and all copy the results, one barrier
 * later, while the next chunk is put. Two ranks do not split: each reads as many bytes either way, with fewer
 * barriers. */
#include "comm/group_state.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "exec/exchange/cluster.h"
#include "comm/rank_sums.h"
#include "platform/fpmode.h"

enum { NO_RANK, ROOT, ALL };
enum { TAKE_NOTHING, COPY_ROOT, COPY_ALL, REDUCE };
enum { REFUSED = 255, IN_BUFFER = 1, PART_ALIGN = 64 };
enum { PARTS_FROM = 256 << 10 };

typedef struct kind {
  const char *name;
  int puts, takes;     /* the ranks of the call */
  bool input_per_rank; /* input has a block for each rank */
  int how;
} kind;

static const kind kinds[] = {[HD_GROUP_BARRIER] = {"barrier", NO_RANK, NO_RANK, false, TAKE_NOTHING},
                             [HD_GROUP_BROADCAST] = {"broadcast", ROOT, ALL, false, COPY_ROOT},
                             [HD_GROUP_ALL_REDUCE] = {"all_reduce", ALL, ALL, false, REDUCE},
                             [HD_GROUP_REDUCE] = {"reduce", ALL, ROOT, false, REDUCE},
                             [HD_GROUP_GATHER] = {"gather", ALL, ROOT, false, COPY_ALL},
                             [HD_GROUP_ALL_GATHER] = {"all_gather", ALL, ALL, false, COPY_ALL},
                             [HD_GROUP_SCATTER] = {"scatter", ROOT, ALL, true, COPY_ROOT},
                             [HD_GROUP_REDUCE_SCATTER] = {"reduce_scatter", ALL, ALL, true, REDUCE},
                             [HD_GROUP_ALL_TO_ALL] = {"all_to_all", ALL, ALL, true, COPY_ALL}};

/* The call that a rank makes: the note of its first barrier. */
typedef struct note {
  uint8_t kind, dtype, op, flags;
  int32_t root;
  uint64_t count;
  char data[HD_GROUP_INLINE_BYTES]; /* small data, or the location of the buffer */
} note;

_Static_assert(sizeof(note) == HD_BARRIER_NOTE_BYTES, "a call fits into a note");

/* A running call. */
typedef struct run {
  hd_group *g;
  hd_ctx *ctx;
  const hd_group_call *call;
  const kind *kind;
  size_t size, bytes; /* of an element; of a block */
  bool puts, takes, in_notes;
  size_t round_bytes; /* put in this round by each rank that puts */
  bool mixed;         /* some ranks have their data in a buffer of the group, others have not */
  bool notes_differ;  /* ranks under one cache have different notes */
  uint64_t first;     /* the group's number of this call's round 0 */
  note local_note;
} run;

static bool has_root(const hd_group_call *call) {
  return kinds[call->kind].puts == ROOT || kinds[call->kind].takes == ROOT;
}

static bool computes(const hd_group_call *call) { return kinds[call->kind].how == REDUCE; }

static hd_status check_call(const hd_group *g, hd_ctx *ctx, const hd_group_call *c) {
  const kind *k = &kinds[c->kind];
  const bool puts = k->puts == ALL || (k->puts == ROOT && c->peer == g->rank);
  const bool takes = k->takes == ALL || (k->takes == ROOT && c->peer == g->rank);
  const size_t size = hd__dtype_size(c->dtype);
  if (k->how == TAKE_NOTHING)
    return HD_OK;
  if (size == 0)
    return hd__fail(ctx, HD_E_USAGE, "%s expects HD_F32, HD_F64, HD_I32, HD_I64 or HD_U8, found type %d", k->name,
                    (int)c->dtype);
  if (c->count < 0 || (uint64_t)c->count > (UINT64_MAX >> 12) / size)
    return hd__fail(ctx, HD_E_USAGE, "%s expects a number of elements, found %lld", k->name, (long long)c->count);
  if (computes(c) && (unsigned)c->op >= HD_REDUCE_OP_COUNT)
    return hd__fail(ctx, HD_E_USAGE, "%s expects HD_REDUCE_SUM, AVG, MIN, MAX or PROD, found %d", k->name, (int)c->op);
  if (has_root(c) && (c->peer < 0 || c->peer >= g->ranks))
    return hd__fail(ctx, HD_E_USAGE, "%s expects a root from 0 to %d, found %d", k->name, g->ranks - 1, c->peer);
  if (c->count > 0 && ((puts && !c->input) || (takes && !c->output)))
    return hd__fail(ctx, HD_E_USAGE, "%s expects a buffer for its %s, found NULL", k->name,
                    takes && !c->output ? "output" : "input");
  return HD_OK;
}

/* ---- comparing the calls of all ranks ---- */

static void describe(char *text, size_t bytes, const note *n) {
  if (n->kind >= sizeof kinds / sizeof *kinds) { /* REFUSED, or a note that is overwritten */
    snprintf(text, bytes, "something with invalid arguments");
    return;
  }
  const kind *k = &kinds[n->kind];
  int at = snprintf(text, bytes, "%s", k->name);
  if (k->how != TAKE_NOTHING)
    at +=
        snprintf(text + at, bytes - (size_t)at, " of %llu %s", (unsigned long long)n->count, hd__dtype_name(n->dtype));
  if (k->how == REDUCE)
    at += snprintf(text + at, bytes - (size_t)at, " by %s", hd__reduce_name(n->op));
  if (n->root >= 0)
    snprintf(text + at, bytes - (size_t)at, " with root %d", n->root);
}

static bool same_call(const note *a, const note *b) {
  return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op && a->root == b->root && a->count == b->count;
}

static hd_status exchange_and_wait(run *r);

static hd_status wait_for_ranks(run *r) {
  hd_group *g = r->g;
  g->rounds++;
  const uint32_t flags = hd__barrier_wait_with_note(&g->barrier, g->place[g->rank], 0, &r->local_note);
  if (flags & HD_BARRIER_BROKEN)
    return hd__group_check(g, r->ctx);
  r->notes_differ = (flags & HD_BARRIER_NOTES_DIFFER) != 0;
  return g->hosts > 1 ? exchange_and_wait(r) : HD_OK;
}

/* With several hosts: the notes of all ranks. */
static note *all_notes(const run *r) { return (note *)r->g->notes + (r->g->rounds & 1) * (uint64_t)r->g->ranks; }

static const note *note_of(const run *r, int rank) {
  const hd_group *g = r->g;
  return g->hosts > 1 ? &all_notes(r)[rank] : hd__barrier_note(&g->barrier, g->place[g->rank], g->place[rank]);
}

/* Whether all notes are the same, as far as the notes of the caches show it; false for a barrier of one level. */
static bool all_alike(const run *r) {
  const hd_barrier *m = &r->g->barrier;
  if (m->caches == 1 || r->g->hosts > 1 || r->notes_differ)
    return false;
  for (int c = 0; c < m->caches; c++)
    if (memcmp(hd__barrier_note_of_cache(m, r->g->rank, c), &r->local_note, sizeof r->local_note))
      return false;
  return r->local_note.kind != REFUSED;
}

static hd_status compare_calls(run *r) {
  char first[96], other[96];
  int odd = -1;
  r->mixed = false;
  if (all_alike(r))
    return HD_OK;
  for (int i = 0; i < r->g->ranks && odd < 0; i++) {
    if (!same_call(note_of(r, i), note_of(r, 0)) || note_of(r, i)->kind == REFUSED)
      odd = i;
    r->mixed |= note_of(r, i)->flags != note_of(r, 0)->flags;
  }
  if (odd < 0)
    return HD_OK;
  if (r->local_note.kind == REFUSED)
    return HD_E_USAGE; /* the message was set before */
  describe(first, sizeof first, note_of(r, 0));
  describe(other, sizeof other, note_of(r, odd));
  if (odd == 0)
    return hd__fail(r->ctx, HD_E_USAGE, "expected all ranks to make the same call, but rank 0 calls %s", other);
  return hd__fail(r->ctx, HD_E_USAGE,
                  "expected all ranks to make the same call, but rank 0 calls %s and rank %d calls %s", first, odd,
                  other);
}

/* ---- addresses ---- */

static char *slot_of(const run *r, int rank, uint64_t round) {
  return r->g->slots + (size_t)rank * r->g->stride + ((r->first + round) & 1) * r->g->slot_bytes;
}

static char *result_of(const run *r, int rank, uint64_t round) {
  return r->g->slots + (size_t)rank * r->g->stride + 2 * r->g->slot_bytes +
         ((r->first + round) & 1) * r->g->result_bytes;
}

/* Where this rank puts its data, and where other ranks read it after the barrier. */
static char *put_address(run *r, uint64_t round) {
  return r->in_notes ? r->local_note.data : slot_of(r, r->g->rank, round);
}

static const char *take_address(const run *r, int rank, uint64_t round) {
  return r->in_notes ? note_of(r, rank)->data : slot_of(r, rank, round);
}

/* ---- between hosts ---- */

/* While a leader waits for another one: breaks the group if that one, or another rank of its host, has left. No rank
 * of a host leaves before the transfers of its leader have ended. */
static void check_left(void *self, int peer) {
  hd_group *g = self;
  const int host = hd__cluster_of(g->local, peer);
  for (int rank = 0; rank < g->ranks; rank++)
    if (hd__cluster_of(g->local, g->member[rank]) == host)
      hd__group_check_rank(g, rank);
}

/* The leader of this host sends `of` of each of its ranks to the other leaders, and receives theirs. */
static hd_status exchange(run *r, char *(*of)(const run *r, int rank), size_t bytes, int root) {
  hd_group *g = r->g;
  hd_cluster_exchange *m = hd__cluster_exchange(g->local, g->ranks * (g->ranks + 1));
  const hd_transfer_watch watch = {.broken = &g->end->state, .check = check_left, .self = g};
  int late;
  if (!m) { /* other hosts wait for this leader, too: a break of the local group is sent to them */
    hd__local_group_give_up(g->local, "out of memory for a call of a group");
    return hd__group_check(g, r->ctx);
  }
  for (int leader = 0; leader < g->ranks; leader++) {
    if (g->place[leader] != 0 || leader == g->leader)
      continue;
    const int host = hd__cluster_of(g->local, g->member[leader]);
    for (int rank = 0; rank < g->ranks; rank++) {
      const bool receives = hd__cluster_of(g->local, g->member[rank]) == host;
      if ((root < 0 || root == rank) && (receives || !hd__group_is_remote(g, rank)))
        m->part[m->count++] = (hd_transfer_part){of(r, rank), (int64_t)bytes, g->member[leader], g->tag, receives};
    }
  }
  hd_status status = hd__cluster_exchange_within(&late, g->local, r->ctx, m, g->call_timeout_s, &watch);
  for (int rank = 0; status == HD_E_TIMEOUT && rank < g->ranks; rank++)
    if (g->member[rank] == late)
      hd__group_break(g, HD_E_TIMEOUT,
                      "rank %d and its host did not make a call within %g s, while rank %d waited; do all ranks make "
                      "the same calls? If so, raise the timeout",
                      rank, g->call_timeout_s, g->rank);
  return status;
}

static char *place_of_note(const run *r, int rank) { return (char *)&all_notes(r)[rank]; }

/* The slot of the last round. */
static char *place_of_slot(const run *r, int rank) {
  return r->g->slots + (size_t)rank * r->g->stride + ((r->g->rounds - 1) & 1) * r->g->slot_bytes;
}

/* Notes first: the sizes of the other transfers are only known when all ranks make the same call. */
static hd_status exchange_round(run *r) {
  hd_group *g = r->g;
  bool same = true;
  for (int rank = 0; rank < g->ranks; rank++)
    if (!hd__group_is_remote(g, rank))
      all_notes(r)[rank] = *(const note *)hd__barrier_note(&g->barrier, g->place[g->rank], g->place[rank]);
  HD_TRY(exchange(r, place_of_note, sizeof(note), -1));
  for (int rank = 0; rank < g->ranks; rank++)
    same &= same_call(note_of(r, rank), note_of(r, 0)) && note_of(r, rank)->kind != REFUSED;
  if (!same || r->in_notes || r->round_bytes == 0 || r->kind->puts == NO_RANK)
    return HD_OK;
  return exchange(r, place_of_slot, r->round_bytes, r->kind->puts == ROOT ? r->call->peer : -1);
}

/* A leader whose transfers fail does not reach the barrier; the group is broken then, so the barrier of the others
 * fails. */
static hd_status exchange_and_wait(run *r) {
  hd_group *g = r->g;
  if (g->rank == g->leader && exchange_round(r) != HD_OK)
    return hd__group_check(g, r->ctx);
  if (hd__barrier_wait(&g->barrier, g->place[g->rank], 0) & HD_BARRIER_BROKEN)
    return hd__group_check(g, r->ctx);
  return HD_OK;
}

/* ---- rounds ---- */

static size_t at_most(size_t length, size_t limit) { return length < limit ? length : limit; }

static int blocks_per_rank(const run *r) { return r->kind->input_per_rank ? r->g->ranks : 1; }

static void put(run *r, uint64_t round, size_t from, size_t length) {
  char *place = put_address(r, round);
  r->round_bytes = length * (size_t)blocks_per_rank(r);
  for (int i = 0; r->puts && length > 0 && i < blocks_per_rank(r); i++)
    memcpy(place + (size_t)i * length, (const char *)r->call->input + (size_t)i * r->bytes + from, length);
}

static void take(run *r, uint64_t round, size_t from, size_t length) {
  hd_group *g = r->g;
  char *output = (char *)r->call->output;
  const size_t skipped = r->kind->input_per_rank ? (size_t)g->rank * length : 0;
  if (!r->takes || length == 0)
    return;
  switch (r->kind->how) {
  case COPY_ROOT: memcpy(output + from, take_address(r, r->call->peer, round) + skipped, length); break;
  case COPY_ALL:
    for (int i = 0; i < g->ranks; i++)
      memcpy(output + (size_t)i * r->bytes + from, take_address(r, i, round) + skipped, length);
    break;
  case REDUCE:
    for (int i = 0; i < g->ranks; i++)
      g->inputs[i] = take_address(r, i, round) + skipped;
    hd__reduce(output + from, g->inputs, g->ranks, (int64_t)(length / r->size), r->call->dtype, r->call->op);
    break;
  default: break;
  }
}

/* After round 0 the calls are compared. */
static hd_status plain_rounds(run *r) {
  const size_t chunk = r->g->slot_bytes / (size_t)blocks_per_rank(r) / PART_ALIGN * PART_ALIGN;
  size_t from = 0;
  for (uint64_t round = 0; round == 0 || from < r->bytes; round++) {
    const size_t length = at_most(r->bytes - from, chunk);
    put(r, round, from, length);
    HD_TRY(wait_for_ranks(r));
    if (round == 0)
      HD_TRY(compare_calls(r));
    if (r->mixed)
      return HD_OK;
    take(r, round, from, length);
    from += length;
  }
  return HD_OK;
}

/* ---- in parts ---- */

typedef struct span {
  size_t from, length;
} span;

/* The part of `rank` of a chunk of `length` bytes: whole cache lines except the last. */
static span part_of(size_t length, int rank, int ranks) {
  const size_t lines = (length + PART_ALIGN - 1) / PART_ALIGN, share = (lines + (size_t)ranks - 1) / (size_t)ranks;
  const size_t begin = share * (size_t)rank * PART_ALIGN, end = begin + share * PART_ALIGN;
  const size_t from = begin < length ? begin : length;
  return (span){from, (end < length ? end : length) - from};
}

/* Puts the parts of a chunk that other ranks sum; this rank reads its part from the input. */
static void put_parts(run *r, uint64_t round, size_t from, size_t length) {
  const span local = part_of(length, r->g->rank, r->g->ranks);
  const size_t behind = local.from + local.length;
  const char *chunk = (const char *)r->call->input + from;
  char *slot = slot_of(r, r->g->rank, round);
  memcpy(slot, chunk, local.from);
  memcpy(slot + behind, chunk + behind, length - behind);
}

static void reduce_part(run *r, uint64_t round, size_t from, size_t length) {
  hd_group *g = r->g;
  const span part = part_of(length, g->rank, g->ranks);
  for (int i = 0; i < g->ranks; i++)
    g->inputs[i] = slot_of(r, i, round) + part.from;
  g->inputs[g->rank] = (const char *)r->call->input + from + part.from;
  hd__reduce(result_of(r, g->rank, round), g->inputs, g->ranks, (int64_t)(part.length / r->size), r->call->dtype,
             r->call->op);
}

static void take_parts(run *r, uint64_t round, size_t from, size_t length) {
  for (int i = 0; i < r->g->ranks; i++) {
    const int rank = (r->g->rank + i) % r->g->ranks;
    const span part = part_of(length, rank, r->g->ranks);
    memcpy((char *)r->call->output + from + part.from, result_of(r, rank, round), part.length);
  }
}

/* In round i chunk i is put and this rank's part of chunk i - 1 summed; after the barrier chunk i - 1 is taken. */
static hd_status rounds_in_parts(run *r) {
  const size_t chunk = r->g->slot_bytes, chunks = (r->bytes + chunk - 1) / chunk;
  for (uint64_t round = 0; round <= chunks; round++) {
    const size_t from = round * chunk, before = from - (round ? chunk : 0);
    const size_t last = at_most(r->bytes - before, chunk);
    if (round < chunks)
      put_parts(r, round, from, at_most(r->bytes - from, chunk));
    if (round > 0)
      reduce_part(r, round - 1, before, last);
    HD_TRY(wait_for_ranks(r));
    if (round == 0)
      HD_TRY(compare_calls(r));
    if (r->mixed)
      return HD_OK;
    if (round > 0)
      take_parts(r, round - 1, before, last);
  }
  return HD_OK;
}

/* ---- in place, in memory that all ranks share ---- */

static hd_group_buffer *buffer_of(hd_group *g, const void *memory, size_t bytes) {
  for (int i = 0; i < HD_GROUP_BUFFERS && g->buffers; i++) {
    hd_group_buffer *b = &g->buffer[i];
    const char *local = b->number ? (char *)b->map.base + (size_t)g->rank * b->stride : NULL;
    if (local && (const char *)memory >= local && (const char *)memory + bytes <= local + b->stride)
      return b;
  }
  return NULL;
}

typedef struct buffer_location {
  uint64_t number : 16, offset : 48;
} buffer_location;

_Static_assert(HD_LOCAL_GROUP_BLOCKS < 1 << 16, "the number of a buffer fits into a note");

/* Writes the location of the buffer to the note. */
static void note_buffer(run *r) {
  const hd_group_call *call = r->call;
  const hd_group_buffer *b = call->kind == HD_GROUP_ALL_REDUCE && call->output == call->input && r->g->hosts == 1
                                 ? buffer_of(r->g, call->input, r->bytes)
                                 : NULL;
  if (!b || r->in_notes)
    return;
  const size_t at = (size_t)((const char *)call->input - (const char *)b->map.base) - (size_t)r->g->rank * b->stride;
  const buffer_location where = {.number = b->number, .offset = at};
  r->local_note.flags = IN_BUFFER;
  memcpy(r->local_note.data, &where, sizeof where);
}

/* The address of the buffer of a rank; NULL: it is in no buffer of the group that this rank has mapped. */
static char *find_buffer(run *r, int rank) {
  buffer_location where;
  const note *n = note_of(r, rank);
  memcpy(&where, n->data, sizeof where);
  for (int i = 0; i < HD_GROUP_BUFFERS && n->flags == IN_BUFFER; i++) {
    const hd_group_buffer *b = &r->g->buffer[i];
    if (b->number && b->number == where.number && where.offset + r->bytes <= b->stride)
      return (char *)b->map.base + (size_t)rank * b->stride + where.offset;
  }
  return NULL;
}

/* All ranks have their data in the buffer: each sums its part, and writes it to all. */
static void reduce_in_place(run *r) {
  hd_group *g = r->g;
  const span part = part_of(r->bytes, g->rank, g->ranks);
  char block[4096];
  for (size_t at = 0; at < part.length; at += sizeof block) {
    const size_t length = at_most(part.length - at, sizeof block);
    for (int i = 0; i < g->ranks; i++)
      g->inputs[i] = find_buffer(r, i) + part.from + at;
    hd__reduce(block, g->inputs, g->ranks, (int64_t)(length / r->size), r->call->dtype, r->call->op);
    for (int i = 0; i < g->ranks; i++)
      memcpy((char *)(uintptr_t)g->inputs[i], block, length);
  }
}

/* All notes say that the data are in the buffer. */
static hd_status rounds_in_place(run *r) {
  HD_TRY(wait_for_ranks(r));
  HD_TRY(compare_calls(r));
  if (r->mixed)
    return HD_OK;
  for (int i = 0; i < r->g->ranks; i++)
    if (!find_buffer(r, i))
      hd__group_break(
          r->g, HD_E_USAGE,
          "the buffer of rank %d was already freed by rank %d; free a buffer when all ranks are done with it", i,
          r->g->rank);
  HD_TRY(hd__group_check(r->g, r->ctx));
  reduce_in_place(r);
  return wait_for_ranks(r);
}

/* ---- a call ---- */

static hd_status do_rounds(run *r) {
  r->first = r->g->rounds;
  if (r->local_note.flags == IN_BUFFER)
    return rounds_in_place(r);
  if (r->call->kind == HD_GROUP_ALL_REDUCE && r->g->hosts == 1 && r->g->ranks > 2 &&
      r->bytes * (size_t)r->g->ranks >= PARTS_FROM)
    return rounds_in_parts(r);
  return plain_rounds(r);
}

/* If only some ranks have their data in the group's memory, the call is repeated with copies. */
static hd_status do_call(run *r) {
  HD_TRY(do_rounds(r));
  if (!r->mixed)
    return HD_OK;
  r->local_note.flags = 0;
  return do_rounds(r);
}

static hd_status refuse(run *r, hd_status why) {
  r->local_note = (note){.kind = REFUSED};
  r->round_bytes = 0;
  const hd_status status = wait_for_ranks(r);
  return status == HD_OK ? why : status;
}

static hd_status collective(hd_group *g, hd_ctx *ctx, const hd_group_call *call, bool moves) {
  run r = {.g = g, .ctx = ctx, .call = call, .kind = &kinds[call->kind]};
  const hd_status sound = check_call(g, ctx, call);
  if (sound != HD_OK)
    return refuse(&r, sound);
  const bool barrier = call->kind == HD_GROUP_BARRIER;
  r.size = barrier ? 1 : hd__dtype_size(call->dtype);
  r.bytes = barrier || !moves ? 0 : (size_t)call->count * r.size;
  r.puts = r.kind->puts == ALL || (r.kind->puts == ROOT && call->peer == g->rank);
  r.takes = r.kind->takes == ALL || (r.kind->takes == ROOT && call->peer == g->rank);
  r.in_notes = r.bytes * (size_t)blocks_per_rank(&r) <= HD_GROUP_INLINE_BYTES;
  r.local_note = (note){.kind = (uint8_t)call->kind,
                        .dtype = barrier ? 0 : (uint8_t)call->dtype,
                        .op = computes(call) ? (uint8_t)call->op : 0,
                        .root = has_root(call) ? call->peer : -1,
                        .count = barrier ? 0 : (uint64_t)call->count};
  note_buffer(&r);
  const uint64_t mode = computes(call) ? hd__fpmode_enter() : 0;
  const hd_status status = do_call(&r);
  if (computes(call))
    hd__fpmode_leave(mode);
  return status;
}

hd_status hd__collective(hd_group *g, hd_ctx *ctx, const hd_group_call *call) { return collective(g, ctx, call, true); }

hd_status hd__collective_compare(hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  return collective(g, ctx, call, false);
}

hd_status hd__group_gather_host(void *all, hd_group *g, hd_ctx *ctx, const void *input, int64_t bytes) {
  const hd_group_call call = {
      .kind = HD_GROUP_ALL_GATHER, .output = all, .input = input, .count = bytes, .dtype = HD_U8};
  HD_TRY(hd__group_check(g, ctx));
  g->call_timeout_s = g->timeout_s;
  return hd__collective(g, ctx, &call);
}
