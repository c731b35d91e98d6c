/* The exchange of sums: see exchange.h. */
#include "exec/exchange/exchange.h"

#include <string.h>

#include "base/alloc.h"

hd_status hd__exchange_begin(hd_exchange *x, hd_ctx *ctx, hd_local_group *local, int here, bool by_rank) {
  int32_t count[HD_LOCAL_GROUP_MOST_RANKS];
  const int32_t this_rank = here;
  *x = (hd_exchange){.local = local,
                     .hosts = hd__cluster_count(local),
                     .host = hd__cluster_this_host(local),
                     .ranks = hd__cluster_ranks(local),
                     .here = here,
                     .by_rank = by_rank,
                     .waited_for = -1};
  x->host_first = hd__calloc((size_t)x->hosts + 1, sizeof *x->host_first);
  x->rank_first = hd__calloc((size_t)hd__local_group_ranks(local) + 1, sizeof *x->rank_first);
  x->bytes = hd__calloc((size_t)x->hosts * HD_EXCHANGE_BLOCKS, sizeof *x->bytes);
  HD_TRY(HD_ALLOCATED(x->host_first && x->rank_first && x->bytes, ctx,
                      "out of memory for the exchange between %d ranks", x->ranks));
  HD_TRY(hd__cluster_gather(count, local, ctx, &this_rank, sizeof this_rank));
  for (int h = 0; h < x->hosts; h++) {
    const int place = hd__cluster_first(local, h), end = hd__cluster_first(local, h + 1);
    for (int r = 0; r <= end - place; r++) {
      if (h == x->host)
        x->rank_first[r] = x->count;
      if (place + r < end)
        x->count += count[hd__cluster_member(local, place + r)];
    }
    x->host_first[h + 1] = x->count;
  }
  x->first = x->rank_first[hd__local_group_rank(local)];
  return HD_OK;
}

void hd__exchange_end(hd_exchange *x) {
  hd__free(x->host_first);
  hd__free(x->rank_first);
  hd__free(x->bytes);
}

/* ---- waiting threads ---- */

/* The first waiting thread of a rank of this host. */
static int first_thread_of(const hd_exchange *x, int rank) {
  return x->by_rank ? rank : x->rank_first[rank] - x->rank_first[0];
}

/* The rank of this host that a waiting thread belongs to. */
static int rank_of(const hd_exchange *x, int thread) {
  int rank = 0;
  while (first_thread_of(x, rank + 1) <= thread)
    rank++;
  return rank;
}

int hd__exchange_first_thread(const hd_exchange *x) { return first_thread_of(x, hd__local_group_rank(x->local)); }

int hd__exchange_threads(const hd_exchange *x) {
  return x->by_rank ? hd__local_group_ranks(x->local) : x->host_first[x->host + 1] - x->host_first[x->host];
}

hd_tally *hd__exchange_tally(const hd_exchange *x, int thread) {
  return x->tallies ? (hd_tally *)(void *)(x->tallies + thread * hd__tally_bytes(x->ranks)) : NULL;
}

/* Numbers in the sum of the accounts of a rank. */
static int64_t spent_each(const hd_exchange *x) { return HD_SPENT_KINDS + x->ranks; }

int64_t hd__exchange_lay_out(hd_exchange *x, void *base) {
  const int threads = hd__exchange_threads(x);
  const int64_t lines = HD_BARRIER_LINES(threads) * (int64_t)sizeof *x->lines;
  const int64_t tallies = lines + (x->ranks > 1 ? threads * hd__tally_bytes(x->ranks) : 0);
  const int64_t spent = tallies + (x->hosts > 1 ? x->ranks * spent_each(x) * (int64_t)sizeof *x->spent : 0);
  if (base) {
    x->lines = base;
    x->tallies = x->ranks > 1 ? (char *)base + lines : NULL;
    x->spent = (int64_t *)(void *)((char *)base + tallies);
    x->flags = (uint32_t *)(void *)((char *)base + spent);
  }
  return spent + (x->hosts > 1 ? (x->hosts + 1) * (int64_t)sizeof *x->flags : 0);
}

static void report_late(void *self, int thread, int64_t waited_ns) {
  const hd_exchange *x = self;
  hd__local_group_late(x->local, rank_of(x, thread), waited_ns);
}

hd_status hd__exchange_open(hd_exchange *x, hd_ctx *ctx, const hd_threads *threads, bool crowded) {
  if (x->local)
    x->watch = (hd_barrier_watch){.broken = hd__local_group_broken_word(x->local), .late = report_late, .self = x};
  hd__barrier_join(&x->barrier, x->lines, hd__exchange_threads(x), crowded, x->local ? &x->watch : NULL);
  for (int i = 0; threads && i < x->here; i++)
    hd__barrier_set_cache(x->lines, hd__exchange_first_thread(x) + i, hd__threads_cache(threads, i));
  HD_TRY(hd__local_group_barrier(x->local, ctx));
  if (threads)
    hd__barrier_join_caches(&x->barrier);
  return HD_OK;
}

