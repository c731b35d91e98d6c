/* A rank of a group that makes every call, over types and sizes: inline, in one round, in many. Rank 0 prints "RANKS
 * ranks SUM", a sum over the results of all ranks: the same on any hosts and with every backend. Buffers are the
 * program's; with GROUP_MEMORY, which backend nccl needs, the group's. An argument asks for something else:
 *
 *   order    prints 1 + 1e8 - 1e8, each term from another rank
 *   differ   rank 1 makes another call        late      it makes none, and rank 0 destroys the group
 *   silent   it sends no message, for which rank 0 waits a moment
 *   short    it sends fewer bytes than rank 0 expects, on another host
 *   letters  rank 1 expects another message   free      the group goes with memory in use
 *   tags     ranks 0 and 1, on two hosts, make groups and destroy them
 *   unreceived  they do so while a message is on its way
 *   room     they ask for more memory than rank 1's host has, again and again
 *   starve   rank 0 has no memory for a call
 *   left R   rank R destroys the group and lives on; left R recv: rank 0 waits for a message from it */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "comm/group_state.h"
#include "exec/exchange/cluster.h"
#include "heddle.h"
#include "heddle/experimental.h"

enum { MOST = 300000, RANKS = 8 };

static hd_ctx *ctx;
static hd_group *group;
static int rank, ranks;
static uint64_t sum = UINT64_C(0xcbf29ce484222325);
static int64_t host[RANKS * MOST], own[2][RANKS * MOST];
static void *input = own[0], *output = own[1];

static void must(hd_status status) {
  if (status == HD_OK)
    return;
  fprintf(stderr, "rank %d: %s\n", rank, hd_ctx_message(ctx));
  exit(1);
}

static void expect(int is_so, const char *what) {
  if (is_so)
    return;
  fprintf(stderr, "rank %d: expected %s\n", rank, what);
  exit(1);
}

static void add(const void *data, size_t bytes) {
  must(hd_group_download(host, group, ctx, data, bytes));
  for (size_t i = 0; i < bytes; i++)
    sum = (sum ^ ((const unsigned char *)host)[i]) * UINT64_C(0x100000001b3);
}

static size_t size_of(hd_dtype dtype) { return dtype == HD_U8 ? 1 : dtype == HD_F32 || dtype == HD_I32 ? 4 : 8; }

static void fill(hd_dtype dtype, int64_t count, int seed) {
  for (int64_t i = 0; i < count; i++) {
    const double x = (double)((i * 7919 + 31 * rank + seed) % 1009) / 997 + 1e-3 * rank;
    if (dtype == HD_F32)
      ((float *)(void *)host)[i] = (float)x * (i % 7 ? 1.0F : 1e-38F);
    else if (dtype == HD_F64)
      ((double *)(void *)host)[i] = x * (i % 7 ? 1.0 : 1e-308);
    else if (dtype == HD_I32)
      ((int32_t *)(void *)host)[i] = (int32_t)(1e9 * (x - 0.5));
    else if (dtype == HD_I64)
      host[i] = (int64_t)(1e18 * (x - 0.5));
    else
      ((uint8_t *)(void *)host)[i] = (uint8_t)(100 * x);
  }
  must(hd_group_upload(input, group, ctx, host, (size_t)count * size_of(dtype)));
}

/* ---- Every call ---- */

static void all_calls(hd_group *g, hd_dtype dtype, int64_t count) {
  const int n = hd_group_size(g);
  const size_t bytes = (size_t)count * size_of(dtype);
  fill(dtype, count * n, (int)count);
  for (int op = 0; op < HD_REDUCE_OP_COUNT; op++) {
    must(hd_group_all_reduce(output, g, ctx, input, count, dtype, (hd_reduce_op)op));
    add(output, bytes);
  }
  must(hd_group_reduce(output, g, ctx, input, count, dtype, HD_REDUCE_SUM, n - 1));
  if (hd_group_rank(g) == n - 1)
    add(output, bytes);
  must(hd_group_gather(output, g, ctx, input, count, dtype, 0));
  if (hd_group_rank(g) == 0)
    add(output, bytes * (size_t)n);
  must(hd_group_all_gather(output, g, ctx, input, count, dtype));
  add(output, bytes * (size_t)n);
  must(hd_group_scatter(output, g, ctx, input, count, dtype, n - 1));
  add(output, bytes);
  must(hd_group_reduce_scatter(output, g, ctx, input, count, dtype, HD_REDUCE_SUM));
  add(output, bytes);
  must(hd_group_all_to_all(output, g, ctx, input, count, dtype));
  add(output, bytes * (size_t)n);
  must(hd_group_broadcast(input, g, ctx, count, dtype, n / 2));
  add(input, bytes);
  must(hd_group_all_reduce(input, g, ctx, input, count, dtype, HD_REDUCE_MAX)); /* in place */
  add(input, bytes);
  must(hd_group_barrier(g, ctx));
}

