/* Sums by NCCL: see gpu_nccl.h. */
#include "exec/gpu/gpu_nccl.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "exec/gpu/gpu_exchange.h"
#include "exec/gpu/gpu_executor_state.h"
#include "platform/clock.h"

/* A wait starts to check for faults after LOOK_NS, and sleeps between two checks after LONG_NS. */
enum { LOOK_NS = 200000, LONG_NS = 20000000, SLEEP_NS = 50000 };

struct cuda_nccl {
  const hd_nccl *table;
  hd_local_group *local;
  hd_cuda *gpus;
  void **communicator; /* of each GPU of this process; NULL: ended */
  int count, begun;    /* GPUs of this process; those with a requested communicator */
  cu_event summed;     /* this process's first GPU has the last sum */
  bool marked, aborted, torn;
  char name[HD_NCCL_NAME_BYTES];
};

const char *hd__cuda_nccl_name(const cuda_nccl *n) { return n->name; }
bool hd__cuda_nccl_is_torn(const cuda_nccl *n) { return n && n->torn; }

/* ---- Waiting ---- */

static hd_status failed(const hd_cuda *cuda, hd_ctx *ctx, const char *why) {
  return hd__fail(ctx, HD_E_SYSTEM, "GPU %d (%s): %s; see NCCL_DEBUG=INFO, or turn NCCL off with HEDDLE_NCCL=none",
                  cuda->index, cuda->name, why);
}

hd_status hd__cuda_nccl_differs(hd_ctx *ctx, const hd_cuda *cuda, const char *whose) {
  return hd__fail(ctx, HD_E_SYSTEM,
                  "GPU %d (%s): expected the weights of %s bit for bit, found others: NCCL's sums differ between GPUs; "
                  "turn NCCL off with HEDDLE_NCCL=none, or use --arithmetic portable",
                  cuda->index, cuda->name, whose);
}

/* *done: NCCL has finished the last request on all GPUs of this process. */
static hd_status test_all(bool *done, const cuda_nccl *n, hd_ctx *ctx) {
  char why[HD_NCCL_WHY_BYTES] = "";
  const hd_cuda *cuda = n->gpus;
  *done = true;
  for (int i = 0; i < n->begun; i++, cuda = cuda->next) {
    hd__cuda_use(cuda);
    const int state = n->table->test(n->communicator[i], why);
    if (state < 0)
      return failed(cuda, ctx, why);
    *done = *done && state == 1;
  }
  return HD_OK;
}

/* Checks for a lost GPU, for which the others would wait without end. */
static hd_status look_at_gpus(const cuda_nccl *n, hd_ctx *ctx) {
  for (const hd_cuda *cuda = n->gpus; cuda; cuda = cuda->next) {
    hd__cuda_use(cuda);
    const cu_result state = cuda->driver.stream_query(cuda->compute);
    if (state != CU_NOT_READY)
      HD_TRY(hd__cuda_check(cuda, ctx, state, "computing"));
  }
  return HD_OK;
}

/* Checks for lost ranks of all hosts, and for the timeout. */
static hd_status look_at_ranks(const cuda_nccl *n, hd_ctx *ctx, int64_t waited_ns) {
  char why[160];
  if (!n->local)
    return HD_OK;
  hd__cluster_poll_faults(n->local);
  if ((double)waited_ns > 1e9 * hd__local_group_timeout(n->local)) {
    snprintf(why, sizeof why,
             "NCCL did not finish within %g s; see NCCL_DEBUG=INFO, or "
             "raise --stall-timeout",
             hd__local_group_timeout(n->local));
    hd__local_group_give_up(n->local, why);
  }
  return hd__local_group_check(n->local, ctx);
}

typedef struct awaited {
  const hd_cuda *cuda; /* NULL: NCCL alone */
  cu_event event;      /* NULL: the compute stream */
} awaited;

static hd_status look(bool *done, const cuda_nccl *n, hd_ctx *ctx, const awaited *what, int64_t waited_ns) {
  if (!what->cuda)
    HD_TRY(test_all(done, n, ctx));
  else {
    hd__cuda_use(what->cuda);
    const cu_result state = what->event ? what->cuda->driver.event_query(what->event)
                                        : what->cuda->driver.stream_query(what->cuda->compute);
    *done = state == CU_DONE;
    if (state != CU_NOT_READY)
      HD_TRY(hd__cuda_check(what->cuda, ctx, state, "computing"));
  }
  if (*done || waited_ns < LOOK_NS)
    return HD_OK;
  bool idle;
  HD_TRY(test_all(&idle, n, ctx));
  HD_TRY(look_at_gpus(n, ctx));
  return look_at_ranks(n, ctx, waited_ns);
}

