/* The service thread of a rank: it runs the functions that other ranks call, see rpc_state.h. */
#include <stdio.h>
#include <string.h>

#include "comm/rank_sums.h"
#include "rpc/rpc_state.h"

static _Thread_local const char *running;

const char *hd__rpc_running(void) { return running; }

/* ---- arrays ---- */

bool hd__rpc_is_empty(const hd_rpc_header *h) {
  for (int i = 0; i < h->ndim; i++)
    if (h->size[i] == 0)
      return true;
  return false;
}

hd_rpc_header hd__rpc_header(const hd_rpc_slot *slot) {
  const hd_rpc_header header = slot->header;
  atomic_signal_fence(memory_order_seq_cst); /* the compiler must not read the memory again */
  return header;
}

size_t hd__rpc_bytes(const hd_rpc_header *h, size_t most) {
  size_t bytes = hd__dtype_size((hd_dtype)h->dtype);
  if (bytes == 0 || h->ndim < 0 || h->ndim > HD_RPC_MAX_DIMS)
    return SIZE_MAX;
  if (hd__rpc_is_empty(h))
    return 0;
  for (int i = 0; i < h->ndim; i++) {
    if (h->size[i] < 0 || bytes > most / (size_t)h->size[i])
      return SIZE_MAX;
    bytes *= (size_t)h->size[i];
  }
  return bytes <= most ? bytes : SIZE_MAX;
}

/* ---- running a function ---- */

/* The message of a failure in place of a result. */
static size_t fail(hd_rpc_header *h, char *output, hd_status status, const char *message) {
  const size_t bytes = strlen(message);
  memcpy(output, message, bytes);
  *h = (hd_rpc_header){.status = status, .dtype = HD_U8, .ndim = 1, .size = {(int64_t)bytes}};
  return bytes;
}

/* "push, pull" */
static void list_functions(char *text, size_t bytes, const hd_rpc *rpc) {
  size_t at = 0;
  snprintf(text, bytes, "no functions");
  for (int i = 0; i < rpc->functions && at < bytes; i++)
    at += (size_t)snprintf(text + at, bytes - at, "%s%s", i ? ", " : "", rpc->name[i]);
}

/* The function that a header names, if it takes what the header describes; *bytes of input. */
static hd_status find(const hd_rpc_function **out, size_t *bytes, hd_rpc *rpc, hd_ctx *ctx, const hd_rpc_header *h) {
  char names[512];
  int which = 0;
  while (which < rpc->functions && strncmp(rpc->name[which], h->name, HD_RPC_NAME_BYTES) != 0)
    which++;
  if (which == rpc->functions) {
    list_functions(names, sizeof names, rpc);
    return hd__fail(ctx, HD_E_USAGE, "expected a function that this rank has, found none of that name; it has %s",
                    names);
  }
  *out = &rpc->function[which];
  *bytes = hd__rpc_bytes(h, rpc->most_bytes);
  if (*bytes == SIZE_MAX)
    return hd__fail(ctx, HD_E_FORMAT, "expected an array, found a header that another process has overwritten");
  if (*bytes > 0 && (hd_dtype)h->dtype != (*out)->input)
    return hd__fail(ctx, HD_E_USAGE, "expected %s, found %s", hd__dtype_name((*out)->input),
                    hd__dtype_name((hd_dtype)h->dtype));
  return HD_OK;
}

/* Describes a result, and copies it unless it is in place; *bytes of it. */
static hd_status take_output(hd_rpc_header *h, size_t *bytes, const hd_rpc *rpc, hd_ctx *ctx, char *elements,
                             const hd_rpc_array *output) {
  h->dtype = output->dtype;
  h->ndim = output->ndim;
  h->in_place = output->data == elements;
  memcpy(h->size, output->size, sizeof h->size);
  *bytes = hd__rpc_bytes(h, rpc->most_bytes);
  if (*bytes == SIZE_MAX || (*bytes > 0 && !output->data))
    return hd__fail(ctx, HD_E_SHAPE,
                    "expected a result of at most %zu bytes with a type and 0 to %d sizes, found another one; raise "
                    "most_bytes",
                    rpc->most_bytes, HD_RPC_MAX_DIMS);
  char *result = hd__rpc_result(rpc, h, elements);
  if (*bytes > 0 && output->data != result)
    memmove(result, output->data, *bytes);
  return HD_OK;
}

