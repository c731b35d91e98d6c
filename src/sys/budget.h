/* How many CPUs this process may really use, and which.
 *
 * The budget is the smaller of the affinity mask (which includes the cpuset) and the floor of the tightest CPU quota of
 * this process's cgroup and all its ancestors, never less than 1. Physical cores come from hwloc: two hyper-threads of
 * one core count once. OMP_NUM_THREADS, where set, is what the user wants. */
#ifndef HD_SYS_BUDGET_H
#define HD_SYS_BUDGET_H

#include "base/status.h"

enum { HD_MAX_LANES = 1024 };

/* CPUs (hardware threads) usable at once: mask and quota. */
int hd__budget_cpus(void);

/* The default number of lanes: OMP_NUM_THREADS (of a list the first; empty is unset), else physical cores in the mask,
 * at most the budget. HD_E_USAGE if OMP_NUM_THREADS is no number from 1 to HD_MAX_LANES. */
hd_status hd__budget_lanes(int *out, hd_ctx *ctx);

/* One CPU per lane, each on a physical core of its own, in hwloc's order; all -1 (not pinned) where the lanes are more
 * than the cores or the quota is tighter than the mask: then the kernel balances better than we could. */
void hd__budget_place(int *cpu, int lanes);

/* Reads the quota under a cgroup root, for tests: `root` stands for /sys/fs/cgroup, `membership` for /proc/self/cgroup.
 * Returns the floor of the tightest quota in CPUs (at least 1), 0 for none. */
int hd__budget_quota(const char *root, const char *membership);

#endif
