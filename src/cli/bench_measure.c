/* heddle bench step, conv, gemm, barrier and loader, measured in this process, and allreduce and rpc, measured in
 * ranks: printed as text or JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "heddle/launch.h"
#include "platform/this_program.h"

static void json_ops(const hd_bench_machine *machine, const bench_ops *ops) {
  bench_json_machine(machine);
  cli_json(", ");
  bench_json_ops(ops);
  cli_json("}\n");
}

/* ---- step ---- */

static const double MOSTLY = 0.98; /* fraction of the time: the scheduler's own work is less than the rest */

static void print_step(const hd_bench_step_result *r, const bench_ops *ops) {
  const double gflops = 1e-9 * r->flops * r->samples_per_s, executed = 1e-9 * r->executed_flops * r->samples_per_s;
  const double peak = r->machine->all_peak_gflops;
  bench_print_machine(r->machine);
  cli_print("\n%s on %s, batch %lld, trained with %s by %s kernels: %s samples/s (%s to %s, fastest turn %s)\n",
            r->model, r->data, (long long)r->batch, cli_counted(r->threads, "thread"), r->isa,
            cli_grouped(llround(r->samples_per_s)), cli_grouped(llround(r->low)), cli_grouped(llround(r->high)),
            cli_grouped(llround(r->best)));
  cli_print("  dense     %8.1f GFLOP/s, %5.1f %% of the peak (%.2f MFLOP per sample)\n", gflops, 100 * gflops / peak,
            1e-6 * r->flops);
  cli_print("  executed  %8.1f GFLOP/s, %5.1f %% of the peak (%.2f MFLOP per sample)\n", executed,
            100 * executed / peak, 1e-6 * r->executed_flops);
  bench_print_ops(ops);
  if (r->cpu_share < MOSTLY)
    cli_print("other programs used this CPU for %.0f %% of the time; measure again without them\n",
              100 - 100 * r->cpu_share);
}

static void json_step(const hd_bench_step_result *r, const bench_ops *ops) {
  const double gflops = 1e-9 * r->flops * r->samples_per_s, executed = 1e-9 * r->executed_flops * r->samples_per_s;
  cli_json("{'model': %s, 'data': %s, 'batch': %lld, 'kernels': %s, 'samples_per_s': %.1f, 'low': %.1f, 'high': %.1f, "
           "'best': %.1f, ",
           r->model, r->data, (long long)r->batch, r->isa, r->samples_per_s, r->low, r->high, r->best);
  cli_json("'gflops': %.3f, 'executed_gflops': %.3f, 'percent_of_peak': %.3f, 'thread_step_us': %.3f, "
           "'cpu_share': %.4g, ",
           gflops, executed, 100 * gflops / r->machine->all_peak_gflops, 1e6 * r->thread_step_s, r->cpu_share);
  json_ops(r->machine, ops);
}

int bench_step(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  hd_bench_step_result *r;
  CLI_TRY(hd_bench_step(&r, ctx, config, bench_asked.seconds));
  bench_ops ops = {
      .machine = r->machine, .op = r->ops, .count = r->op_count, .per = "step", .whole_s = r->thread_step_s};
  snprintf(ops.title, sizeof ops.title, "%s, batch %lld: %s samples/s on %s, %.0f %% of the FMA peak (dense)", r->model,
           (long long)r->batch, cli_grouped(llround(r->samples_per_s)), cli_counted(r->threads, "thread"),
           1e-7 * r->flops * r->samples_per_s / r->machine->all_peak_gflops);
  (cli_wants_json(config) ? json_step : print_step)(r, &ops);
  int code = cli_save_svg(bench_asked.svg, bench_draw, &ops);
  hd_bench_step_destroy(r);
  return code;
}

/* ---- conv ---- */

