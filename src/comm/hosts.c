/* Who lives where, and moving bytes between hosts: see hosts.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "comm/hosts.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/version.h"
#include "sys/clock.h"
#include "sys/module.h"

enum { ID_BYTES = 192, SPINS = 2000, LOOK_MS = 5, REST_US = 50 };

/* How long one waits for a host while the job is being ended, and for others to hear of a fault. */
static const double HURRY_S = 0.3, TELL_S = 0.2;

static const char remedy[] =
    "install Open MPI or MPICH (tools/install-deps --mpi), configure and build again, or run all ranks on one host";

/* What ranks tell each other first. */
typedef struct identity {
  char version[32], id[ID_BYTES], name[HD_FAULT_HOST_BYTES];
  int32_t pid;
  uint64_t nonce; /* of rank 0: no two jobs have the same */
} identity;

typedef struct host {
  int first;   /* place of its first rank */
  int32_t pid; /* of its leader */
  char name[HD_FAULT_HOST_BYTES];
} host;

struct hd_hosts {
  const hd_transport *transport;
  hd_world *world; /* NULL before it was entered */
  int rank, ranks, count, mine;
  host *host;  /* one more than there are */
  int *member; /* ranks, host after host */
  uint64_t nonce;
  char id[ID_BYTES];
  hd_segment board; /* of gathers */
  hd_transfer *hearing;
  hd_fault heard, telling;
  atomic_int told;
  _Atomic double hurried_s; /* since when; 0: not */
  pthread_mutex_t lock;     /* of: */
  hd_movement *resting;
  bool taken[HD_HOSTS_MOST_GROUPS]; /* tags, by groups of this rank */
};

/* ---- who lives where ---- */

static void read_line(char *to, size_t bytes, const char *path) {
  FILE *file = fopen(path, "re");
  *to = 0;
  if (file && fgets(to, (int)bytes, file))
    to[strcspn(to, "\n")] = 0;
  if (file)
    fclose(file);
}

static void describe(identity *own) {
  const char *given = getenv("HEDDLE_HOST_ID");
  char boot[64];
  *own = (identity){.pid = (int32_t)getpid(), .nonce = (uint64_t)hd__clock_ns() ^ (uint64_t)getpid() << 40};
  snprintf(own->version, sizeof own->version, "%s", hd__version());
  if (gethostname(own->name, sizeof own->name - 1) != 0)
    snprintf(own->name, sizeof own->name, "a host");
  read_line(boot, sizeof boot, "/proc/sys/kernel/random/boot_id");
  if (given && *given) {
    snprintf(own->id, sizeof own->id, "id %.160s", given);
    snprintf(own->name, sizeof own->name, "%.64s", given);
  } else {
    snprintf(own->id, sizeof own->id, "%s %.100s", boot, own->name);
  }
}

/* Host after host, each where its first rank comes. */
static void sort_ranks(hd_hosts *h, const identity *all) {
  int place = 0;
  for (int r = 0; r < h->ranks; r++) {
    int first = 0;
    while (strcmp(all[first].id, all[r].id))
      first++;
    if (first < r)
      continue;
    host *new = &h->host[h->count];
    *new = (host){.first = place, .pid = all[r].pid};
    memcpy(new->name, all[r].name, sizeof new->name);
    for (int other = r; other < h->ranks; other++)
      if (!strcmp(all[other].id, all[r].id))
        h->member[place++] = other;
    if (!strcmp(all[h->rank].id, all[r].id))
      h->mine = h->count;
    h->count++;
  }
  h->host[h->count].first = place;
}

static hd_status find_hosts(hd_hosts *h, hd_ctx *ctx) {
  char why[HD_TRANSPORT_WHY_BYTES];
  identity own, *all = hd__calloc((size_t)h->ranks, sizeof *all);
  h->host = hd__calloc((size_t)h->ranks + 1, sizeof *h->host);
  h->member = hd__calloc((size_t)h->ranks, sizeof *h->member);
  describe(&own);
  hd_status status = HD_OK;
  if (!all || !h->host || !h->member)
    status = hd__fail(ctx, HD_E_NOMEM, "out of memory for a job of %d ranks", h->ranks);
  else if (h->transport->gather(all, &own, sizeof own, why) != 0)
    status = hd__fail(ctx, HD_E_SYSTEM, "expected to hear of all ranks, found: %s", why);
  for (int r = 1; r < h->ranks && status == HD_OK; r++)
    if (strcmp(all[r].version, all[0].version))
      status =
          hd__fail(ctx, HD_E_USAGE,
                   "expected one version of heddle on all hosts, found %s in rank 0 on %s and %s in rank %d on %s; "
                   "install the same",
                   all[0].version, all[0].name, all[r].version, r, all[r].name);
  if (status == HD_OK) {
    sort_ranks(h, all);
    h->nonce = all[0].nonce;
    memcpy(h->id, own.id, sizeof h->id);
  }
  hd__free(all);
  return status;
}

