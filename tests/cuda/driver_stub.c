/* A stand-in for NVIDIA's driver: its memory is the host's, and its kernels are the GPU's sources compiled for the CPU,
 * which threads of the grid run one after the other.
 *
 * Work is put off as long as a real driver may: what is queued on a stream runs when somebody waits for it, so that who
 * forgets to wait reads old bytes. Copies are checked against what was allocated; a context that is given back with
 * memory still taken aborts the program. Variables say what the machine has, and what breaks:
 *
 *   STUB_CUDA_INIT=CODE      what cuInit returns           STUB_CUDA_GPUS=N        1
 *   STUB_CUDA_VERSION=N      of the driver, 13000          STUB_CUDA_ARCH=NN       compute capability, 90
 *   STUB_CUDA_MEMORY=BYTES   of a GPU, 1 GiB               STUB_CUDA_NO_MEMORY=N   the N-th allocation fails, from 1
 *   STUB_CUDA_SKIP=1         kernels do nothing, in no time
 *
 * CUDA_VISIBLE_DEVICES hides GPUs as from the real one, as far as numbers go.
 *
 *   STUB_CUDA_REFUSE=N       the N-th launch is refused    STUB_CUDA_LOSE=N        the N-th kernel that runs kills the GPU */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/driver.h"
#include "kernel/cuda/cuda_kernels.h"
#include "sys/fpmode.h"

enum { ILLEGAL_ADDRESS = 700, INVALID_VALUE = 1, LAUNCH_REFUSED = 701, NOT_FOUND = 500, MOST_ARGUMENTS = 1024 };

static long number(const char *variable, long fallback) {
  const char *text = getenv(variable);
  return text && *text ? atol(text) : fallback;
}

/* ---- Kernels ---- */

struct cu_function {
  const char *name;
  void (*run)(const void *arguments);
  size_t bytes; /* of the arguments */
};

#define OP_ROWS_ARGS hd_cuda_call
#define OP_SHARD_ARGS hd_cuda_call
#define OP_REDUCE_ARGS hd_cuda_call
#define OP_STATS_ARGS hd_cuda_call
#define OP_UPDATE_ARGS hd_cuda_chunks
#undef OP
static struct cu_function functions[] = {
#define OP(name, class) {"hdk_" #name, hdk_##name, sizeof(OP_##class##_ARGS)},
#include "graph/ops.def"
#define KERNEL(name, args) {"hdk_" #name, hdk_##name, sizeof(args)},
    HD_CUDA_OWN(KERNEL)
#undef KERNEL
};

/* ---- Queues ---- */

typedef enum op_kind { OP_LAUNCH, OP_CALL, OP_COPY, OP_CLEAR, OP_RECORD, OP_AFTER } op_kind;

typedef struct queued {
  op_kind kind;
  struct queued *next;
  const struct cu_function *function;
  void (*call)(const void *arguments);
  hd_cuda_place grid; /* x, y unused */
  char arguments[MOST_ARGUMENTS];
  void *to;
  const void *from;
  size_t bytes;
  struct cu_event *event;
  long mark; /* RECORD, AFTER: which record of the event */
} queued;

typedef struct queue {
  queued *first, **end;
} queue;

struct cu_stream {
  queue work;
  struct cu_graph *recording;
};

struct cu_event {
  struct cu_stream *stream;
  long recorded, done;
};

struct cu_graph {
  queue work;
};

struct cu_graph_exec {
  queue work;
};

typedef struct block {
  char *memory;
  size_t bytes;
  int host;
} block;

static struct {
  block list[4096];
  int count;
  size_t used;
  long allocations, launches, kernels;
  cu_result broken;
} gpu;

static struct cu_stream *streams[16];

static void put(queue *q, const queued *op) {
  queued *copy = malloc(sizeof *copy);
  *copy = *op;
  copy->next = NULL;
  if (!q->first)
    q->end = &q->first;
  *q->end = copy;
  q->end = &copy->next;
}

static void drop(queue *q) {
  for (queued *op = q->first, *next; op; op = next) {
    next = op->next;
    free(op);
  }
  q->first = NULL;
}

static void run_grid(const queued *op) {
  if (number("STUB_CUDA_SKIP", 0))
    return;
  hd_cuda_here = op->grid;
  for (int64_t y = 0; y < op->grid.height; y++)
    for (int64_t x = 0; x < op->grid.width; x++) {
      hd_cuda_here.x = x;
      hd_cuda_here.y = y;
      op->function->run(op->arguments);
    }
}

