/* Groups of GPUs: see group_state.h. */
#include "comm/group_state.h"

#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "base/alloc.h"
#include "exec/exchange/cluster.h"
#include "comm/mailbox.h"
#include "exec/exchange/nccl_find.h"
#include "comm/rank_sums.h"
#include "exec/gpu/device/cuda_device.h"
#include "kernel/cuda/cuda_names.h"
#include "platform/clock.h"

/* Bytes of all ranks that are collected for a sum at a time; how long a wait polls before it sleeps. */
enum { COLLECTED_BYTES = 32 << 20, POLL_NS = 200000, SLEEP_NS = 50000 };

struct hd_gpu_group {
  const hd_nccl *nccl;
  hd_cuda *cuda;
  void *communicator; /* NULL: aborted */
  bool native;
  cu_pointer collected; /* COLLECTED_BYTES; 0: not needed yet */
  cu_pointer buffer[HD_GROUP_BUFFERS];
  hd_nccl_call *calls; /* room for two with each rank */
};

bool hd__gpu_group_is_native(const hd_gpu_group *gpu) { return gpu->native; }

/* ---- waiting ---- */

static void abort_transfers(hd_gpu_group *gpu) {
  if (gpu->communicator)
    gpu->nccl->end(gpu->communicator, 1);
  gpu->communicator = NULL;
}

/* The group is broken: aborts the transfers of this rank's GPU. */
static hd_status give_up(hd_group *g, hd_ctx *ctx) {
  abort_transfers(g->gpu);
  const hd_status status = hd__group_check(g, ctx);
  return status == HD_OK ? HD_E_PEER : status;
}

/* Checks all ranks and the timeout; returns whether the group is broken. */
static bool check_ranks(hd_group *g, int64_t waited_ns) {
  for (int r = 0; r < g->ranks; r++)
    hd__group_check_rank(g, r);
  if ((double)waited_ns > 1e9 * g->call_timeout_s)
    hd__group_break(g, HD_E_TIMEOUT,
                    "expected NCCL to finish within %g s, but rank %d was still waiting; can the GPUs reach each "
                    "other? If so, raise the timeout",
                    g->call_timeout_s, g->rank);
  return hd__group_check(g, NULL) != HD_OK;
}

/* 1: NCCL and, with `stream`, the GPU are done; 0: not yet; -1: an error, which broke the group. */
static int is_done(hd_group *g, bool stream) {
  char why[HD_NCCL_WHY_BYTES] = "", text[HD_CUDA_ERROR_BYTES];
  const hd_gpu_group *gpu = g->gpu;
  const int state = gpu->nccl->test(gpu->communicator, why);
  if (state < 0)
    hd__group_break(g, HD_E_SYSTEM, "rank %d: GPU %d (%s): %s; see NCCL_DEBUG=INFO", g->rank, gpu->cuda->index,
                    gpu->cuda->name, why);
  if (state != 1 || !stream)
    return state;
  const cu_result error = gpu->cuda->driver.stream_query(gpu->cuda->compute);
  if (error == CU_DONE || error == CU_NOT_READY)
    return error == CU_DONE;
  hd__group_break(g, HD_E_SYSTEM, "rank %d: GPU %d (%s): computing failed (%s); see dmesg and nvidia-smi", g->rank,
                  gpu->cuda->index, gpu->cuda->name, hd__cuda_driver_error(text, &gpu->cuda->driver, error));
  return -1;
}

/* Waits until the operation is done, checking for lost and late ranks. */
static hd_status await(hd_group *g, hd_ctx *ctx, bool stream) {
  const struct timespec rest = {.tv_nsec = SLEEP_NS};
  const int64_t begun_ns = hd__clock_ns();
  hd__cuda_use(g->gpu->cuda);
  for (;;) {
    const int state = is_done(g, stream);
    if (state == 1)
      return HD_OK;
    const int64_t waited_ns = hd__clock_ns() - begun_ns;
    if (state < 0 || (waited_ns > POLL_NS && check_ranks(g, waited_ns)))
      return give_up(g, ctx);
    if (waited_ns > POLL_NS)
      nanosleep(&rest, NULL);
    else
      sched_yield();
  }
}

