/* heddle topo: the machine as a tree, the CPU budget of this process and its reason, and the placement of threads. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/topo.h"

static const char *svg; /* NULL: no picture */

/* Larger machines are shown one line per L3 group. */
enum { MOST_ROWS = 32 };

/* A core, or all cores of a group: their CPUs, and the threads there. */
static void print_row(const hd_topology *t, const hd_placement *p, int from, int end) {
  int number[4 * HD_MAX_THREADS], usable = 0, busy = 0, count = 0;
  char text[TOPO_RANGES_BYTES], name[64];
  const int first = t->cpu[from].core, last = t->cpu[end - 1].core;
  for (int i = from; i < end && count < HD_MAX_THREADS; i++) {
    number[count++] = t->cpu[i].cpu;
    usable += t->cpu[i].usable != 0;
    busy += t->cpu[i].busy != 0;
  }
  snprintf(name, sizeof name, first == last ? "core %d" : "cores %d-%d", first, last);
  cli_print("      %-14s CPU%s %-10s", name, count == 1 ? " " : "s", topo_ranges(text, number, count));
  if (t->kinds > 1)
    cli_print(" %s", hd_core_type_name(t->kind[t->cpu[from].kind].type));
  if (usable < count)
    cli_print(usable ? "  %d usable" : "  not usable", usable);
  if (busy > 0)
    cli_print(busy < count ? "  %d busy" : "  busy", busy);
  count = 0;
  for (int i = from; i < end; i++)
    for (int thread = topo_thread(p, t->cpu[i].cpu, 0); thread >= 0 && count < HD_MAX_THREADS;
         thread = topo_thread(p, t->cpu[i].cpu, thread + 1))
      number[count++] = thread;
  if (count > 0)
    cli_print("  thread%s %s", count == 1 ? "" : "s", topo_ranges(text, number, count));
  cli_print("\n");
}

static void print_group(const hd_topology *t, const hd_placement *p, int from, int end) {
  const int l3 = t->cpu[from].l3;
  if (l3 >= 0)
    cli_print("    L3 group %d, %s\n", l3, topo_bytes(topo_l3_bytes(t)));
  for (int core = from, next; core < end; core = next) {
    next = t->cores > MOST_ROWS ? end : topo_end(t, core, TOPO_CORE);
    print_row(t, p, core, next);
  }
}

static void print_tree(const hd_topology *t, const hd_placement *p) {
  int package = -1, numa = -1;
  for (int from = 0, end; from < t->cpus; from = end) {
    const hd_cpu *cpu = &t->cpu[from];
    end = topo_end(t, from, TOPO_GROUP);
    if (cpu->package != package)
      cli_print("package %d\n", cpu->package);
    if (cpu->numa != numa && cpu->numa >= 0)
      cli_print("  NUMA node %d, %s\n", t->numa[cpu->numa].node, topo_bytes(t->numa[cpu->numa].memory_bytes));
    package = cpu->package;
    numa = cpu->numa;
    print_group(t, p, from, end);
  }
}

static void print_machine(const hd_topology *t) {
  if (*t->model)
    cli_print("%s, ", t->model);
  cli_print("%s of memory\n", topo_bytes(t->memory_bytes));
  cli_print("%s, %s, %s, %s, %s\n", cli_counted(t->packages, "package"), cli_counted(t->numa_nodes, "NUMA node"),
            cli_counted(t->l3_groups, "L3 group"), cli_counted(t->cores, "core"), cli_counted(t->cpus, "CPU"));
  topo_print_caches(t);
  for (int k = 0; t->kinds > 1 && k < t->kinds; k++)
    cli_print("%s cores: %d with %d CPUs\n", hd_core_type_name(t->kind[k].type), t->kind[k].cores, t->kind[k].cpus);
}

