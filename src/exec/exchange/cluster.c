/* The cluster: the map of ranks to hosts, tags, and collectives of all ranks: see cluster.h. */
#include "exec/exchange/cluster.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/event_log.h"
#include "base/version.h"
#include "exec/exchange/cluster_state.h"
#include "platform/clock.h"
#include "platform/machine.h"
#include "platform/module.h"

static const char remedy[] =
    "install Open MPI or MPICH (tools/install-deps --mpi), configure and build again, or run all ranks on one host";

/* The first message between ranks. */
typedef struct identity {
  char version[32], id[HD_CLUSTER_ID_BYTES], name[HD_FAULT_HOST_BYTES];
  int32_t pid;
  uint64_t nonce; /* of rank 0: unique to the job */
} identity;

/* ---- the map of ranks to hosts ---- */

/* FNV-1a hash of a name of any length. */
static uint64_t sum_of(const char *text) {
  uint64_t sum = UINT64_C(0xcbf29ce484222325);
  for (; *text; text++)
    sum = (sum ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
  return sum;
}

static void describe(identity *self) {
  const char *given = getenv("HEDDLE_HOST_ID");
  char boot[64];
  *self = (identity){.pid = (int32_t)getpid(), .nonce = (uint64_t)hd__clock_ns() ^ (uint64_t)getpid() << 40};
  snprintf(self->version, sizeof self->version, "%s", hd__version());
  if (gethostname(self->name, sizeof self->name - 1) != 0)
    snprintf(self->name, sizeof self->name, "a host");
  hd__machine_boot(boot, sizeof boot);
  if (given && *given) {
    snprintf(self->id, sizeof self->id, "id %016llx %.140s", (unsigned long long)sum_of(given), given);
    snprintf(self->name, sizeof self->name, "%.64s", given);
  } else {
    snprintf(self->id, sizeof self->id, "%s %.100s", boot, self->name);
  }
}

/* A host with the name of an earlier one gets a number, since messages and reports identify hosts by name. */
static void name_host(hd_cluster *h, const char *name) {
  hd_host *new = &h->host[h->count];
  bool is_taken = false;
  for (int i = 0; i < h->count; i++)
    is_taken |= !strcmp(h->host[i].name, name);
  snprintf(new->name, sizeof new->name, is_taken ? "%.50s (host %d)" : "%.64s", name, h->count);
}

/* Orders hosts by their first rank, and lists the ranks of each. */
static void sort_ranks(hd_cluster *h, const identity *all) {
  int place = 0;
  for (int r = 0; r < h->ranks; r++) {
    int first = 0;
    while (strcmp(all[first].id, all[r].id))
      first++;
    if (first < r)
      continue;
    hd_host *new = &h->host[h->count];
    *new = (hd_host){.first = place, .pid = all[r].pid};
    name_host(h, all[r].name);
    for (int other = r; other < h->ranks; other++)
      if (!strcmp(all[other].id, all[r].id))
        h->member[place++] = other;
    if (!strcmp(all[h->rank].id, all[r].id))
      h->this_host = h->count;
    h->count++;
  }
  h->host[h->count].first = place;
}

static hd_status find_hosts(hd_cluster *h, hd_ctx *ctx) {
  char why[HD_TRANSPORT_WHY_BYTES];
  HD_OWNED identity *all = hd__calloc((size_t)h->ranks, sizeof *all);
  identity self;
  h->host = hd__calloc((size_t)h->ranks + 1, sizeof *h->host);
  h->member = hd__calloc((size_t)h->ranks, sizeof *h->member);
  describe(&self);
  HD_TRY(HD_ALLOCATED(all && h->host && h->member, ctx, "out of memory for a job of %d ranks", h->ranks));
  if (h->transport->gather(all, &self, sizeof self, why) != 0)
    return hd__fail(ctx, HD_E_SYSTEM, "cannot exchange the names of all ranks: %s", why);
  for (int r = 1; r < h->ranks; r++)
    if (strcmp(all[r].version, all[0].version))
      return hd__fail(ctx, HD_E_USAGE,
                      "expected one version of heddle on all hosts, found %s in rank 0 on %s and %s in rank %d on "
                      "%s; install the same version",
                      all[0].version, all[0].name, all[r].version, r, all[r].name);
  sort_ranks(h, all);
  h->nonce = all[0].nonce;
  memcpy(h->id, self.id, sizeof h->id);
  return HD_OK;
}

static hd_status start_transport(hd_cluster *h, hd_ctx *ctx, const char *by, int ranks) {
  char why[HD_TRANSPORT_WHY_BYTES];
  void *table;
  HD_TRY(hd__module_find(&table, ctx, "mpi", HD_TRANSPORT_SYMBOL, "ranks on several hosts", remedy));
  h->transport = table;
  if (h->transport->version != HD_TRANSPORT_VERSION)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "expected a module of interface %d, found %u; build it with this heddle",
                    HD_TRANSPORT_VERSION, h->transport->version);
  if (h->transport->init(&h->rank, &h->ranks, why) != 0)
    return hd__fail(ctx, HD_E_SYSTEM, "MPI cannot start: %s", why);
  if (ranks > 0 && ranks != h->ranks)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected %d ranks, as %s says, found %d in %s; start the ranks with the mpirun of the MPI that "
                    "heddle was built with, or with `srun --mpi=pmix`",
                    ranks, by ? by : "their launcher", h->ranks, h->transport->name());
  if (h->ranks > HD_LOCAL_GROUP_MOST_RANKS)
    return hd__fail(ctx, HD_E_USAGE, "expected at most %d ranks, found %d", HD_LOCAL_GROUP_MOST_RANKS, h->ranks);
  return HD_OK;
}