static hd_status start_transport(hd_hosts *h, hd_ctx *ctx, const char *by, int ranks) {
  char why[HD_TRANSPORT_WHY_BYTES];
  void *table;
  HD_TRY(hd__module_find(&table, ctx, "mpi", HD_TRANSPORT_SYMBOL, "ranks on several hosts", remedy));
  h->transport = table;
  if (h->transport->version != HD_TRANSPORT_VERSION)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "expected a module of interface %d, found %u; build it with this heddle",
                    HD_TRANSPORT_VERSION, h->transport->version);
  if (h->transport->init(&h->rank, &h->ranks, why) != 0)
    return hd__fail(ctx, HD_E_SYSTEM, "expected MPI to start, found: %s", why);
  if (ranks > 0 && ranks != h->ranks)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected %d ranks, as %s says, found %d in %s; start the ranks with the mpirun of the MPI that "
                    "heddle was built with, or with `srun --mpi=pmix`",
                    ranks, by ? by : "their launcher", h->ranks, h->transport->name());
  if (h->ranks > HD_WORLD_MOST_RANKS)
    return hd__fail(ctx, HD_E_USAGE, "expected at most %d ranks, found %d", HD_WORLD_MOST_RANKS, h->ranks);
  return HD_OK;
}

hd_status hd__hosts_open(hd_hosts **out, hd_ctx *ctx, const char *by, int ranks) {
  hd_hosts *h = hd__calloc(1, sizeof *h);
  *out = NULL;
  if (!h)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the hosts of a job");
  pthread_mutex_init(&h->lock, NULL);
  hd_status status = start_transport(h, ctx, by, ranks);
  if (status == HD_OK)
    status = find_hosts(h, ctx);
  if (status == HD_OK)
    *out = h;
  else
    hd__hosts_close(h, false);
  return status;
}

static void free_movement(hd_movement *m) {
  hd__free(m->part);
  hd__free(m->transfer);
  hd__free(m->peer);
  hd__free(m);
}

void hd__hosts_close(hd_hosts *h, bool all_is_well) {
  char why[HD_TRANSPORT_WHY_BYTES];
  if (!h)
    return;
  for (hd_movement *m = h->resting, *next; m; m = next) {
    next = m->next;
    free_movement(m);
  }
  h->resting = NULL;
  if (all_is_well) {
    h->transport->drop(h->hearing);
    h->transport->finalize(why);
    hd__segment_destroy(&h->board);
  } /* else the process is about to end, and what it began to hear stays where it is */
  hd__free(h->host);
  hd__free(h->member);
  if (all_is_well)
    hd__free(h);
}

int hd__hosts_local_rank(const hd_hosts *h) {
  int place = h->host[h->mine].first;
  while (h->member[place] != h->rank)
    place++;
  return place - h->host[h->mine].first;
}

int hd__hosts_local_ranks(const hd_hosts *h) { return h->host[h->mine + 1].first - h->host[h->mine].first; }

void hd__hosts_key(char *text, size_t bytes, const hd_hosts *h) {
  snprintf(text, bytes, "hosts|%016llx|%s", (unsigned long long)h->nonce, h->id);
}

int hd__hosts_named(const hd_hosts *h, int local_rank) {
  return h ? h->member[h->host[h->mine].first + local_rank] : local_rank;
}

/* ---- the job, as a world sees it ---- */

int hd__hosts_count(const hd_world *world) {
  const hd_hosts *h = hd__world_hosts(world);
  return h ? h->count : 1;
}

int hd__hosts_mine(const hd_world *world) {
  const hd_hosts *h = hd__world_hosts(world);
  return h ? h->mine : 0;
}

int hd__hosts_rank(const hd_world *world) {
  const hd_hosts *h = hd__world_hosts(world);
  return h ? h->rank : hd__world_rank(world);
}

int hd__hosts_ranks(const hd_world *world) {
  const hd_hosts *h = hd__world_hosts(world);
  return h ? h->ranks : hd__world_ranks(world);
}

int hd__hosts_member(const hd_world *world, int place) {
  const hd_hosts *h = hd__world_hosts(world);
  return h ? h->member[place] : place;
}

int hd__hosts_first(const hd_world *world, int which) {
  const hd_hosts *h = hd__world_hosts(world);
  return h ? h->host[which].first : which ? hd__world_ranks(world) : 0;
}

static int place_of(const hd_hosts *h, int rank) {
  int place = 0;
  while (h->member[place] != rank)
    place++;
  return place;
}

