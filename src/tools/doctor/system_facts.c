/* Reading and judging what the system reports about itself: see doctor_checks.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/file.h"
#include "tools/doctor/doctor_checks.h"

enum { TEXT_BYTES = 4096, PATH_BYTES = 1024 };

void hd__find(hd_finding *out, double factor, const char *remedy, const char *measured, ...) {
  va_list args;
  va_start(args, measured);
  vsnprintf(out->measured, sizeof out->measured, measured, args);
  va_end(args);
  out->factor = factor;
  snprintf(out->remedy, sizeof out->remedy, "%s", remedy);
}

const char *hd__host_text(char *text, size_t bytes, const hd_machine_facts *facts, const char *path) {
  char full[PATH_BYTES];
  text[0] = 0;
  if ((size_t)snprintf(full, sizeof full, "%s%s", facts->root, path) >= sizeof full)
    return text;
  hd__file_text(text, bytes, full);
  return text;
}

/* The first line: cpu user nice system idle iowait irq softirq steal ..., in jiffies. Guests' time is part of
 * user's. */
bool hd__parse_steal(double *steal, double *total, const char *stat) {
  double number[8] = {0};
  int fields = sscanf(stat, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &number[0], &number[1], &number[2], &number[3],
                      &number[4], &number[5], &number[6], &number[7]);
  *total = 0;
  for (int i = 0; i < 8; i++)
    *total += number[i];
  *steal = number[7];
  return fields == 8;
}

double hd__parse_throttled(const char *cpu_stat) {
  const char *v2 = strstr(cpu_stat, "throttled_usec "), *v1 = strstr(cpu_stat, "throttled_time ");
  if (v2)
    return 1e-6 * strtod(v2 + strlen("throttled_usec "), NULL);
  return v1 ? 1e-9 * strtod(v1 + strlen("throttled_time "), NULL) : 0;
}

/* x86 reports it among the CPU's flags. */
bool hd__parse_bare(const char *cpuinfo) {
  const char *flags = strstr(cpuinfo, "\nflags");
  const size_t length = flags ? strcspn(flags + 1, "\n") : 0;
  const char *virtual = flags ? strstr(flags, " hypervisor") : NULL;
  return flags && (!virtual || virtual > flags + length);
}

/* Adds up the folders of this process's cgroups, and of all above, that may hold a cpu.stat. */
static double throttled(const hd_machine_facts *facts) {
  char groups[TEXT_BYTES], path[PATH_BYTES], text[TEXT_BYTES];
  double most = 0;
  hd__host_text(groups, sizeof groups, facts, "/proc/self/cgroup");
  for (char *save, *line = strtok_r(groups, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    char *controllers = strchr(line, ':'), *folder = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!folder)
      continue;
    *folder++ = 0;
    for (char *end = folder + strlen(folder); end; end = strrchr(folder, '/')) {
      *end = 0;
      snprintf(path, sizeof path, "/sys/fs/cgroup/%.200s%.600s/cpu.stat", controllers + 1, folder);
      double here = hd__parse_throttled(hd__host_text(text, sizeof text, facts, path));
      most = here > most ? here : most;
    }
  }
  return most;
}

hd_losses hd__host_losses(const hd_machine_facts *facts) {
  char text[TEXT_BYTES];
  hd_losses now = {0};
  hd__parse_steal(&now.steal, &now.total, hd__host_text(text, sizeof text, facts, "/proc/stat"));
  now.throttled_s = throttled(facts);
  return now;
}

/* Whether a mapped file has the name of an OpenMP runtime. */
static bool is_runtime(const char *name) {
  static const char *const families[] = {"libgomp.so", "libgomp-", "libomp.so", "libomp-", "libiomp5.so", "libiomp5-"};
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    if (!strncmp(name, families[i], strlen(families[i])))
      return true;
  return false;
}

int hd__count_runtimes(char *names, size_t bytes, const char *maps) {
  int count = 0;
  size_t at = 0;
  names[0] = 0;
  for (const char *line = maps; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    int length = (int)strcspn(line, "\n");
    const char *slash = memchr(line, '/', (size_t)length), *name = slash;
    for (const char *c = slash; c && c < line + length; c++)
      name = *c == '/' ? c + 1 : name;
    if (!name || !is_runtime(name))
      continue;
    char file[96];
    snprintf(file, sizeof file, "%.*s", (int)(line + length - name), name);
    if (strstr(names, file) || at >= bytes)
      continue;
    at += (size_t)snprintf(names + at, bytes - at, "%s%s", count ? ", " : "", file);
    count++;
  }
  return count;
}
