/* Means over threads, and the rank that each rank waited for most: see rank_times.h. */
#include "train/session/rank_times.h"

#include <string.h>

#include "base/alloc.h"
#include "exec/thread_times.h"

static size_t sums_of(const hd_rank_times *t) { return (size_t)t->ranks * (size_t)(HD_SPENT_KINDS + t->ranks); }

hd_status hd__rank_times_init(hd_rank_times *t, hd_ctx *ctx, const hd_exec *exec, const hd_rank_place *place, int ranks,
                              bool of_gpus) {
  *t = (hd_rank_times){.exec = exec, .place = place, .ranks = ranks > 1 ? ranks : 0, .of_gpus = of_gpus};
  t->now = hd__calloc(sums_of(t) + 1, sizeof *t->now);
  t->reported = hd__calloc(sums_of(t) + 1, sizeof *t->reported);
  t->time = hd__calloc((size_t)t->ranks + 1, sizeof *t->time);
  return HD_ALLOCATED(t->now && t->reported && t->time, ctx, "out of memory for the times of ranks");
}

void hd__rank_times_fini(hd_rank_times *t) {
  hd__free(t->now);
  hd__free(t->reported);
  hd__free(t->time);
  *t = (hd_rank_times){0};
}

/* The difference of two readings of a rank's sums. */
static hd_rank_time time_of(const int64_t *now, const int64_t *before, int ranks, int threads) {
  const double s = 1e-9 / threads;
  hd_rank_time time = {.data_s = s * (double)(now[HD_SPENT_DATA] - before[HD_SPENT_DATA]),
                       .compute_s = s * (double)(now[HD_SPENT_COMPUTE] - before[HD_SPENT_COMPUTE]),
                       .waiting_s = s * (double)(now[HD_SPENT_WAITING] - before[HD_SPENT_WAITING]),
                       .waited_for = -1};
  for (int r = 0; r < ranks; r++) {
    const double waited_s = s * (double)(now[HD_SPENT_KINDS + r] - before[HD_SPENT_KINDS + r]);
    if (waited_s <= time.waited_for_s)
      continue;
    time.waited_for_s = waited_s;
    time.waited_for = r;
  }
  return time;
}

/* `before` NULL: since the start. */
static void read_times(hd_rank_times *t, const int64_t *before) {
  const int each = HD_SPENT_KINDS + t->ranks;
  static const int64_t nothing[HD_SPENT_KINDS + HD_LOCAL_GROUP_MOST_RANKS];
  hd__exec_spent(t->now, t->exec);
  for (int r = 0; r < t->ranks; r++)
    t->time[r] = time_of(t->now + r * each, before ? before + r * each : nothing, t->ranks,
                         t->of_gpus ? 1 : t->place[r].threads);
}

const hd_rank_time *hd__rank_times_whole(hd_rank_times *t) {
  if (t->ranks == 0)
    return NULL;
  read_times(t, NULL);
  return t->time;
}

json_t *hd__rank_times_interval(hd_rank_times *t) {
  if (t->ranks == 0)
    return NULL;
  json_t *list = json_array();
  read_times(t, t->reported);
  memcpy(t->reported, t->now, sums_of(t) * sizeof *t->now);
  for (int r = 0; r < t->ranks; r++) {
    const hd_rank_time *time = &t->time[r];
    json_array_append_new(list, json_pack("{s:f, s:f, s:f, s:i, s:f}", "data_s", time->data_s, "compute_s",
                                          time->compute_s, "waiting_s", time->waiting_s, "waited_for",
                                          (int)time->waited_for, "waited_for_s", time->waited_for_s));
  }
  return list;
}
