/* Calling a function of another rank: slots, starting a call, waiting for its result. See rpc_state.h. */
#include <string.h>

#include "base/status.h"
#include "comm/rank_sums.h"
#include "platform/clock.h"
#include "rpc/rpc_state.h"

/* ---- slots ---- */

static uint64_t bit_of(const hd_rpc_future *call) { return UINT64_C(1) << (call - call->rpc->call); }

static void free_slot(hd_rpc_future *call) {
  hd_rpc *rpc = call->rpc;
  atomic_fetch_or(&rpc->unused, bit_of(call));
  if (atomic_load(&rpc->waiting) > 0) {
    atomic_fetch_add(&rpc->freed, 1);
    hd__word_wake(&rpc->freed);
  }
}

/* Frees the slots of calls that were given up and have ended. */
static void reclaim(hd_rpc *rpc) {
  const uint64_t given_up = atomic_load_explicit(&rpc->given_up, memory_order_relaxed);
  for (int i = 0; i < HD_RPC_CALLS && given_up >> i; i++) {
    hd_rpc_future *call = &rpc->call[i];
    if ((given_up & bit_of(call)) && hd__rpc_state(call->slot) == HD_RPC_DONE &&
        (atomic_fetch_and(&rpc->given_up, ~bit_of(call)) & bit_of(call)))
      free_slot(call);
  }
}

static hd_rpc_future *try_slot(hd_rpc *rpc) {
  reclaim(rpc);
  uint64_t unused = atomic_load(&rpc->unused);
  while (unused && !atomic_compare_exchange_weak(&rpc->unused, &unused, unused & (unused - 1))) {
  }
  return unused ? &rpc->call[__builtin_ctzll(unused)] : NULL;
}

/* Waits for a slot. */
static hd_status await_slot(hd_rpc_future **out, hd_rpc *rpc, hd_ctx *ctx) {
  const int64_t begin_ns = hd__clock_ns();
  hd_status status = HD_OK;
  atomic_fetch_add(&rpc->waiting, 1);
  for (int naps = 0; status == HD_OK; naps++) {
    const unsigned seen = atomic_load(&rpc->freed);
    if ((*out = try_slot(rpc)))
      break;
    hd__word_wait(&rpc->freed, seen, hd__rpc_nap_ns(rpc, naps));
    status = hd__group_check(rpc->group, ctx);
    if (status == HD_OK && (double)(hd__clock_ns() - begin_ns) > 1e9 * rpc->timeout_s)
      status =
          hd__fail(ctx, HD_E_TIMEOUT, "%d calls are already in progress, and none ended within %g s; wait for futures",
                   HD_RPC_CALLS, rpc->timeout_s);
  }
  atomic_fetch_sub(&rpc->waiting, 1);
  return status;
}

/* ---- starting ---- */

/* A call of a function of another rank. */
typedef struct wanted_call {
  int32_t rank;
  const char *name;
  const hd_rpc_array *input;
} wanted_call;

static hd_status describe_input(hd_rpc_header *h, size_t *bytes, const hd_rpc *rpc, hd_ctx *ctx,
                                const wanted_call *wanted) {
  const char *name = wanted->name;
  const hd_rpc_array *input = wanted->input;
  const size_t length = name ? strnlen(name, HD_RPC_NAME_BYTES) : 0;
  if (length == 0 || length == HD_RPC_NAME_BYTES)
    return hd__fail(ctx, HD_E_USAGE, "expected the name of a function, of 1 to %d bytes, found '%.*s'",
                    HD_RPC_NAME_BYTES - 1, HD_RPC_NAME_BYTES, length ? name : "");
  *h = (hd_rpc_header){.dtype = HD_U8, .ndim = 1};
  memcpy(h->name, name, length);
  *bytes = 0;
  if (!input)
    return HD_OK;
  h->dtype = input->dtype;
  h->ndim = input->ndim;
  memcpy(h->size, input->size, sizeof h->size);
  *bytes = hd__rpc_bytes(h, SIZE_MAX >> 1);
  if (*bytes == SIZE_MAX || (*bytes > 0 && !input->data))
    return hd__fail(
        ctx, HD_E_USAGE,
        "'%s' of rank %d: expected an array of a type of groups with 0 to %d sizes, found type %d, %d sizes "
        "and %s",
        name, wanted->rank, HD_RPC_MAX_DIMS, (int)input->dtype, input->ndim, input->data ? "data" : "no data");
  if (*bytes > rpc->most_bytes)
    return hd__fail(ctx, HD_E_SHAPE,
                    "'%s' of rank %d: expected at most %zu bytes, found %zu; raise most_bytes of hd_rpc_settings", name,
                    wanted->rank, rpc->most_bytes, *bytes);
  return HD_OK;
}

