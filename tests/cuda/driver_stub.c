/* A stub of NVIDIA's driver: its memory is the host's, and its kernels are the GPU's sources compiled for the CPU;
 * the threads of a grid run one after the other.
 *
 * Work is delayed as long as a real driver may: what is queued on a stream runs at a wait for it, so that code
 * without the wait reads old bytes. Copies are checked against allocations; a context that is released with
 * allocated memory aborts the program. Variables set the machine and its faults:
 *
 *   STUB_CUDA_INIT=CODE      what cuInit returns           STUB_CUDA_GPUS=N        1
 *   STUB_CUDA_VERSION=N      of the driver, 13000          STUB_CUDA_ARCH=NN       compute capability, 90
 *   STUB_CUDA_PROCESSORS=N   multiprocessors, 4
 *   STUB_CUDA_MEMORY=BYTES   of a GPU, 1 GiB               STUB_CUDA_NO_MEMORY=N   the N-th allocation fails, from 1
 *   STUB_CUDA_SKIP=1         kernels do nothing, in no time
 *   STUB_CUDA_REFUSE=N       the N-th launch is refused    STUB_CUDA_LOSE=N        the N-th kernel of a GPU kills it:
 *   STUB_CUDA_APART=1        GPUs cannot reach each other  STUB_CUDA_LOSE_GPU=N    of GPU 0
 *   STUB_CUDA_TOLD=FILE      receives, for each GPU that worked, its number, its kernels, bytes from other GPUs, the
 *                            number of waits for an empty stream, the nodes of its largest graph, how many of these
 *                            run beside others, and the calls of the host that queued something
 *
 * CUDA_VISIBLE_DEVICES hides GPUs as from the real one, as far as numbers go.
 *
 * A call fails in a process that was forked after the driver's start, and before the start. While a thread records,
 * it may not allocate or free memory, load code or wait for the stream.
 *
 * Each GPU has separate memory: while a kernel of one runs, that of the others is inaccessible, and an access ends
 * the program. Calls must be made for the GPU of the current context. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "exec/gpu/device/cuda_driver.h"
#include "op/kernels_gpu.h"
#include "platform/fpmode.h"

enum {
  ILLEGAL_ADDRESS = 700,
  INVALID_VALUE = 1,
  LAUNCH_REFUSED = 701,
  NOT_FOUND = 500,
  NOT_STARTED = 3,
  NOT_WHILE_RECORDING = 900,
  UNJOINED = 904,
  NOT_READY = 600,
  MOST_ARGUMENTS = 1024
};
enum { OTHER_CONTEXT = 201, CANNOT_REACH = 217, MOST_GPUS = 8, MOST_BLOCKS = 4096, PAGE = 4096, TOUCHED = 86 };

static long number(const char *variable, long fallback) {
  const char *text = getenv(variable);
  return text && *text ? atol(text) : fallback;
}

/* ---- Kernels ---- */

struct cu_function {
  const char *name;
  void (*run)(const void *arguments);
  size_t bytes;  /* of the arguments */
  int by_blocks; /* runs once a block, not once a thread */
  int gpu;
};

