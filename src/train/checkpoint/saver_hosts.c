/* Saving weights of several hosts: see saver_hosts.h.
 *
 * Savers have copies of the same layout, each filled in part. A request names a place in the writer's copy: the other
 * host's saver sends what it has there. */
#include "train/checkpoint/saver_hosts.h"

#include <time.h>

#include "base/alloc.h"
#include "exec/exchange/cluster.h"

static const struct timespec REST = {.tv_nsec = 20000};

typedef struct request {
  int64_t offset, bytes; /* bytes: 0: there is no further request */
  int64_t of_file;       /* 1: of the copy in file order */
} request;

/* Another host's saver, as the writer sees it. */
typedef struct other_host {
  hd_st_source source;
  hd_saver *saver;
  int leader;
} other_host;

struct hd_saver_hosts {
  hd_local_group *local;
  int count, first_leader;
  other_host *other;
  const hd_st_source **source; /* per entry */
};

/* Waits as long as the group is whole: a slow disk on one host is no failure. */
static bool move(const struct hd_saver_hosts *h, void *data, int64_t bytes, int peer, int tag, bool receives) {
  const hd_transfer_part part = {.data = data, .bytes = bytes, .peer = peer, .tag = tag, .receives = receives};
  const atomic_uint *broken = hd__local_group_broken_word(h->local);
  hd_transfer *transfer;
  if (hd__cluster_start(&transfer, h->local, NULL, &part, 1) != HD_OK)
    return false;
  for (int done; (done = hd__cluster_test(h->local, transfer, peer)) <= 0; nanosleep(&REST, NULL)) {
    if (done == 0 && !atomic_load(broken))
      continue;
    hd__cluster_drop(h->local, done == 0 ? transfer : NULL);
    return false;
  }
  return true;
}

static hd_status read_other(void *self, hd_ctx *ctx, void *out, const char *bytes, size_t length) {
  const other_host *other = self;
  const hd_saver *saver = other->saver;
  const char *copy = (const char *)saver->copy, *file = (const char *)saver->file;
  const bool of_file = bytes >= file && (bytes < copy || file > copy);
  request r = {.offset = bytes - (of_file ? file : copy), .bytes = (int64_t)length, .of_file = of_file};
  if (move(saver->hosts, &r, sizeof r, other->leader, HD_TAG_SAVE, false) &&
      move(saver->hosts, out, (int64_t)length, other->leader, HD_TAG_SAVE + 1, true))
    return HD_OK;
  return hd__fail(ctx, HD_E_PEER, "the weights of rank %d's host are lost", other->leader);
}

hd_status hd__saver_serve(hd_saver *saver) {
  const struct hd_saver_hosts *h = saver->hosts;
  request r;
  while (move(h, &r, sizeof r, h->first_leader, HD_TAG_SAVE, true) && r.bytes > 0)
    if (!move(h, (char *)(r.of_file ? saver->file : saver->copy) + r.offset, r.bytes, h->first_leader, HD_TAG_SAVE + 1,
              false))
      break;
  return HD_OK; /* a lost host is reported by the ranks that wait for it */
}

void hd__saver_dismiss(hd_saver *saver) {
  const struct hd_saver_hosts *h = saver->hosts;
  request end = {.bytes = 0};
  for (int i = 1; i < h->count; i++)
    move(h, &end, sizeof end, h->other[i].leader, HD_TAG_SAVE, false);
}

hd_status hd__saver_share(hd_saver *saver, hd_ctx *ctx, hd_local_group *local, const int *host) {
  const hd_directory *d = saver->store->directory;
  struct hd_saver_hosts *h = saver->hosts = hd__calloc(1, sizeof *h);
  HD_TRY(HD_ALLOCATED(h, ctx, "out of memory for checkpoints"));
  h->local = local;
  h->count = hd__cluster_count(local);
  h->first_leader = hd__cluster_member(local, 0);
  HD_TRY(HD_NEW(h->other, h->count, ctx, "out of memory for checkpoints"));
  HD_TRY(HD_NEW(h->source, d->entries, ctx, "out of memory for checkpoints"));
  for (int i = 0; i < h->count; i++)
    h->other[i] = (other_host){.source = {.read = read_other, .self = &h->other[i]},
                               .saver = saver,
                               .leader = hd__cluster_member(local, hd__cluster_first(local, i))};
  for (int p = 0; p < d->entries; p++)
    if (d->entry[p].same_as < 0 && host[p] != hd__cluster_this_host(local))
      h->source[p] = &h->other[host[p]].source;
  saver->source = h->source;
  return HD_OK;
}

void hd__saver_leave_hosts(hd_saver *saver) {
  if (!saver->hosts)
    return;
  hd__free(saver->hosts->other);
  hd__free(saver->hosts->source);
  hd__free(saver->hosts);
}
