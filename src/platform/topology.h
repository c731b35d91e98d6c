/* Topologies from descriptions of machines, for tests; and binding memory to NUMA nodes. */
#pragma once

#include <stddef.h>

#include "heddle/topology.h"

/* hwloc's synthetic description ("pack:2 l3:4 core:8 pu:2"), or one that lstopo wrote as XML: a name ending in .xml.
 * All CPUs are usable, there is no quota, and OMP_NUM_THREADS is ignored. */
hd_status hd__topology_describe(hd_topology **out, hd_ctx *ctx, const char *description);

/* Recomputes cores, mask and budget, after `usable` or the quota of a description were changed. */
void hd__topology_count_budget(hd_topology *t);

typedef struct hd_memory_range {
  void *from;
  size_t bytes;
  int32_t numa; /* as in hd_cpu */
} hd_memory_range;

/* Binds the whole pages inside each range, untouched so far, to its NUMA node. HD_E_SYSTEM if the system refuses: it
 * then chooses the nodes. */
hd_status hd__topology_bind_memory(hd_ctx *ctx, const hd_memory_range *range, int count);
