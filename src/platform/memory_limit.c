/* Reading limits on memory: a cgroup of version 2 has memory.max, one of version 1 memory.limit_in_bytes, and every
 * folder above it counts too. Files that are missing, hold "max" or are malformed set no limit. */
#include "platform/memory_limit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static void look_into(int64_t *least, const char *folder, const char *name) {
  char path[PATH_BYTES + 32];
  long long limit = 0;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  if (!file)
    return;
  if (fscanf(file, "%lld", &limit) == 1 && limit > 0 && limit < *least)
    *least = limit;
  fclose(file);
}

/* base/path and every folder above it down to base. */
static void climb(int64_t *least, const char *base, const char *path, const char *name) {
  char folder[PATH_BYTES];
  const size_t stop = strlen(base);
  if ((size_t)snprintf(folder, sizeof folder, "%s%s", base, path) >= sizeof folder)
    return;
  for (size_t end = strlen(folder);; end--) {
    if (folder[end] == 0 || folder[end] == '/') {
      folder[end] = 0;
      look_into(least, folder, name);
    }
    if (end == stop)
      return;
  }
}

/* One line of the membership, "hierarchy:controllers:path". */
static void take_line(int64_t *least, const char *root, const char *line) {
  char base[PATH_BYTES];
  const char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!path++)
    return;
  if (controllers[1] == ':') {
    climb(least, root, path, "memory.max");
  } else if (!strncmp(controllers, ":memory:", 8)) {
    snprintf(base, sizeof base, "%s/memory", root);
    climb(least, base, path, "memory.limit_in_bytes");
  }
}

int64_t hd__memory_budget(const char *root, const char *membership) {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  int64_t least = pages > 0 && page > 0 ? (int64_t)pages * page : INT64_MAX;
  char line[PATH_BYTES];
  FILE *file = fopen(membership ? membership : "/proc/self/cgroup", "r");
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    take_line(&least, root ? root : "/sys/fs/cgroup", line);
  }
  if (file)
    fclose(file);
  return least;
}
