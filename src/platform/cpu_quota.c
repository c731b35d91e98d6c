/* CPU quotas of the cgroups of a process, up to the root: see cpu_quota.h. */
#include "platform/cpu_quota.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* The first number of a file, -1: none or "max"; *second is the next number, 0: none. */
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

static void tighten(hd_quota *tightest, long long quota, long long period, const char *file) {
  if (quota <= 0 || period <= 0)
    return;
  double cpus = (double)quota / (double)period;
  if (tightest->cpus > 0 && tightest->cpus <= cpus)
    return;
  tightest->cpus = cpus;
  snprintf(tightest->file, sizeof tightest->file, "%.*s", HD_QUOTA_FILE_BYTES - 1, file);
}

/* The quota of one folder: version 2 has it in one file, version 1 in two. */
static void look_into(hd_quota *tightest, const char *folder) {
  char file[PATH_BYTES + 32], other[PATH_BYTES + 32];
  long long period = 0, ignored;
  snprintf(file, sizeof file, "%s/cpu.max", folder);
  long long quota = read_two(file, &period);
  tighten(tightest, quota, period, file);
  snprintf(file, sizeof file, "%s/cpu.cfs_quota_us", folder);
  snprintf(other, sizeof other, "%s/cpu.cfs_period_us", folder);
  quota = read_two(file, &ignored);
  if (quota > 0)
    tighten(tightest, quota, read_two(other, &ignored), file);
}

/* base/path and every folder above it down to base. */
static void climb(hd_quota *tightest, const char *base, const char *path) {
  char folder[PATH_BYTES];
  size_t stop = strlen(base);
  if ((size_t)snprintf(folder, sizeof folder, "%s%s", base, path) >= sizeof folder)
    return;
  for (size_t end = strlen(folder);; end--) {
    if (folder[end] == 0 || folder[end] == '/') {
      folder[end] = 0;
      look_into(tightest, folder);
    }
    if (end == stop)
      return;
  }
}

/* Is "cpu" one of the controllers in a list such as "cpu,cpuacct"? */
static bool has_cpu(const char *controllers) {
  for (const char *at = controllers; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strcspn(at, ",") == 3 && !strncmp(at, "cpu", 3))
      return true;
  return false;
}

/* One line of the membership, "hierarchy:controllers:path". Version 2 has no controllers; beside those of version 1
 * it has a separate folder. */
static void take_line(hd_quota *tightest, const char *root, char *line) {
  char base[PATH_BYTES];
  char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!path)
    return;
  *path++ = 0;
  controllers++;
  const char *const second[] = {"", "/unified"}, *const first[] = {"cpu,cpuacct", "cpu"};
  path = strcmp(path, "/") ? path : "";
  for (int i = 0; i < 2 && !*controllers; i++) {
    snprintf(base, sizeof base, "%s%s", root, second[i]);
    climb(tightest, base, path);
  }
  if (!has_cpu(controllers))
    return;
  snprintf(base, sizeof base, "%s/%s", root, controllers);
  climb(tightest, base, path);
  for (int i = 0; i < 2 && tightest->cpus == 0; i++) {
    snprintf(base, sizeof base, "%s/%s", root, first[i]);
    climb(tightest, base, path);
  }
}

hd_quota hd__quota_read(const char *root, const char *membership) {
  hd_quota tightest = {0};
  char line[PATH_BYTES];
  FILE *file = fopen(membership, "r");
  if (!file)
    return tightest;
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    take_line(&tightest, root, line);
  }
  fclose(file);
  return tightest;
}

int hd__quota_floor(double cpus) {
  if (cpus <= 0 || cpus >= INT_MAX)
    return INT_MAX;
  return cpus < 1 ? 1 : (int)cpus;
}