/* All at once to the next rank, from the one before; by NCCL a message waits for its receiver, which would deadlock. */
static void ring(int64_t count, int next, int before) {
  const hd_group_call send = {.struct_bytes = sizeof send,
                              .kind = HD_GROUP_SEND,
                              .input = input,
                              .count = count,
                              .dtype = HD_F32,
                              .peer = next};
  const hd_group_call recv = {.struct_bytes = sizeof recv,
                              .kind = HD_GROUP_RECV,
                              .output = output,
                              .count = count,
                              .dtype = HD_F32,
                              .peer = before};
  hd_work *sent, *received;
  must(hd_group_start(&sent, group, ctx, &send));
  must(hd_group_start(&received, group, ctx, &recv));
  must(hd_work_wait(received, ctx));
  must(hd_work_wait(sent, ctx));
}

/* The same, one after the other. */
static void turns(int64_t count, int next, int before) {
  for (int i = 0; i < ranks; i++)
    if (rank == i)
      must(hd_group_send(group, ctx, input, count, HD_F32, next));
    else if (rank == (i + 1) % ranks)
      must(hd_group_recv(output, group, ctx, count, HD_F32, before));
}

/* From each rank to the next, three times; and a call that is done by the group's thread. */
static void messages(int64_t count, int at_once) {
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (int i = 0; i < 3 && ranks > 1; i++) {
    fill(HD_F32, count, rank + i);
    (at_once && i < 2 ? ring : turns)(count, next, before);
    add(output, (size_t)count * 4);
  }
  fill(HD_F32, count, rank);
  hd_work *work;
  const hd_group_call call = {.struct_bytes = sizeof call,
                              .kind = HD_GROUP_ALL_REDUCE,
                              .output = output,
                              .input = input,
                              .count = count,
                              .dtype = HD_F32};
  must(hd_group_start(&work, group, ctx, &call));
  must(hd_work_wait(work, ctx));
  add(output, (size_t)count * 4);
}

/* Every second rank, the last first; then the last two. */
static void sub_groups(void) {
  int32_t list[64], count = 0;
  hd_group *some, *others;
  for (int r = ranks - 1; r >= 0; r -= 2)
    list[count++] = r;
  must(hd_group_new(&some, group, ctx, list, count));
  if (some)
    all_calls(some, HD_F32, 1000);
  list[0] = ranks - 1;
  list[1] = ranks - 2;
  must(hd_group_new(&others, group, ctx, list, ranks > 1 ? 2 : 1));
  if (others)
    all_calls(others, HD_F64, 20000);
  hd_group_destroy(others);
  hd_group_destroy(some);
}

/* Reduces the results of all ranks to one number, in memory of the group. */
static void tell(void) {
  uint64_t all = 0;
  void *shared;
  must(hd_group_alloc(&shared, group, ctx, sizeof all));
  must(hd_group_upload(shared, group, ctx, &sum, sizeof sum));
  must(hd_group_all_reduce(shared, group, ctx, shared, 1, HD_I64, HD_REDUCE_SUM));
  must(hd_group_download(&all, group, ctx, shared, sizeof all));
  hd_group_free(group, shared);
  if (rank == 0)
    printf("%d ranks %016llx\n", ranks, (unsigned long long)all);
}

static void everything(int at_once) {
  static const hd_dtype type[] = {HD_F32, HD_F64, HD_I32, HD_I64, HD_U8};
  static const int64_t count[] = {0, 1, 3, 1000, MOST / 4};
  for (int t = 0; t < 5; t++)
    for (int c = 0; c < 5; c++)
      all_calls(group, type[t], count[c]);
  messages(1, at_once);
  messages(1000, at_once);
  messages(MOST, at_once);
  sub_groups();
  tell();
}

/* ---- Something else ---- */

static void order(void) {
  const float terms[] = {1, 1e8F, -1e8F};
  float result = -1;
  must(hd_group_upload(input, group, ctx, &terms[rank % 3], sizeof *terms));
  must(hd_group_all_reduce(output, group, ctx, input, 1, HD_F32, HD_REDUCE_SUM));
  must(hd_group_download(&result, group, ctx, output, sizeof result));
  if (rank == 0)
    printf("%g\n", (double)result);
}

