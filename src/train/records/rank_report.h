/* What reports say of all ranks: where their time went, from the accounts of their threads
 * (exec/exchange/thread_times.h), which any rank may read while all train; and the memory of their GPUs: for other
 * ranks as it was after set-up, after which training takes no more, for this process as it is when read. */
#pragma once

#include <jansson.h>

#include "exec/exchange/local_group.h"
#include "exec/executor.h"
#include "heddle/session.h"

typedef struct hd_rank_times {
  const hd_exec *exec;
  const hd_rank_place *place;
  int ranks;               /* 0: a single process, which has no such times */
  int64_t *now, *reported; /* sums, as hd__exec_spent gives them: read last, and reported last */
  hd_rank_time *time;
} hd_rank_times;

/* Executor and places must outlive it. */
hd_status hd__rank_times_init(hd_rank_times *times, hd_ctx *ctx, const hd_exec *exec, const hd_rank_place *place,
                              int ranks);
void hd__rank_times_fini(hd_rank_times *times);

/* Since the start, one for each rank, owned by `times`; NULL for a single process. */
const hd_rank_time *hd__rank_times_whole(hd_rank_times *times);

/* Since the last call: an array with an object for each rank; NULL for a single process, and when out of memory. */
json_t *hd__rank_times_interval(hd_rank_times *times);

typedef struct hd_gpu_accounts {
  hd_gpu_memory *of;     /* in the order of ranks */
  int count, first_here; /* first_here: index of this process's first */
} hd_gpu_accounts;

/* Collective over the executor's ranks. */
hd_status hd__gpu_accounts_gather(hd_gpu_accounts *accounts, hd_ctx *ctx, const hd_exec *exec);
void hd__gpu_accounts_read(hd_gpu_accounts *accounts, const hd_exec *exec);
void hd__gpu_accounts_fini(hd_gpu_accounts *accounts);