#define OP_ROWS_ARGS hd_cuda_call
#define OP_SHARD_ARGS hd_cuda_call
#define OP_REDUCE_ARGS hd_cuda_call
#define OP_STATS_ARGS hd_cuda_call
#define OP_UPDATE_ARGS hd_cuda_chunks
#undef OP
static const struct cu_function functions[] = {
#define OP(name, class) {"hdk_" #name, hdk_##name, sizeof(OP_##class##_ARGS), 0, 0},
#include "kernel/ops.def"
#define KERNEL(name, args) {"hdk_" #name, hdk_##name, sizeof(args), 0, 0},
    HD_CUDA_EXTRA(KERNEL)
#undef KERNEL
#define KERNEL(name, args) {"hdk_" #name, hdk_##name, sizeof(args), 1, 0},
#define BLOCK KERNEL
#define TILED(op, name, what, a_side, b_side) KERNEL(name, hd_cuda_call)
#include "kernel/cuda/cuda_blocks.def"
#undef KERNEL
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* ---- Queues ---- */

typedef enum op_kind { OP_LAUNCH, OP_CALL, OP_POLL, OP_COPY, OP_CLEAR, OP_RECORD, OP_AFTER } op_kind;

typedef struct queued {
  op_kind kind;
  struct queued *next;
  const struct cu_function *function;
  void (*call)(const void *arguments);
  int (*poll)(void *arguments); /* POLL: whether it is done; frees the arguments then */
  void *polled;
  hd_cuda_place grid; /* x, y unused */
  char arguments[MOST_ARGUMENTS];
  void *to;
  const void *from;
  size_t bytes;
  int across; /* from another GPU */
  int beside; /* in a graph: of a branch */
  struct cu_event *event;
  long mark; /* RECORD, AFTER: which record of the event */
} queued;

typedef struct queue {
  queued *first, **end;
} queue;

struct cu_stream {
  queue work;
  int gpu;
  struct cu_graph *recording;
  int branches; /* it joined the recording of another stream */
};

struct cu_event {
  struct cu_stream *stream;
  struct cu_graph *recorded_in; /* recorded while the stream was */
  int gpu;
  long recorded, done;
  double done_ms; /* when */
  int is_timed;
};

/* What a branch does is put behind all that is recorded until it is joined: as late as a driver may run it. */
struct cu_graph {
  queue work, branch;
};

struct cu_graph_exec {
  queue work;
};

typedef enum block_kind { OF_GPU, OF_HOST, PINNED } block_kind;

typedef struct block {
  char *memory;
  size_t bytes;
  block_kind kind;
  int gpu;
} block;

struct cu_context {
  int gpu, retained;
  struct cu_function function[FUNCTIONS];
  size_t used, from_others;
  long kernels, waits, nodes, beside, calls;
  cu_result broken;
};

static struct cu_context gpus[MOST_GPUS];
static block blocks[MOST_BLOCKS];
static int block_count;
static long allocations, launches;
static struct cu_stream *streams[16 * MOST_GPUS];
static _Thread_local int current = -1, recordings;
static pid_t started; /* the driver, by this process */

static int gpu_count(void) {
  const long count = number("STUB_CUDA_GPUS", 1);
  return (int)(count < 0 ? 0 : count > MOST_GPUS ? MOST_GPUS : count);
}

/* The GPU whose memory can be accessed; -1: of every GPU. */
static int open_gpu = -1;

static void open_memory(int gpu) {
  if (open_gpu == gpu || gpu_count() < 2)
    return;
  for (int i = 0; i < block_count; i++)
    if (blocks[i].kind == OF_GPU)
      mprotect(blocks[i].memory, (blocks[i].bytes + PAGE - 1) / PAGE * PAGE,
               gpu < 0 || blocks[i].gpu == gpu ? PROT_READ | PROT_WRITE : PROT_NONE);
  open_gpu = gpu;
}

static void touched(int signal_number, siginfo_t *info, void *context) {
  char text[96];
  for (int i = 0; i < block_count; i++)
    if ((char *)info->si_addr >= blocks[i].memory && (char *)info->si_addr < blocks[i].memory + blocks[i].bytes &&
        open_gpu >= 0 && blocks[i].gpu != open_gpu) {
      const int length = snprintf(text, sizeof text, "stub driver: a kernel of GPU %d touches GPU %d's memory\n",
                                  open_gpu, blocks[i].gpu);
      (void)!write(STDERR_FILENO, text, (size_t)length);
      _exit(TOUCHED);
    }
  signal(SIGSEGV, SIG_DFL);
}

/* Each process that used GPUs adds its lines. */
__attribute__((destructor)) static void report(void) {
  const char *path = getenv("STUB_CUDA_TOLD");
  const int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
  char text[160];
  for (int g = 0; file >= 0 && g < MOST_GPUS; g++) {
    const int length = snprintf(text, sizeof text, "%d %ld %zu %ld %ld %ld %ld\n", g, gpus[g].kernels,
                                gpus[g].from_others, gpus[g].waits, gpus[g].nodes, gpus[g].beside, gpus[g].calls);
    if (gpus[g].kernels > 0 && write(file, text, (size_t)length) != length)
      abort();
  }
  if (file >= 0)
    close(file);
}

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

/* Block by block; the order of a block's threads is another one every time, since none may depend on it. */
static void run_blocks(const queued *op) {
  static int order;
  if (number("STUB_CUDA_SKIP", 0))
    return;
  hd_cuda_here.backwards = order++ & 1;
  for (hd_cuda_here.block = 0; hd_cuda_here.block < op->grid.width / HD_CUDA_BLOCK; hd_cuda_here.block++)
    op->function->run(op->arguments);
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

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int run_one(struct cu_stream *stream);

static int waits(const queued *op) { return op->kind == OP_AFTER && op->event->done < op->mark; }

/* GPUs compute side by side: while one waits for others, the other streams of this process do what they can. Whether
 * one of them did something. */
static int run_others(const struct cu_stream *waiting) {
  static int running;
  int ran = 0;
  for (size_t i = 0; i < sizeof streams / sizeof *streams && !running; i++) {
    struct cu_stream *s = streams[i];
    running = 1;
    while (s && s != waiting && s->work.first && !waits(s->work.first) && run_one(s))
      ran = 1;
    running = 0;
  }
  return ran;
}

static void run_op(struct cu_context *gpu, const queued *op) {
  switch (op->kind) {
  case OP_LAUNCH: (op->function->by_blocks ? run_blocks : run_grid)(op); break;
  case OP_CALL: op->call(op->arguments); break;
  case OP_COPY: memcpy(op->to, op->from, op->bytes); break;
  case OP_CLEAR: memset(op->to, 0, op->bytes); break;
  default: return;
  }
  gpu->from_others += op->across ? op->bytes : 0;
}

/* The first thing on the stream, or what that waits for; whether anything was done. */
static int run_one(struct cu_stream *stream) {
  struct cu_context *gpu = &gpus[stream->gpu];
  queued *op = stream->work.first;
  if (waits(op))
    return run_one(op->event->stream);
  open_memory(op->kind == OP_POLL ? -1 : open_gpu);
  if (op->kind == OP_POLL && gpu->broken == CU_DONE && !op->poll(op->polled))
    return run_others(stream);
  stream->work.first = op->next;
  if (op->kind == OP_LAUNCH && ++gpu->kernels == number("STUB_CUDA_LOSE", 0) &&
      stream->gpu == number("STUB_CUDA_LOSE_GPU", 0))
    gpu->broken = ILLEGAL_ADDRESS;
  if (op->kind == OP_LAUNCH || op->kind == OP_COPY || op->kind == OP_CLEAR || op->kind == OP_CALL)
    open_memory(op->kind == OP_LAUNCH || op->kind == OP_CALL ? stream->gpu : -1);
  if (op->kind == OP_RECORD) {
    op->event->done = op->mark;
    op->event->done_ms = now_ms();
  } else if (gpu->broken == CU_DONE)
    run_op(gpu, op);
  free(op);
  return 1;
}

/* Where nothing can be done another process has to. */
static void run_or_rest(struct cu_stream *stream) {
  if (!run_one(stream))
    sched_yield();
}

static void run_until(struct cu_event *event, long mark) {
  while (event->done < mark)
    run_or_rest(event->stream);
}

static cu_result drain(struct cu_stream *stream) {
  const uint64_t before = hd__fpmode_enter(); /* as kernels are compiled: denormals are zeros */
  while (stream->work.first)
    run_or_rest(stream);
  hd__fpmode_leave(before);
  return gpus[stream->gpu].broken;
}

/* What is wrong with a call for this GPU. */
static cu_result state_of(int gpu) {
  return started != getpid() ? NOT_STARTED : current < 0 || gpu != current ? OTHER_CONTEXT : gpus[current].broken;
}

/* The same of calls that a thread must not make while it records. */
static cu_result state_of_unrecorded(int gpu) { return recordings > 0 ? NOT_WHILE_RECORDING : state_of(gpu); }

static cu_result add(struct cu_stream *stream, const queued *op) {
  const cu_result state = state_of(stream->gpu);
  if (state != CU_DONE)
    return state;
  gpus[stream->gpu].calls += !stream->recording;
  put(!stream->recording ? &stream->work
      : stream->branches ? &stream->recording->branch
                         : &stream->recording->work,
      op);
  return state;
}

/* The streams that recorded a graph besides the one that began it. */
static void join(struct cu_graph *graph) {
  for (queued *op = graph->branch.first; op; op = op->next) {
    op->beside = 1;
    put(&graph->work, op);
  }
  drop(&graph->branch);
  for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
    if (streams[i] && streams[i]->recording == graph && streams[i]->branches) {
      streams[i]->recording = NULL;
      streams[i]->branches = 0;
    }
}

/* ---- The driver's functions ---- */

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the driver's own header is not needed to build heddle */
#define STUB __attribute__((visibility("default"))) cu_result

STUB cuInit(unsigned flags) {
  const struct sigaction action = {.sa_sigaction = touched, .sa_flags = SA_SIGINFO};
  if (gpu_count() > 1)
    sigaction(SIGSEGV, &action, NULL);
  if (started && started != getpid())
    return NOT_STARTED;
  started = number("STUB_CUDA_INIT", CU_DONE) == CU_DONE ? getpid() : 0;
  return (cu_result)number("STUB_CUDA_INIT", CU_DONE);
}

STUB cuDriverGetVersion(int *version) {
  *version = (int)number("STUB_CUDA_VERSION", 13000);
  return CU_DONE;
}

/* The numbers of the GPUs that can be seen; a number that is none ends the list. */
static int visible(int numbers[64]) {
  const char *at = getenv("CUDA_VISIBLE_DEVICES");
  const int all = (int)number("STUB_CUDA_GPUS", 1);
  int count = 0;
  for (; !at && count < all && count < 64; count++)
    numbers[count] = count;
  while (at && *at >= '0' && *at <= '9' && atoi(at) < all && count < 64) {
    numbers[count++] = atoi(at);
    at += strspn(at, "0123456789");
    at += *at == ',';
  }
  return count;
}

STUB cuDeviceGetCount(int *count) {
  int numbers[64];
  *count = visible(numbers);
  return started == getpid() ? CU_DONE : NOT_STARTED;
}

STUB cuDeviceGet(cu_device *device, int index) {
  *device = index;
  return index < gpu_count() ? CU_DONE : INVALID_VALUE;
}

STUB cuDeviceGetName(char *name, int bytes, cu_device device) {
  snprintf(name, (size_t)bytes, "Stub GPU");
  return CU_DONE;
}

/* Of the GPUs of the NVML stub (tests/unit/nvml_stub.c), whose first ones these are. */
STUB cuDeviceGetUuid_v2(cu_uuid *uuid, cu_device device) {
  int numbers[64] = {0};
  visible(numbers);
  memset(uuid, 0, sizeof *uuid);
  uuid->byte[15] = (unsigned char)numbers[device];
  return CU_DONE;
}

STUB cuDeviceGetAttribute(int *value, int attribute, cu_device device) {
  const long arch = number("STUB_CUDA_ARCH", 90);
  *value = (int)(attribute == CU_MULTIPROCESSORS    ? number("STUB_CUDA_PROCESSORS", 4)
                 : attribute == CU_CAPABILITY_MAJOR ? arch / 10
                                                    : arch % 10);
  return CU_DONE;
}

STUB cuDevicePrimaryCtxRetain(cu_context *context, cu_device device) {
  if (started != getpid())
    return NOT_STARTED;
  *context = &gpus[device];
  gpus[device].gpu = device;
  gpus[device].retained++;
  return CU_DONE;
}

STUB cuDevicePrimaryCtxRelease_v2(cu_device device) {
  int left = 0;
  for (int i = 0; i < block_count; i++)
    left += blocks[i].gpu == device;
  if (--gpus[device].retained > 0 || left == 0)
    return CU_DONE;
  fprintf(stderr, "stub driver: %d blocks of GPU %d's memory were not freed\n", left, device);
  abort();
}

STUB cuCtxSetCurrent(cu_context context) {
  current = context ? context->gpu : -1;
  return CU_DONE;
}

STUB cuDeviceCanAccessPeer(int *can, cu_device device, cu_device other) {
  *can = device != other && number("STUB_CUDA_APART", 0) == 0;
  return CU_DONE;
}

STUB cuCtxEnablePeerAccess(cu_context other, unsigned flags) {
  return current < 0 || other->gpu == current || number("STUB_CUDA_APART", 0) ? CANNOT_REACH : CU_DONE;
}

static size_t memory_bytes(void) { return (size_t)number("STUB_CUDA_MEMORY", 1l << 30); }

STUB cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  *total = memory_bytes();
  *free_bytes = *total - (current < 0 ? 0 : gpus[current].used);
  return state_of(current);
}

static cu_result take(void **out, size_t bytes, block_kind kind) {
  if (state_of_unrecorded(current) != CU_DONE)
    return state_of_unrecorded(current);
  if (++allocations == number("STUB_CUDA_NO_MEMORY", 0) || block_count == MOST_BLOCKS ||
      (kind == OF_GPU && gpus[current].used + bytes > memory_bytes()))
    return CU_OUT_OF_MEMORY;
  if (kind != PINNED) {
    *out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*out == MAP_FAILED)
      return CU_OUT_OF_MEMORY;
    memset(*out, 0xa5, bytes);
  }
  open_memory(-1);
  blocks[block_count++] = (block){*out, bytes, kind, current};
  gpus[current].used += kind == OF_GPU ? bytes : 0;
  return CU_DONE;
}