/* ---- opening ---- */

/* Each rank of a host uses another GPU. */
static hd_status open_gpu(hd_gpu_group *gpu, hd_ctx *ctx, const hd_local_group *local) {
  const int ranks = hd__local_group_ranks(local), there = hd__cuda_count(ctx);
  if (there == 0)
    return HD_E_UNSUPPORTED; /* the message is set */
  if (hd__cuda_is_shown_one(there))
    return hd__cuda_open(&gpu->cuda, ctx, 0); /* NCCL refuses a GPU that two ranks use */
  if (there < ranks)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "backend nccl expects a GPU for each of the %d ranks of a host, found %d; start that many ranks, "
                    "or use another backend",
                    ranks, there);
  return hd__cuda_open(&gpu->cuda, ctx, hd__local_group_rank(local));
}

/* The broadcast of rank 0: the communicator's id, or an error. */
typedef struct id_message {
  int32_t status;
  char id[HD_NCCL_ID_BYTES], why[HD_NCCL_WHY_BYTES];
} id_message;

static hd_status broadcast_id(id_message *out, hd_group *g, hd_ctx *ctx, const hd_gpu_group *gpu) {
  *out = (id_message){.status = HD_OK};
  if (g->rank == 0 && gpu->nccl->make_id(out->id, out->why) != 0)
    out->status = HD_E_SYSTEM;
  HD_TRY(hd__collective(
      g, ctx,
      &(hd_group_call){.kind = HD_GROUP_BROADCAST, .output = out, .input = out, .count = sizeof *out, .dtype = HD_U8}));
  return out->status == HD_OK ? HD_OK : hd__fail(ctx, (hd_status)out->status, "NCCL cannot start: %s", out->why);
}

/* Whether all ranks are prepared: if one is not, none begins, since the others would wait for it. */
static hd_status agree(hd_group *g, hd_ctx *ctx, hd_status local) {
  int32_t status = local, all = 0;
  char text[HD_GROUP_TEXT_BYTES];
  snprintf(text, sizeof text, "%s", local == HD_OK ? "" : hd_ctx_message(ctx));
  const hd_group_call call = {
      .kind = HD_GROUP_ALL_REDUCE, .output = &all, .input = &status, .count = 1, .dtype = HD_I32, .op = HD_REDUCE_MIN};
  const hd_status reduced = hd__collective(g, ctx, &call);
  if (local != HD_OK)
    return hd__fail(ctx, local, "%s", text);
  if (reduced != HD_OK)
    return reduced;
  return all == HD_OK
             ? HD_OK
             : hd__fail(ctx, (hd_status)all, "expected all ranks to have GPUs and NCCL, found a rank without them");
}

static hd_status begin(hd_group *g, hd_ctx *ctx, hd_gpu_group *gpu, const id_message *of) {
  char why[HD_NCCL_WHY_BYTES] = "";
  hd__cuda_use(gpu->cuda);
  if (gpu->nccl->begin(&gpu->communicator, of->id, g->rank, g->ranks, why) != 0)
    hd__group_break(g, HD_E_SYSTEM, "rank %d: GPU %d (%s): NCCL cannot start: %s; see NCCL_DEBUG=INFO", g->rank,
                    gpu->cuda->index, gpu->cuda->name, why);
  g->gpu = gpu;
  return gpu->communicator ? await(g, ctx, false) : give_up(g, ctx);
}

static hd_status prepare(hd_gpu_group *gpu, hd_ctx *ctx, const hd_group *g) {
  HD_TRY(HD_NEW(gpu->calls, 2 * (size_t)g->ranks, ctx, "out of memory for a group of %d GPUs", g->ranks));
  HD_TRY(hd__nccl_find(&gpu->nccl, ctx, "backend nccl", "use another backend"));
  return open_gpu(gpu, ctx, g->local);
}

