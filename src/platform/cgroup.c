/* Limits of the cgroups of a process, up to the root: see cgroup.h. */
#include "platform/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/file.h"

enum { PATH_BYTES = 4096 };

/* The first number of a file, -1: none or "max"; *second is the next number, 0: none. */
static long long read_two(const char *path, long long *second) {
  char text[128], first[32] = "";
  *second = 0;
  const int got = hd__file_text(text, sizeof text, path) > 0 ? sscanf(text, "%31s %lld", first, second) : 0;
  return got < 1 || !strcmp(first, "max") ? -1 : atoll(first);
}

/* Calls `look` for base/path and every folder above it down to base. */
typedef void look_fn(void *tightest, const char *folder);

static void climb(void *tightest, look_fn *look, const char *base, const char *path) {
  char folder[PATH_BYTES];
  size_t stop = strlen(base);
  if ((size_t)snprintf(folder, sizeof folder, "%s%s", base, path) >= sizeof folder)
    return;
  for (size_t end = strlen(folder);; end--) {
    if (folder[end] == 0 || folder[end] == '/') {
      folder[end] = 0;
      look(tightest, folder);
    }
    if (end == stop)
      return;
  }
}

/* Whether a list such as "cpu,cpuacct" has this controller. */
static bool lists(const char *controllers, const char *controller) {
  const size_t length = strlen(controller);
  for (const char *at = controllers; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strcspn(at, ",") == length && !strncmp(at, controller, length))
      return true;
  return false;
}

/* Calls `look` for the folders of the cgroups that may limit this controller. A line of the membership is
 * "hierarchy:controllers:path"; version 2 has no controllers, and its folder may lie beside those of version 1, which
 * are named after their controllers, or one of them. */
static void look_at_all(void *tightest, look_fn *look, const char *root, const char *membership,
                        const char *controller) {
  char line[PATH_BYTES], base[PATH_BYTES];
  HD_FILE_OWNED *file = fopen(membership, "re");
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
      continue;
    *path++ = 0;
    controllers++;
    const bool second = !*controllers;
    const char *const names[] = {controllers, second ? "unified" : "cpu,cpuacct", second ? "unified" : controller};
    for (int i = 0; i < 3 && (second || lists(controllers, controller)); i++) {
      snprintf(base, sizeof base, "%s%s%s", root, *names[i] ? "/" : "", names[i]);
      climb(tightest, look, base, strcmp(path, "/") ? path : "");
    }
  }
}

/* ---- Quotas of CPUs ---- */

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
static void look_for_quota(void *tightest, const char *folder) {
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

hd_quota hd__quota_read(const char *root, const char *membership) {
  hd_quota tightest = {0};
  look_at_all(&tightest, look_for_quota, root, membership, "cpu");
  return tightest;
}

int hd__quota_floor(double cpus) {
  if (cpus <= 0 || cpus >= INT_MAX)
    return INT_MAX;
  return cpus < 1 ? 1 : (int)cpus;
}

void hd__cgroup_paths(char cgroups[HD_CGROUP_PATH_BYTES], char membership[HD_CGROUP_PATH_BYTES]) {
  const char *root = getenv("HEDDLE_SYSROOT");
  snprintf(cgroups, HD_CGROUP_PATH_BYTES, "%s/sys/fs/cgroup", root ? root : "");
  snprintf(membership, HD_CGROUP_PATH_BYTES, "%s/proc/self/cgroup", root ? root : "");
}

/* ---- Limits of memory ---- */

/* Version 2 has memory.max, version 1 memory.limit_in_bytes. */
static void look_for_limit(void *least, const char *folder) {
  static const char *const name[] = {"memory.max", "memory.limit_in_bytes"};
  char path[PATH_BYTES + 32];
  long long ignored;
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, name[i]);
    const long long limit = read_two(path, &ignored);
    if (limit > 0 && limit < *(int64_t *)least)
      *(int64_t *)least = limit;
  }
}

int64_t hd__memory_budget(void) {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  char cgroups[HD_CGROUP_PATH_BYTES], membership[HD_CGROUP_PATH_BYTES];
  int64_t least = pages > 0 && page > 0 ? (int64_t)pages * page : INT64_MAX;
  hd__cgroup_paths(cgroups, membership);
  look_at_all(&least, look_for_limit, cgroups, membership, "memory");
  return least;
}