static cu_result give_back(void *memory, block_kind kind) {
  if (recordings > 0)
    return NOT_WHILE_RECORDING;
  for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
    if (streams[i])
      drain(streams[i]);
  for (int i = 0; i < block_count; i++)
    if (blocks[i].memory == memory && blocks[i].kind == kind) {
      if (blocks[i].gpu != current)
        return OTHER_CONTEXT;
      open_memory(-1);
      gpus[current].used -= kind == OF_GPU ? blocks[i].bytes : 0;
      if (kind != PINNED)
        munmap(memory, blocks[i].bytes);
      blocks[i] = blocks[--block_count];
      return gpus[current].broken;
    }
  return INVALID_VALUE;
}

/* Whether all of it is this GPU's: copies' ends there. */
static int is_of(int gpu, const void *memory, size_t bytes) {
  const char *first = memory;
  for (int i = 0; i < block_count; i++)
    if (blocks[i].kind == OF_GPU && blocks[i].gpu == gpu && first >= blocks[i].memory &&
        first + bytes <= blocks[i].memory + blocks[i].bytes)
      return 1;
  return 0;
}

/* Whether it is memory of the host that GPUs copy from by themselves. */
static int is_pinned(const void *memory, size_t bytes) {
  const char *first = memory;
  for (int i = 0; i < block_count; i++)
    if (blocks[i].kind != OF_GPU && first >= blocks[i].memory && first + bytes <= blocks[i].memory + blocks[i].bytes)
      return 1;
  return 0;
}

