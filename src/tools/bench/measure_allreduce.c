/* The time of sums over the ranks of a group: see bench.h for what is measured. Every sum is checked; its terms are
 * small integers. */
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sized_struct.h"
#include "base/status.h"
#include "heddle/bench.h"
#include "platform/clock.h"
#include "platform/machine.h"
#include "tools/bench/bind_rank.h"
#include "tools/tune/scaling.h"

static const int64_t sizes[HD_BENCH_ALLREDUCE_SIZES] = {4, 64, 1024, 16384, 65536, 262144, 1 << 20, 4 << 20, 32 << 20};

enum { WARM_UP = 5, MANY = 500, FEW = 30, MANY_UP_TO = 65536 };

typedef struct bench {
  hd_group *group;
  hd_ctx *ctx;
  float *input, *output;
  int64_t count;
} bench;

static float term(int rank, int64_t i) { return (float)(rank + 1 + (int)(i % 7)); }

static void fill(const bench *b) {
  for (int64_t i = 0; i < b->count; i++)
    b->input[i] = term(hd_group_rank(b->group), i);
}

static hd_status check_sums(const bench *b) {
  const int ranks = hd_group_size(b->group);
  for (int64_t i = 0; i < b->count; i++)
    if (b->output[i] != (float)(ranks * (ranks + 1) / 2 + ranks * (int)(i % 7)))
      return hd__fail(b->ctx, HD_E_SYSTEM, "expected the sum %d of element %lld, found %g",
                      ranks * (ranks + 1) / 2 + ranks * (int)(i % 7), (long long)i, (double)b->output[i]);
  return HD_OK;
}

/* One sum; *us is the slowest rank's time. */
static hd_status time_one(double *us, const bench *b) {
  double this_rank;
  HD_TRY(hd_group_barrier(b->group, b->ctx));
  const int64_t begin_ns = hd__clock_ns();
  HD_TRY(hd_group_all_reduce(b->output, b->group, b->ctx, b->input, b->count, HD_F32, HD_REDUCE_SUM));
  this_rank = 1e-3 * (double)(hd__clock_ns() - begin_ns);
  return hd_group_all_reduce(us, b->group, b->ctx, &this_rank, 1, HD_F64, HD_REDUCE_MAX);
}

static hd_status time_size(double *us, const bench *b) {
  double times[MANY], ignored;
  const int turns = b->count * (int64_t)sizeof(float) <= MANY_UP_TO ? MANY : FEW;
  const bool in_place = b->input == b->output;
  for (int t = -WARM_UP; t < turns; t++) {
    if (in_place)
      fill(b);
    HD_TRY(time_one(t < 0 ? &ignored : &times[t], b));
    if (t == 0)
      HD_TRY(check_sums(b));
  }
  *us = hd__median(times, turns).value;
  return check_sums(b);
}

static hd_status time_shared(double *us, bench *b) {
  void *memory;
  HD_TRY(hd_group_alloc(&memory, b->group, b->ctx, (size_t)b->count * sizeof(float)));
  bench shared = *b;
  shared.input = shared.output = memory;
  const hd_status status = time_size(us, &shared);
  hd_group_free(b->group, memory);
  return status;
}

static hd_status measure(hd_bench_allreduce_result *out, bench *b) {
  for (int s = 0; s < HD_BENCH_ALLREDUCE_SIZES; s++) {
    b->count = sizes[s] / (int64_t)sizeof(float);
    out->size[s].bytes = sizes[s];
    fill(b);
    memset(b->output, 0, (size_t)sizes[s]);
    HD_TRY(time_size(&out->size[s].us, b));
    HD_TRY(time_shared(&out->size[s].shared_us, b));
  }
  return HD_OK;
}

static hd_status bench_all(hd_bench_allreduce_result *out, hd_ctx *ctx, hd_group *group) {
  const size_t most = (size_t)sizes[HD_BENCH_ALLREDUCE_SIZES - 1];
  bench b = {.group = group, .ctx = ctx, .input = hd__malloc_aligned(most), .output = hd__malloc_aligned(most)};
  out->ranks = hd_group_size(group);
  out->cpus = hd__bench_bind_rank(hd_group_rank(group), out->ranks);
  hd__cpu_name(out->cpu, sizeof out->cpu);
  hd_status status =
      b.input && b.output ? measure(out, &b) : hd__fail(ctx, HD_E_NOMEM, "out of memory for a measurement");
  hd__free(b.input);
  hd__free(b.output);
  return status;
}

hd_status hd_bench_allreduce(hd_bench_allreduce_result *out, hd_ctx *ctx, hd_group *group) {
  hd_bench_allreduce_result result = {0};
  HD_TRY(hd__struct_check(ctx, out, sizeof result, "hd_bench_allreduce_result"));
  const hd_status status = bench_all(&result, ctx, group);
  hd__struct_write(out, &result, sizeof result);
  return status;
}