static hd_status await(cuda_nccl *n, hd_ctx *ctx, const awaited *what) {
  const struct timespec rest = {.tv_nsec = SLEEP_NS};
  const int64_t begun_ns = hd__clock_ns();
  hd_status status = HD_OK;
  for (bool done = false; status == HD_OK;) {
    const int64_t waited_ns = hd__clock_ns() - begun_ns;
    status = look(&done, n, ctx, what, waited_ns);
    if (done)
      break;
    if (waited_ns > LONG_NS)
      nanosleep(&rest, NULL);
    else
      sched_yield();
  }
  if (what->cuda)
    hd__cuda_use(what->cuda);
  if (status != HD_OK)
    hd__cuda_nccl_abort(n);
  return status;
}

hd_status hd__cuda_nccl_wait(cuda_nccl *n, hd_ctx *ctx, const hd_cuda *cuda, cu_event event) {
  if (n && !n->aborted)
    return await(n, ctx, &(awaited){cuda, event});
  hd__cuda_use(cuda);
  return hd__cuda_check(cuda, ctx, event ? cuda->driver.event_wait(event) : cuda->driver.stream_wait(cuda->compute),
                        "computing");
}

/* ---- Beginning and ending ---- */

static void end_all(cuda_nccl *n, int aborts) {
  const hd_cuda *cuda = n->gpus;
  for (int i = 0; i < n->begun; i++, cuda = cuda->next) {
    hd__cuda_use(cuda);
    if (n->communicator[i])
      n->table->end(n->communicator[i], aborts);
    n->communicator[i] = NULL;
  }
  n->begun = 0;
}

void hd__cuda_nccl_abort(cuda_nccl *n) {
  if (!n || n->aborted)
    return;
  n->aborted = true;
  hd__cuda_use(n->gpus);
  n->torn = n->marked && n->gpus->driver.event_query(n->summed) != CU_DONE;
  end_all(n, 1);
}

void hd__cuda_nccl_end(cuda_nccl *n) {
  if (!n)
    return;
  end_all(n, hd__local_group_check(n->local, NULL) != HD_OK); /* a lost rank cannot take part in an orderly end */
  if (n->summed) {
    hd__cuda_use(n->gpus);
    n->gpus->driver.event_destroy(n->summed);
  }
  hd__free(n->communicator);
  hd__free(n);
}

/* Sent by each rank to all ranks: whether it has NCCL, or what is missing; and the communicator's id, made by the first
 * rank. */
typedef struct invitation {
  int32_t status;
  char id[HD_NCCL_ID_BYTES], why[HD_CUDA_WHY_BYTES];
} invitation;

static void prepare(invitation *this_rank, cuda_nccl *n, bool makes_id) {
  char why[HD_NCCL_WHY_BYTES] = "";
  hd_ctx quiet = {0};
  this_rank->status = hd__nccl_find(&n->table, &quiet, "--arithmetic native", "go without it");
  snprintf(this_rank->why, sizeof this_rank->why, "%.*s", HD_CUDA_WHY_BYTES - 1, quiet.message);
  if (this_rank->status != HD_OK)
    return;
  hd__nccl_name(n->name, n->table);
  if (makes_id && n->table->make_id(this_rank->id, why) != 0) {
    this_rank->status = HD_E_UNSUPPORTED;
    snprintf(this_rank->why, sizeof this_rank->why, "%.*s", HD_CUDA_WHY_BYTES - 1, why);
  }
}