STUB cuMemAlloc_v2(cu_pointer *memory, size_t bytes) {
  void *taken = NULL;
  const cu_result error = take(&taken, bytes, OF_GPU);
  *memory = (cu_pointer)(uintptr_t)taken;
  return error;
}

STUB cuMemFree_v2(cu_pointer memory) { return give_back((void *)(uintptr_t)memory, OF_GPU); }
STUB cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) { return take(memory, bytes, OF_HOST); }
STUB cuMemFreeHost(void *memory) { return give_back(memory, OF_HOST); }
STUB cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) { return take(&memory, bytes, PINNED); }
STUB cuMemHostUnregister(void *memory) { return give_back(memory, PINNED); }

STUB cuMemsetD8Async(cu_pointer to, unsigned char value, size_t bytes, cu_stream stream) {
  const queued op = {.kind = OP_CLEAR, .to = (void *)(uintptr_t)to, .bytes = bytes};
  return value == 0 && is_of(current, op.to, bytes) ? add(stream, &op) : INVALID_VALUE;
}

/* From memory that the driver did not give, bytes are read at once, as the driver does, too. */
STUB cuMemcpyHtoDAsync_v2(cu_pointer to, const void *from, size_t bytes, cu_stream stream) {
  const queued op = {.kind = OP_COPY, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes};
  if (!is_of(current, op.to, bytes))
    return INVALID_VALUE;
  const cu_result error = add(stream, &op);
  return is_pinned(from, bytes) || stream->recording ? error : drain(stream);
}