int hd__hosts_of(const hd_world *world, int rank) {
  const hd_hosts *h = hd__world_hosts(world);
  int which = 0;
  for (int place = h ? place_of(h, rank) : 0; h && h->host[which + 1].first <= place; which++) {
  }
  return which;
}

int hd__hosts_local(const hd_world *world, int rank) {
  const hd_hosts *h = hd__world_hosts(world);
  return h ? place_of(h, rank) - h->host[hd__hosts_of(world, rank)].first : rank;
}

const char *hd__hosts_name(const hd_world *world, int which) {
  const hd_hosts *h = hd__world_hosts(world);
  return h ? h->host[which].name : hd__world_host_name(world);
}

const char *hd__hosts_transport(const hd_world *world) {
  const hd_hosts *h = hd__world_hosts(world);
  return h && h->count > 1 ? h->transport->name() : "";
}

/* ---- faults ---- */

static hd_status listen(hd_hosts *h, hd_ctx *ctx) {
  char why[HD_TRANSPORT_WHY_BYTES];
  const hd_transfer_part part = {
      .data = &h->heard, .bytes = sizeof h->heard, .peer = HD_TRANSPORT_ANYBODY, .tag = HD_TAG_FAULT, .receives = 1};
  if (h->transport->start(&h->hearing, &part, 1, why) != 0)
    return hd__fail(ctx, HD_E_SYSTEM, "expected to hear of other hosts, found: %s", why);
  return HD_OK;
}

/* What was heard ends this host's world, too; it is none of its own ranks that failed. */
static void hear(hd_hosts *h) {
  char why[HD_TRANSPORT_WHY_BYTES];
  if (!h->hearing || h->transport->test(h->hearing, why) != 1)
    return;
  h->hearing = NULL;
  h->heard.rank = -1;
  hd__world_break(h->world, &h->heard);
}

void hd__hosts_listen(hd_world *world) {
  hd_hosts *h = hd__world_hosts(world);
  if (h && hd__world_rank(world) == 0)
    hear(h);
}

void hd__hosts_tell(hd_hosts *h, const hd_fault *fault) {
  char why[HD_TRANSPORT_WHY_BYTES];
  int untold = 0;
  if (!h || h->count == 1 || fault->rank < 0 || atomic_fetch_add(&h->told, 1))
    return;
  hd_transfer **sent = hd__calloc((size_t)h->count, sizeof(hd_transfer *));
  h->telling = *fault;
  for (int i = 0; sent && i < h->count; i++) {
    const hd_transfer_part part = {
        .data = &h->telling, .bytes = sizeof h->telling, .peer = h->member[h->host[i].first], .tag = HD_TAG_FAULT};
    if (i != h->mine && h->transport->start(&sent[i], &part, 1, why) == 0)
      untold++;
  }
  for (double end_s = hd__clock_s() + TELL_S; untold > 0 && hd__clock_s() < end_s; sched_yield())
    for (int i = 0; i < h->count; i++)
      if (sent[i] && h->transport->test(sent[i], why) != 0) {
        sent[i] = NULL;
        untold--;
      }
  hd__free(sent);
}

/* A rank of a host that is not heard of; the pid is known of leaders. */
static void give_up_host(hd_hosts *h, int rank, hd_fault_kind kind, int32_t seconds, const char *text) {
  const int which = hd__hosts_of(h->world, rank);
  const int64_t step = hd__world_view(h->world, hd__world_rank(h->world)).step;
  hd_fault fault = {
      .kind = kind, .rank = -1, .named = rank, .pid = h->host[which].pid, .number = seconds, .step = step};
  memcpy(fault.host, h->host[which].name, sizeof fault.host);
  snprintf(fault.text, sizeof fault.text, "%s", text);
  hd__world_break(h->world, &fault);
}

void hd__hosts_hurry(hd_world *world) {
  hd_hosts *h = hd__world_hosts(world);
  if (h && atomic_load(&h->hurried_s) == 0)
    atomic_store(&h->hurried_s, hd__clock_s());
}

/* ---- moving bytes ---- */

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

static void rest(hd_world *world, hd_movement *m) {
  hd_hosts *h = hd__world_hosts(world);
  pthread_mutex_lock(&h->lock);
  m->next = h->resting;
  h->resting = m;
  pthread_mutex_unlock(&h->lock);
}