int bench_conv(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  hd_bench_conv_result *r;
  CLI_TRY(hd_bench_conv(&r, ctx, config, bench_asked.shape, bench_asked.shapes, bench_asked.seconds));
  bench_ops ops = {.machine = r->machine, .op = r->ops, .count = r->op_count, .per = "sample"};
  snprintf(ops.title, sizeof ops.title, "Convolutions%s%.100s", bench_asked.shapes ? "" : " of ",
           bench_asked.shapes ? "" : hd_config_get(config, "model"));
  if (cli_wants_json(config)) {
    cli_json("{");
    json_ops(r->machine, &ops);
  } else {
    bench_print_machine(r->machine);
    bench_print_ops(&ops);
  }
  int code = cli_save_svg(bench_asked.svg, bench_draw, &ops);
  hd_bench_conv_destroy(r);
  return code;
}

/* ---- gemm ---- */

static void print_gemm(const hd_bench_gemm_result *r) {
  bench_print_machine(r->machine);
  cli_print("\n    m     n     k    heddle  of peak  OpenBLAS     ratio   (GFLOP/s, one thread; %s)\n",
            *r->openblas ? r->openblas : "no OpenBLAS here");
  for (int i = 0; i < r->count; i++) {
    const hd_bench_product *p = &r->products[i];
    cli_print("%5d %5d %5d %9.1f %6.0f %%", p->m, p->n, p->k, p->gflops, 100 * p->gflops / r->machine->peak_gflops);
    if (isfinite(p->openblas_gflops))
      cli_print(" %9.1f %9.2f", p->openblas_gflops, p->gflops / p->openblas_gflops);
    cli_print("\n");
  }
}

static void json_gemm(const hd_bench_gemm_result *r) {
  cli_json("{");
  bench_json_machine(r->machine);
  cli_json(", 'openblas': %s, 'sizes': [", r->openblas);
  for (int i = 0; i < r->count; i++) {
    const hd_bench_product *p = &r->products[i];
    cli_json("%c{'m': %d, 'n': %d, 'k': %d, 'gflops': %.3f, 'openblas_gflops': %g}", i, p->m, p->n, p->k, p->gflops,
             p->openblas_gflops);
  }
  cli_json("]}\n");
}

static void set_core(const char *core) {
  if (*core)
    setenv("OPENBLAS_CORETYPE", core, 1);
  else
    unsetenv("OPENBLAS_CORETYPE");
}

/* OpenBLAS's rate with a core type, "" for its default here. It fixes the type when it is opened, so each is tried
 * in a separate process. 0 if it cannot run. */
static double try_core(const char *self, const char *core) {
  char line[4096] = "";
  double gflops = 0;
  setenv("HEDDLE_BENCH_SELF", self, 1);
  set_core(core);
  FILE *child = popen("HEDDLE_BENCH_CORE=chosen exec \"$HEDDLE_BENCH_SELF\" bench gemm --threads 1 --size 384 "
                      "--seconds 0.1 --json 2>/dev/null",
                      "r");
  if (child) {
    while (fgets(line, sizeof line, child)) {
      const char *found = strstr(line, "\"openblas_gflops\": ");
      gflops = found ? atof(found + strlen("\"openblas_gflops\": ")) : gflops;
    }
    pclose(child);
  }
  return gflops;
}

/* Leaves the best core type in the environment, for OpenBLAS to read when it is opened. */
static void choose_core(void) {
  static const char *const cores[] = {"", "Haswell", "Zen", "SkylakeX", "Cooperlake", "Sapphirerapids"};
  const char *said = getenv("OPENBLAS_CORETYPE"), *chosen = getenv("HEDDLE_BENCH_CORE"), *best = "";
  const char *library = getenv("HEDDLE_BLAS");
  char self[4096], user[64];
  double most = 0;
  if (chosen || (library && !strcmp(library, "none")) || !hd__program_path(self, sizeof self))
    return;
  snprintf(user, sizeof user, "%s", said ? said : "");
  for (int i = said ? -1 : 0; i < (int)(sizeof cores / sizeof *cores); i++) {
    const char *core = i < 0 ? user : cores[i];
    const double gflops = try_core(self, core);
    if (gflops > 1.03 * most) {
      most = gflops;
      best = core;
    }
  }
  set_core(best);
}