STUB cuMemcpyDtoHAsync_v2(void *to, cu_pointer from, size_t bytes, cu_stream stream) {
  const queued op = {.kind = OP_COPY, .to = to, .from = (const void *)(uintptr_t)from, .bytes = bytes};
  if (!is_of(current, op.from, bytes))
    return INVALID_VALUE;
  const cu_result error = add(stream, &op);
  return is_pinned(to, bytes) || stream->recording ? error : drain(stream);
}

STUB cuMemcpyDtoDAsync_v2(cu_pointer to, cu_pointer from, size_t bytes, cu_stream stream) {
  const queued op = {
      .kind = OP_COPY, .to = (void *)(uintptr_t)to, .from = (const void *)(uintptr_t)from, .bytes = bytes};
  return is_of(current, op.to, bytes) && is_of(current, op.from, bytes) ? add(stream, &op) : INVALID_VALUE;
}

STUB cuMemcpyPeerAsync(cu_pointer to, cu_context there, cu_pointer from, cu_context here, size_t bytes,
                       cu_stream stream) {
  const queued op = {.kind = OP_COPY,
                     .to = (void *)(uintptr_t)to,
                     .from = (const void *)(uintptr_t)from,
                     .bytes = bytes,
                     .across = there != here};
  return is_of(there->gpu, op.to, bytes) && is_of(here->gpu, op.from, bytes) ? add(stream, &op) : INVALID_VALUE;
}