/* Rank 0 makes a call, or waits for a message, for a moment that is its own; rank 1 does nothing more. */
static void wait_alone(hd_group_kind kind) {
  const hd_group_call call = {.struct_bytes = sizeof call,
                              .kind = kind,
                              .output = output,
                              .input = input,
                              .count = 4,
                              .dtype = HD_F32,
                              .peer = 1,
                              .timeout_s = 0.5};
  if (rank == 1)
    pause();
  const hd_status status = hd_group_run(group, ctx, &call);
  fprintf(stderr, "rank %d: %s\n", rank, hd_ctx_message(ctx));
  hd_group_destroy(group);
  fprintf(stderr, "rank %d has destroyed its group\n", rank);
  exit(status != HD_OK);
}

static void send_short(void) {
  const hd_transfer_part part = {own, rank == 0 ? 16 : 8, 1 - rank, group->tag, rank == 0};
  hd_transfer *transfer;
  must(hd__cluster_start(&transfer, group->local, ctx, &part, 1));
  while (hd__cluster_test(group->local, transfer, 1 - rank) == 0) {
  }
  must(hd__local_group_check(group->local, ctx));
}

static void misbehave(const char *how) {
  if (!strcmp(how, "short"))
    send_short();
  if (!strcmp(how, "late"))
    wait_alone(HD_GROUP_ALL_REDUCE);
  if (!strcmp(how, "silent"))
    wait_alone(HD_GROUP_RECV);
  if (!strcmp(how, "differ") && rank == 1)
    must(hd_group_barrier(group, ctx));
  if (!strcmp(how, "letters") && rank == 0)
    must(hd_group_send(group, ctx, input, 10, HD_F32, 1));
  if (!strcmp(how, "letters") && rank == 1)
    must(hd_group_recv(output, group, ctx, 20, HD_F32, 0));
  must(hd_group_all_reduce(output, group, ctx, input, 4, HD_F32, HD_REDUCE_SUM));
}

static hd_group *make_pair(void) {
  static const int32_t both[] = {0, 1};
  hd_group *made;
  must(hd_group_new(&made, group, ctx, both, 2));
  return made;
}

/* Tags are reused when both have destroyed a group, and not before. */
static void tags_come_again(void) {
  static const int32_t both[] = {0, 1};
  hd_group *first = make_pair(), *second = make_pair(), *third;
  const int32_t tag = first->tag;
  expect(tag > group->tag && second->tag > tag, "three groups to have three tags");
  if (rank == 0)
    hd_group_destroy(first);
  third = make_pair();
  expect(third->tag > second->tag, "the tag of a group that rank 1 still has to be in use");
  if (rank == 1)
    hd_group_destroy(first);
  hd_group_destroy(third);
  for (int i = 0; i < 100; i++) {
    hd_group *again = make_pair();
    const int32_t found = again->tag;
    all_calls(again, HD_F32, 10);
    hd_group_destroy(again);
    expect(found == tag, "the tag that both had given back");
  }
  int32_t last = 0;
  for (int32_t next; rank == 0 && (next = hd__cluster_take_tags(group->local, 0)) < HD_TRANSPORT_TAGS;)
    last = next;
  expect(hd_group_new(&third, group, ctx, both, 2) == HD_E_USAGE && strstr(hd_ctx_message(ctx), "at most 16120 groups"),
         "no tag to be left");
  hd__cluster_free_tags(group->local, last);
  hd_group_destroy(make_pair());
  hd_group_destroy(second);
}

/* An unreceived message is not taken for one of the next group. */
static void unreceived(void) {
  const int32_t tag = group->tag + HD_TAGS_OF_GROUP;
  for (int i = 0; i < 2; i++) {
    hd_group *pair = make_pair();
    expect(pair->tag == tag, "the lowest tag");
    if (rank == 0)
      must(hd_group_send(pair, ctx, input, 1, HD_I64, 1));
    if (rank == 1 && i == 1)
      must(hd_group_recv(output, pair, ctx, 1, HD_I64, 0));
    hd_group_destroy(pair);
  }
  hd_group_barrier(group, ctx);
}

/* What the host of rank 1 has no room for, that of rank 0 does not keep. */
static void no_room(void) {
  enum { TIMES = HD_LOCAL_GROUP_BLOCKS + 10 };
  struct rlimit most;
  void *memory;
  hd_group *pair = make_pair();
  signal(SIGXFSZ, SIG_IGN);
  getrlimit(RLIMIT_FSIZE, &most);
  most.rlim_cur = rank == 1 ? 64 << 20 : most.rlim_cur;
  setrlimit(RLIMIT_FSIZE, &most);
  for (int i = 0; i < TIMES; i++)
    expect(hd_group_alloc(&memory, pair, ctx, 100 << 20) == HD_E_NOMEM, "no room for 100 MiB");
  must(hd_group_alloc(&memory, pair, ctx, 1000));
  hd_group_destroy(pair);
}