int bench_gemm(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  hd_bench_gemm_result *r;
  choose_core();
  CLI_TRY(hd_bench_gemm(&r, ctx, config, bench_asked.product, bench_asked.products, bench_asked.seconds));
  (cli_wants_json(config) ? json_gemm : print_gemm)(r);
  hd_bench_gemm_destroy(r);
  return CLI_OK;
}

/* ---- barrier ---- */

int bench_barrier(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  hd_bench_barrier_result r = {.struct_bytes = sizeof r};
  CLI_TRY(hd_bench_barrier(&r, ctx, config, bench_asked.seconds));
  if (cli_wants_json(config)) {
    cli_json("{'cpu': %s, 'threads': %d, 'cpus': %d, 'turns': %d, 'us': %.4f, 'us_low': %.4f, 'us_high': %.4f, ", r.cpu,
             r.threads, r.cpus, r.turns, r.us, r.us_low, r.us_high);
    cli_json("'openmp_us': %.4f, 'openmp_us_low': %.4f, 'openmp_us_high': %.4f}\n", r.openmp_us, r.openmp_us_low,
             r.openmp_us_high);
    return CLI_OK;
  }
  cli_print("%s, %s on %s, medians of %d turns (their 95 %% interval)\n", r.cpu, cli_counted(r.threads, "thread"),
            cli_counted(r.cpus, "CPU"), r.turns);
  cli_print("  heddle's barrier  %8.3f us (%.3f to %.3f)\n", r.us, r.us_low, r.us_high);
  cli_print("  OpenMP's barrier  %8.3f us (%.3f to %.3f)\n", r.openmp_us, r.openmp_us_low, r.openmp_us_high);
  return CLI_OK;
}

/* ---- loader ---- */

int bench_loader(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  hd_bench_loader_result r = {.struct_bytes = sizeof r};
  CLI_TRY(hd_bench_loader(&r, ctx, config, bench_asked.seconds));
  if (cli_wants_json(config)) {
    cli_json("{'cpu': %s, 'data': %s, 'workers': %d, 'batch': %lld, 'samples': %lld, 'samples_per_s': %.1f, "
             "'low': %.1f, 'high': %.1f, 'mean': %.6g, 'std': %.6g, 'start_s': %.6f, 'stop_s': %.6f}\n",
             r.cpu, r.data, r.workers, (long long)r.batch, (long long)r.samples, r.samples_per_s, r.low, r.high, r.mean,
             r.std, r.start_s, r.stop_s);
    return CLI_OK;
  }
  cli_print("%s on %s, batch %lld, %s\n", r.data, r.cpu, (long long)r.batch, cli_counted(r.workers, "worker"));
  cli_print("  %s samples/s (%s to %s), medians of %d turns\n", cli_grouped((long long)(r.samples_per_s + 0.5)),
            cli_grouped((long long)(r.low + 0.5)), cli_grouped((long long)(r.high + 0.5)), r.turns);
  cli_print("  mean %.4f, standard deviation %.4f of what was delivered\n", r.mean, r.std);
  cli_print("  started in %.1f ms, ended in %.1f ms\n", 1e3 * r.start_s, 1e3 * r.stop_s);
  return CLI_OK;
}

/* ---- allreduce and rpc: start this command again as the ranks; rank 0 prints ---- */

int bench_procs(const hd_config *config) { return (int)hd_config_get_int(config, HD_OPT_PROCS); }