STUB cuStreamCreate(cu_stream *stream, unsigned flags) {
  for (size_t i = 0; i < sizeof streams / sizeof *streams && current >= 0; i++)
    if (!streams[i]) {
      *stream = streams[i] = calloc(1, sizeof **stream);
      (*stream)->gpu = current;
      return CU_DONE;
    }
  return CU_OUT_OF_MEMORY;
}

STUB cuStreamDestroy_v2(cu_stream stream) {
  drain(stream);
  for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
    if (streams[i] == stream)
      streams[i] = NULL;
  free(stream);
  return CU_DONE;
}

STUB cuStreamSynchronize(cu_stream stream) {
  gpus[stream->gpu].waits++;
  return stream->recording ? NOT_WHILE_RECORDING : stream->gpu == current ? drain(stream) : OTHER_CONTEXT;
}

STUB cuStreamQuery(cu_stream stream) {
  if (stream->recording)
    return NOT_WHILE_RECORDING;
  if (state_of(stream->gpu) != CU_DONE)
    return state_of(stream->gpu);
  const uint64_t before = hd__fpmode_enter();
  while (stream->work.first && run_one(stream))
    ;
  hd__fpmode_leave(before);
  return stream->work.first ? CU_NOT_READY : gpus[stream->gpu].broken;
}

/* While a stream is recorded, waiting for its event begins a branch of the recording, and waiting for an event of the
 * branch ends it. */
STUB cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned flags) {
  if (event->recorded_in && !stream->recording) {
    stream->recording = event->recorded_in;
    stream->branches = 1;
    return state_of(stream->gpu);
  }
  if (event->recorded_in) {
    if (event->recorded_in != stream->recording || stream->branches)
      return NOT_WHILE_RECORDING;
    join(stream->recording);
    return state_of(stream->gpu);
  }
  const queued op = {.kind = OP_AFTER, .event = event, .mark = event->recorded};
  return add(stream, &op);
}

STUB cuEventCreate(cu_event *event, unsigned flags) {
  *event = calloc(1, sizeof **event);
  (*event)->gpu = current;
  (*event)->is_timed = !(flags & CU_EVENT_NO_TIMING);
  return CU_DONE;
}

STUB cuEventDestroy_v2(cu_event event) {
  free(event);
  return CU_DONE;
}

STUB cuEventRecord(cu_event event, cu_stream stream) {
  const queued op = {.kind = OP_RECORD, .event = event, .mark = event->recorded + 1};
  if (event->gpu != stream->gpu)
    return OTHER_CONTEXT;
  event->stream = stream;
  event->recorded_in = stream->recording;
  if (stream->recording)
    return state_of(stream->gpu);
  if (state_of(stream->gpu) == CU_DONE)
    event->recorded++;
  return add(stream, &op);
}

STUB cuEventSynchronize(cu_event event) {
  const uint64_t before = hd__fpmode_enter();
  run_until(event, event->recorded);
  hd__fpmode_leave(before);
  return gpus[event->gpu].broken;
}

STUB cuEventQuery(cu_event event) {
  const uint64_t before = hd__fpmode_enter();
  while (event->done < event->recorded && run_one(event->stream))
    ;
  hd__fpmode_leave(before);
  return event->done < event->recorded ? CU_NOT_READY : gpus[event->gpu].broken;
}

STUB cuEventElapsedTime(float *ms, cu_event begin, cu_event end) {
  if (!begin->is_timed || !end->is_timed || begin->done == 0 || end->done == 0)
    return INVALID_VALUE;
  if (begin->done != begin->recorded || end->done != end->recorded)
    return NOT_READY;
  *ms = (float)(end->done_ms - begin->done_ms);
  return CU_DONE;
}

