/* The time of remote procedure calls: see bench.h for what is measured. The results are checked. */
#include <string.h>

#include "base/alloc.h"
#include "base/sized_struct.h"
#include "base/status.h"
#include "heddle/bench.h"
#include "heddle/rpc.h"
#include "platform/clock.h"
#include "platform/machine.h"
#include "tools/bench/bind_rank.h"
#include "tools/tune/scaling.h"

static const int64_t sizes[HD_BENCH_RPC_SIZES] = {0, 64, 4096, 65536, 1 << 20};

enum { WARM_UP = 200, EMPTY = 20000, MANY = 2000, FEW = 200, MANY_UP_TO = 65536 };
enum { UNDER_WAY = 32, CALLS = 100000 };

static hd_status echo(hd_rpc_request *r) {
  r->output = r->input;
  return HD_OK;
}

static hd_status time_size(double *us, double *slow_us, hd_rpc *rpc, hd_ctx *ctx, int64_t bytes) {
  const int turns = bytes == 0 ? EMPTY : bytes <= MANY_UP_TO ? MANY : FEW;
  HD_OWNED double *times = hd__calloc((size_t)turns, sizeof *times);
  HD_OWNED uint8_t *data = hd__calloc(2, (size_t)bytes + 1);
  HD_TRY(HD_ALLOCATED(times && data, ctx, "out of memory for a measurement"));
  const hd_rpc_array input = {.data = data, .dtype = HD_U8, .ndim = 1, .size = {bytes}};
  hd_rpc_array output = input;
  output.data = data + bytes;
  for (int64_t i = 0; i < bytes; i++)
    data[i] = (uint8_t)(7 * i + 1);
  for (int t = -WARM_UP; t < turns; t++) {
    const int64_t begin_ns = hd__clock_ns();
    HD_TRY(hd_rpc_call(&output, rpc, ctx, 1, "echo", &input));
    if (t >= 0)
      times[t] = 1e-3 * (double)(hd__clock_ns() - begin_ns);
  }
  if (memcmp(data, data + bytes, (size_t)bytes) != 0)
    return hd__fail(ctx, HD_E_SYSTEM, "expected %lld bytes to come back as they were, found others", (long long)bytes);
  *us = hd__median(times, turns).value; /* and the times in order */
  *slow_us = times[turns - 1 - turns / 100];
  return HD_OK;
}

static hd_status time_futures(double *calls_per_s, hd_rpc *rpc, hd_ctx *ctx, int ranks) {
  hd_rpc_future *future[UNDER_WAY];
  const int64_t begin_ns = hd__clock_ns();
  for (int i = 0; i < CALLS + UNDER_WAY; i++) {
    if (i >= UNDER_WAY)
      HD_TRY(hd_rpc_wait(NULL, future[i % UNDER_WAY], ctx, -1));
    if (i < CALLS)
      HD_TRY(hd_rpc_start(&future[i % UNDER_WAY], rpc, ctx, 1 + i % (ranks - 1), "echo", NULL));
  }
  *calls_per_s = CALLS / (1e-9 * (double)(hd__clock_ns() - begin_ns));
  return HD_OK;
}

static hd_status measure(hd_bench_rpc_result *out, hd_rpc *rpc, hd_ctx *ctx) {
  for (int s = 0; s < HD_BENCH_RPC_SIZES; s++) {
    double slow_us = 0;
    out->size[s].bytes = sizes[s];
    HD_TRY(time_size(&out->size[s].us, &slow_us, rpc, ctx, sizes[s]));
    out->slow_us = s == 0 ? slow_us : out->slow_us;
  }
  return time_futures(&out->calls_per_s, rpc, ctx, out->ranks);
}

/* A rank that fails to measure does not close its calls, which makes the others fail. */
static hd_status bench_all(hd_bench_rpc_result *out, hd_ctx *ctx, hd_group *group) {
  const hd_rpc_function functions[] = {{"echo", echo, NULL, HD_U8}};
  hd_rpc *rpc;
  out->ranks = hd_group_size(group);
  out->cpus = hd__bench_bind_rank(hd_group_rank(group), out->ranks);
  hd__cpu_name(out->cpu, sizeof out->cpu);
  if (out->ranks < 2)
    return hd__fail(ctx, HD_E_USAGE, "expected two ranks or more for calls, found %d; use --procs 2", out->ranks);
  HD_TRY(hd_rpc_open(&rpc, group, ctx, functions, 1, NULL));
  hd_status status = hd_group_rank(group) == 0 ? measure(out, rpc, ctx) : HD_OK;
  HD_THEN(status, hd_rpc_close(rpc, ctx));
  hd_rpc_destroy(rpc);
  return status;
}

hd_status hd_bench_rpc(hd_bench_rpc_result *out, hd_ctx *ctx, hd_group *group) {
  hd_bench_rpc_result result = {0};
  HD_TRY(hd__struct_check(ctx, out, sizeof result, "hd_bench_rpc_result"));
  const hd_status status = bench_all(&result, ctx, group);
  hd__struct_write(out, &result, sizeof result);
  return status;
}