hd_status hd__gpu_group_open(hd_group *g, hd_ctx *ctx, bool native) {
  id_message of;
  hd_gpu_group *gpu = hd__calloc(1, sizeof *gpu);
  hd_status status = gpu ? prepare(gpu, ctx, g) : hd__fail(ctx, HD_E_NOMEM, "out of memory for a group of GPUs");
  status = agree(g, ctx, status);
  HD_THEN(status, broadcast_id(&of, g, ctx, gpu));
  if (status == HD_OK) {
    gpu->native = native;
    status = begin(g, ctx, gpu, &of);
  }
  if (status != HD_OK) {
    g->gpu = NULL;
    hd__gpu_group_close(gpu);
  }
  return status;
}

void hd__gpu_group_close(hd_gpu_group *gpu) {
  if (!gpu)
    return;
  if (gpu->cuda)
    hd__cuda_use(gpu->cuda);
  if (gpu->communicator)
    gpu->nccl->end(gpu->communicator, 0);
  for (int i = 0; i < HD_GROUP_BUFFERS && gpu->cuda; i++)
    hd__cuda_free(gpu->cuda, gpu->buffer[i]);
  if (gpu->cuda)
    hd__cuda_free(gpu->cuda, gpu->collected);
  hd__cuda_close(gpu->cuda);
  hd__free(gpu->calls);
  hd__free(gpu);
}

/* ---- transfers ---- */

/* Queues the calls as one operation, and waits until NCCL has queued them on the stream. */
static hd_status queue(hd_group *g, hd_ctx *ctx, const hd_nccl_call *calls, int count) {
  char why[HD_NCCL_WHY_BYTES] = "";
  hd_gpu_group *gpu = g->gpu;
  hd__cuda_use(gpu->cuda);
  if (gpu->nccl->call(gpu->communicator, calls, count, gpu->cuda->compute, why) == 0)
    return await(g, ctx, false);
  hd__group_break(g, HD_E_SYSTEM, "rank %d: GPU %d (%s): %s; see NCCL_DEBUG=INFO", g->rank, gpu->cuda->index,
                  gpu->cuda->name, why);
  return give_up(g, ctx);
}

static const char *block(const void *of, int64_t number, size_t bytes) {
  return (const char *)of + (size_t)number * bytes;
}

/* Transfers from each sending rank to each receiving rank: block r of the input, or all of it, goes to rank r; data
 * from rank r are stored in block r of the output, or at its beginning. */
typedef struct exchange {
  const void *input;
  void *output;
  bool gives_blocks, takes_blocks;
  int giver, taker;                       /* -1: all ranks */
  size_t given_bytes, taken_bytes, bytes; /* strides of blocks; bytes of a transfer */
} exchange;

static hd_status exchange_blocks(hd_group *g, hd_ctx *ctx, const exchange *e) {
  hd_nccl_call *calls = g->gpu->calls;
  int count = 0;
  for (int r = 0; r < g->ranks; r++) {
    if ((e->giver < 0 || e->giver == g->rank) && (e->taker < 0 || e->taker == r))
      calls[count++] = (hd_nccl_call){.kind = HD_NCCL_SEND,
                                      .input = block(e->input, e->gives_blocks ? r : 0, e->given_bytes),
                                      .count = (int64_t)e->bytes,
                                      .dtype = HD_U8,
                                      .peer = r};
    if ((e->taker < 0 || e->taker == g->rank) && (e->giver < 0 || e->giver == r))
      calls[count++] =
          (hd_nccl_call){.kind = HD_NCCL_RECV,
                         .output = (void *)(uintptr_t)block(e->output, e->takes_blocks ? r : 0, e->taken_bytes),
                         .count = (int64_t)e->bytes,
                         .dtype = HD_U8,
                         .peer = r};
  }
  return count > 0 ? queue(g, ctx, calls, count) : HD_OK;
}

/* ---- sums, rank by rank ---- */