/* The rank in the job of a rank of this host. */
static int rank_in_job(const hd_exchange *x, int rank) {
  return hd__cluster_member(x->local, hd__cluster_first(x->local, x->host) + rank);
}

int hd__exchange_rank(const hd_exchange *x, int thread) { return rank_in_job(x, rank_of(x, thread)); }

uint32_t hd__exchange_wait(hd_exchange *x, int thread, uint32_t flags) {
  hd_tally *tally = hd__exchange_tally(x, thread);
  if (!tally)
    return hd__barrier_wait(&x->barrier, thread, flags);
  hd__tally_end(tally, HD_SPENT_COMPUTE);
  hd_barrier_stamp stamp = {.ns = tally->since_ns, .thread = thread, .more = -1};
  if (thread == 0) {
    stamp.more = x->waited_for;
    x->waited_for = -1;
  }
  const uint32_t all = hd__barrier_wait_with_stamp(&x->barrier, thread, flags, &stamp);
  if (all & HD_BARRIER_BROKEN)
    return all;
  const hd_barrier_stamp last = hd__barrier_latest(&x->barrier, thread);
  hd__tally_waited(tally, last.thread == thread ? -1 : last.more >= 0 ? last.more : hd__exchange_rank(x, last.thread));
  return all;
}

/* ---- hosts ---- */

int64_t *hd__exchange_publish(hd_exchange *x, void *data) {
  int64_t *bytes = x->bytes + (ptrdiff_t)x->blocks * x->hosts;
  x->block[x->blocks++] = (hd_blocks){.data = data, .bytes = bytes};
  return bytes;
}

static void sum_accounts(int64_t *sums, const hd_exchange *x, int rank) {
  memset(sums, 0, (size_t)spent_each(x) * sizeof *sums);
  for (int i = first_thread_of(x, rank); i < first_thread_of(x, rank + 1); i++)
    hd__tally_add(sums, hd__exchange_tally(x, i), x->ranks);
}

/* The accounts of the ranks of all hosts, for the first host. */
static void publish_accounts(hd_exchange *x) {
  int64_t *bytes = hd__exchange_publish(x, x->spent);
  x->block[x->blocks - 1].to_first = true;
  for (int h = 0; h < x->hosts; h++)
    bytes[h] = (hd__cluster_first(x->local, h + 1) - hd__cluster_first(x->local, h)) * spent_each(x) *
               (int64_t)sizeof *x->spent;
  for (int r = 0; r < hd__local_group_ranks(x->local); r++)
    sum_accounts(x->spent + (hd__cluster_first(x->local, x->host) + r) * spent_each(x), x, r);
}

static void publish_flags(hd_exchange *x, uint32_t flags) {
  int64_t *bytes = hd__exchange_publish(x, x->flags);
  for (int h = 0; h < x->hosts; h++)
    bytes[h] = sizeof *x->flags;
  x->flags[x->host] = flags;
}

bool hd__exchange_finish(hd_exchange *x, const hd_slices *slices, const uint32_t *flags, bool reports) {
  hd_tally *tally = hd__exchange_tally(x, 0);
  if (flags)
    publish_flags(x, *flags);
  if (reports)
    publish_accounts(x);
  hd__tally_end(tally, HD_SPENT_COMPUTE);
  const hd_status status = hd__cluster_join_blocks(&x->waited_for, x->local, NULL, x->block, x->blocks, slices);
  hd__tally_waited(tally, x->waited_for);
  x->blocks = 0;
  uint32_t all = 0;
  for (int h = 0; h < x->hosts; h++)
    all |= x->flags[h];
  if (flags)
    x->flags[x->hosts] = all;
  return status == HD_OK;
}

uint32_t hd__exchange_flags(const hd_exchange *x) { return x->flags[x->hosts]; }

uint32_t hd__exchange_all(hd_exchange *x, int thread, uint32_t flags, bool reports) {
  uint32_t all = hd__exchange_wait(x, thread, flags);
  if (x->hosts == 1 || all & HD_BARRIER_BROKEN) {
    if (thread == 0)
      x->blocks = 0;
    return all;
  }
  if (thread == 0 && !hd__exchange_finish(x, NULL, &all, reports))
    return HD_BARRIER_BROKEN;
  all = hd__exchange_wait(x, thread, 0);
  return all & HD_BARRIER_BROKEN ? all : hd__exchange_flags(x);
}

void hd__exchange_spent(int64_t *sums, const hd_exchange *x) {
  const int here = hd__cluster_first(x->local, x->host);
  const int64_t each = spent_each(x);
  for (int place = 0; place < x->ranks && x->tallies; place++) {
    int64_t *of = sums + hd__cluster_member(x->local, place) * each;
    const int r = place - here;
    if (r < 0 || r >= hd__local_group_ranks(x->local)) /* there are several hosts */
      memcpy(of, x->spent + place * each, (size_t)each * sizeof *of);
    else
      sum_accounts(of, x, r);
  }
}
