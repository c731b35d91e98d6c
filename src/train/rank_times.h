/* Where the ranks' time went, as reports and metrics tell it: from the accounts of their lanes (exec/tally.h). Any rank
 * may read them while all train. */
#ifndef HD_TRAIN_RANK_TIMES_H
#define HD_TRAIN_RANK_TIMES_H

#include <jansson.h>

#include "exec/exec.h"
#include "heddle/session.h"

typedef struct hd_rank_times {
  const hd_exec *exec;
  const hd_rank_place *place;
  int ranks;           /* 0: a process alone, of which nothing is told */
  bool of_gpus;        /* a rank has one account, of who waits for its GPU; else one for each lane */
  int64_t *now, *told; /* sums, as hd__exec_spent gives them: read last, and told last */
  hd_rank_time *time;
} hd_rank_times;

/* Executor and places must outlive it. */
hd_status hd__rank_times_init(hd_rank_times *times, hd_ctx *ctx, const hd_exec *exec, const hd_rank_place *place,
                              int ranks, bool of_gpus);
void hd__rank_times_fini(hd_rank_times *times);

/* From the beginning until now, one for each rank, owned by `times`; NULL for a process alone. */
const hd_rank_time *hd__rank_times_whole(hd_rank_times *times);

/* From the last call until now: an array of an object for each rank; NULL for a process alone, and without memory. */
json_t *hd__rank_times_tell(hd_rank_times *times);

#endif
