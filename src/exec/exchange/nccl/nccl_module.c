/* heddle-nccl.so: transfers between GPUs over NCCL, see exec/exchange/nccl_functions.h.
 *
 * The only file that uses NCCL's header; libnccl.so.2 is loaded at run time. Communicators are non-blocking, so that
 * the caller can detect a lost rank and abort an operation that waits for it. */
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <string.h>

#include "exec/exchange/nccl_functions.h"

/* CALL(function, parameters): functions that return ncclResult_t. */
#define CALLS(CALL)                                                                                                    \
  CALL(ncclGetUniqueId, (ncclUniqueId *))                                                                              \
  CALL(ncclCommInitRankConfig, (ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *))                                 \
  CALL(ncclCommGetAsyncError, (ncclComm_t, ncclResult_t *))                                                            \
  CALL(ncclCommAbort, (ncclComm_t))                                                                                    \
  CALL(ncclCommDestroy, (ncclComm_t))                                                                                  \
  CALL(ncclGroupStart, (void))                                                                                         \
  CALL(ncclGroupEnd, (void))                                                                                           \
  CALL(ncclBroadcast, (const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))                   \
  CALL(ncclAllReduce, (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))           \
  CALL(ncclReduce, (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t))         \
  CALL(ncclAllGather, (const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t))                        \
  CALL(ncclReduceScatter, (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))       \
  CALL(ncclSend, (const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))                                \
  CALL(ncclRecv, (void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))                                      \
  CALL(ncclGetVersion, (int *))

static struct {
#define CALL(name, parameters) ncclResult_t(*name) parameters;
  CALLS(CALL)
#undef CALL
  const char *(*ncclGetErrorString)(ncclResult_t);
  void *library;
} nccl;

static const struct {
  const char *name;
  void **to;
} functions[] = {
#define CALL(name, parameters) {#name, (void **)&nccl.name},
    CALLS(CALL)
#undef CALL
        {"ncclGetErrorString", (void **)&nccl.ncclGetErrorString}};

static const ncclDataType_t types[] = {ncclFloat32, ncclUint8, ncclInt32, ncclFloat64, ncclInt64};
static const ncclRedOp_t operations[] = {ncclSum, ncclAvg, ncclMin, ncclMax, ncclProd};

/* An operation in progress is no failure. */
static int check(ncclResult_t result, const char *what, char *why) {
  if (result == ncclSuccess || result == ncclInProgress)
    return 0;
  snprintf(why, HD_NCCL_WHY_BYTES, "%s: %.200s", what, nccl.ncclGetErrorString(result));
  return -1;
}

static int open_library(const char *name, char *why) {
  if (nccl.library)
    return 0;
  void *library = dlopen(name ? name : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(why, HD_NCCL_WHY_BYTES, "%.200s cannot be loaded", name ? name : "libnccl.so.2");
    return -1;
  }
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    *functions[i].to = dlsym(library, functions[i].name);
    if (!*functions[i].to) {
      snprintf(why, HD_NCCL_WHY_BYTES, "%.160s has no %s: a newer version is needed", name ? name : "libnccl.so.2",
               functions[i].name);
      return -1;
    }
  }
  nccl.library = library;
  return 0;
}

static int number(int *version, char *why) { return check(nccl.ncclGetVersion(version), "ncclGetVersion", why); }

static int open_group(char *why) { return check(nccl.ncclGroupStart(), "ncclGroupStart", why); }
static int close_group(char *why) { return check(nccl.ncclGroupEnd(), "ncclGroupEnd", why); }

static int make_id(void *id, char *why) {
  ncclUniqueId made;
  if (check(nccl.ncclGetUniqueId(&made), "ncclGetUniqueId", why))
    return -1;
  memcpy(id, &made, sizeof made);
  return 0;
}

static int begin(void **out, const void *id, int rank, int ranks, char *why) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId of_all;
  memcpy(&of_all, id, sizeof of_all);
  config.blocking = 0;
  return check(nccl.ncclCommInitRankConfig((ncclComm_t *)out, ranks, of_all, rank, &config), "ncclCommInitRankConfig",
               why);
}

static int test(void *communicator, char *why) {
  ncclResult_t state = ncclSuccess;
  if (check(nccl.ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError", why) ||
      check(state, "NCCL", why))
    return -1;
  return state != ncclInProgress;
}

static ncclResult_t queue(ncclComm_t to, const hd_nccl_call *c, cudaStream_t stream) {
  const ncclDataType_t type = types[c->dtype];
  const ncclRedOp_t op = operations[c->op];
  const size_t count = (size_t)c->count;
  switch (c->kind) {
  case HD_NCCL_BROADCAST: return nccl.ncclBroadcast(c->input, c->output, count, type, c->peer, to, stream);
  case HD_NCCL_ALL_REDUCE: return nccl.ncclAllReduce(c->input, c->output, count, type, op, to, stream);
  case HD_NCCL_REDUCE: return nccl.ncclReduce(c->input, c->output, count, type, op, c->peer, to, stream);
  case HD_NCCL_ALL_GATHER: return nccl.ncclAllGather(c->input, c->output, count, type, to, stream);
  case HD_NCCL_REDUCE_SCATTER: return nccl.ncclReduceScatter(c->input, c->output, count, type, op, to, stream);
  case HD_NCCL_SEND: return nccl.ncclSend(c->input, count, type, c->peer, to, stream);
  case HD_NCCL_RECV: return nccl.ncclRecv(c->output, count, type, c->peer, to, stream);
  }
  return ncclInvalidArgument;
}

static int call(void *communicator, const hd_nccl_call *calls, int count, void *stream, char *why) {
  int failed = open_group(why);
  for (int i = 0; i < count && !failed; i++)
    failed = check(queue(communicator, &calls[i], stream), "queueing a transfer", why);
  return close_group(why) || failed ? -1 : 0;
}

static void end(void *communicator, int aborts) {
  if (aborts)
    nccl.ncclCommAbort(communicator);
  else
    nccl.ncclCommDestroy(communicator);
}

extern const hd_nccl hd_module_nccl;
__attribute__((visibility("default"))) const hd_nccl hd_module_nccl = {.version = HD_NCCL_VERSION,
                                                                       .open = open_library,
                                                                       .number = number,
                                                                       .make_id = make_id,
                                                                       .open_group = open_group,
                                                                       .close_group = close_group,
                                                                       .begin = begin,
                                                                       .test = test,
                                                                       .call = call,
                                                                       .end = end};