static hd_status check_call(hd_rpc *rpc, hd_ctx *ctx, int32_t rank) {
  if (hd__rpc_running())
    return hd__fail(ctx, HD_E_USAGE,
                    "calls cannot be made inside a function, found one in '%s'; return first, and call from a thread "
                    "of the program",
                    hd__rpc_running());
  HD_TRY(hd__group_check_process(rpc->group, ctx));
  if (atomic_load_explicit(&rpc->closed, memory_order_relaxed))
    return hd__fail(ctx, HD_E_USAGE, "a call was made after hd_rpc_close; make it before");
  if (rank < 0 || rank >= rpc->group->ranks)
    return hd__fail(ctx, HD_E_USAGE, "expected a rank from 0 to %d, found %d", rpc->group->ranks - 1, rank);
  return hd__group_check(rpc->group, ctx);
}

/* Puts the number of the slot into the queue of a rank of this host. */
static void put(hd_rpc *rpc, const hd_rpc_future *call) {
  const hd_group *g = rpc->group;
  hd_rpc_queue *queue = hd__rpc_queue(rpc, g->place[call->rank]);
  const unsigned slot = (unsigned)(g->place[g->rank] * HD_RPC_CALLS + (int)(call - rpc->call));
  const unsigned at = atomic_fetch_add(&queue->tail, 1) & (unsigned)(rpc->entries - 1);
  atomic_store(&queue->entry[at], 1 + slot);
  if (atomic_load(&queue->sleeps) && atomic_exchange(&queue->sleeps, 0))
    hd__word_wake(&queue->sleeps);
}

static hd_status start(hd_rpc_future **out, hd_rpc *rpc, hd_ctx *ctx, const wanted_call *wanted, bool waits) {
  hd_rpc_header header;
  size_t bytes = 0;
  *out = NULL;
  HD_TRY(check_call(rpc, ctx, wanted->rank));
  HD_TRY(describe_input(&header, &bytes, rpc, ctx, wanted));
  hd_rpc_future *call = try_slot(rpc);
  if (!call && !waits)
    return hd__fail(ctx, HD_E_USAGE, "'%s' of rank %d: %d calls are already in progress; wait for a future first",
                    wanted->name, wanted->rank, HD_RPC_CALLS);
  if (!call)
    HD_TRY(await_slot(&call, rpc, ctx));
  call->rank = wanted->rank;
  memcpy(call->name, header.name, sizeof call->name);
  call->slot->header = header;
  if (bytes > 0)
    memcpy(call->elements, wanted->input->data, bytes);
  atomic_store_explicit(&call->slot->state, HD_RPC_PENDING, memory_order_relaxed);
  if (hd__group_is_remote(rpc->group, wanted->rank))
    HD_TRY(hd__rpc_hosts_start(rpc, ctx, call, bytes));
  else
    put(rpc, call);
  *out = call;
  return HD_OK;
}

hd_status hd_rpc_start(hd_rpc_future **out, hd_rpc *rpc, hd_ctx *ctx, int32_t rank, const char *name,
                       const hd_rpc_array *input) {
  return start(out, rpc, ctx, &(wanted_call){rank, name, input}, false);
}

/* ---- waiting ---- */

/* Sleeps until the called rank wakes this thread, or for a nap. */
static void nap(hd_rpc_future *call, int naps) {
  atomic_uint *word = &call->slot->state;
  unsigned state = atomic_load(word);
  const unsigned sleeps = state | HD_RPC_SLEEPS;
  if (state != HD_RPC_DONE && (state == sleeps || atomic_compare_exchange_strong(word, &state, sleeps)))
    hd__word_wait(word, sleeps, hd__rpc_nap_ns(call->rpc, naps));
}

hd_status hd__rpc_await(hd_rpc_future *call, hd_ctx *ctx, double timeout_s) {
  hd_rpc *rpc = call->rpc;
  const bool is_remote = hd__group_is_remote(rpc->group, call->rank);
  int64_t begin_ns = 0;
  hd_wait wait = rpc->wait;
  for (int naps = 0; hd__rpc_state(call->slot) != HD_RPC_DONE;) {
    if ((is_remote && hd__rpc_hosts_receive(rpc)) || hd__wait_turn(&wait))
      continue;
    begin_ns = begin_ns ? begin_ns : hd__clock_ns();
    if (timeout_s >= 0 && (double)(hd__clock_ns() - begin_ns) >= 1e9 * timeout_s)
      return HD_E_TIMEOUT;
    hd__group_check_rank(rpc->group, call->rank);
    HD_TRY(hd__group_check(rpc->group, ctx));
    nap(call, naps++);
  }
  return HD_OK;
}

