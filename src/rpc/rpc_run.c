/* Running a function that another rank calls: see rpc_state.h. */
#include <stdio.h>
#include <string.h>

#include "comm/rank_sums.h"
#include "rpc/rpc_state.h"

static _Thread_local const char *running;

const char *hd__rpc_running(void) { return running; }

/* The message of a failure instead of a result. */
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
    return hd__fail(ctx, HD_E_USAGE, "this rank has no function of that name; it has %s", names);
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
    return hd__fail(
        ctx, HD_E_SHAPE,
        "expected a result of at most %zu bytes with a type and 0 to %d sizes, found something else; raise most_bytes",
        rpc->most_bytes, HD_RPC_MAX_DIMS);
  char *result = hd__rpc_result(rpc, h, elements);
  if (*bytes > 0 && output->data != result)
    memmove(result, output->data, *bytes);
  return HD_OK;
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
