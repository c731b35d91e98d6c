/* Remote procedure calls: arrays of every type between 1 to 4 ranks, futures, threads; every refusal and its message;
 * functions that fail; timeouts; a rank that leaves; headers that another process has overwritten.
 *
 * Ranks are threads here, see rank_scene.h. */
#include "scratch.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "comm/rank_sums.h"
#include "heddle/experimental.h"
#include "rank_scene.h"
#include "rpc/rpc_state.h"
#include "tap.h"

enum { MOST = 1 << 20 };

/* A status that must be `wanted`, with a message that has `text`, in one line. */
static void expect(member *m, hd_status status, hd_status wanted, const char *text) {
  const char *message = m->ctx.message;
  if (status == wanted && (!text || (strstr(message, text) && !strchr(message, '\n'))))
    return;
  m->wrong++;
  diag("rank %d: expected status %d and '%s', found %d and '%s'", m->rank, wanted, text ? text : "", status, message);
}

static void must(member *m, hd_status status) { expect(m, status, HD_OK, NULL); }

/* ---- functions ---- */

/* The array comes back, with the number of the calling rank added to every byte. */
static hd_status echo(hd_rpc_request *r) {
  const hd_dtype dtype = r->input.dtype;
  int64_t bytes = (int64_t)hd__dtype_size(dtype);
  r->output = r->input;
  for (int i = 0; i < r->input.ndim; i++)
    bytes *= r->input.size[i];
  for (int64_t i = 0; i < bytes; i++)
    ((uint8_t *)r->output.data)[i] = (uint8_t)(((uint8_t *)r->output.data)[i] + r->caller);
  return HD_OK;
}

/* A result in memory of the function's own, of one number. */
static hd_status count(hd_rpc_request *r) {
  static _Thread_local int64_t calls;
  calls++;
  r->output = (hd_rpc_array){.data = &calls, .dtype = HD_I64};
  return HD_OK;
}

static hd_status nothing(hd_rpc_request *r) { return HD_OK; }

static hd_status fails(hd_rpc_request *r) {
  return hd_ctx_fail(r->ctx, HD_E_IO, "expected a disk, found %d", (int)r->caller);
}

static hd_status fails_silently(hd_rpc_request *r) { return HD_E_NOTFINITE; }

static hd_status too_much(hd_rpc_request *r) {
  r->output.size[0] = 2 * MOST;
  return HD_OK;
}

/* Calls from within a call. */
static hd_status nested(hd_rpc_request *r) {
  return hd_rpc_call(NULL, *(hd_rpc **)r->self, r->ctx, r->caller, "nothing", NULL);
}

/* Says that it has begun, and waits until it may end. */
typedef struct gate {
  atomic_int begun, opened, runs, callers;
} gate;

static gate the_gate;

static hd_status waits(hd_rpc_request *r) {
  atomic_fetch_add(&the_gate.runs, 1);
  atomic_store(&the_gate.begun, 1);
  while (!atomic_load(&the_gate.opened))
    sched_yield();
  return HD_OK;
}

#define FUNCTIONS(m)                                                                                                   \
  {                                                                                                                    \
    {"bytes", echo, NULL, HD_U8}, {"floats", echo, NULL, HD_F32}, {"doubles", echo, NULL, HD_F64},                     \
        {"ints", echo, NULL, HD_I32}, {"longs", echo, NULL, HD_I64}, {"count", count, NULL, HD_U8},                    \
        {"nothing", nothing, NULL, HD_U8}, {"fails", fails, NULL, HD_U8},                                              \
        {"fails_silently", fails_silently, NULL, HD_U8}, {"too_much", too_much, NULL, HD_U8},                          \
        {"nested", nested, &(m)->rpc, HD_U8}, {                                                                        \
      "waits", waits, NULL, HD_U8                                                                                      \
    }                                                                                                                  \
  }

static void open_with(member *m, const hd_rpc_settings *settings) {
  const hd_rpc_function functions[] = FUNCTIONS(m);
  must(m, hd_rpc_open(&m->rpc, m->group, &m->ctx, functions, (int)(sizeof functions / sizeof *functions), settings));
}

static void open_calls(member *m) { open_with(m, NULL); }

static void close_calls(member *m) {
  must(m, hd_rpc_close(m->rpc, &m->ctx));
  hd_rpc_destroy(m->rpc);
}

