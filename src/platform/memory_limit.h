/* The memory that this process may use: the machine's, or the tightest limit of its cgroups where that is less. */
#ifndef HD_PLATFORM_MEMORY_LIMIT_H
#define HD_PLATFORM_MEMORY_LIMIT_H

#include <stdint.h>

/* `root` stands for /sys/fs/cgroup, `membership` for /proc/self/cgroup; NULL for these. In bytes. */
int64_t hd__memory_budget(const char *root, const char *membership);

#endif