static void run_until(struct cu_event *event, long mark);

static void run_one(struct cu_stream *stream) {
  queued *op = stream->work.first;
  stream->work.first = op->next;
  if (op->kind == OP_LAUNCH && ++gpu.kernels == number("STUB_CUDA_LOSE", 0))
    gpu.broken = ILLEGAL_ADDRESS;
  if (op->kind == OP_RECORD)
    op->event->done = op->mark;
  else if (op->kind == OP_AFTER)
    run_until(op->event, op->mark);
  else if (gpu.broken == CU_DONE && op->kind == OP_LAUNCH)
    run_grid(op);
  else if (gpu.broken == CU_DONE && op->kind == OP_CALL)
    op->call(op->arguments);
  else if (gpu.broken == CU_DONE && op->kind == OP_COPY)
    memcpy(op->to, op->from, op->bytes);
  else if (gpu.broken == CU_DONE && op->kind == OP_CLEAR)
    memset(op->to, 0, op->bytes);
  free(op);
}

static void run_until(struct cu_event *event, long mark) {
  while (event->done < mark)
    run_one(event->stream);
}

static cu_result drain(struct cu_stream *stream) {
  const uint64_t before = hd__fpmode_enter(); /* as kernels are compiled: denormals are zeros */
  while (stream->work.first)
    run_one(stream);
  hd__fpmode_leave(before);
  return gpu.broken;
}

static cu_result add(struct cu_stream *stream, const queued *op) {
  if (gpu.broken == CU_DONE)
    put(stream->recording ? &stream->recording->work : &stream->work, op);
  return gpu.broken;
}

/* ---- The driver's functions ---- */

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the driver's own header is not needed to build heddle */
#define STUB __attribute__((visibility("default"))) cu_result

STUB cuInit(unsigned flags) { return (cu_result)number("STUB_CUDA_INIT", CU_DONE); }

STUB cuDriverGetVersion(int *version) {
  *version = (int)number("STUB_CUDA_VERSION", 13000);
  return CU_DONE;
}

/* The numbers of the GPUs that can be seen; a number that is none ends the list. */
static int visible(int gpus[64]) {
  const char *at = getenv("CUDA_VISIBLE_DEVICES");
  const int all = (int)number("STUB_CUDA_GPUS", 1);
  int count = 0;
  for (; !at && count < all && count < 64; count++)
    gpus[count] = count;
  while (at && *at >= '0' && *at <= '9' && atoi(at) < all && count < 64) {
    gpus[count++] = atoi(at);
    at += strspn(at, "0123456789");
    at += *at == ',';
  }
  return count;
}

STUB cuDeviceGetCount(int *count) {
  int gpus[64];
  *count = visible(gpus);
  return CU_DONE;
}

STUB cuDeviceGet(cu_device *device, int index) {
  *device = index;
  return CU_DONE;
}

STUB cuDeviceGetName(char *name, int bytes, cu_device device) {
  snprintf(name, (size_t)bytes, "Stub GPU");
  return CU_DONE;
}

/* Of the stand-in for NVML's GPUs (tests/unit/nvml_stub.c), whose first ones these are. */
STUB cuDeviceGetUuid(cu_uuid *uuid, cu_device device) {
  int gpus[64] = {0};
  visible(gpus);
  memset(uuid, 0, sizeof *uuid);
  uuid->byte[15] = (unsigned char)gpus[device];
  return CU_DONE;
}

STUB cuDeviceGetAttribute(int *value, int attribute, cu_device device) {
  const long arch = number("STUB_CUDA_ARCH", 90);
  *value = (int)(attribute == CU_CAPABILITY_MAJOR ? arch / 10 : arch % 10);
  return CU_DONE;
}

STUB cuDevicePrimaryCtxRetain(cu_context *context, cu_device device) {
  *context = (cu_context)&gpu;
  return CU_DONE;
}

STUB cuDevicePrimaryCtxRelease_v2(cu_device device) {
  if (gpu.count == 0)
    return CU_DONE;
  fprintf(stderr, "stub driver: %d blocks of memory were not freed\n", gpu.count);
  abort();
}

STUB cuCtxSetCurrent(cu_context context) { return gpu.broken; }

static size_t memory_bytes(void) { return (size_t)number("STUB_CUDA_MEMORY", 1l << 30); }

