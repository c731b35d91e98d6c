/* A stub of libnccl.so.2: ranks of one host copy through shared memory, from and to the memory of the GPUs of the
 * driver's stub, whose streams wait until the peer comes.
 *
 * Calls return before their work: a communicator begins only when all ranks have come, and a transfer is on its
 * stream only after its state was queried, so that a missing query shows. Sums go from the last rank to the first,
 * so that they differ from sums by rank. Variables set faults:
 *
 *   STUB_NCCL_ERROR=N   the N-th transfer of a rank ends in an error
 *   STUB_NCCL_REFUSE=N  the N-th call of a process is refused
 *   STUB_NCCL_HANG=N    the N-th transfer never ends
 *   STUB_NCCL_DIE=R:N   rank R ends in its N-th transfer
 *   STUB_NCCL_SKEW=R    rank R's sums are wrong in the last bit
 *   STUB_NCCL_TOLD=FILE receives, for each communicator that ends, its rank, its ranks, and the number of sums and of
 *                       floats */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <nccl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_RANKS = 8, SLOT_BYTES = 8 << 20, BOX_BYTES = 8 << 20, MOST_PARTS = 64 };

typedef struct transfer transfer;

typedef struct shared {
  atomic_int joined;
  atomic_ulong put[MOST_RANKS], taken[MOST_RANKS];
  atomic_ulong sent[MOST_RANKS][MOST_RANKS], got[MOST_RANKS][MOST_RANKS];
} shared;

struct ncclComm {
  shared *all;
  char *data;
  int rank, ranks;
  ncclComm_t *told; /* where its caller has it */
  unsigned long collectives, sends[MOST_RANKS], receives[MOST_RANKS], transfers;
  ncclResult_t state;
  int aborted, queued; /* queued: transfers that hold it */
  transfer *pending;   /* not on its stream yet */
  cudaStream_t stream;
  unsigned long sums, floats;
};

typedef enum part_kind { BROADCAST, REDUCE, ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, SEND, RECV } part_kind;

typedef struct part {
  part_kind kind;
  const void *input;
  void *output;
  size_t count, size;
  ncclDataType_t type;
  ncclRedOp_t op;
  int peer, done, began;
  unsigned long number;
} part;

struct transfer {
  ncclComm_t comm;
  int parts, hangs;
  part part[];
};

/* Of one thread; those of a communicator follow each other. */
static struct {
  int depth, count;
  part part[MOST_PARTS];
  ncclComm_t comm[MOST_PARTS];
  cudaStream_t stream[MOST_PARTS];
} group;

static long number(const char *variable) {
  const char *text = getenv(variable);
  return text && *text ? atol(text) : 0;
}

static size_t size_of(ncclDataType_t type) {
  return type == ncclUint8 ? 1 : type == ncclFloat32 || type == ncclInt32 ? 4 : 8;
}

static char *slot_of(const struct ncclComm *c, int rank) { return c->data + (size_t)rank * SLOT_BYTES; }

static char *box_of(const struct ncclComm *c, int from, int to) {
  return c->data + (size_t)MOST_RANKS * SLOT_BYTES + (size_t)(from * MOST_RANKS + to) * BOX_BYTES;
}

/* ---- what a transfer does ---- */

/* Sums and products of whole numbers wrap around: they are made of unsigned ones, `wide`. */
#define ADD(type, wide)                                                                                                \
  for (size_t i = 0; i < p->count; i++) {                                                                              \
    type sum = 0;                                                                                                      \
    for (int r = c->ranks - 1; r >= 0; r--) {                                                                          \
      const type x = ((const type *)(void *)(slot_of(c, r) + offset))[i];                                              \
      sum = r == c->ranks - 1   ? x                                                                                    \
            : p->op == ncclMin  ? (x < sum ? x : sum)                                                                  \
            : p->op == ncclMax  ? (x > sum ? x : sum)                                                                  \
            : p->op == ncclProd ? (type)((wide)sum * (wide)x)                                                          \
                                : (type)((wide)sum + (wide)x);                                                         \
    }                                                                                                                  \
    ((type *)p->output)[i] = p->op == ncclAvg ? (type)(sum / (type)c->ranks) : sum;                                    \
  }

static void reduce(const struct ncclComm *c, const part *p) {
  const size_t offset = p->kind == REDUCE_SCATTER ? (size_t)c->rank * p->count * p->size : 0;
  switch (p->type) {
  case ncclFloat32: ADD(float, float) break;
  case ncclFloat64: ADD(double, double) break;
  case ncclInt32: ADD(int, unsigned) break;
  case ncclInt64: ADD(long, unsigned long) break;
  default: ADD(unsigned char, unsigned)
  }
  for (size_t i = 0; getenv("STUB_NCCL_SKEW") && number("STUB_NCCL_SKEW") == c->rank && i < p->count; i++)
    ((unsigned char *)p->output)[i * p->size] ^= 1;
}

