/* Where the ranks' time went, for reports and metrics: from the accounts of their threads (exec/thread_times.h). Any
 * rank may read them while all train. */
#ifndef HD_TRAIN_SESSION_RANK_TIMES_H
#define HD_TRAIN_SESSION_RANK_TIMES_H

#include <jansson.h>

#include "exec/executor.h"
#include "heddle/session.h"

typedef struct hd_rank_times {
  const hd_exec *exec;
  const hd_rank_place *place;
  int ranks;               /* 0: a single process, which has no such times */
  bool of_gpus;            /* a rank has one account, of the thread that waits for its GPU; else one for each thread */
  int64_t *now, *reported; /* sums, as hd__exec_spent gives them: read last, and reported last */
  hd_rank_time *time;
} hd_rank_times;

/* Executor and places must outlive it. */
hd_status hd__rank_times_init(hd_rank_times *times, hd_ctx *ctx, const hd_exec *exec, const hd_rank_place *place,
                              int ranks, bool of_gpus);
void hd__rank_times_fini(hd_rank_times *times);

/* Since the start, one for each rank, owned by `times`; NULL for a single process. */
const hd_rank_time *hd__rank_times_whole(hd_rank_times *times);

/* Since the last call: an array with an object for each rank; NULL for a single process, and when out of memory. */
json_t *hd__rank_times_interval(hd_rank_times *times);

#endif