/* ---- what works ---- */

static const char *const names[HD_GROUP_DTYPE_COUNT] = {
    [HD_F32] = "floats", [HD_F64] = "doubles", [HD_I32] = "ints", [HD_I64] = "longs", [HD_U8] = "bytes"};

/* Elements of each type and of several shapes, to each rank, the calling one included. */
static void arrays(member *m) {
  static const int64_t sizes[][3] = {{0, 2, 3}, {1, 1, 1}, {2, 3, 4}, {7, 100, 13}, {MOST / 64, 8, 1}};
  uint8_t *data = malloc(MOST), *result = malloc(MOST);
  open_calls(m);
  for (int to = 0; to < m->ranks; to++)
    for (int dtype = 0; dtype < HD_GROUP_DTYPE_COUNT; dtype++)
      for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        hd_rpc_array in = {.data = data, .dtype = (hd_dtype)dtype, .ndim = 3};
        memcpy(in.size, sizes[s], sizeof sizes[s]);
        const int64_t bytes = (int64_t)hd__dtype_size((hd_dtype)dtype) * sizes[s][0] * sizes[s][1] * sizes[s][2];
        hd_rpc_array out = {
            .data = result, .dtype = (hd_dtype)dtype, .ndim = 1, .size = {sizes[s][0] * sizes[s][1] * sizes[s][2]}};
        for (int64_t i = 0; i < bytes; i++)
          data[i] = (uint8_t)(i * 7 + to + (int64_t)s);
        must(m, hd_rpc_call(&out, m->rpc, &m->ctx, to, names[dtype], &in));
        m->wrong += out.ndim != 3 || memcmp(out.size, sizes[s], sizeof sizes[s]) != 0;
        for (int64_t i = 0; i < bytes; i++)
          m->wrong += result[i] != (uint8_t)(data[i] + m->rank);
      }
  close_calls(m);
  free(data);
  free(result);
}

/* One number, no elements, results that are dropped; the whole limit; the result in the memory of the input. */
static void edges(member *m) {
  int64_t number = -1;
  uint8_t *data = calloc(1, MOST);
  hd_rpc_array one = {.data = &number, .dtype = HD_I64}, none = {.dtype = HD_F32, .ndim = 1};
  hd_rpc_array whole = {.data = data, .dtype = HD_U8, .ndim = 1, .size = {MOST}};
  open_calls(m);
  must(m, hd_rpc_call(&one, m->rpc, &m->ctx, m->rank, "count", NULL));
  m->wrong += number < 1 || one.ndim != 0;
  must(m, hd_rpc_call(NULL, m->rpc, &m->ctx, 0, "count", &none));
  must(m, hd_rpc_call(&none, m->rpc, &m->ctx, 0, "nothing", NULL));
  must(m, hd_rpc_call(&none, m->rpc, &m->ctx, 0, "floats", NULL));
  m->wrong += none.ndim != 1 || none.size[0] != 0;
  must(m, hd_rpc_call(&whole, m->rpc, &m->ctx, m->ranks - 1, "bytes", &whole));
  for (int i = 0; i < MOST; i++)
    m->wrong += data[i] != m->rank;
  close_calls(m);
  free(data);
}

/* All slots at once, waited for in another order, again and again: the memory does not grow. */
static void futures(member *m) {
  enum { ROUNDS = 40 };
  uint8_t data[HD_RPC_CALLS][100];
  hd_rpc_future *future[HD_RPC_CALLS], *more;
  struct stat before = {0}, after = {0};
  open_calls(m);
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < HD_RPC_CALLS; i++) {
      memset(data[i], i + round, sizeof data[i]);
      const hd_rpc_array in = {.data = data[i], .dtype = HD_U8, .ndim = 1, .size = {100}};
      must(m, hd_rpc_start(&future[i], m->rpc, &m->ctx, (m->rank + i) % m->ranks, "bytes", &in));
    }
    expect(m, hd_rpc_start(&more, m->rpc, &m->ctx, 0, "nothing", NULL), HD_E_USAGE,
           "'nothing' of rank 0: 64 calls are already in progress; wait for a future first");
    for (int i = 0; i < HD_RPC_CALLS; i++) {
      const int at = (i * 37 + round) % HD_RPC_CALLS;
      hd_rpc_array out = {.data = data[at], .dtype = HD_U8, .ndim = 1, .size = {100}};
      must(m, hd_rpc_wait(&out, future[at], &m->ctx, -1));
      m->wrong += data[at][99] != (uint8_t)(at + round + m->rank);
    }
    must(m, hd_group_barrier(m->group, &m->ctx));
    if (round == 1 || round == ROUNDS - 1)
      fstat(hd__local_group_fd(m->local), round == 1 ? &before : &after);
    must(m, hd_group_barrier(m->group, &m->ctx));
  }
  m->wrong += after.st_blocks != before.st_blocks || after.st_size != before.st_size;
  close_calls(m);
}