/* *all_have: every rank has NCCL; else `why` is that of the first rank without. */
static hd_status invite(bool *all_have, char id[HD_NCCL_ID_BYTES], char why[HD_CUDA_WHY_BYTES], cuda_nccl *n,
                        hd_ctx *ctx) {
  const int ranks = hd__cluster_ranks(n->local);
  invitation this_rank = {0}, *all = hd__calloc((size_t)ranks, sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for NCCL's ranks"));
  prepare(&this_rank, n, hd__cluster_rank(n->local) == 0);
  const hd_status status = hd__cluster_gather(all, n->local, ctx, &this_rank, sizeof this_rank);
  *all_have = true;
  for (int r = ranks - 1; r >= 0 && status == HD_OK; r--)
    if (all[r].status != HD_OK) {
      *all_have = false;
      memcpy(why, all[r].why, HD_CUDA_WHY_BYTES);
    }
  memcpy(id, all[0].id, HD_NCCL_ID_BYTES);
  hd__free(all);
  return status;
}

static hd_status begin_all(cuda_nccl *n, hd_ctx *ctx, const char id[HD_NCCL_ID_BYTES], int first, int count) {
  char why[HD_NCCL_WHY_BYTES] = "";
  int error = n->table->open_group(why);
  const hd_cuda *cuda = n->gpus, *at = cuda;
  for (; cuda && !error; cuda = cuda->next) {
    at = cuda;
    hd__cuda_use(cuda);
    error = n->table->begin(&n->communicator[n->begun], id, first + n->begun, count, why);
    n->begun += n->communicator[n->begun] != NULL;
  }
  if (n->table->close_group(why) || error)
    return failed(at, ctx, why);
  return await(n, ctx, &(awaited){0});
}

static hd_status begin(bool *all_have, cuda_nccl *n, char why[HD_CUDA_WHY_BYTES], hd_ctx *ctx, int first, int count) {
  char id[HD_NCCL_ID_BYTES];
  for (const hd_cuda *cuda = n->gpus; cuda; cuda = cuda->next)
    n->count++;
  HD_TRY(HD_NEW(n->communicator, n->count, ctx, "out of memory for NCCL's communicators"));
  HD_TRY(invite(all_have, id, why, n, ctx));
  if (!*all_have)
    return HD_OK;
  HD_TRY(begin_all(n, ctx, id, first, count));
  hd__cuda_use(n->gpus);
  return hd__cuda_check(n->gpus, ctx, n->gpus->driver.event_create(&n->summed, CU_EVENT_NO_TIMING), "starting");
}

hd_status hd__cuda_nccl_begin(cuda_nccl **out, char why[HD_CUDA_WHY_BYTES], hd_ctx *ctx, hd_local_group *local,
                              hd_cuda *gpus, int first, int count) {
  bool all_have = false;
  cuda_nccl *n = *out = hd__calloc(1, sizeof *n);
  HD_TRY(HD_ALLOCATED(n, ctx, "out of memory for NCCL"));
  n->local = local;
  n->gpus = gpus;
  const hd_status status = begin(&all_have, n, why, ctx, first, count);
  if (status == HD_OK && all_have)
    return HD_OK;
  if (status != HD_OK)
    hd__cuda_nccl_abort(n);
  hd__cuda_nccl_end(n);
  *out = NULL;
  return status;
}

/* ---- Sums ---- */

static hd_status queue_sums(cuda_share *s, hd_ctx *ctx, int index) {
  char why[HD_NCCL_WHY_BYTES] = "";
  cuda_nccl *n = s->nccl;
  const hd_exec_cuda *at = s->first;
  int i = 0;
  if (n->aborted)
    return hd__fail(ctx, HD_E_SYSTEM, "NCCL was abandoned after a failure; create a new session");
  int error = n->table->open_group(why);
  for (const hd_exec_cuda *x = s->first; x && !error; x = x->next, i++) {
    const hd_nccl_call call = hd__nccl_sum_of_floats(x->all_partial_sums, x->partial_sums, s->elems[index]);
    at = x;
    hd__cuda_use(x->cuda);
    error = n->table->call(n->communicator[i], &call, 1, x->cuda->compute, why);
  }
  if (n->table->close_group(why) || error) {
    hd__cuda_nccl_abort(n);
    return failed(at->cuda, ctx, why);
  }
  return HD_OK;
}

/* NCCL has queued the sums on all GPUs, before later work; the GPUs themselves wait for each other. */
static hd_status wait_until_queued(cuda_share *s, hd_ctx *ctx, int index, uint32_t *flags) {
  (void)index;
  (void)flags;
  return await(s->nccl, ctx, &(awaited){0});
}

static hd_status mark_summed(cuda_share *s, hd_ctx *ctx, int index) {
  (void)index;
  cuda_nccl *n = s->nccl;
  hd__cuda_use(n->gpus);
  HD_TRY(hd__cuda_check(n->gpus, ctx, n->gpus->driver.event_record(n->summed, n->gpus->compute), "ordering GPUs"));
  n->marked = true;
  return HD_OK;
}

const gpu_exchange hd__gpu_exchange_by_nccl = {.publish = queue_sums, .wait = wait_until_queued, .finish = mark_summed};