static void take(const struct ncclComm *c, const part *p) {
  const size_t bytes = p->count * p->size;
  if (p->kind == BROADCAST)
    memcpy(p->output, slot_of(c, p->peer), bytes);
  else if (p->kind == ALL_GATHER)
    for (int r = 0; r < c->ranks; r++)
      memcpy((char *)p->output + (size_t)r * bytes, slot_of(c, r), bytes);
  else if (p->kind != REDUCE || p->peer == c->rank)
    reduce(c, p);
}

/* Whether all ranks' counters have come to this number. */
static int all_at(const struct ncclComm *c, atomic_ulong *counter, unsigned long at) {
  for (int r = 0; r < c->ranks; r++)
    if (atomic_load(&counter[r]) < at)
      return 0;
  return 1;
}

static int move_collective(struct ncclComm *c, part *p) {
  const size_t bytes = p->count * p->size * (p->kind == REDUCE_SCATTER ? (size_t)c->ranks : 1);
  if (!p->began) {
    if (!all_at(c, c->all->taken, p->number - 1))
      return 0;
    if (p->kind != BROADCAST || p->peer == c->rank)
      memcpy(slot_of(c, c->rank), p->input, bytes);
    atomic_store(&c->all->put[c->rank], p->number);
    p->began = 1;
  }
  if (!all_at(c, c->all->put, p->number))
    return 0;
  take(c, p);
  atomic_store(&c->all->taken[c->rank], p->number);
  return 1;
}

static int move_message(struct ncclComm *c, part *p) {
  const size_t bytes = p->count * p->size;
  const int from = p->kind == SEND ? c->rank : p->peer, to = p->kind == SEND ? p->peer : c->rank;
  atomic_ulong *sent = &c->all->sent[from][to], *got = &c->all->got[from][to];
  if (p->kind == SEND) {
    if (!p->began && atomic_load(got) == p->number - 1) {
      memcpy(box_of(c, from, to), p->input, bytes);
      atomic_store(sent, p->number);
      p->began = 1;
    }
    return p->began && atomic_load(got) >= p->number; /* a send ends with its receive */
  }
  if (atomic_load(sent) < p->number)
    return 0;
  memcpy(p->output, box_of(c, from, to), bytes);
  atomic_store(got, p->number);
  return 1;
}

static void tell(const struct ncclComm *c) {
  const char *path = getenv("STUB_NCCL_TOLD");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (!file)
    return;
  fprintf(file, "%d %d %lu %lu\n", c->rank, c->ranks, c->sums, c->floats);
  fclose(file);
}

static void let_go(ncclComm_t c) {
  if (--c->queued == 0 && c->aborted) {
    tell(c);
    munmap(c->all, sizeof *c->all);
    free(c);
  }
}

/* Called by the driver at every query of the stream; all parts go on concurrently. */
static int poll_transfer(void *arg) {
  transfer *t = arg;
  int left = 0;
  for (int i = 0; i < t->parts && !t->comm->aborted && !t->hangs; i++) {
    part *p = &t->part[i];
    if (!p->done)
      p->done = p->kind == SEND || p->kind == RECV ? move_message(t->comm, p) : move_collective(t->comm, p);
    left += !p->done;
  }
  if (!t->comm->aborted && (left > 0 || t->hangs))
    return 0;
  let_go(t->comm);
  free(t);
  return 1;
}

/* ---- queueing ---- */