/* Makes the ranks that exchange, and in each their group; rank -1 waited for them. */
static hd_status start_ranks(hd_group **group, int *rank, hd_ctx *ctx, const hd_config *config) {
  if (bench_procs(config) < 2)
    return hd_ctx_fail(ctx, HD_E_USAGE, "--procs: expected 2 or more ranks to exchange, found 1; use --procs 2");
  const hd_status status = hd_spawn(rank, ctx, bench_procs(config));
  return status == HD_OK && *rank >= 0 ? hd_group_init(group, ctx, NULL) : status;
}

static void print_allreduce(const hd_bench_allreduce_result *r) {
  cli_print("%s, %s on %s; medians of the slowest rank, microseconds\n\n", r->cpu, cli_counted(r->ranks, "rank"),
            cli_counted(r->cpus, "CPU"));
  cli_print("%12s %15s %15s\n", "bytes", "private", "in the segment");
  for (int i = 0; i < HD_BENCH_ALLREDUCE_SIZES; i++)
    cli_print("%12lld %15.2f %15.2f\n", (long long)r->size[i].bytes, r->size[i].us, r->size[i].shared_us);
}

static void json_allreduce(const hd_bench_allreduce_result *r) {
  cli_json("{'ranks': %d, 'cpus': %d, 'cpu': %s, 'us_by_bytes': {", r->ranks, r->cpus, r->cpu);
  for (int i = 0; i < HD_BENCH_ALLREDUCE_SIZES; i++)
    cli_json("%c'%lld': %.3f", i, (long long)r->size[i].bytes, r->size[i].us);
  cli_json("}, 'shared_us_by_bytes': {");
  for (int i = 0; i < HD_BENCH_ALLREDUCE_SIZES; i++)
    cli_json("%c'%lld': %.3f", i, (long long)r->size[i].bytes, r->size[i].shared_us);
  cli_json("}}\n");
}

int bench_allreduce(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  int32_t rank;
  hd_group *group;
  hd_bench_allreduce_result result = {.struct_bytes = sizeof result};
  hd_status status = start_ranks(&group, &rank, ctx, config);
  if (status != HD_OK || rank < 0)
    return status;
  status = hd_bench_allreduce(&result, ctx, group);
  if (status == HD_OK && rank == 0)
    (cli_wants_json(config) ? json_allreduce : print_allreduce)(&result);
  hd_group_destroy(group);
  return status;
}

static void print_rpc(const hd_bench_rpc_result *r) {
  cli_print("%s, %s on %s; calls that return their bytes, medians\n\n", r->cpu, cli_counted(r->ranks, "rank"),
            cli_counted(r->cpus, "CPU"));
  cli_print("%12s %15s\n", "bytes", "microseconds");
  for (int i = 0; i < HD_BENCH_RPC_SIZES; i++)
    cli_print("%12lld %15.2f\n", (long long)r->size[i].bytes, r->size[i].us);
  cli_print("\n99 %% of the calls without bytes take at most %.2f microseconds; %s calls/s with futures\n", r->slow_us,
            cli_grouped((long long)r->calls_per_s));
}

static void json_rpc(const hd_bench_rpc_result *r) {
  cli_json("{'ranks': %d, 'cpus': %d, 'cpu': %s, 'us_by_bytes': {", r->ranks, r->cpus, r->cpu);
  for (int i = 0; i < HD_BENCH_RPC_SIZES; i++)
    cli_json("%c'%lld': %.3f", i, (long long)r->size[i].bytes, r->size[i].us);
  cli_json("}, 'slow_us': %.3f, 'calls_per_s': %.0f}\n", r->slow_us, r->calls_per_s);
}

int bench_rpc(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  int32_t rank;
  hd_group *group;
  hd_bench_rpc_result result = {.struct_bytes = sizeof result};
  hd_status status = start_ranks(&group, &rank, ctx, config);
  if (status != HD_OK || rank < 0)
    return status;
  status = hd_bench_rpc(&result, ctx, group);
  if (status == HD_OK && rank == 0)
    (cli_wants_json(config) ? json_rpc : print_rpc)(&result);
  hd_group_destroy(group);
  return status;
}
