/* The levels of the machine's tree, its sizes and CPU numbers as text: see topo.h. */
#include "cli/topo.h"

#include <stdlib.h>

#include "cli/cli.h"

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

int topo_thread(const hd_placement *p, int cpu, int from) {
  for (int thread = from; thread < p->threads; thread++)
    if (p->thread[thread].cpu == cpu)
      return thread;
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

void topo_print_caches(const hd_topology *t) {
  for (int i = 0; i < t->caches; i++)
    cli_print("%s%d x %s of %s", i ? ", " : "caches: ", t->cache[i].count, hd_memory_level_name(t->cache[i].level),
              topo_bytes(t->cache[i].bytes));
  if (t->caches > 0)
    cli_print("\n");
}

void topo_json_caches(const hd_topology *t) {
  cli_json("'caches': [");
  for (int i = 0; i < t->caches; i++)
    cli_json("%c{'name': %s, 'bytes': %lld, 'count': %d}", i, hd_memory_level_name(t->cache[i].level),
             (long long)t->cache[i].bytes, t->cache[i].count);
  cli_json("]");
}

int64_t topo_l3_bytes(const hd_topology *t) {
  for (int i = 0; i < t->caches; i++)
    if (t->cache[i].level == HD_L3)
      return t->cache[i].bytes;
  return 0;
}

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
