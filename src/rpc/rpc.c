/* Opening and closing the calls of a group: see rpc_state.h. */
#include <string.h>

#include "base/alloc.h"
#include "base/sized_struct.h"
#include "comm/rank_sums.h"
#include "platform/openmp_binding.h"
#include "platform/thread_start.h"
#include "rpc/rpc_state.h"

enum { MOST_BYTES = 1 << 30, USUAL_BYTES = 1 << 20, PAGE_BYTES = 4096 };

enum { THREADS_PER_RANK = 2 };

static const double NO_TIMEOUT_S = 1e9;

/* ---- memory ---- */

static hd_status share_memory(hd_rpc *rpc, hd_ctx *ctx) {
  hd_group *g = rpc->group;
  void *memory;
  rpc->rank_at = hd__calloc((size_t)g->here, sizeof *rpc->rank_at);
  for (int r = 0; rpc->rank_at && r < g->ranks; r++)
    if (!hd__group_is_remote(g, r))
      rpc->rank_at[g->place[r]] = r;
  rpc->entries = HD_RPC_CALLS;
  while (rpc->entries < (size_t)g->here * HD_RPC_CALLS) /* the count of entries wraps at a power of two */
    rpc->entries *= 2;
  HD_TRY(hd_group_alloc(&memory, g, ctx, hd__rpc_range_bytes(rpc)));
  HD_TRY(HD_ALLOCATED(rpc->rank_at, ctx, "out of memory for the calls of a group"));
  const int place = g->place[g->rank];
  rpc->queue = hd__rpc_queue(rpc, place);
  for (int i = 0; i < HD_RPC_CALLS; i++)
    rpc->call[i] =
        (hd_rpc_future){.rpc = rpc, .slot = hd__rpc_slot(rpc, place, i), .elements = hd__rpc_elements(rpc, place, i)};
  atomic_store(&rpc->unused, UINT64_MAX);
  return HD_OK;
}

/* ---- functions and settings ---- */

static hd_status add_function(hd_rpc *rpc, hd_ctx *ctx, const hd_rpc_function *f) {
  const size_t length = f->name ? strnlen(f->name, HD_RPC_NAME_BYTES) : 0;
  if (length == 0 || length == HD_RPC_NAME_BYTES)
    return hd__fail(ctx, HD_E_USAGE, "expected a name of 1 to %d bytes for function %d, found '%.*s'",
                    HD_RPC_NAME_BYTES - 1, rpc->functions, HD_RPC_NAME_BYTES, length ? f->name : "");
  if (!f->run)
    return hd__fail(ctx, HD_E_USAGE, "expected code to run for the function '%s', found NULL", f->name);
  if (hd__dtype_size(f->input) == 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected HD_F32, HD_F64, HD_I32, HD_I64 or HD_U8 for the input of '%s', found type %d", f->name,
                    (int)f->input);
  for (int i = 0; i < rpc->functions; i++)
    if (!strcmp(rpc->name[i], f->name))
      return hd__fail(ctx, HD_E_USAGE, "expected each function name once, found '%s' twice; rename one", f->name);
  memcpy(rpc->name[rpc->functions], f->name, length);
  rpc->function[rpc->functions++] = *f;
  return HD_OK;
}