int32_t hd__hosts_take_tags(hd_world *world, int32_t from) {
  hd_hosts *h = hd__world_hosts(world);
  int which = from > HD_TAG_GROUPS ? (from - HD_TAG_GROUPS) / HD_TAGS_OF_GROUP : 0;
  pthread_mutex_lock(&h->lock);
  while (which < HD_HOSTS_MOST_GROUPS && h->taken[which])
    which++;
  if (which < HD_HOSTS_MOST_GROUPS)
    h->taken[which] = true;
  pthread_mutex_unlock(&h->lock);
  return which < HD_HOSTS_MOST_GROUPS ? HD_TAG_GROUPS + which * HD_TAGS_OF_GROUP : HD_TRANSPORT_TAGS;
}

void hd__hosts_give_tags(hd_world *world, int32_t tag) {
  hd_hosts *h = hd__world_hosts(world);
  if (!h || tag < HD_TAG_GROUPS || tag >= HD_TRANSPORT_TAGS)
    return;
  pthread_mutex_lock(&h->lock);
  h->taken[(tag - HD_TAG_GROUPS) / HD_TAGS_OF_GROUP] = false;
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
    give_up_host(h, missing(m), HD_FAULT_SILENT, (int32_t)m->patience_s, "");
  if (hurried_s > 0 && now_s - hurried_s > HURRY_S && now_s - m->began_s > HURRY_S)
    give_up_host(h, missing(m), HD_FAULT_ENDING, 0, "");
}

static void test_all(moving *m) {
  char why[HD_TRANSPORT_WHY_BYTES];
  for (int i = 0; i < m->count; i++) {
    const int done = m->transfer[i] ? m->hosts->transport->test(m->transfer[i], why) : 0;
    if (done < 0)
      give_up_host(m->hosts, m->peer[i], HD_FAULT_CUT, 0, why);
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
      give_up_host(m->hosts, parts[first].peer, HD_FAULT_CUT, 0, why);
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
  rest(world, of);
  return status;
}

hd_status hd__hosts_start(hd_transfer **out, hd_world *world, hd_ctx *ctx, const hd_transfer_part *parts, int count) {
  char why[HD_TRANSPORT_WHY_BYTES];
  hd_hosts *h = hd__world_hosts(world);
  if (h->transport->start(out, parts, count, why) == 0)
    return HD_OK;
  give_up_host(h, parts[0].peer, HD_FAULT_CUT, 0, why);
  return hd__world_check(world, ctx);
}

int hd__hosts_test(hd_world *world, hd_transfer *transfer, int peer) {
  char why[HD_TRANSPORT_WHY_BYTES];
  hd_hosts *h = hd__world_hosts(world);
  const int done = h->transport->test(transfer, why);
  if (done < 0)
    give_up_host(h, peer, HD_FAULT_CUT, 0, why);
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
  rest(world, m);
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

/* ---- what all ranks do together ---- */

/* The leader writes everybody's to the board, host after host. Nobody writes it again before all have read it: they
 * come to the next gather first. */
static hd_status fill_board(hd_hosts *h, hd_ctx *ctx, const void *own, size_t bytes) {
  int64_t *of = hd__calloc((size_t)h->count, sizeof *of);
  if (!of)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d hosts", h->count);
  for (int i = 0; i < h->count; i++)
    of[i] = (int64_t)bytes * (h->host[i + 1].first - h->host[i].first);
  memcpy((char *)h->board.base + bytes * (size_t)h->host[h->mine].first, own, (size_t)of[h->mine]);
  hd_status status =
      hd__hosts_join_blocks(NULL, h->world, ctx, &(hd_blocks){.data = h->board.base, .bytes = of}, 1, NULL);
  hd__free(of);
  return status;
}

hd_status hd__hosts_gather(void *all, hd_world *world, hd_ctx *ctx, const void *mine, size_t bytes) {
  hd_hosts *h = hd__world_hosts(world);
  if (!h || h->count == 1)
    return hd__world_gather(all, world, ctx, mine, bytes);
  HD_TRY(hd__world_gather(all, world, ctx, mine, bytes));
  if (hd__world_rank(world) == 0) {
    hd_status status = fill_board(h, ctx, all, bytes);
    if (status != HD_OK) {
      hd__world_give_up(world, hd_ctx_message(ctx));
      return status;
    }
  }
  HD_TRY(hd__world_meet(world, ctx));
  for (int place = 0; place < h->ranks; place++)
    memcpy((char *)all + bytes * (size_t)h->member[place], (const char *)h->board.base + bytes * (size_t)place, bytes);
  return HD_OK;
}

hd_status hd__hosts_enter(hd_world *world, hd_ctx *ctx, hd_hosts *h) {
  h->world = world;
  hd__world_set_hosts(world, h);
  HD_TRY(
      hd__world_memory(&h->board, world, ctx, (size_t)h->ranks * HD_WORLD_GATHER_BYTES, "what hosts tell each other"));
  if (h->count > 1 && hd__world_rank(world) == 0)
    return listen(h, ctx);
  return HD_OK;
}
