/* Affinity mask, cgroup quotas (v2 and v1) and physical cores. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys/budget.h"

#include <hwloc.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

enum { PATH_BYTES = 4096 };

static long long read_two(const char *path, long long *second) {
  char first[32] = "";
  FILE *file = fopen(path, "r");
  if (!file)
    return -1;
  *second = 0;
  int got = fscanf(file, "%31s %lld", first, second);
  fclose(file);
  return got < 1 || !strcmp(first, "max") ? -1 : atoll(first);
}

/* The quota of one folder in CPUs rounded down, 0 for none. */
static int folder_quota(const char *folder) {
  char path[PATH_BYTES + 32];
  long long period = 0, ignored;
  snprintf(path, sizeof path, "%s/cpu.max", folder);
  long long quota = read_two(path, &period);
  if (quota < 0) {
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    quota = read_two(path, &ignored);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    period = read_two(path, &ignored);
  }
  if (quota <= 0 || period <= 0)
    return 0;
  long long cpus = quota < period ? 1 : quota / period;
  return cpus < INT_MAX ? (int)cpus : INT_MAX;
}

/* The tightest quota of root/path and every folder above it down to root. */
static int tightest_quota(const char *root, const char *path) {
  char folder[PATH_BYTES];
  int tightest = 0;
  if ((size_t)snprintf(folder, sizeof folder, "%s%s", root, path) >= sizeof folder)
    return 0;
  for (size_t end = strlen(folder); end >= strlen(root); end--) {
    if (folder[end] != 0 && folder[end] != '/')
      continue;
    folder[end] = 0;
    int quota = folder_quota(folder);
    if (quota > 0 && (tightest == 0 || quota < tightest))
      tightest = quota;
    if (end == 0)
      break;
  }
  return tightest;
}

int hd__budget_quota(const char *root, const char *membership) {
  FILE *file = fopen(membership, "r");
  if (!file)
    return 0;
  char line[PATH_BYTES];
  int tightest = 0;
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
      continue;
    *path++ = 0;
    char base[PATH_BYTES];
    controllers++;
    if (*controllers && !strstr(controllers, "cpu"))
      continue;
    snprintf(base, sizeof base, *controllers ? "%s/%s" : "%s", root, controllers);
    int quota = tightest_quota(base, strcmp(path, "/") ? path : "");
    if (quota > 0 && (tightest == 0 || quota < tightest))
      tightest = quota;
  }
  fclose(file);
  return tightest;
}

int hd__budget_cpus(void) {
  cpu_set_t set;
  int mask = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  int quota = hd__budget_quota("/sys/fs/cgroup", "/proc/self/cgroup");
  return quota > 0 && quota < mask ? quota : mask;
}

/* Asks the operating system alone: hwloc's plugins open graphics and OpenCL libraries, and its x86 component moves this
 * thread from CPU to CPU; both take tens of milliseconds and tell nothing that lanes need. */
static int open_topology(hwloc_topology_t *out) {
  const char *const plugins = "HWLOC_PLUGINS_PATH";
  bool ours = !getenv(plugins);
  if (ours)
    setenv(plugins, "/dev/null", 1);
  int failed = hwloc_topology_init(out);
  if (ours)
    unsetenv(plugins);
  if (failed)
    return failed;
  hwloc_topology_set_components(*out, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  return 0;
}

/* The first allowed CPU of each physical core, in hwloc's order. Returns how many; cpu holds at most `room`. */
static int physical_cores(int *cpu, int room) {
  cpu_set_t mask;
  hwloc_topology_t topology;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0 || open_topology(&topology) != 0)
    return 0;
  int count = 0;
  if (hwloc_topology_load(topology) == 0) {
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core))) {
      unsigned pu;
      hwloc_bitmap_foreach_begin(pu, core->cpuset) if (pu < CPU_SETSIZE && CPU_ISSET(pu, &mask)) {
        if (count < room)
          cpu[count] = (int)pu;
        count++;
        break;
      }
      hwloc_bitmap_foreach_end();
    }
  }
  hwloc_topology_destroy(topology);
  return count;
}

/* OMP_NUM_THREADS is a list, one number for each level of nesting; lanes are the outermost. */
static bool first_of_list(int *out, const char *list) {
  int64_t number;
  char first[24] = "";
  sscanf(list, " %20[^, \t]", first);
  if (!hd__parse_int64(&number, first) || number < 1 || number > HD_MAX_LANES)
    return false;
  *out = (int)number;
  return true;
}

hd_status hd__budget_lanes(int *out, hd_ctx *ctx) {
  const char *wanted = getenv("OMP_NUM_THREADS");
  if (!wanted || !*wanted) {
    int cpus = hd__budget_cpus(), cores = physical_cores(NULL, 0);
    *out = cores > 0 && cores < cpus ? cores : cpus;
    return HD_OK;
  }
  if (first_of_list(out, wanted))
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "OMP_NUM_THREADS expects a whole number from 1 to %d, found '%.80s'; unset it or use --threads N",
                  HD_MAX_LANES, wanted);
}

void hd__budget_place(int *cpu, int lanes) {
  for (int i = 0; i < lanes; i++)
    cpu[i] = -1;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0 || hd__budget_cpus() < CPU_COUNT(&set))
    return;
  if (physical_cores(cpu, lanes) < lanes)
    for (int i = 0; i < lanes; i++)
      cpu[i] = -1;
}
