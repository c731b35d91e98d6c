/* Limits of the cgroups of this process: how much processor time and memory they allow.
 *
 * A process belongs to one cgroup of version 2 and to one per controller of version 1; the limits of all ancestors
 * apply, so the tightest counts. Files that are missing, hold "max" or are malformed set no limit. */
#pragma once

#include <stdint.h>

#include "base/tools_api.h"

enum { HD_QUOTA_FILE_BYTES = 256, HD_CGROUP_PATH_BYTES = 512 };

/* /sys/fs/cgroup and /proc/self/cgroup, below $HEDDLE_SYSROOT. */
void hd__cgroup_paths(char cgroups[HD_CGROUP_PATH_BYTES], char membership[HD_CGROUP_PATH_BYTES]);

typedef struct hd_quota {
  double cpus;                    /* quota / period; 0: none */
  char file[HD_QUOTA_FILE_BYTES]; /* that sets it; "": none */
} hd_quota;

/* `root` stands for /sys/fs/cgroup, `membership` for /proc/self/cgroup. */
hd_quota hd__quota_read(const char *root, const char *membership);

/* Whole CPUs of a quota: at least 1, INT_MAX for none. */
int hd__quota_floor(double cpus);

/* The bytes of memory that this process may use: the machine's, or the tightest limit where that is less. */
HD_TOOLS_API int64_t hd__memory_budget(void);