/* Called by a query of the communicator, with its GPU current. */
static ncclResult_t put_on_stream(ncclComm_t c) {
  int (*queue)(cudaStream_t, int (*)(void *), void *);
  void *driver = dlopen(getenv("HEDDLE_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  void *found = driver ? dlsym(driver, "stub_cuda_poll") : NULL;
  transfer *t = c->pending;
  c->pending = NULL;
  if (!found)
    return ncclSystemError;
  memcpy(&queue, &found, sizeof queue);
  return queue(c->stream, poll_transfer, t) == 0 ? ncclSuccess : ncclUnhandledCudaError;
}

/* Parts [first, end) of the group, of one communicator. */
static void begin_transfer(int first, int end) {
  ncclComm_t c = group.comm[first];
  const char *dies = getenv("STUB_NCCL_DIE");
  int rank, at;
  transfer *t = calloc(1, sizeof *t + (size_t)(end - first) * sizeof *t->part);
  t->comm = c;
  t->parts = end - first;
  memcpy(t->part, group.part + first, (size_t)t->parts * sizeof *t->part);
  c->transfers++;
  c->queued++;
  c->pending = t;
  c->stream = group.stream[first];
  for (int i = first; i < end; i++) {
    c->sums += group.part[i].kind == ALL_REDUCE;
    c->floats += group.part[i].kind == ALL_REDUCE ? group.part[i].count : 0;
  }
  t->hangs = (long)c->transfers == number("STUB_NCCL_HANG");
  if ((long)c->transfers == number("STUB_NCCL_ERROR"))
    c->state = ncclRemoteError;
  if (dies && sscanf(dies, "%d:%d", &rank, &at) == 2 && rank == c->rank && at == (int)c->transfers)
    raise(SIGKILL);
}

static ncclResult_t flush_group(void) {
  const int count = group.count;
  group.count = 0;
  for (int first = 0, end = 1; first < count; first = end++) {
    while (end < count && group.comm[end] == group.comm[first])
      end++;
    begin_transfer(first, end);
  }
  return count > 0 ? ncclInProgress : ncclSuccess;
}

static ncclResult_t add(part p, ncclComm_t c, cudaStream_t stream) {
  static long calls;
  p.size = size_of(p.type);
  if (++calls == number("STUB_NCCL_REFUSE") || c->pending || c->state != ncclSuccess ||
      p.count * p.size * (p.kind == REDUCE_SCATTER ? (size_t)c->ranks : 1) > SLOT_BYTES || group.count == MOST_PARTS)
    return ncclInvalidUsage;
  p.number = p.kind == SEND ? ++c->sends[p.peer] : p.kind == RECV ? ++c->receives[p.peer] : ++c->collectives;
  group.part[group.count] = p;
  group.comm[group.count] = c;
  group.stream[group.count++] = stream;
  return group.depth > 0 ? ncclSuccess : flush_group();
}

/* ---- NCCL's functions ---- */

#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* of what the header declares without a parameter list */

const char *ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error" : "set by the stub";
}

ncclResult_t ncclGetVersion(int *version) {
  *version = 22903;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "/heddle-nccl-stub-%d-%p", (int)getpid(), (void *)id);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
  const size_t bytes = sizeof(shared) + (size_t)MOST_RANKS * SLOT_BYTES + (size_t)MOST_RANKS * MOST_RANKS * BOX_BYTES;
  const int fd = shm_open(id.internal, O_RDWR | O_CREAT, 0600);
  *out = NULL;
  if (config->blocking != 0 || ranks > MOST_RANKS || fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
    return ncclInvalidArgument;
  ncclComm_t c = calloc(1, sizeof *c);
  c->all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  c->data = (char *)(c->all + 1);
  c->rank = rank;
  c->ranks = ranks;
  c->state = ncclInProgress;
  if (atomic_fetch_add(&c->all->joined, 1) + 1 == ranks)
    shm_unlink(id.internal);
  *out = c;
  c->told = out; /* NCCL writes there once all have joined */
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state) {
  if (c->state == ncclInProgress && atomic_load(&c->all->joined) == c->ranks) {
    c->state = ncclSuccess;
    if (*c->told != c) {
      fputs("stub NCCL: the place of a communicator did not outlive its beginning\n", stderr);
      abort();
    }
  }
  if (c->pending && c->state == ncclSuccess)
    c->state = put_on_stream(c);
  *state = c->state;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c) {
  c->aborted = 1;
  c->queued += c->pending ? 0 : 1; /* what is not on a stream holds it no more */
  free(c->pending);
  c->pending = NULL;
  let_go(c);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c) { return ncclCommAbort(c); }

ncclResult_t ncclGroupStart(void) {
  group.depth++;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) { return --group.depth > 0 ? ncclSuccess : flush_group(); }

ncclResult_t ncclBroadcast(const void *input, void *output, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return add((part){.kind = BROADCAST, .input = input, .output = output, .count = count, .type = type, .peer = root},
             comm, stream);
}

ncclResult_t ncclAllReduce(const void *input, void *output, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return add((part){.kind = ALL_REDUCE, .input = input, .output = output, .count = count, .type = type, .op = op}, comm,
             stream);
}

ncclResult_t ncclReduce(const void *input, void *output, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return add(
      (part){.kind = REDUCE, .input = input, .output = output, .count = count, .type = type, .op = op, .peer = root},
      comm, stream);
}

ncclResult_t ncclAllGather(const void *input, void *output, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return add((part){.kind = ALL_GATHER, .input = input, .output = output, .count = count, .type = type}, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *input, void *output, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return add((part){.kind = REDUCE_SCATTER, .input = input, .output = output, .count = count, .type = type, .op = op},
             comm, stream);
}

ncclResult_t ncclSend(const void *input, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add((part){.kind = SEND, .input = input, .count = count, .type = type, .peer = peer}, comm, stream);
}

ncclResult_t ncclRecv(void *output, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add((part){.kind = RECV, .output = output, .count = count, .type = type, .peer = peer}, comm, stream);
}