/* More threads than slots, of every rank. */
static void *call_often(void *arg) {
  member *m = arg;
  hd_ctx *ctx;
  int wrong = hd_ctx_create(&ctx) != HD_OK;
  for (int i = 0; i < 30; i++) {
    int32_t x = 1000 * i;
    hd_rpc_array data = {.data = &x, .dtype = HD_I32, .ndim = 1, .size = {1}};
    wrong += hd_rpc_call(&data, m->rpc, ctx, i % m->ranks, "ints", &data) != HD_OK;
    int32_t wanted = 1000 * i;
    for (size_t b = 0; b < sizeof wanted; b++)
      ((uint8_t *)&wanted)[b] = (uint8_t)(((uint8_t *)&wanted)[b] + m->rank);
    wrong += x != wanted;
  }
  hd_ctx_destroy(ctx);
  return wrong ? m : NULL;
}

static void threads(member *m) {
  enum { THREADS = HD_RPC_CALLS + 16 };
  pthread_t thread[THREADS];
  open_calls(m);
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&thread[i], NULL, call_often, m))
      bail_out("no thread");
  for (int i = 0; i < THREADS; i++) {
    void *wrong;
    pthread_join(thread[i], &wrong);
    m->wrong += wrong != NULL;
  }
  close_calls(m);
}

static void tensors(member *m) {
  hd_tensor *x = NULL, *y = NULL, *turned = NULL;
  hd_rpc_array in, out;
  float room[6] = {0};
  open_calls(m);
  must(m, hd_tensor_full(&x, &m->ctx, HD_F32, 1.5, HD_DIMS(2, 3)));
  must(m, hd_rpc_tensor(&in, &m->ctx, x));
  out = (hd_rpc_array){.data = room, .dtype = HD_F32, .ndim = 1, .size = {6}};
  must(m, hd_rpc_call(&out, m->rpc, &m->ctx, 0, "floats", &in));
  must(m, hd_tensor_from(&y, &m->ctx, out.dtype, out.data, out.ndim, out.size));
  m->wrong += hd_tensor_ndim(y) != 2 || hd_tensor_size(y, 1) != 3 || (m->rank == 0 && room[5] != 1.5F);
  must(m, hd_tensor_transpose(&turned, &m->ctx, x, 0, 1));
  expect(m, hd_rpc_tensor(&in, &m->ctx, turned), HD_E_USAGE, "expected a contiguous tensor on the CPU");
  expect(m, hd_rpc_tensor(&in, &m->ctx, NULL), HD_E_USAGE, "expected a contiguous tensor on the CPU");
  hd_tensor_destroy(x);
  hd_tensor_destroy(y);
  hd_tensor_destroy(turned);
  close_calls(m);
}

/* Rank 0 closes at once, and serves the others none the less. */
static void server(member *m) {
  int64_t number = 0;
  hd_rpc_array one = {.data = &number, .dtype = HD_I64};
  open_calls(m);
  for (int i = 0; m->rank > 0 && i < 200; i++)
    must(m, hd_rpc_call(&one, m->rpc, &m->ctx, 0, "count", NULL));
  m->wrong += m->rank > 0 && number < 200;
  must(m, hd_rpc_close(m->rpc, &m->ctx));
  expect(m, hd_rpc_call(NULL, m->rpc, &m->ctx, 0, "nothing", NULL), HD_E_USAGE,
         "a call was made after hd_rpc_close; make it before");
  expect(m, hd_rpc_close(m->rpc, &m->ctx), HD_E_USAGE, "hd_rpc_close was called twice; call it once");
  hd_rpc_destroy(m->rpc);
  hd_rpc_destroy(NULL);
}

