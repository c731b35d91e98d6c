/* Who lives where, what hosts hear of faults, and what all ranks do together: see hosts.h. Bytes are moved in
 * hosts_move.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "comm/hosts_state.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/version.h"
#include "sys/clock.h"
#include "sys/module.h"

static const double TELL_S = 0.2; /* how long one waits for others to hear of a fault */

static const char remedy[] =
    "install Open MPI or MPICH (tools/install-deps --mpi), configure and build again, or run all ranks on one host";

/* What ranks tell each other first. */
typedef struct identity {
  char version[32], id[HD_HOSTS_ID_BYTES], name[HD_FAULT_HOST_BYTES];
  int32_t pid;
  uint64_t nonce; /* of rank 0: no two jobs have the same */
} identity;

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
    hd_host *new = &h->host[h->count];
    *new = (hd_host){.first = place, .pid = all[r].pid};
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

void hd__hosts_close(hd_hosts *h, bool all_is_well) {
  char why[HD_TRANSPORT_WHY_BYTES];
  if (!h)
    return;
  hd__hosts_free_movements(h);
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

/* The pid is known of leaders. */
void hd__hosts_give_up(hd_hosts *h, int rank, hd_fault_kind kind, int32_t seconds, const char *text) {
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

void hd__hosts_calm(hd_world *world) {
  hd_hosts *h = hd__world_hosts(world);
  if (h)
    atomic_store(&h->hurried_s, 0);
}

/* ---- tags ---- */

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