static hd_status add_collected(hd_group *g, hd_ctx *ctx, const hd_group_call *call, void *to, int64_t count) {
  const hd_cuda_ranks ranks = {.from = (const void *)(uintptr_t)g->gpu->collected,
                               .to = to,
                               .stride = count,
                               .count = count,
                               .ranks = g->ranks,
                               .dtype = (int32_t)call->dtype,
                               .op = (int32_t)call->op};
  hd__cuda_use(g->gpu->cuda);
  return hd__cuda_launch(g->gpu->cuda, ctx, HD_CUDA_ranks, count, 1, &ranks);
}

/* In ranges that fit into the collecting buffer: each rank sends its range to all ranks that take the sum, which add
 * them. */
static hd_status sum_portable(hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  const size_t size = hd__dtype_size(call->dtype);
  const bool scatters = call->kind == HD_GROUP_REDUCE_SCATTER, to_root = call->kind == HD_GROUP_REDUCE;
  const int64_t most = COLLECTED_BYTES / g->ranks / (int64_t)size / 64 * 64;
  if (!g->gpu->collected)
    HD_TRY(hd__cuda_take_for(&g->gpu->collected, g->gpu->cuda, ctx, COLLECTED_BYTES, HD_GPU_TENSORS));
  for (int64_t first = 0; first < call->count; first += most) {
    const int64_t count = call->count - first < most ? call->count - first : most;
    const exchange e = {.input = block(call->input, first, size),
                        .output = (void *)(uintptr_t)g->gpu->collected,
                        .gives_blocks = scatters,
                        .takes_blocks = true,
                        .giver = -1,
                        .taker = to_root ? call->peer : -1,
                        .given_bytes = (size_t)call->count * size,
                        .taken_bytes = (size_t)count * size,
                        .bytes = (size_t)count * size};
    HD_TRY(exchange_blocks(g, ctx, &e));
    if (!to_root || call->peer == g->rank)
      HD_TRY(add_collected(g, ctx, call, (void *)(uintptr_t)block(call->output, first, size), count));
  }
  return HD_OK;
}

/* ---- calls ---- */

static hd_status one_call(hd_group *g, hd_ctx *ctx, const hd_group_call *call, hd_nccl_kind kind) {
  return queue(g, ctx,
               &(hd_nccl_call){.kind = kind,
                               .input = call->input,
                               .output = call->output,
                               .count = call->count,
                               .dtype = (int32_t)call->dtype,
                               .op = (int32_t)call->op,
                               .peer = call->peer},
               1);
}

static hd_status in_blocks(hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  const size_t bytes = (size_t)call->count * hd__dtype_size(call->dtype);
  exchange e = {.input = call->input,
                .output = call->output,
                .gives_blocks = call->kind != HD_GROUP_GATHER,
                .takes_blocks = call->kind != HD_GROUP_SCATTER,
                .giver = call->kind == HD_GROUP_SCATTER ? call->peer : -1,
                .taker = call->kind == HD_GROUP_GATHER ? call->peer : -1,
                .given_bytes = bytes,
                .taken_bytes = bytes,
                .bytes = bytes};
  return exchange_blocks(g, ctx, &e);
}

static hd_status start(hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  switch (call->kind) {
  case HD_GROUP_BROADCAST: return one_call(g, ctx, call, HD_NCCL_BROADCAST);
  case HD_GROUP_ALL_GATHER: return one_call(g, ctx, call, HD_NCCL_ALL_GATHER);
  case HD_GROUP_ALL_REDUCE:
    return g->gpu->native ? one_call(g, ctx, call, HD_NCCL_ALL_REDUCE) : sum_portable(g, ctx, call);
  case HD_GROUP_REDUCE: return g->gpu->native ? one_call(g, ctx, call, HD_NCCL_REDUCE) : sum_portable(g, ctx, call);
  case HD_GROUP_REDUCE_SCATTER:
    return g->gpu->native ? one_call(g, ctx, call, HD_NCCL_REDUCE_SCATTER) : sum_portable(g, ctx, call);
  case HD_GROUP_GATHER:
  case HD_GROUP_SCATTER:
  case HD_GROUP_ALL_TO_ALL: return in_blocks(g, ctx, call);
  case HD_GROUP_SEND: return one_call(g, ctx, call, HD_NCCL_SEND);
  case HD_GROUP_RECV: return one_call(g, ctx, call, HD_NCCL_RECV);
  case HD_GROUP_BARRIER: break;
  }
  return HD_OK;
}

