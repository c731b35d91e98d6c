/* A rank that calls the others, and serves them, over `heddle launch` or mpirun, on one host or several. Rank 0 prints
 * "RANKS ranks SUM", a sum over what all ranks got: the same on any hosts. An argument asks for something else:
 *
 *   large     all ranks call all others at once with 1 MiB, there and back
 *   killed    rank 1 is killed in a call, while the others wait for it and have futures under way
 *   gives_up  rank 1 ends without closing its calls
 *   late      rank 1 does not come back from a call in time: its caller gives it up, and goes on */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "heddle.h"
#include "heddle/experimental.h"

enum { MOST = 1 << 20, RANKS = 16 };

static hd_ctx *ctx;
static hd_group *group;
static hd_rpc *rpc;
static int rank, ranks;
static uint64_t sums[RANKS];
static volatile sig_atomic_t begun, opened;

static void must(hd_status status) {
  if (status == HD_OK)
    return;
  fprintf(stderr, "rank %d: %s\n", rank, hd_ctx_message(ctx));
  exit(1);
}

/* ---- functions ---- */

static hd_status twice(hd_rpc_request *r) {
  r->output = r->input;
  int64_t count = 1;
  for (int i = 0; i < r->input.ndim; i++)
    count *= r->input.size[i];
  for (int64_t i = 0; i < count; i++)
    ((float *)r->output.data)[i] *= 2;
  return HD_OK;
}

static hd_status report(hd_rpc_request *r) {
  memcpy(&sums[r->caller], r->input.data, sizeof sums[r->caller]);
  return HD_OK;
}

static hd_status refuse(hd_rpc_request *r) {
  return hd_ctx_fail(r->ctx, HD_E_IO, "expected a disk on rank %d, found none", rank);
}

static void wait_a_moment(void) {
  const struct timespec moment = {.tv_nsec = 1000000};
  nanosleep(&moment, NULL);
}

static hd_status sleep_long(hd_rpc_request *r) {
  begun = 1;
  while (!opened)
    wait_a_moment();
  return HD_OK;
}

static const hd_rpc_function functions[] = {{"twice", twice, NULL, HD_F32},
                                            {"report", report, NULL, HD_I64},
                                            {"refuse", refuse, NULL, HD_U8},
                                            {"sleep", sleep_long, NULL, HD_U8}};

/* ---- calls ---- */

static void fill(float *x, int count) {
  for (int i = 0; i < count; i++)
    x[i] = (float)((i * 7919 + 31 * rank) % 1009);
}

static void call_all(uint64_t *sum, int count) {
  float *x = malloc(sizeof *x * (size_t)count + 1);
  for (int to = 0; to < ranks; to++) {
    hd_rpc_array data = {.data = x, .dtype = HD_F32, .ndim = 1, .size = {count}};
    fill(x, count);
    must(hd_rpc_call(&data, rpc, ctx, to, "twice", &data));
    for (int i = 0; i < count; i++)
      *sum = (*sum ^ (uint64_t)(int64_t)x[i]) * UINT64_C(0x100000001b3);
  }
  free(x);
}

/* Calls of all ranks at once, with some elements each. */
static void call_at_once(int calls, int count) {
  static float out[HD_RPC_CALLS][MOST / sizeof(float)];
  static float in[MOST / sizeof(float)];
  hd_rpc_future *future[HD_RPC_CALLS];
  fill(in, count);
  for (int i = 0; i < calls; i++) {
    const hd_rpc_array data = {.data = in, .dtype = HD_F32, .ndim = 1, .size = {count}};
    must(hd_rpc_start(&future[i], rpc, ctx, (rank + i) % ranks, "twice", &data));
  }
  for (int i = calls - 1; i >= 0; i--) {
    hd_rpc_array data = {.data = out[i], .dtype = HD_F32, .ndim = 1, .size = {count}};
    must(hd_rpc_wait(&data, future[i], ctx, -1));
    for (int j = 0; j < count; j++)
      if (out[i][j] != 2 * in[j]) {
        fprintf(stderr, "rank %d: expected %g, found %g\n", rank, (double)(2 * in[j]), (double)out[i][j]);
        exit(1);
      }
  }
}