hd_status hd__cluster_open(hd_cluster **out, hd_ctx *ctx, const char *by, int ranks) {
  hd_cluster *h = hd__calloc(1, sizeof *h);
  *out = NULL;
  HD_TRY(HD_ALLOCATED(h, ctx, "out of memory for the hosts of a job"));
  pthread_mutex_init(&h->lock, NULL);
  hd_status status = start_transport(h, ctx, by, ranks);
  HD_THEN(status, find_hosts(h, ctx));
  if (status == HD_OK)
    *out = h;
  else
    hd__cluster_close(h, false);
  return status;
}

void hd__cluster_close(hd_cluster *h, bool all_is_well) {
  char why[HD_TRANSPORT_WHY_BYTES];
  if (!h)
    return;
  hd__cluster_free_exchanges(h);
  if (all_is_well)
    hd__cluster_leave(h);
  all_is_well &= !atomic_load(&h->awaits_none);
  if (all_is_well) {
    h->transport->drop(h->fault_receive);
    h->transport->finalize(why);
    hd__segment_destroy(&h->board);
  } /* else finalize might wait for ever, the process is about to end, and the pending receive keeps its buffer */
  hd__free(h->host);
  hd__free(h->member);
  if (all_is_well) {
    hd__free(h->left_send);
    hd__free(h->sent_left);
    hd__free(h);
  }
}

void hd__cluster_await_none(hd_local_group *local) {
  hd_cluster *h = hd__local_group_cluster(local);
  if (h)
    atomic_store(&h->awaits_none, true);
}

int hd__cluster_local_rank(const hd_cluster *h) {
  int place = h->host[h->this_host].first;
  while (h->member[place] != h->rank)
    place++;
  return place - h->host[h->this_host].first;
}

int hd__cluster_local_ranks(const hd_cluster *h) {
  return h->host[h->this_host + 1].first - h->host[h->this_host].first;
}

void hd__cluster_key(char *text, size_t bytes, const hd_cluster *h) {
  snprintf(text, bytes, "hosts|%016llx|%s", (unsigned long long)h->nonce, h->id);
}

/* ---- ranks and hosts of the job ---- */

int hd__cluster_count(const hd_local_group *local) {
  const hd_cluster *h = hd__local_group_cluster(local);
  return h ? h->count : 1;
}

bool hd__cluster_is_one_host(const hd_local_group *local) { return hd__cluster_count(local) == 1; }

bool hd__cluster_leads(const hd_local_group *local) {
  return !hd__cluster_is_one_host(local) && hd__local_group_rank(local) == 0;
}

int hd__cluster_this_host(const hd_local_group *local) {
  const hd_cluster *h = hd__local_group_cluster(local);
  return h ? h->this_host : 0;
}

int hd__cluster_rank(const hd_local_group *local) {
  const hd_cluster *h = hd__local_group_cluster(local);
  return h ? h->rank : hd__local_group_rank(local);
}

int hd__cluster_ranks(const hd_local_group *local) {
  const hd_cluster *h = hd__local_group_cluster(local);
  return h ? h->ranks : hd__local_group_ranks(local);
}

int hd__cluster_member(const hd_local_group *local, int place) {
  const hd_cluster *h = hd__local_group_cluster(local);
  return h ? h->member[place] : place;
}

int hd__cluster_first(const hd_local_group *local, int which) {
  const hd_cluster *h = hd__local_group_cluster(local);
  return h ? h->host[which].first : which ? hd__local_group_ranks(local) : 0;
}

int hd__cluster_of(const hd_local_group *local, int rank) {
  const hd_cluster *h = hd__local_group_cluster(local);
  return h ? hd__cluster_host_of(h, rank) : 0;
}