hd_status hd__gpu_collective(hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  if (call->kind != HD_GROUP_BARRIER && call->count > 0)
    HD_TRY(start(g, ctx, call));
  return await(g, ctx, true);
}

/* Sends the count and type first, through host memory: a mismatch inside NCCL would block forever or corrupt memory. */
static hd_status compare(hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  int64_t header[2] = {call->count, (int64_t)call->dtype};
  const hd_group_call first = {.kind = call->kind,
                               .output = header,
                               .input = header,
                               .count = 2,
                               .dtype = HD_I64,
                               .peer = call->peer,
                               .timeout_s = call->timeout_s};
  HD_TRY(hd__message(g, ctx, &first));
  if (header[0] == call->count && header[1] == (int64_t)call->dtype)
    return HD_OK;
  hd__group_break(
      g, HD_E_USAGE,
      "expected sender and receiver to give the same count and type, found %lld %s in rank %d and %lld %s in rank %d",
      (long long)header[0], hd__dtype_name((hd_dtype)header[1]), call->peer, (long long)call->count,
      hd__dtype_name(call->dtype), g->rank);
  return give_up(g, ctx);
}

hd_status hd__gpu_message(hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  HD_TRY(hd__message_check(g, ctx, call));
  HD_TRY(compare(g, ctx, call));
  if (call->count > 0)
    HD_TRY(start(g, ctx, call));
  return await(g, ctx, true);
}

/* ---- memory ---- */

hd_status hd__gpu_group_alloc(void **out, hd_group *g, hd_ctx *ctx, size_t bytes) {
  hd_gpu_group *gpu = g->gpu;
  int i = 0;
  *out = NULL;
  while (i < HD_GROUP_BUFFERS && gpu->buffer[i])
    i++;
  if (i == HD_GROUP_BUFFERS || bytes > (SIZE_MAX >> 24))
    return hd__fail(ctx, HD_E_USAGE,
                    "a group has at most %d buffers at a time, all within the memory of the host; free some",
                    HD_GROUP_BUFFERS);
  HD_TRY(hd__cuda_take_for(&gpu->buffer[i], gpu->cuda, ctx, bytes > 0 ? (int64_t)bytes : 1, HD_GPU_TENSORS));
  *out = (void *)(uintptr_t)gpu->buffer[i];
  return HD_OK;
}

void hd__gpu_group_free(hd_group *g, void *memory) {
  for (int i = 0; memory && i < HD_GROUP_BUFFERS; i++)
    if (g->gpu->buffer[i] == (cu_pointer)(uintptr_t)memory) {
      hd__cuda_free(g->gpu->cuda, g->gpu->buffer[i]);
      g->gpu->buffer[i] = 0;
    }
}

hd_status hd__gpu_group_copy(hd_group *g, hd_ctx *ctx, void *there, void *here, size_t bytes, bool upload) {
  const hd_cuda *cuda = g->gpu->cuda;
  const cu_pointer at = (cu_pointer)(uintptr_t)there;
  const char *doing = upload ? "copying to the GPU" : "copying from the GPU";
  hd__cuda_use(cuda);
  if (bytes == 0)
    return HD_OK;
  HD_TRY(hd__cuda_check(cuda, ctx,
                        upload ? cuda->driver.upload(at, here, bytes, cuda->compute)
                               : cuda->driver.download(here, at, bytes, cuda->compute),
                        doing));
  return hd__cuda_check(cuda, ctx, cuda->driver.stream_wait(cuda->compute), doing);
}
