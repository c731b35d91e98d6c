/* heddle topo: the machine as a tree, what this process may use of it and why, and where lanes go. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/topo.h"

/* Machines with more cores than this are shown a cache at a time. */
enum { MOST_ROWS = 32 };

int topo_end(const hd_topology *t, int from, topo_level level) {
  const hd_cpu *first = &t->cpu[from];
  int end = from + 1;
  for (; end < t->cpus; end++) {
    const hd_cpu *cpu = &t->cpu[end];
    if (cpu->package != first->package)
      break;
    if (level <= TOPO_GROUP && (cpu->numa != first->numa || cpu->l3 != first->l3))
      break;
    if (level == TOPO_CORE && cpu->core != first->core)
      break;
  }
  return end;
}

int topo_lane(const hd_placement *p, int cpu, int from) {
  for (int lane = from; lane < p->lanes; lane++)
    if (p->lane[lane].cpu == cpu)
      return lane;
  return -1;
}

const char *topo_bytes(int64_t bytes) {
  static char ring[4][32];
  static int next;
  static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double size = (double)bytes;
  int u = 0;
  for (; size >= 1024 && u < 4; u++)
    size /= 1024;
  char *text = ring[next++ % 4];
  snprintf(text, sizeof ring[0], size < 10 && size != (double)(int)size ? "%.1f %s" : "%.0f %s", size, unit[u]);
  return text;
}

int64_t topo_l3_bytes(const hd_topology *t) {
  for (int i = 0; i < t->caches; i++)
    if (!strcmp(t->cache[i].name, "L3"))
      return t->cache[i].bytes;
  return 0;
}

/* ---- Text ---- */

static int compare_numbers(const void *left, const void *right) {
  int a = *(const int *)left, b = *(const int *)right;
  return (a > b) - (a < b);
}

const char *topo_ranges(char text[TOPO_RANGES_BYTES], int *number, int count) {
  size_t at = 0;
  text[0] = 0;
  qsort(number, (size_t)count, sizeof *number, compare_numbers);
  for (int i = 0; i < count && at < TOPO_RANGES_BYTES; i++) {
    int from = number[i];
    while (i + 1 < count && number[i + 1] <= number[i] + 1)
      i++;
    at += (size_t)snprintf(text + at, TOPO_RANGES_BYTES - at, from == number[i] ? "%s%d" : "%s%d-%d", at ? "," : "",
                           from, number[i]);
  }
  return text;
}

static const char *plural(int count) { return count == 1 ? "" : "s"; }

/* A core, or all cores of a group: their CPUs, and the lanes there. */
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
  printf("      %-14s CPU%s %-10s", name, count == 1 ? " " : "s", topo_ranges(text, number, count));
  if (t->kinds > 1)
    printf(" %s", t->kind[t->cpu[from].kind].name);
  if (usable < count)
    printf(usable ? "  %d usable" : "  not usable", usable);
  if (busy > 0)
    printf(busy < count ? "  %d busy" : "  busy", busy);
  count = 0;
  for (int i = from; i < end; i++)
    for (int lane = topo_lane(p, t->cpu[i].cpu, 0); lane >= 0 && count < HD_MAX_THREADS;
         lane = topo_lane(p, t->cpu[i].cpu, lane + 1))
      number[count++] = lane;
  if (count > 0)
    printf("  lane%s %s", plural(count), topo_ranges(text, number, count));
  printf("\n");
}

static void print_group(const hd_topology *t, const hd_placement *p, int from, int end) {
  const int l3 = t->cpu[from].l3;
  if (l3 >= 0)
    printf("    L3 group %d, %s\n", l3, topo_bytes(topo_l3_bytes(t)));
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
      printf("package %d\n", cpu->package);
    if (cpu->numa != numa && cpu->numa >= 0)
      printf("  NUMA node %d, %s\n", t->numa[cpu->numa].node, topo_bytes(t->numa[cpu->numa].memory_bytes));
    package = cpu->package;
    numa = cpu->numa;
    print_group(t, p, from, end);
  }
}

static void print_machine(const hd_topology *t) {
  if (*t->model)
    printf("%s, ", t->model);
  printf("%s of memory\n", topo_bytes(t->memory_bytes));
  printf("%d package%s, %d NUMA node%s, %d L3 group%s, %d core%s, %d CPU%s\n", t->packages, plural(t->packages),
         t->numa_nodes, plural(t->numa_nodes), t->l3_groups, plural(t->l3_groups), t->cores, plural(t->cores), t->cpus,
         plural(t->cpus));
  for (int i = 0; i < t->caches; i++)
    printf("%s%d x %s of %s", i ? ", " : "caches: ", t->cache[i].count, t->cache[i].name,
           topo_bytes(t->cache[i].bytes));
  if (t->caches > 0)
    printf("\n");
  for (int k = 0; t->kinds > 1 && k < t->kinds; k++)
    printf("%s cores: %d with %d CPUs\n", t->kind[k].name, t->kind[k].cores, t->kind[k].cpus);
}