/* ---- what is refused ---- */

static void refusals(member *m) {
  uint8_t *data = calloc(3, MOST);
  const int last = m->ranks - 1;
  open_calls(m);
  hd_rpc_array in = {.data = data, .dtype = HD_U8, .ndim = 1, .size = {8}}, small = in, out = in;
#define REFUSES(output, rank, name, input, status, text)                                                               \
  expect(m, hd_rpc_call(output, m->rpc, &m->ctx, rank, name, input), status, text)
  REFUSES(NULL, last, "nobodys", &in, HD_E_USAGE,
          "this rank has no function of that name; it has bytes, floats, doubles");
  REFUSES(NULL, m->ranks, "bytes", &in, HD_E_USAGE, "expected a rank from 0 to");
  REFUSES(NULL, -1, "bytes", &in, HD_E_USAGE, ", found -1");
  REFUSES(NULL, 0, "", &in, HD_E_USAGE, "expected the name of a function, of 1 to 39 bytes, found ''");
  REFUSES(NULL, 0, NULL, &in, HD_E_USAGE, "expected the name of a function");
  REFUSES(NULL, 0, "a name that is longer than names are here", &in, HD_E_USAGE, "found 'a name that is longer");
  in.size[0] = 2 * MOST;
  REFUSES(NULL, last, "bytes", &in, HD_E_SHAPE, "expected at most 1048576 bytes, found 2097152; raise most_bytes");
  in.size[0] = INT64_MAX;
  REFUSES(NULL, last, "bytes", &in, HD_E_SHAPE, "expected at most 1048576 bytes, found 9223372036854775807");
  in.ndim = 2;
  in.size[1] = INT64_MAX;
  REFUSES(NULL, last, "bytes", &in, HD_E_USAGE, "expected an array of a type of groups");
  in.size[0] = -1;
  REFUSES(NULL, last, "bytes", &in, HD_E_USAGE, "expected an array of a type of groups");
  in.size[1] = 0;
  REFUSES(NULL, last, "bytes", &in, HD_E_USAGE, "expected an array of a type of groups");
  in = small;
  in.ndim = HD_RPC_MAX_DIMS + 1;
  REFUSES(NULL, last, "bytes", &in, HD_E_USAGE, "found type 1, 9 sizes and data");
  in = small;
  in.dtype = (hd_dtype)77;
  REFUSES(NULL, last, "bytes", &in, HD_E_USAGE, "found type 77");
  in = small;
  in.data = NULL;
  REFUSES(NULL, last, "bytes", &in, HD_E_USAGE, "and no data");
  in = small;
  REFUSES(NULL, last, "floats", &in, HD_E_USAGE, ": expected float32, found uint8");
  out.dtype = HD_I32;
  REFUSES(&out, last, "bytes", &in, HD_E_USAGE, ": expected int32 from it, found uint8");
  out = small;
  out.data = NULL;
  REFUSES(&out, last, "bytes", &in, HD_E_USAGE, ": expected memory for its result, found NULL");
  out = small;
  out.size[0] = 7;
  REFUSES(&out, last, "bytes", &in, HD_E_SHAPE, ": expected at most 7 bytes from it, found 8; give more room");
  REFUSES(NULL, last, "too_much", &in, HD_E_SHAPE, ": expected a result of at most 1048576 bytes");
  char text[64];
  snprintf(text, sizeof text, "'fails' of rank %d: expected a disk, found %d", last, m->rank);
  REFUSES(NULL, last, "fails", NULL, HD_E_IO, text);
  REFUSES(NULL, last, "fails_silently", NULL, HD_E_NOTFINITE, hd_status_text(HD_E_NOTFINITE));
  REFUSES(NULL, last, "nested", NULL, HD_E_USAGE,
          "calls cannot be made inside a function, found one in 'nested'; return first");
  must(m, hd_rpc_call(NULL, m->rpc, &m->ctx, last, "bytes", &in)); /* and all goes on */
  close_calls(m);
  free(data);
}

/* The rank `wrong` opens with something else: the others fail, too. */
static void open_badly(member *m, int wrong, const hd_rpc_function *functions, int count,
                       const hd_rpc_settings *settings, const char *text, const char *others) {
  const hd_rpc_function fine = {"nothing", nothing, NULL, HD_U8};
  const bool is_wrong = m->rank == wrong;
  expect(m,
         hd_rpc_open(&m->rpc, m->group, &m->ctx, is_wrong ? functions : &fine, is_wrong ? count : 1,
                     is_wrong ? settings : NULL),
         HD_E_USAGE, is_wrong ? text : others);
  m->wrong += m->rpc != NULL;
}