/* The call may end at this moment: then it is done. */
static hd_status give_up(hd_rpc_future *call, hd_ctx *ctx, double timeout_s) {
  hd_rpc *rpc = call->rpc;
  unsigned state = atomic_load(&call->slot->state);
  while (state != HD_RPC_DONE && !atomic_compare_exchange_weak(&call->slot->state, &state, HD_RPC_GIVEN_UP)) {
  }
  if (state == HD_RPC_DONE)
    return HD_OK;
  const hd_status status =
      hd__fail(ctx, HD_E_TIMEOUT, "'%s' of rank %d: expected it to end within %g s, but it has not ended", call->name,
               call->rank, timeout_s);
  atomic_fetch_or(&rpc->given_up, bit_of(call));
  return status;
}

/* Copies the result. */
static hd_status take_output(hd_rpc_array *output, hd_ctx *ctx, const hd_rpc_future *call) {
  const char *name = call->name;
  const hd_rpc_header h = hd__rpc_header(call->slot);
  const size_t bytes = hd__rpc_bytes(&h, call->rpc->room);
  const char *result = hd__rpc_result(call->rpc, &h, call->elements);
  if (bytes == SIZE_MAX)
    return hd__fail(ctx, HD_E_FORMAT, "'%s' of rank %d: expected a result, found a header that another process wrote",
                    name, call->rank);
  if (h.status != HD_OK)
    return hd__fail(ctx, (hd_status)h.status, "'%s' of rank %d: %.*s", name, call->rank, (int)bytes, result);
  if (!output)
    return HD_OK;
  hd_rpc_header room = {.dtype = output->dtype, .ndim = output->ndim};
  memcpy(room.size, output->size, sizeof room.size);
  const size_t most = hd__rpc_bytes(&room, SIZE_MAX >> 1);
  if (bytes > 0 && h.dtype != (int32_t)output->dtype)
    return hd__fail(ctx, HD_E_USAGE, "'%s' of rank %d: expected %s from it, found %s", name, call->rank,
                    hd__dtype_name(output->dtype), hd__dtype_name((hd_dtype)h.dtype));
  if (most == SIZE_MAX || bytes > most)
    return hd__fail(ctx, HD_E_SHAPE, "'%s' of rank %d: expected at most %zu bytes from it, found %zu; give more room",
                    name, call->rank, most == SIZE_MAX ? 0 : most, bytes);
  if (bytes > 0 && !output->data)
    return hd__fail(ctx, HD_E_USAGE, "'%s' of rank %d: expected memory for its result, found NULL", name, call->rank);
  if (bytes > 0)
    memcpy(output->data, result, bytes);
  output->ndim = h.ndim;
  memcpy(output->size, h.size, sizeof output->size);
  return HD_OK;
}

hd_status hd_rpc_wait(hd_rpc_array *output, hd_rpc_future *call, hd_ctx *ctx, double timeout_s) {
  HD_TRY(hd__group_check_process(call->rpc->group, ctx));
  hd_status status = hd__rpc_await(call, ctx, timeout_s);
  if (status == HD_E_TIMEOUT) {
    status = give_up(call, ctx, timeout_s);
    if (status != HD_OK)
      return status;
  }
  HD_THEN(status, take_output(output, ctx, call));
  free_slot(call);
  return status;
}

int hd_rpc_is_done(hd_rpc_future *call) {
  if (hd__group_is_remote(call->rpc->group, call->rank))
    hd__rpc_hosts_receive(call->rpc);
  return hd__rpc_state(call->slot) == HD_RPC_DONE || hd__group_check(call->rpc->group, NULL) != HD_OK;
}

hd_status hd_rpc_call(hd_rpc_array *output, hd_rpc *rpc, hd_ctx *ctx, int32_t rank, const char *name,
                      const hd_rpc_array *input) {
  hd_rpc_future *call;
  HD_TRY(start(&call, rpc, ctx, &(wanted_call){rank, name, input}, true));
  return hd_rpc_wait(output, call, ctx, rpc->timeout_s);
}

/* ---- tensors ---- */

hd_status hd_rpc_tensor(hd_rpc_array *out, hd_ctx *ctx, const hd_tensor *x) {
  *out = (hd_rpc_array){.data = hd_tensor_data(x), .dtype = hd_tensor_dtype(x), .ndim = hd_tensor_ndim(x)};
  bool contiguous = x && hd_tensor_device(x).kind == HD_CPU;
  int64_t stride = 1;
  for (int i = out->ndim - 1; i >= 0; i--) {
    out->size[i] = hd_tensor_size(x, i);
    contiguous &= out->size[i] <= 1 || hd_tensor_stride(x, i) == stride;
    stride *= out->size[i];
  }
  if (contiguous || (x && hd_tensor_elems(x) == 0))
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "expected a contiguous tensor on the CPU for a call, found a view or a tensor on a GPU; clone it");
}