int hd__cluster_local(const hd_local_group *local, int rank) {
  const hd_cluster *h = hd__local_group_cluster(local);
  return h ? hd__cluster_place_of(h, rank) - h->host[hd__cluster_host_of(h, rank)].first : rank;
}

const char *hd__cluster_name(const hd_local_group *local, int which) {
  const hd_cluster *h = hd__local_group_cluster(local);
  return h ? h->host[which].name : hd__local_group_host_name(local);
}

const char *hd__cluster_transport(const hd_local_group *local) {
  const hd_cluster *h = hd__local_group_cluster(local);
  return h && h->count > 1 ? h->transport->name() : "";
}

/* ---- tags ---- */

int32_t hd__cluster_take_tags(hd_local_group *local, int32_t from) {
  hd_cluster *h = hd__local_group_cluster(local);
  int which = from > HD_TAG_GROUPS ? (from - HD_TAG_GROUPS) / HD_TAGS_OF_GROUP : 0;
  pthread_mutex_lock(&h->lock);
  while (which < HD_CLUSTER_MOST_GROUPS && h->taken[which])
    which++;
  if (which < HD_CLUSTER_MOST_GROUPS)
    h->taken[which] = true;
  pthread_mutex_unlock(&h->lock);
  return which < HD_CLUSTER_MOST_GROUPS ? HD_TAG_GROUPS + which * HD_TAGS_OF_GROUP : HD_TRANSPORT_TAGS;
}

void hd__cluster_free_tags(hd_local_group *local, int32_t tag) {
  hd_cluster *h = hd__local_group_cluster(local);
  if (!h || tag < HD_TAG_GROUPS || tag >= HD_TRANSPORT_TAGS)
    return;
  pthread_mutex_lock(&h->lock);
  h->taken[(tag - HD_TAG_GROUPS) / HD_TAGS_OF_GROUP] = false;
  pthread_mutex_unlock(&h->lock);
}

/* ---- collectives of all ranks ---- */

/* The leader writes the data of all ranks to the board, host after host. The board is not written again before all
 * ranks have read it: the next gather begins with a barrier. */
static hd_status fill_board(hd_cluster *h, hd_ctx *ctx, const void *self, size_t bytes) {
  HD_OWNED int64_t *of = NULL;
  HD_TRY(HD_NEW(of, h->count, ctx, "out of memory for %d hosts", h->count));
  for (int i = 0; i < h->count; i++)
    of[i] = (int64_t)bytes * (h->host[i + 1].first - h->host[i].first);
  memcpy((char *)h->board.base + bytes * (size_t)h->host[h->this_host].first, self, (size_t)of[h->this_host]);
  return hd__cluster_join_blocks(NULL, h->local, ctx, &(hd_blocks){.data = h->board.base, .bytes = of}, 1, NULL);
}

hd_status hd__cluster_gather(void *all, hd_local_group *local, hd_ctx *ctx, const void *input, size_t bytes) {
  hd_cluster *h = hd__local_group_cluster(local);
  if (!h || h->count == 1)
    return hd__local_group_gather(all, local, ctx, input, bytes);
  HD_TRY(hd__local_group_gather(all, local, ctx, input, bytes));
  if (hd__local_group_rank(local) == 0) {
    hd_status status = fill_board(h, ctx, all, bytes);
    if (status != HD_OK) {
      hd__local_group_give_up(local, hd_ctx_message(ctx));
      return status;
    }
  }
  HD_TRY(hd__local_group_barrier(local, ctx));
  for (int place = 0; place < h->ranks; place++)
    memcpy((char *)all + bytes * (size_t)h->member[place], (const char *)h->board.base + bytes * (size_t)place, bytes);
  return HD_OK;
}

hd_status hd__cluster_enter(hd_local_group *local, hd_ctx *ctx, hd_cluster *h) {
  h->local = local;
  hd__local_group_set_cluster(local, h);
  hd__log_rank(hd__cluster_global_rank(h, hd__local_group_rank(local)));
  HD_LOG(RANKS, "host %d of %d, %d ranks in all", h->this_host, h->count, h->ranks);
  const size_t gathers = (size_t)h->ranks * HD_LOCAL_GROUP_GATHER_BYTES;
  HD_TRY(hd__local_group_memory(&h->board, local, ctx, gathers + (size_t)h->ranks * sizeof *h->left_s,
                                "what hosts exchange"));
  h->left_s = (_Atomic double *)(void *)((char *)h->board.base + gathers);
  if (h->count > 1 && hd__local_group_rank(local) == 0)
    return hd__cluster_receive_faults(h, ctx);
  return HD_OK;
}