static hd_status set_up(hd_rpc *rpc, hd_ctx *ctx, const hd_group *group, const hd_rpc_function *functions, int count,
                        const hd_rpc_settings *given) {
  hd_rpc_settings s = {0};
  if (given)
    HD_TRY(hd__struct_read(&s, ctx, given, sizeof s, "hd_rpc_settings"));
  if (s.most_bytes < 0 || s.most_bytes > MOST_BYTES)
    return hd__fail(ctx, HD_E_USAGE, "expected most_bytes from 1 to %d, 0 for %d, found %lld", MOST_BYTES, USUAL_BYTES,
                    (long long)s.most_bytes);
  if (!(s.timeout_s >= 0 && s.timeout_s <= NO_TIMEOUT_S))
    return hd__fail(ctx, HD_E_USAGE, "expected a timeout in seconds, 0 for that of the group, found %g", s.timeout_s);
  if (count < 0 || count > HD_RPC_FUNCTIONS)
    return hd__fail(ctx, HD_E_USAGE, "expected at most %d functions, found %d", HD_RPC_FUNCTIONS, count);
  rpc->timeout_s = s.timeout_s > 0 ? s.timeout_s : group->timeout_s;
  rpc->most_bytes = (size_t)(s.most_bytes ? s.most_bytes : USUAL_BYTES);
  rpc->room = (rpc->most_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES; /* a message fits, too */
  for (int i = 0; i < count; i++)
    HD_TRY(add_function(rpc, ctx, &functions[i]));
  return HD_OK;
}

/* ---- opening ---- */

typedef struct proposal {
  int64_t most_bytes, status;
} proposal;

/* All ranks continue, or none. */
static hd_status agree(hd_group *g, hd_ctx *ctx, hd_status status, size_t most_bytes) {
  HD_OWNED proposal *all = hd__calloc((size_t)g->ranks, sizeof *all);
  const proposal this_rank = {(int64_t)most_bytes, status};
  /* Without memory for the results the call is invalid, and fails on all ranks. */
  const hd_status gathered = hd_group_all_gather(all, g, status == HD_OK ? ctx : NULL, &this_rank,
                                                 all ? (int64_t)sizeof this_rank : -1, HD_U8);
  if (status != HD_OK)
    return status;
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for the calls of %d ranks", g->ranks));
  HD_TRY(gathered);
  for (int r = 0; r < g->ranks; r++)
    if (all[r].status != HD_OK)
      return hd__fail(ctx, (hd_status)all[r].status, "expected all ranks to open their calls, but rank %d failed", r);
  for (int r = 1; r < g->ranks; r++)
    if (all[r].most_bytes != all[0].most_bytes)
      return hd__fail(ctx, HD_E_USAGE,
                      "expected one most_bytes for all ranks, found %lld in rank 0 and %lld in rank %d",
                      (long long)all[0].most_bytes, (long long)all[r].most_bytes, r);
  return HD_OK;
}

/* A group of the same ranks: with tags, a barrier and memory for these calls alone. */
static hd_status copy_group(hd_rpc *rpc, hd_group *group, hd_ctx *ctx) {
  HD_OWNED int32_t *ranks = hd__calloc((size_t)group->ranks, sizeof *ranks);
  HD_TRY(agree(group, ctx, HD_ALLOCATED(ranks, ctx, "out of memory for %d ranks", group->ranks), 0));
  for (int r = 0; r < group->ranks; r++)
    ranks[r] = r;
  return hd_group_new(&rpc->group, group, ctx, ranks, group->ranks);
}

static hd_status start_thread(hd_rpc *rpc, hd_ctx *ctx) {
  const int error = hd__thread_start(&rpc->thread, hd__rpc_serve, rpc);
  return error ? hd__fail(ctx, HD_E_SYSTEM, "cannot start a thread for calls: %s; raise `ulimit -u`", strerror(error))
               : HD_OK;
}

/* Whether the host has fewer CPUs than threads that calls may keep busy: then waits poll only briefly. */
static bool is_crowded(const hd_group *g) {
  hd_cpu_set set;
  return hd__openmp_unbound(&set) && hd__cpu_set_count(&set) < THREADS_PER_RANK * g->here;
}

static void end_service(hd_rpc *rpc) {
  atomic_store(&rpc->ends, true);
  if (!hd__thread_is_here(&rpc->thread))
    return;
  atomic_store(&rpc->queue->sleeps, 0);
  hd__word_wake(&rpc->queue->sleeps);
  hd__thread_join(&rpc->thread);
}

static void release(hd_rpc *rpc) {
  end_service(rpc);
  /* After a fault between hosts, transfers may still use the memory: the process is about to end. */
  if (rpc->hosts && hd__group_check(rpc->group, NULL) != HD_OK)
    return;
  hd__rpc_hosts_close(rpc);
  hd_group_destroy(rpc->group);
  hd_ctx_destroy(rpc->ctx);
  hd__free(rpc->rank_at);
  hd__free(rpc);
}

static hd_status open_calls(hd_rpc *rpc, hd_group *group, hd_ctx *ctx) {
  HD_TRY(copy_group(rpc, group, ctx));
  rpc->parent = group;
  hd_status status = share_memory(rpc, ctx);
  HD_THEN(status, hd__rpc_hosts_open(rpc, ctx));
  rpc->wait = hd__wait_call(is_crowded(rpc->group));
  HD_THEN(status, start_thread(rpc, ctx));
  return agree(group, ctx, status, 0);
}

hd_status hd_rpc_open(hd_rpc **out, hd_group *group, hd_ctx *ctx, const hd_rpc_function *functions, int count,
                      const hd_rpc_settings *settings) {
  *out = NULL;
  if (group->gpu)
    return hd__fail(
        ctx, HD_E_UNSUPPORTED,
        "calls need a group with memory on the host, found backend nccl; create a second group with another backend");
  hd_rpc *rpc = hd__calloc(1, sizeof *rpc);
  hd_status status = HD_ALLOCATED(rpc, ctx, "out of memory for the calls of a group");
  HD_THEN(status, hd_ctx_create(&rpc->ctx));
  HD_THEN(status, set_up(rpc, ctx, group, functions, count, settings));
  status = agree(group, ctx, status, rpc ? rpc->most_bytes : 0);
  HD_THEN(status, open_calls(rpc, group, ctx));
  if (status != HD_OK && rpc)
    release(rpc);
  else
    *out = rpc;
  return status;
}

/* ---- closing ---- */

/* Waits for all calls of this rank that are under way, those given up included. */
static hd_status drain(hd_rpc *rpc, hd_ctx *ctx) {
  for (int i = 0; i < HD_RPC_CALLS; i++)
    if (!(atomic_load(&rpc->unused) >> i & 1))
      HD_TRY(hd__rpc_await(&rpc->call[i], ctx, NO_TIMEOUT_S));
  return HD_OK;
}

hd_status hd_rpc_close(hd_rpc *rpc, hd_ctx *ctx) {
  if (hd__rpc_running())
    return hd__fail(ctx, HD_E_USAGE, "hd_rpc_close was called inside the function '%s'; call it outside of functions",
                    hd__rpc_running());
  HD_TRY(hd__group_check_process(rpc->group, ctx));
  if (atomic_exchange(&rpc->closed, true))
    return hd__fail(ctx, HD_E_USAGE, "hd_rpc_close was called twice; call it once");
  HD_TRY(drain(rpc, ctx));
  const hd_group_call barrier = {.struct_bytes = sizeof barrier, .kind = HD_GROUP_BARRIER, .timeout_s = NO_TIMEOUT_S};
  HD_TRY(hd_group_run(rpc->parent, ctx, &barrier));
  end_service(rpc);
  return HD_OK;
}

void hd_rpc_destroy(hd_rpc *rpc) {
  if (!rpc || hd__group_check_process(rpc->group, NULL) != HD_OK) /* a child's copy lasts as long as the child */
    return;
  if (hd__thread_is_here(&rpc->thread) && rpc->group->ranks > 1)
    hd__local_group_give_up(rpc->group->local, "it called hd_rpc_destroy before hd_rpc_close");
  release(rpc);
}
