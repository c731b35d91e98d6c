/* A rank of a group that makes all calls on memory of the group: a GPU's with GROUP_BACKEND=nccl. Rank 0 prints "RANKS
 * ranks SUM", a sum over what all ranks got, which is that of every backend. An argument asks for less:
 *
 *   order    prints 1 + 1e8 - 1e8, each term from another rank
 *   differ   rank 1 makes another call        late      it makes none
 *   letters  rank 1 expects another message   free      the group goes with memory in use */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heddle.h"

enum { MOST = 100000, RANKS = 8 };

static hd_ctx *ctx;
static hd_group *group;
static int rank, ranks;
static uint64_t sum = UINT64_C(0xcbf29ce484222325);
static int64_t host[RANKS * MOST];
static char *input, *output; /* of the group */

static void must(hd_status status) {
  if (status == HD_OK)
    return;
  fprintf(stderr, "rank %d: %s\n", rank, hd_ctx_message(ctx));
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

/* From each rank to the next, one after the other; and a call that is done by the group's thread. */
static void messages(int64_t count) {
  fill(HD_F32, count, rank);
  for (int i = 0; i < ranks && ranks > 1; i++)
    if (rank == i)
      must(hd_group_send(group, ctx, input, count, HD_F32, (i + 1) % ranks));
    else if (rank == (i + 1) % ranks)
      must(hd_group_recv(output, group, ctx, count, HD_F32, i));
  add(output, ranks > 1 ? (size_t)count * 4 : 0);
  hd_work *work;
  const hd_group_call call = {
      .kind = HD_GROUP_ALL_REDUCE, .output = output, .input = input, .count = count, .dtype = HD_F32};
  must(hd_group_start(&work, group, ctx, &call));
  must(hd_work_wait(work, ctx));
  add(output, (size_t)count * 4);
}

static void everything(void) {
  static const hd_dtype type[] = {HD_F32, HD_F64, HD_I32, HD_I64, HD_U8};
  static const int64_t count[] = {0, 1, 1000, MOST};
  for (int t = 0; t < 5; t++)
    for (int c = 0; c < 4; c++)
      all_calls(group, type[t], count[c]);
  messages(1);
  messages(MOST);
  const int32_t list[] = {ranks - 1, 0};
  hd_group *some;
  must(hd_group_new(&some, group, ctx, list, ranks > 1 ? 2 : 1));
  if (some)
    all_calls(some, HD_F64, 2000);
  hd_group_destroy(some);
}

static void order(void) {
  const float terms[] = {1, 1e8F, -1e8F};
  float result = -1;
  must(hd_group_upload(input, group, ctx, &terms[rank % 3], sizeof *terms));
  must(hd_group_all_reduce(output, group, ctx, input, 1, HD_F32, HD_REDUCE_SUM));
  must(hd_group_download(&result, group, ctx, output, sizeof result));
  if (rank == 0)
    printf("%g\n", (double)result);
}

static void misbehave(const char *how) {
  if (!strcmp(how, "late") && rank == 1)
    pause();
  if (!strcmp(how, "differ") && rank == 1)
    must(hd_group_barrier(group, ctx));
  if (!strcmp(how, "letters") && rank == 0)
    must(hd_group_send(group, ctx, input, 10, HD_F32, 1));
  if (!strcmp(how, "letters") && rank == 1)
    must(hd_group_recv(output, group, ctx, 20, HD_F32, 0));
  must(hd_group_all_reduce(output, group, ctx, input, 4, HD_F32, HD_REDUCE_SUM));
}

/* What each rank got comes together in one number, in memory of the group, too. */
static void tell(void) {
  uint64_t all = 0;
  must(hd_group_upload(input, group, ctx, &sum, sizeof sum));
  must(hd_group_all_reduce(output, group, ctx, input, 1, HD_I64, HD_REDUCE_SUM));
  must(hd_group_download(&all, group, ctx, output, sizeof all));
  if (rank == 0)
    printf("%d ranks %016llx\n", ranks, (unsigned long long)all);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "", *timeout = getenv("GROUP_TIMEOUT");
  const hd_group_settings settings = {.backend = getenv("GROUP_BACKEND"),
                                      .rank = -1,
                                      .world_size = -1,
                                      .timeout_s = timeout ? atof(timeout) : 60,
                                      .arithmetic = getenv("GROUP_ARITHMETIC")};
  void *memory[2];
  must(hd_ctx_create(&ctx));
  must(hd_group_init(&group, ctx, &settings));
  rank = hd_group_rank(group);
  ranks = hd_group_size(group);
  for (int i = 0; i < 2; i++)
    must(hd_group_alloc(&memory[i], group, ctx, sizeof host));
  input = memory[0];
  output = memory[1];
  if (!strcmp(what, "order"))
    order();
  else if (*what && strcmp(what, "free"))
    misbehave(what);
  else if (!*what)
    everything();
  if (!*what)
    tell();
  for (int i = 0; i < 2 && strcmp(what, "free"); i++)
    hd_group_free(group, memory[i]);
  hd_group_destroy(group);
  hd_ctx_destroy(ctx);
  return 0;
}