/* given: the number of threads, or their CPUs. */
static void print_text(const hd_topology *t, const hd_placement *p, bool given) {
  print_machine(t);
  cli_print("\n");
  print_tree(t, p);
  cli_print("\nbudget  \t%s: %s\n", cli_counted(t->budget.cpus, "CPU"), t->budget.why);
  cli_print("threads \t%d: %s\n", p->threads, p->why);
  if (!given)
    cli_print("        \t--threads auto uses the number that `heddle tune` saved for the model, else the fastest found "
              "in a short search at the start, up to one thread per physical core\n");
}

/* ---- JSON ---- */

static void json_parts(const hd_topology *t) {
  cli_json(", ");
  topo_json_caches(t);
  cli_json(", 'core_kinds': [");
  for (int k = 0; k < t->kinds; k++)
    cli_json("%c{'name': %s, 'cores': %d, 'pus': %d}", k, hd_core_type_name(t->kind[k].type), t->kind[k].cores,
             t->kind[k].cpus);
  cli_json("], 'cpus': [");
  for (int i = 0; i < t->cpus; i++) {
    const hd_cpu *c = &t->cpu[i];
    cli_json("%c{'cpu': %d, 'core': %d, 'package': %d, 'numa': %d, 'l3': %d, 'kind': %d, ", i, c->cpu, c->core,
             c->package, c->numa, c->l3, c->kind);
    printf("\"usable\": %s, \"busy\": %s}", c->usable ? "true" : "false", c->busy ? "true" : "false");
  }
  cli_json("]");
}

static void json_threads(const hd_placement *p) {
  cli_json(", 'threads': [");
  for (int i = 0; i < p->threads; i++)
    cli_json("%c{'thread': %d, 'cpu': %g}", i, i, p->thread[i].cpu < 0 ? NAN : p->thread[i].cpu);
  cli_json("]");
}

static void print_json(const hd_topology *t, const hd_placement *p) {
  char why[1024];
  cli_json("{'packages': %d, 'numa': %d, 'l3': %d, 'cores': %d, 'pus': %d, 'kinds': %d, 'memory_bytes': %lld, ",
           t->packages, t->numa_nodes, t->l3_groups, t->cores, t->cpus, t->kinds, (long long)t->memory_bytes);
  snprintf(why, sizeof why, "%s; %s: %s", t->budget.why, cli_counted(p->threads, "thread"), p->why);
  cli_json("'model': %s, 'budget': %d, 'mask': %d, 'quota': %g, 'why': %s", t->model, t->budget.cpus, t->budget.mask,
           t->budget.quota > 0 ? t->budget.quota : NAN, why);
  json_threads(p);
  json_parts(t);
  cli_json("}\n");
}

/* ---- The command ---- */

typedef struct picture {
  const hd_topology *machine;
  const hd_placement *place;
} picture;

static void draw(FILE *file, const void *what) {
  const picture *drawn = what;
  topo_draw(file, drawn->machine, drawn->place);
}

static void print(const hd_topology *machine, const hd_placement *place, const hd_config *config) {
  const char *omp = getenv("OMP_NUM_THREADS");
  if (cli_wants_json(config))
    print_json(machine, place);
  else
    print_text(machine, place,
               strcmp(hd_config_get(config, "threads"), "auto") != 0 || *hd_config_get(config, "cpus") ||
                   (omp && *omp));
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  hd_topology *machine;
  hd_placement *place = NULL;
  CLI_TRY(hd_topology_create(&machine, ctx));
  int code = hd_config_place(&place, ctx, config, machine);
  if (code == 0)
    code = cli_save_svg(svg, draw, &(picture){machine, place});
  if (code == 0)
    print(machine, place, config);
  hd_placement_destroy(place);
  hd_topology_destroy(machine);
  return code;
}

static const cli_extra extra[] = {
    {"svg", "FILE", "draw the machine as SVG into this file", cli_take_text, .self = &svg}, {0}};

const cli_command cli_topo = {.name = "topo",
                              .help = "the machine, what this process may use of it, and where threads go",
                              .usage = "heddle topo [--threads N] [--cpus LIST] [--placement P] [--svg FILE] [--json]",
                              .options = (const char *const[]){"threads", "cpus", "placement", "json", NULL},
                              .extra = extra,
                              .run = run};