char *hd__rpc_result(const hd_rpc *rpc, const hd_rpc_header *h, char *elements) {
  return h->in_place ? elements : elements + rpc->room;
}

size_t hd__rpc_run(hd_rpc *rpc, hd_rpc_header *h, char *elements, int32_t caller) {
  const hd_rpc_function *function = NULL;
  size_t bytes = 0;
  hd_ctx *ctx = rpc->ctx;
  *ctx->message = 0;
  hd_status status = find(&function, &bytes, rpc, ctx, h);
  if (status == HD_OK) {
    hd_rpc_request request = {.input = {.data = elements, .dtype = function->input, .ndim = h->ndim},
                              .output = {.data = elements + rpc->room, .dtype = HD_U8, .ndim = 1},
                              .caller = caller,
                              .self = function->self,
                              .ctx = ctx};
    memcpy(request.input.size, h->size, sizeof h->size);
    running = function->name;
    status = function->run(&request);
    running = NULL;
    HD_THEN(status, take_output(h, &bytes, rpc, ctx, elements, &request.output));
  }
  h->status = status;
  return status == HD_OK ? bytes
                         : fail(h, elements + rpc->room, status, *ctx->message ? ctx->message : hd_status_text(status));
}

/* ---- calls of the ranks of this host ---- */

unsigned hd__rpc_state(hd_rpc_slot *slot) { return atomic_load(&slot->state) & ~(unsigned)HD_RPC_SLEEPS; }

void hd__rpc_finish(hd_rpc_slot *slot) {
  if (atomic_exchange(&slot->state, HD_RPC_DONE) & HD_RPC_SLEEPS)
    hd__rpc_wake(&slot->state);
}

/* Runs the next call in the queue; false: there is none. The caller writes the header before the entry. */
static bool serve_next(hd_rpc *rpc, unsigned *head) {
  atomic_uint *entry = &rpc->queue->entry[*head & (rpc->entries - 1)];
  const unsigned number = atomic_load(entry);
  if (number == 0)
    return false;
  atomic_store_explicit(entry, 0, memory_order_relaxed);
  ++*head;
  const int place = (int)((number - 1) / HD_RPC_CALLS), which = (int)((number - 1) % HD_RPC_CALLS);
  if (place >= rpc->group->here) /* another process has overwritten it */
    return true;
  hd_rpc_slot *slot = hd__rpc_slot(rpc, place, which);
  if (hd__rpc_state(slot) != HD_RPC_GIVEN_UP) {
    hd_rpc_header header = hd__rpc_header(slot);
    hd__rpc_run(rpc, &header, hd__rpc_elements(rpc, place, which), rpc->rank_at[place]);
    slot->header = header;
  }
  hd__rpc_finish(slot);
  return true;
}

/* Sleeps until a caller of this host wakes the thread, or for a nap. Either this thread sees the entry or the caller
 * sees `sleeps`. */
static void nap(hd_rpc *rpc, unsigned head, int naps) {
  atomic_store(&rpc->queue->sleeps, 1);
  if (atomic_load(&rpc->queue->entry[head & (rpc->entries - 1)]) == 0 && !atomic_load(&rpc->ends))
    hd__rpc_sleep(&rpc->queue->sleeps, 1, hd__rpc_nap_ns(rpc, naps));
  atomic_store(&rpc->queue->sleeps, 0);
}

/* The thread polls for a while after it has served a call. Replies are mostly received by those that wait for them. */
void *hd__rpc_serve(void *arg) {
  hd_rpc *rpc = arg;
  unsigned head = 0;
  for (int turn = 0, naps = 0; !atomic_load_explicit(&rpc->ends, memory_order_relaxed);) {
    if (serve_next(rpc, &head) | hd__rpc_hosts_serve(rpc)) {
      turn = naps = 0;
    } else if (hd__rpc_hosts_receive(rpc)) {
      naps = 0;
    } else if (!hd__rpc_spend(rpc, turn++)) {
      nap(rpc, head, naps++);
      hd__group_check_rank(rpc->group, rpc->group->rank);
      if (hd__group_check(rpc->group, NULL) != HD_OK)
        break;
    }
  }
  return NULL;
}
