/* Sharing the list of skipped samples between ranks and hosts, and counting them: see session.h. */
#include "train/run/session.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "data/split/skipped_samples.h"
#include "exec/exchange/cluster.h"
#include "train/settings/run_record.h"

hd_status hd__session_share_skips(hd_session *s, hd_ctx *ctx) {
  const hd_split *train = hd__dataset_train(s->input.data), *test = hd__dataset_test(s->input.data);
  const size_t first = (hd__skips_bytes(train) + 7) / 8 * 8, bytes = first + hd__skips_bytes(test);
  if (hd__local_group_ranks(s->compute.local) == 1 || bytes == 0)
    return HD_OK;
  HD_TRY(hd__local_group_memory(&s->input.skip_memory, s->compute.local, ctx, bytes, "the list of skipped samples"));
  if (hd__skips_bytes(train) > 0)
    hd__skips_share(train, s->input.skip_memory.base);
  if (hd__skips_bytes(test) > 0)
    hd__skips_share(test, (char *)s->input.skip_memory.base + first);
  return hd__local_group_barrier(s->compute.local, ctx);
}

static int by_number(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Leaders: exchanges the marks that hosts have found, found[h] samples of host h; *distinct is the number of different
 * samples. */
static hd_status join_marks(int64_t *distinct, hd_session *s, hd_ctx *ctx, const hd_split *split,
                            const int64_t *found) {
  const int hosts = hd__cluster_count(s->compute.local), this_host = hd__cluster_this_host(s->compute.local);
  HD_OWNED int64_t *bytes = hd__calloc((size_t)hosts, sizeof *bytes);
  int64_t all = 0, before = 0;
  for (int h = 0; h < hosts; h++) {
    before += h < this_host ? found[h] : 0;
    all += found[h];
  }
  HD_OWNED int64_t *list = hd__calloc((size_t)all + 1, sizeof *list);
  HD_TRY(HD_ALLOCATED(list && bytes, ctx, "out of memory for the skipped ones of %lld samples", (long long)all));
  for (int h = 0; h < hosts; h++)
    bytes[h] = found[h] * (int64_t)sizeof *list;
  hd__skips_list(list + before, split, found[this_host]);
  HD_TRY(hd__cluster_join_blocks(NULL, s->compute.local, ctx, &(hd_blocks){.data = list, .bytes = bytes}, 1, NULL));
  qsort(list, (size_t)all, sizeof *list, by_number);
  *distinct = 0;
  for (int64_t i = 0; i < all; i++) {
    hd__skips_mark(split, list[i]);
    *distinct += i == 0 || list[i] != list[i - 1];
  }
  return HD_OK;
}

/* `counts` are those of all ranks, this split's at [r][which]. Nothing is exchanged unless a host found a sample since
 * all had the same marks; all ranks know how many those were. */
static hd_status spread_marks(hd_session *s, hd_ctx *ctx, const int64_t (*counts)[2], int which) {
  const hd_split *split = which ? hd__dataset_test(s->input.data) : hd__dataset_train(s->input.data);
  const int hosts = hd__cluster_count(s->compute.local);
  HD_OWNED int64_t *found = hd__calloc((size_t)hosts, sizeof *found);
  HD_OWNED int64_t *here = hd__calloc((size_t)hd__local_group_ranks(s->compute.local), sizeof *here);
  int64_t distinct = 0;
  bool news = false;
  HD_TRY(HD_ALLOCATED(found && here, ctx, "out of memory for the list of skipped samples"));
  for (int h = 0; h < hosts; h++) {
    found[h] = counts[hd__cluster_member(s->compute.local, hd__cluster_first(s->compute.local, h))][which];
    news |= found[h] != s->input.spread_skips[which];
  }
  if (!news)
    return HD_OK;
  if (hd__local_group_rank(s->compute.local) == 0)
    HD_TRY(join_marks(&distinct, s, ctx, split, found));
  HD_TRY(hd__local_group_gather(here, s->compute.local, ctx, &distinct, sizeof distinct));
  s->input.spread_skips[which] = here[0];
  return HD_OK;
}

hd_status hd__session_spread_skips(hd_session *s, hd_ctx *ctx) {
  const hd_split *train = hd__dataset_train(s->input.data), *test = hd__dataset_test(s->input.data);
  if (hd__cluster_is_one_host(s->compute.local) || hd__skips_bytes(train) + hd__skips_bytes(test) == 0)
    return HD_OK;
  const int64_t this_rank[2] = {hd__skips_count(train), hd__skips_count(test)};
  HD_OWNED int64_t(*all)[2] = hd__malloc((size_t)hd__cluster_ranks(s->compute.local) * sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for the list of skipped samples"));
  HD_TRY(hd__cluster_gather(all, s->compute.local, ctx, this_rank, sizeof this_rank));
  HD_TRY(spread_marks(s, ctx, (const int64_t(*)[2])all, 0));
  return spread_marks(s, ctx, (const int64_t(*)[2])all, 1);
}

hd_status hd__session_count_skips(hd_session *s, hd_ctx *ctx) {
  if (s->run.settings->on_error != HD_ON_ERROR_SKIP)
    return HD_OK;
  s->report.facts.skipped = hd__skips_unread(hd__dataset_train(s->input.data));
  s->report.facts.test_skipped = hd__skips_unread(hd__dataset_test(s->input.data));
  return hd__record_note_skips(s->run.record, ctx, s->input.data);
}