/* The name of a file of a rank. */
static const char *file_of(char name[32], const char *what, int which) {
  snprintf(name, 32, "%s.%d", what, which);
  return name;
}

/* Waits until every rank has renamed a file of its own to WHAT.rank. */
static void meet_by_files(const char *own_file, const char *what) {
  char whole[32];
  expect(rename(own_file, file_of(whole, what, rank)) == 0, "a file of its own");
  for (int r = 0; r < ranks; r++)
    while (access(file_of(whole, what, r), F_OK))
      usleep(1000); /* it looks again; the event is the file */
}

static void write_line(const char *path, int number, const char *text) {
  FILE *file = fopen(path, "w");
  expect(file != NULL, "a file to write to");
  fprintf(file, "%d %s\n", number, text);
  fclose(file);
}

/* Each rank writes its message to a file. No rank has memory withheld before all have a group, and none ends before
 * all have written: mpirun kills the rest when one has ended. */
static void starve(void) {
  char begun[32];
  write_line(file_of(begun, "begun", rank), rank, "has a group");
  meet_by_files(begun, "ready");
  hd__alloc_fail_after(rank == 0 ? 0 : -1);
  const hd_status status = hd_group_all_reduce(output, group, ctx, input, 4, HD_F32, HD_REDUCE_SUM);
  hd__alloc_fail_after(-1);
  write_line(begun, (int)status, hd_ctx_message(ctx));
  meet_by_files(begun, "rank");
}

/* Each rank but the one that leaves writes its message to a file. None of them ends before all have. */
static void left(int which, int receives) {
  char begun[32], whole[32];
  must(hd_group_all_reduce(output, group, ctx, input, 4, HD_F32, HD_REDUCE_SUM));
  write_line(file_of(begun, "begun", rank), 0, "");
  if (rank == which) {
    expect(rename(begun, file_of(whole, "rank", rank)) == 0, "a file of its own");
    hd_group_destroy(group);
    group = NULL;
    return;
  }
  const hd_status status = receives && rank == 0
                               ? hd_group_recv(output, group, ctx, 1, HD_I64, which)
                               : hd_group_all_reduce(output, group, ctx, input, 4, HD_F32, HD_REDUCE_SUM);
  write_line(begun, (int)status, hd_ctx_message(ctx));
  meet_by_files(begun, "rank");
}

/* The index of the variable's value in a list that ends with NULL; 0 if it is not set. */
static int index_of(const char *variable, const char *const *list) {
  const char *value = getenv(variable);
  for (int i = 0; value && list[i]; i++)
    if (!strcmp(list[i], value))
      return i;
  return 0;
}

static void start(hd_group_backend backend) {
  const char *timeout = getenv("GROUP_TIMEOUT");
  const hd_group_settings settings = {
      .struct_bytes = sizeof settings,
      .backend = backend,
      .rank = -1,
      .world_size = -1,
      .timeout_s = timeout ? atof(timeout) : 60,
      .arithmetic = (hd_arithmetic_choice)index_of("GROUP_ARITHMETIC", hd_option_at(HD_OPT_ARITHMETIC)->choices)};
  must(hd_ctx_create(&ctx));
  must(hd_group_init(&group, ctx, &settings));
  rank = hd_group_rank(group);
  ranks = hd_group_size(group);
  if (!getenv("GROUP_MEMORY"))
    return;
  must(hd_group_alloc(&input, group, ctx, sizeof *own));
  must(hd_group_alloc(&output, group, ctx, sizeof *own));
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  static const char *const backends[] = {"", "shm", "mpi", "nccl", NULL};
  const hd_group_backend backend = (hd_group_backend)index_of("GROUP_BACKEND", backends);
  start(backend);
  if (!*what)
    everything(backend != HD_GROUP_NCCL);
  else if (!strcmp(what, "order"))
    order();
  else if (!strcmp(what, "tags"))
    tags_come_again();
  else if (!strcmp(what, "unreceived"))
    unreceived();
  else if (!strcmp(what, "room"))
    no_room();
  else if (!strcmp(what, "starve"))
    starve();
  else if (!strcmp(what, "left"))
    left(atoi(argv[2]), argc > 3);
  else if (strcmp(what, "free"))
    misbehave(what);
  if (getenv("GROUP_MEMORY") && strcmp(what, "free")) {
    hd_group_free(group, input);
    hd_group_free(group, output);
  }
  hd_group_destroy(group);
  hd_ctx_destroy(ctx);
  return 0;
}