static void refused_openings(member *m) {
  const char *others = "expected all ranks to open their calls, but rank 1 failed";
  const hd_rpc_function twice[] = {
      {"a", nothing, NULL, HD_U8}, {"b", nothing, NULL, HD_U8}, {"a", nothing, NULL, HD_U8}};
  const hd_rpc_function nameless = {"", nothing, NULL, HD_U8}, empty = {"a", NULL, NULL, HD_U8};
  const hd_rpc_function typeless = {"a", nothing, NULL, (hd_dtype)9};
  const hd_rpc_settings other = {.struct_bytes = sizeof other, .most_bytes = 4096};
  const hd_rpc_settings large = {.struct_bytes = sizeof large, .most_bytes = INT64_C(1) << 40};
  const hd_rpc_settings early = {.struct_bytes = sizeof early, .timeout_s = -1}, unsized = {.most_bytes = 1};
  open_badly(m, 1, twice, 3, NULL, "expected each function name once, found 'a' twice; rename one", others);
  open_badly(m, 1, &nameless, 1, NULL, "expected a name of 1 to 39 bytes for function 0, found ''", others);
  open_badly(m, 1, &empty, 1, NULL, "expected code to run for the function 'a', found NULL", others);
  open_badly(m, 1, &typeless, 1, NULL, "for the input of 'a', found type 9", others);
  open_badly(m, 1, &empty, HD_RPC_FUNCTIONS + 1, NULL, "expected at most 64 functions, found 65", others);
  open_badly(m, 1, twice, 2, &large, "expected most_bytes from 1 to 1073741824, 0 for 1048576, found", others);
  open_badly(m, 1, twice, 2, &early, "expected a timeout in seconds", others);
  open_badly(m, 1, twice, 2, &unsized, "hd_rpc_settings", others);
  open_badly(m, 1, twice, 2, &other,
             "expected one most_bytes for all ranks, found 1048576 in rank 0 and 4096 in rank 1",
             "expected one most_bytes for all ranks, found 1048576 in rank 0 and 4096 in rank 1");
  open_calls(m);
  close_calls(m);
}

/* ---- what takes too long ---- */

static void timeouts(member *m) {
  const hd_rpc_settings brief = {.struct_bytes = sizeof brief, .timeout_s = 0.02};
  hd_rpc_future *future[HD_RPC_CALLS], *last;
  if (m->rank == 0)
    the_gate = (gate){0};
  open_with(m, &brief);
  if (m->rank == 0) {
    /* The first call begins, and is given up; the second one never begins, since it is given up in time. */
    must(m, hd_rpc_start(&last, m->rpc, &m->ctx, 1, "waits", NULL));
    while (!atomic_load(&the_gate.begun))
      sched_yield();
    m->wrong += hd_rpc_is_done(last);
    expect(m, hd_rpc_wait(NULL, last, &m->ctx, 0.01), HD_E_TIMEOUT,
           "'waits' of rank 1: expected it to end within 0.01 s, but it has not ended");
    expect(m, hd_rpc_call(NULL, m->rpc, &m->ctx, 1, "waits", NULL), HD_E_TIMEOUT, "expected it to end within 0.02 s");
    /* The others fill the slots: a call waits in vain for one. */
    for (int i = 0; i < HD_RPC_CALLS - 2; i++)
      must(m, hd_rpc_start(&future[i], m->rpc, &m->ctx, 1, "nothing", NULL));
    expect(m, hd_rpc_call(NULL, m->rpc, &m->ctx, 1, "nothing", NULL), HD_E_TIMEOUT,
           "64 calls are already in progress, and none ended within 0.02 s; wait for futures");
    atomic_store(&the_gate.opened, 1);
    for (int i = 0; i < HD_RPC_CALLS - 2; i++)
      must(m, hd_rpc_wait(NULL, future[i], &m->ctx, -1));
    m->wrong += atomic_load(&the_gate.runs) != 1;
    for (int i = 0; i < HD_RPC_CALLS; i++) /* all slots are back */
      must(m, hd_rpc_start(&future[i], m->rpc, &m->ctx, 1, "nothing", NULL));
    for (int i = 0; i < HD_RPC_CALLS; i++)
      must(m, hd_rpc_wait(NULL, future[i], &m->ctx, -1));
  }
  close_calls(m);
}

