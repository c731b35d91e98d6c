/* heddle bench allreduce: starts this command again as the ranks; rank 0 prints the result. */
#include "cli/bench.h"
#include "cli/cli.h"
#include "heddle/launch.h"

static void print_text(const hd_bench_allreduce_result *r) {
  cli_print("%s, %d rank%s on %d CPU%s; medians of the slowest rank, microseconds\n\n", r->cpu, r->ranks,
            r->ranks == 1 ? "" : "s", r->cpus, r->cpus == 1 ? "" : "s");
  cli_print("%12s %15s %15s\n", "bytes", "private", "in the segment");
  for (int i = 0; i < HD_BENCH_ALLREDUCE_SIZES; i++)
    cli_print("%12lld %15.2f %15.2f\n", (long long)r->size[i].bytes, r->size[i].us, r->size[i].shared_us);
}

static void print_json(const hd_bench_allreduce_result *r) {
  cli_json("{'ranks': %d, 'cpus': %d, 'cpu': %s, 'us_by_bytes': {", r->ranks, r->cpus, r->cpu);
  for (int i = 0; i < HD_BENCH_ALLREDUCE_SIZES; i++)
    cli_json("%c'%lld': %.3f", i, (long long)r->size[i].bytes, r->size[i].us);
  cli_json("}, 'shared_us_by_bytes': {");
  for (int i = 0; i < HD_BENCH_ALLREDUCE_SIZES; i++)
    cli_json("%c'%lld': %.3f", i, (long long)r->size[i].bytes, r->size[i].shared_us);
  cli_json("}}\n");
}

int bench_allreduce(hd_ctx *ctx, int ranks, int json) {
  int32_t rank;
  hd_group *group;
  hd_bench_allreduce_result result = {.struct_bytes = sizeof result};
  hd_status status = hd_spawn(&rank, ctx, ranks);
  if (rank < 0)
    return status == HD_OK ? CLI_OK : cli_fail(status, hd_ctx_message(ctx));
  if (status == HD_OK)
    status = hd_group_init(&group, ctx, NULL);
  if (status != HD_OK)
    return cli_fail(status, hd_ctx_message(ctx));
  status = hd_bench_allreduce(&result, ctx, group);
  if (status == HD_OK && rank == 0)
    json ? print_json(&result) : print_text(&result);
  hd_group_destroy(group);
  return status == HD_OK ? CLI_OK : cli_fail(status, hd_ctx_message(ctx));
}