static void print_text(const hd_topology *t, const hd_placement *p) {
  print_machine(t);
  printf("\n");
  print_tree(t, p);
  printf("\nbudget  %d CPU%s: %s\n", t->budget.cpus, plural(t->budget.cpus), t->budget.why);
  printf("lanes   %d: %s\n", p->lanes, p->why);
}

/* ---- JSON ---- */

static void json_parts(const hd_topology *t) {
  printf(", \"caches\": [");
  for (int i = 0; i < t->caches; i++)
    printf("%s{\"name\": \"%s\", \"bytes\": %lld, \"count\": %d}", i ? ", " : "", t->cache[i].name,
           (long long)t->cache[i].bytes, t->cache[i].count);
  printf("], \"core_kinds\": [");
  for (int k = 0; k < t->kinds; k++)
    printf("%s{\"name\": \"%s\", \"cores\": %d, \"pus\": %d}", k ? ", " : "", t->kind[k].name, t->kind[k].cores,
           t->kind[k].cpus);
  printf("], \"cpus\": [");
  for (int i = 0; i < t->cpus; i++) {
    const hd_cpu *c = &t->cpu[i];
    printf("%s{\"cpu\": %d, \"core\": %d, \"package\": %d, \"numa\": %d, \"l3\": %d, \"kind\": %d, \"usable\": %s, "
           "\"busy\": %s}",
           i ? ", " : "", c->cpu, c->core, c->package, c->numa, c->l3, c->kind, c->usable ? "true" : "false",
           c->busy ? "true" : "false");
  }
  printf("]");
}

static void print_json(const hd_topology *t, const hd_placement *p) {
  char why[1024];
  printf(
      "{\"packages\": %d, \"numa\": %d, \"l3\": %d, \"cores\": %d, \"pus\": %d, \"kinds\": %d, \"memory_bytes\": %lld, "
      "\"model\": ",
      t->packages, t->numa_nodes, t->l3_groups, t->cores, t->cpus, t->kinds, (long long)t->memory_bytes);
  cli_json_text(stdout, t->model);
  printf(", \"budget\": %d, \"mask\": %d, \"quota\": ", t->budget.cpus, t->budget.mask);
  if (t->budget.quota > 0)
    cli_json_real(stdout, t->budget.quota);
  else
    printf("null");
  snprintf(why, sizeof why, "%s; %d lane%s: %s", t->budget.why, p->lanes, plural(p->lanes), p->why);
  printf(", \"why\": ");
  cli_json_text(stdout, why);
  printf(", \"lanes\": [");
  for (int i = 0; i < p->lanes; i++) {
    printf("%s{\"lane\": %d, \"cpu\": ", i ? ", " : "", i);
    printf(p->lane[i].cpu < 0 ? "null}" : "%d}", p->lane[i].cpu);
  }
  printf("]");
  json_parts(t);
  printf("}\n");
}

/* ---- The command ---- */

static int take_svg(void *self, const char *value) {
  *(const char **)self = value;
  return -1;
}

static int save_svg(const char *path, const hd_topology *t, const hd_placement *p) {
  FILE *file = fopen(path, "w");
  if (file)
    topo_draw(file, t, p);
  return cli_close_svg(file, path);
}

static int run(void *self, hd_ctx *ctx, hd_config *config, int count, char **operand) {
  const char *svg = *(const char **)self;
  const hd_placement_request request = hd_config_lanes(config);
  hd_topology *machine;
  hd_placement *place = NULL;
  hd_status status = hd_topology_create(&machine, ctx);
  if (status == HD_OK)
    status = hd_placement_create(&place, ctx, machine, &request);
  int code = status == HD_OK ? CLI_OK : cli_fail(status, hd_ctx_message(ctx));
  if (code == CLI_OK && svg)
    code = save_svg(svg, machine, place);
  if (code == CLI_OK)
    (strcmp(hd_config_get(config, "json"), "true") ? print_text : print_json)(machine, place);
  hd_placement_destroy(place);
  hd_topology_destroy(machine);
  return code;
}

int cli_topo(int argc, char **argv) {
  static const char *const options[] = {"threads", "cpus", "placement", "json", NULL};
  const char *svg = NULL;
  const cli_extra extra[] = {{"svg", "FILE", "draws the machine", take_svg, &svg}, {0}};
  const cli_command command = {
      .name = "topo",
      .usage = "usage: heddle topo [--threads N] [--cpus LIST] [--placement P] [--svg FILE] [--json]",
      .options = options,
      .extra = extra,
      .run = run,
      .self = &svg};
  return cli_run(&command, argc, argv);
}
