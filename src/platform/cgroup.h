/* Limits of the cgroups of this process: how much processor time and memory they allow.
 *
 * A process belongs to one cgroup of version 2 and to one per controller of version 1; the limits of all ancestors
 * apply, so the tightest counts. Files that are missing, hold "max" or are malformed set no limit. */
#pragma once

#include <stdint.h>

enum { HD_QUOTA_FILE_BYTES = 256 };

typedef struct hd_quota {
  double cpus;                    /* quota / period; 0: none */
  char file[HD_QUOTA_FILE_BYTES]; /* that sets it; "": none */
} hd_quota;

/* `root` stands for /sys/fs/cgroup, `membership` for /proc/self/cgroup. */
hd_quota hd__quota_read(const char *root, const char *membership);

/* Whole CPUs of a quota: at least 1, INT_MAX for none. */
int hd__quota_floor(double cpus);

/* The bytes of memory that this process may use: the machine's, or the tightest limit where that is less. */
int64_t hd__memory_budget(void);
