/* The request of a bench; tables and JSON of benches. Times are microseconds, rates 1e9 a second, bytes 1,000 (kB) or
 * 1,024 (KiB). */
#include "cli/bench.h"

#include <string.h>

#include "cli/cli.h"

bench_request bench_asked = {.seconds = 3, .ranks_seconds = 1, .rounds = 5};

static double rate(double work, double s) { return s > 0 ? 1e-9 * work / s : 0; }
static double percent(const hd_bench_op *op) { return op->s > 0 ? 100 * op->least_s / op->s : 0; }

/* By more than a row shows. */
static bool is_over(const hd_bench_op *op) { return percent(op) >= 100.5; }

const char *bench_bound(const bench_ops *all, const hd_bench_op *op) {
  return op->level < 0 ? "FMA" : hd_memory_level_name(all->machine->level[op->level].where);
}

/* The first level of each name: the smallest working set. */
static int is_first(const hd_bench_machine *m, int level) {
  return level == 0 || m->level[level].where != m->level[level - 1].where;
}

void bench_print_machine(const hd_bench_machine *m) {
  cli_print("%s, %s, %s\n", m->cpu, m->isa, cli_counted(m->threads, "thread"));
  cli_print("  FMA in registers  %8.1f GFLOP/s one thread, %8.1f all\n", m->peak_gflops, m->all_peak_gflops);
  for (int i = 0; i < m->levels; i++)
    if (is_first(m, i) || i == m->levels - 1)
      cli_print("  %-7s %8lld KiB %7.1f GB/s    one thread, %8.1f all\n", hd_memory_level_name(m->level[i].where),
                (long long)(m->level[i].bytes >> 10), m->level[i].gbytes_per_s, m->level[i].all_gbytes_per_s);
}

/* Widths of the table's columns of names; on a screen that is narrower than all columns, `dense` and `kB` are left
 * out. */
typedef struct layout {
  int operation, kernel;
  bool narrow;
} layout;

enum { NUMBERS = 73 /* columns of all numbers and what is between them */ };

static int longer(int width, const char *name) { return (int)strlen(name) > width ? (int)strlen(name) : width; }

static layout lay_out(const bench_ops *all) {
  layout l = {.operation = (int)strlen("operation"), .kernel = (int)strlen("kernel")};
  for (int i = 0; i < all->count; i++) {
    l.operation = longer(l.operation, all->op[i].name);
    l.kernel = longer(l.kernel, all->op[i].op);
  }
  l.narrow = cli_columns() > 0 && cli_columns() < l.operation + 2 + l.kernel + NUMBERS;
  return l;
}

/* "-" where there is no work to count. */
static void print_number(bool shown, double value, int width) {
  if (shown)
    cli_print(" %*.1f", width, value);
  else
    cli_print(" %*s", width, "-");
}

static void print_op(const layout *l, const bench_ops *all, const hd_bench_op *op) {
  cli_print("%-*s  %-*s %9.2f", l->operation, op->name, l->kernel, op->op, 1e6 * op->s);
  if (all->whole_s > 0)
    cli_print(" %5.1f %%", 100 * op->s / all->whole_s);
  if (!l->narrow)
    print_number(op->flops > 0, rate(op->flops, op->s), 8);
  print_number(op->flops > 0, rate(op->executed_flops, op->s), 8);
  if (op->bytes > 0) {
    if (!l->narrow)
      print_number(true, 1e-3 * op->bytes, 9);
    cli_print(" %8.1f %6s %5.0f %%%s", rate(op->bytes, op->s), bench_bound(all, op), percent(op),
              is_over(op) ? "!" : "");
  }
  cli_print("\n");
}

void bench_print_ops(const bench_ops *all) {
  const layout l = lay_out(all);
  cli_print("\none %s on one thread, operation by operation\n\n", all->per);
  cli_print("%-*s  %-*s %9s%s", l.operation, "operation", l.kernel, "kernel", "us", all->whole_s > 0 ? "   share" : "");
  if (!l.narrow)
    cli_print(" %8s", "dense");
  cli_print(" %8s", "executed");
  if (!l.narrow)
    cli_print(" %9s", "kB");
  cli_print(" %8s %6s reached\n", "GB/s", "bound");
  bool over = false;
  for (int i = 0; i < all->count; i++) {
    print_op(&l, all, &all->op[i]);
    over |= is_over(&all->op[i]);
  }
  cli_print("\n%sexecuted: GFLOP/s; reached: of the bound\n", l.narrow ? "" : "dense, ");
  if (over)
    cli_print("!: above the bound; skipped work was counted, or the limits were measured on a busy CPU\n");
}

void bench_json_machine(const hd_bench_machine *m) {
  cli_json("'cpu': %s, 'isa': %s, 'threads': %d, 'thread_peak_gflops': %.2f, 'peak_gflops': %.2f, 'bandwidth': [",
           m->cpu, m->isa, m->threads, m->peak_gflops, m->all_peak_gflops);
  for (int i = 0; i < m->levels; i++)
    cli_json("%c{'where': %s, 'bytes': %lld, 'thread_gbytes_per_s': %.2f, 'gbytes_per_s': %.2f}", i,
             hd_memory_level_name(m->level[i].where), (long long)m->level[i].bytes, m->level[i].gbytes_per_s,
             m->level[i].all_gbytes_per_s);
  cli_json("]");
}

void bench_json_ops(const bench_ops *all) {
  cli_json("'operations': [");
  for (int i = 0; i < all->count; i++) {
    const hd_bench_op *op = &all->op[i];
    cli_json("%c{'name': %s, 'op': %s, 'us': %.4f, 'gflops': %.3f, 'executed_gflops': %.3f, 'bytes': %.0f, ", i,
             op->name, op->op, 1e6 * op->s, rate(op->flops, op->s), rate(op->executed_flops, op->s), op->bytes);
    cli_json("'bound': %s, 'percent_of_bound': %.2f}", op->bytes > 0 ? bench_bound(all, op) : "", percent(op));
  }
  cli_json("]");
}