/* ---- ranks that are lost, memory that is overwritten ---- */

static void leaves(member *m) {
  hd_rpc_future *future;
  if (m->rank == 0)
    the_gate = (gate){0};
  open_calls(m);
  if (m->rank == 1) { /* while the others wait for it */
    while (atomic_load(&the_gate.callers) < 2 || !atomic_load(&the_gate.begun))
      sched_yield();
    atomic_store(&the_gate.opened, 1);
    hd_rpc_destroy(m->rpc);
    return;
  }
  const char *text = "rank 1 (pid ", *why = "gave up: it called hd_rpc_destroy before hd_rpc_close";
  must(m, hd_rpc_start(&future, m->rpc, &m->ctx, 1, "waits", NULL));
  atomic_fetch_add(&the_gate.callers, 1);
  hd_status status = HD_OK;
  while (status == HD_OK) /* calls that are under way, and later ones */
    status = hd_rpc_call(NULL, m->rpc, &m->ctx, 1, "nothing", NULL);
  expect(m, status, HD_E_PEER, text);
  expect(m, hd_rpc_call(NULL, m->rpc, &m->ctx, 0, "nothing", NULL), HD_E_PEER, why);
  expect(m, hd_rpc_close(m->rpc, &m->ctx), HD_E_PEER, why);
  hd_rpc_destroy(m->rpc);
}

/* A slot whose header is not an array, an entry that names no slot, a result that is too long. */
static void overwritten(member *m) {
  open_calls(m);
  if (m->rank == 0) {
    hd_rpc_queue *queue = hd__rpc_queue(m->rpc, 1);
    hd_rpc_future *call = &m->rpc->call[63];
    atomic_store(&queue->entry[atomic_fetch_add(&queue->tail, 1)], 1000000);
    call->slot->header = (hd_rpc_header){.name = "bytes", .dtype = HD_U8, .ndim = 2, .size = {MOST, MOST}};
    atomic_store(&call->slot->state, HD_RPC_PENDING);
    atomic_store(&queue->entry[atomic_fetch_add(&queue->tail, 1)], 1 + 63);
    must(m, hd__rpc_await(call, &m->ctx, -1));
    m->wrong += call->slot->header.status != HD_E_FORMAT;
    must(m, hd_rpc_start(&call, m->rpc, &m->ctx, 1, "nothing", NULL));
    must(m, hd__rpc_await(call, &m->ctx, -1));
    call->slot->header.ndim = HD_RPC_MAX_DIMS + 1;
    expect(m, hd_rpc_wait(NULL, call, &m->ctx, -1), HD_E_FORMAT, "found a header that another process wrote");
  }
  close_calls(m);
}

int main(void) {
  static member all[MOST_RANKS];
  for (int ranks = 1; ranks <= 4; ranks++)
    ok(with_ranks(all, ranks, arrays) == 0, "arrays of every type come back, with %d ranks", ranks);
  ok(with_ranks(all, 3, edges) == 0, "one number, no elements, the whole limit, in place");
  ok(with_ranks(all, 3, futures) == 0,
     "64 calls at a time, in any order; one more is refused; the memory does not grow");
  ok(with_ranks(all, 2, threads) == 0, "80 threads of each rank call at once");
  ok(with_ranks(all, 2, tensors) == 0, "tensors");
  ok(with_ranks(all, 3, server) == 0, "a rank that has closed serves until all have");
  ok(with_ranks(all, 1, refusals) == 0 && with_ranks(all, 3, refusals) == 0,
     "what is refused, and functions that fail");
  ok(with_ranks(all, 3, refused_openings) == 0, "functions and settings that are refused, on all ranks");
  ok(with_ranks(all, 2, timeouts) == 0, "timeouts: a call that was given up does not begin, and its slot comes back");
  ok(with_ranks(all, 3, leaves) == 0, "a rank that leaves: calls fail by its name");
  ok(with_ranks(all, 2, overwritten) == 0, "headers that another process has overwritten");
  return done_testing();
}