STUB cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  *total = memory_bytes();
  *free_bytes = *total - gpu.used;
  return gpu.broken;
}

static cu_result take(void **out, size_t bytes, int host) {
  if (gpu.broken != CU_DONE)
    return gpu.broken;
  if (++gpu.allocations == number("STUB_CUDA_NO_MEMORY", 0) || gpu.count == 4096 ||
      (!host && gpu.used + bytes > memory_bytes()))
    return CU_OUT_OF_MEMORY;
  *out = malloc(bytes);
  memset(*out, 0xa5, bytes);
  gpu.list[gpu.count++] = (block){*out, bytes, host};
  gpu.used += host ? 0 : bytes;
  return CU_DONE;
}

static cu_result give_back(void *memory, int host) {
  for (int i = 0; i < 16; i++)
    if (streams[i])
      drain(streams[i]);
  for (int i = 0; i < gpu.count; i++)
    if (gpu.list[i].memory == memory && gpu.list[i].host == host) {
      gpu.used -= host ? 0 : gpu.list[i].bytes;
      gpu.list[i] = gpu.list[--gpu.count];
      free(memory);
      return gpu.broken;
    }
  return INVALID_VALUE;
}

/* Whether all of it is taken: the GPU's for copies' ends there. */
static int is_taken(const void *memory, size_t bytes, int host) {
  const char *first = memory;
  for (int i = 0; i < gpu.count; i++)
    if (gpu.list[i].host == host && first >= gpu.list[i].memory &&
        first + bytes <= gpu.list[i].memory + gpu.list[i].bytes)
      return 1;
  return 0;
}

STUB cuMemAlloc_v2(cu_pointer *memory, size_t bytes) {
  void *taken = NULL;
  const cu_result error = take(&taken, bytes, 0);
  *memory = (cu_pointer)(uintptr_t)taken;
  return error;
}

STUB cuMemFree_v2(cu_pointer memory) { return give_back((void *)(uintptr_t)memory, 0); }
STUB cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) { return take(memory, bytes, 1); }
STUB cuMemFreeHost(void *memory) { return give_back(memory, 1); }

STUB cuMemsetD8Async(cu_pointer to, unsigned char value, size_t bytes, cu_stream stream) {
  const queued op = {.kind = OP_CLEAR, .to = (void *)(uintptr_t)to, .bytes = bytes};
  return value == 0 && is_taken(op.to, bytes, 0) ? add(stream, &op) : INVALID_VALUE;
}

/* From memory that the driver did not give, bytes are read at once, as the driver does, too. */
STUB cuMemcpyHtoDAsync_v2(cu_pointer to, const void *from, size_t bytes, cu_stream stream) {
  const queued op = {.kind = OP_COPY, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes};
  if (!is_taken(op.to, bytes, 0))
    return INVALID_VALUE;
  const cu_result error = add(stream, &op);
  return is_taken(from, bytes, 1) || stream->recording ? error : drain(stream);
}

STUB cuMemcpyDtoHAsync_v2(void *to, cu_pointer from, size_t bytes, cu_stream stream) {
  const queued op = {.kind = OP_COPY, .to = to, .from = (const void *)(uintptr_t)from, .bytes = bytes};
  if (!is_taken(op.from, bytes, 0))
    return INVALID_VALUE;
  const cu_result error = add(stream, &op);
  return is_taken(to, bytes, 1) || stream->recording ? error : drain(stream);
}

STUB cuMemcpyDtoDAsync_v2(cu_pointer to, cu_pointer from, size_t bytes, cu_stream stream) {
  const queued op = {
      .kind = OP_COPY, .to = (void *)(uintptr_t)to, .from = (const void *)(uintptr_t)from, .bytes = bytes};
  return is_taken(op.to, bytes, 0) && is_taken(op.from, bytes, 0) ? add(stream, &op) : INVALID_VALUE;
}

STUB cuStreamCreate(cu_stream *stream, unsigned flags) {
  for (int i = 0; i < 16; i++)
    if (!streams[i]) {
      *stream = streams[i] = calloc(1, sizeof **stream);
      return CU_DONE;
    }
  return CU_OUT_OF_MEMORY;
}

STUB cuStreamDestroy_v2(cu_stream stream) {
  drain(stream);
  for (int i = 0; i < 16; i++)
    if (streams[i] == stream)
      streams[i] = NULL;
  free(stream);
  return CU_DONE;
}