STUB cuModuleLoadData(cu_module *module, const void *image) {
  if (recordings > 0)
    return NOT_WHILE_RECORDING;
  for (int i = 0; i < FUNCTIONS && current >= 0; i++) {
    gpus[current].function[i] = functions[i];
    gpus[current].function[i].gpu = current;
  }
  *module = current < 0 ? NULL : (cu_module)&gpus[current];
  return image && *module ? CU_DONE : INVALID_VALUE;
}

STUB cuModuleUnload(cu_module module) { return CU_DONE; }

STUB cuModuleGetFunction(cu_function *function, cu_module module, const char *name) {
  struct cu_context *gpu = (struct cu_context *)module;
  for (int i = 0; i < FUNCTIONS; i++)
    if (!strcmp(functions[i].name, name)) {
      *function = &gpu->function[i];
      return CU_DONE;
    }
  return NOT_FOUND;
}

STUB cuLaunchKernel(cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                    unsigned block_y, unsigned block_z, unsigned shared_bytes, cu_stream stream, void **arguments,
                    void **extra) {
  queued op = {
      .kind = OP_LAUNCH, .function = function, .grid = {.width = grid_x * block_x, .height = grid_y * block_y}};
  if (function->gpu != stream->gpu)
    return OTHER_CONTEXT;
  if (++launches == number("STUB_CUDA_REFUSE", 0))
    return LAUNCH_REFUSED;
  if (grid_x == 0 || grid_y == 0 || grid_y > 65535 || block_x * block_y > HD_CUDA_BLOCK || grid_z * block_z != 1 ||
      function->bytes > MOST_ARGUMENTS || extra ||
      (function->by_blocks && (block_x != HD_CUDA_BLOCK || grid_y * block_y != 1)))
    return INVALID_VALUE;
  memcpy(op.arguments, arguments[0], function->bytes);
  return add(stream, &op);
}

/* For the stubs of libraries that compute on the GPU: queues a function of the host. */
STUB stub_cuda_call(cu_stream stream, void (*call)(const void *), const void *arguments, size_t bytes) {
  queued op = {.kind = OP_CALL, .call = call};
  if (bytes > MOST_ARGUMENTS)
    return INVALID_VALUE;
  memcpy(op.arguments, arguments, bytes);
  return add(stream, &op);
}

/* The same for one that waits for other processes: work behind it waits until `poll` says that it is done. */
STUB stub_cuda_poll(cu_stream stream, int (*poll)(void *), void *polled) {
  const queued op = {.kind = OP_POLL, .poll = poll, .polled = polled};
  return add(stream, &op);
}

STUB stub_cuda_is_recording(cu_stream stream) { return stream->recording != NULL; }

STUB cuStreamBeginCapture_v2(cu_stream stream, int mode) {
  if (stream->recording || mode != CU_CAPTURE_THREAD)
    return NOT_WHILE_RECORDING;
  stream->recording = calloc(1, sizeof *stream->recording);
  recordings++;
  return state_of(stream->gpu);
}

STUB cuStreamEndCapture(cu_stream stream, cu_graph *graph) {
  const int joined = !stream->recording->branch.first;
  *graph = stream->recording;
  join(*graph);
  stream->recording = NULL;
  recordings--;
  return joined ? state_of(stream->gpu) : UNJOINED;
}

STUB cuGraphInstantiateWithFlags(cu_graph_exec *exec, cu_graph graph, unsigned long long flags) {
  long nodes = 0, beside = 0;
  *exec = calloc(1, sizeof **exec);
  for (const queued *op = graph->work.first; op; op = op->next) {
    put(&(*exec)->work, op);
    nodes++;
    beside += op->beside;
  }
  if (current >= 0 && nodes > gpus[current].nodes) {
    gpus[current].nodes = nodes;
    gpus[current].beside = beside;
  }
  return state_of(current);
}

STUB cuGraphLaunch(cu_graph_exec exec, cu_stream stream) {
  if (state_of(stream->gpu) != CU_DONE)
    return state_of(stream->gpu);
  for (const queued *op = exec->work.first; op; op = op->next)
    put(&stream->work, op);
  gpus[stream->gpu].calls++;
  return CU_DONE;
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
          : error == OTHER_CONTEXT   ? "CUDA_ERROR_INVALID_CONTEXT"
          : error == LAUNCH_REFUSED  ? "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
                                     : NULL;
  return CU_DONE;
}

STUB cuGetErrorString(cu_result error, const char **text) {
  *text = error == ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "set by the stub";
  return CU_DONE;
}
