/* How much memory this process may use: the machine's, or the tightest limit of its cgroups where that is less. */
#ifndef HD_SYS_MEMORY_H
#define HD_SYS_MEMORY_H

#include <stdint.h>

/* `root` stands for /sys/fs/cgroup, `membership` for /proc/self/cgroup; NULL for these. In bytes. */
int64_t hd__memory_budget(const char *root, const char *membership);

#endif