STUB cuStreamSynchronize(cu_stream stream) { return drain(stream); }

STUB cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned flags) {
  const queued op = {.kind = OP_AFTER, .event = event, .mark = event->recorded};
  return add(stream, &op);
}

STUB cuEventCreate(cu_event *event, unsigned flags) {
  *event = calloc(1, sizeof **event);
  return CU_DONE;
}

STUB cuEventDestroy_v2(cu_event event) {
  free(event);
  return CU_DONE;
}

STUB cuEventRecord(cu_event event, cu_stream stream) {
  const queued op = {.kind = OP_RECORD, .event = event, .mark = event->recorded + 1};
  event->stream = stream;
  if (gpu.broken == CU_DONE)
    event->recorded++;
  return add(stream, &op);
}

STUB cuEventSynchronize(cu_event event) {
  const uint64_t before = hd__fpmode_enter();
  run_until(event, event->recorded);
  hd__fpmode_leave(before);
  return gpu.broken;
}

STUB cuModuleLoadData(cu_module *module, const void *image) {
  *module = (cu_module)functions;
  return image ? CU_DONE : INVALID_VALUE;
}

STUB cuModuleUnload(cu_module module) { return CU_DONE; }

STUB cuModuleGetFunction(cu_function *function, cu_module module, const char *name) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (!strcmp(functions[i].name, name)) {
      *function = &functions[i];
      return CU_DONE;
    }
  return NOT_FOUND;
}

STUB cuLaunchKernel(cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                    unsigned block_y, unsigned block_z, unsigned shared_bytes, cu_stream stream, void **arguments,
                    void **extra) {
  queued op = {.kind = OP_LAUNCH, .function = function, .grid = {0, 0, grid_x * block_x, grid_y * block_y}};
  if (++gpu.launches == number("STUB_CUDA_REFUSE", 0))
    return LAUNCH_REFUSED;
  if (grid_x == 0 || grid_y == 0 || grid_y > 65535 || block_x * block_y > HD_CUDA_BLOCK || grid_z * block_z != 1 ||
      function->bytes > MOST_ARGUMENTS || extra)
    return INVALID_VALUE;
  memcpy(op.arguments, arguments[0], function->bytes);
  return add(stream, &op);
}

/* For the stand-ins of libraries that compute on the GPU: queues a function of the host. */
STUB stub_cuda_call(cu_stream stream, void (*call)(const void *), const void *arguments, size_t bytes) {
  queued op = {.kind = OP_CALL, .call = call};
  if (bytes > MOST_ARGUMENTS)
    return INVALID_VALUE;
  memcpy(op.arguments, arguments, bytes);
  return add(stream, &op);
}

STUB stub_cuda_is_recording(cu_stream stream) { return stream->recording != NULL; }

STUB cuStreamBeginCapture_v2(cu_stream stream, int mode) {
  stream->recording = calloc(1, sizeof *stream->recording);
  return gpu.broken;
}

STUB cuStreamEndCapture(cu_stream stream, cu_graph *graph) {
  *graph = stream->recording;
  stream->recording = NULL;
  return gpu.broken;
}

STUB cuGraphInstantiateWithFlags(cu_graph_exec *exec, cu_graph graph, unsigned long long flags) {
  *exec = calloc(1, sizeof **exec);
  for (const queued *op = graph->work.first; op; op = op->next)
    put(&(*exec)->work, op);
  return gpu.broken;
}

STUB cuGraphLaunch(cu_graph_exec exec, cu_stream stream) {
  for (const queued *op = exec->work.first; op; op = op->next)
    add(stream, op);
  return gpu.broken;
}

STUB cuGraphExecDestroy(cu_graph_exec exec) {
  drop(&exec->work);
  free(exec);
  return CU_DONE;
}

STUB cuGraphDestroy(cu_graph graph) {
  drop(&graph->work);
  free(graph);
  return CU_DONE;
}

STUB cuGetErrorName(cu_result error, const char **text) {
  *text = error == CU_OUT_OF_MEMORY  ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == CU_NO_DEVICE    ? "CUDA_ERROR_NO_DEVICE"
          : error == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == LAUNCH_REFUSED  ? "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
                                     : NULL;
  return CU_DONE;
}

STUB cuGetErrorString(cu_result error, const char **text) {
  *text = error == ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "said by the stub";
  return CU_DONE;
}