static void usual(void) {
  uint64_t sum = UINT64_C(0xcbf29ce484222325);
  for (int count = 0; count <= MOST / 4; count = count ? 64 * count : 1)
    call_all(&sum, count);
  for (int count = 0; count <= 1000; count += 500)
    call_at_once(HD_RPC_CALLS, count);
  if (hd_rpc_call(NULL, rpc, ctx, (rank + 1) % ranks, "refuse", NULL) != HD_E_IO)
    exit(1);
  char wanted[96];
  snprintf(wanted, sizeof wanted, "'refuse' of rank %d: expected a disk on rank %d, found none", (rank + 1) % ranks,
           (rank + 1) % ranks);
  if (strcmp(hd_ctx_message(ctx), wanted) != 0)
    must(HD_E_IO);
  const hd_rpc_array data = {.data = &sum, .dtype = HD_I64};
  must(hd_rpc_call(NULL, rpc, ctx, 0, "report", &data));
  must(hd_rpc_close(rpc, ctx));
  sum = 0;
  for (int r = 0; r < ranks; r++)
    sum = sum * 31 + sums[r];
  if (rank == 0)
    printf("%d ranks %016llx\n", ranks, (unsigned long long)sum);
}

/* Rank 1 ends while it runs a call of another rank, by a signal or because it has failed: what is under way fails, and
 * what comes later. */
static void lose(bool killed) {
  hd_rpc_future *other;
  hd_status status = HD_OK;
  char text[4096] = "";
  signal(SIGTERM, SIG_IGN); /* of an mpirun that ends the job */
  if (rank == 1) {
    while (!begun)
      wait_a_moment();
    if (killed)
      raise(SIGKILL);
    opened = 1;
    hd_rpc_destroy(rpc);
    exit(1);
  }
  must(hd_rpc_start(&other, rpc, ctx, 1, "sleep", NULL));
  while (status == HD_OK)
    status = hd_rpc_call(NULL, rpc, ctx, 1, "twice", NULL);
  for (int i = 0; i < 3; i++) {
    const size_t at = strlen(text);
    if (status != HD_E_PEER)
      exit(1);
    snprintf(text + at, sizeof text - at, "rank %d: %s\n", rank, hd_ctx_message(ctx));
    status = i == 0 && killed ? hd_rpc_wait(NULL, other, ctx, -1) : hd_rpc_call(NULL, rpc, ctx, 1, "twice", NULL);
  }
  fprintf(stderr, "%s", text); /* at once: the launcher ends this rank soon */
}

static void be_late(void) {
  hd_rpc_future *future;
  if (rank == 0) {
    must(hd_rpc_start(&future, rpc, ctx, 1, "sleep", NULL));
    if (hd_rpc_wait(NULL, future, ctx, 0.05) != HD_E_TIMEOUT)
      exit(1);
    fprintf(stderr, "rank 0: %s\n", hd_ctx_message(ctx));
  }
  must(hd_group_barrier(group, ctx));
  opened = 1;
  uint64_t sum = 0;
  call_all(&sum, 100);
  must(hd_rpc_close(rpc, ctx));
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  must(hd_ctx_create(&ctx));
  must(hd_group_init(&group, ctx, NULL));
  rank = hd_group_rank(group);
  ranks = hd_group_size(group);
  must(hd_rpc_open(&rpc, group, ctx, functions, (int)(sizeof functions / sizeof *functions), NULL));
  if (!strcmp(mode, "large")) {
    call_at_once(2 * ranks, MOST / sizeof(float));
    must(hd_rpc_close(rpc, ctx));
  } else if (!strcmp(mode, "killed")) {
    lose(true);
  } else if (!strcmp(mode, "gives_up")) {
    lose(false);
  } else if (!strcmp(mode, "late")) {
    be_late();
  } else {
    usual();
  }
  hd_rpc_destroy(rpc);
  hd_group_destroy(group);
  hd_ctx_destroy(ctx);
  return 0;
}
