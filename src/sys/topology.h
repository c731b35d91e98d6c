/* Machines other than this one, for tests: what hd_topology_create makes of a description. And what hwloc does with
 * memory. */
#ifndef HD_SYS_TOPOLOGY_H
#define HD_SYS_TOPOLOGY_H

#include <stddef.h>

#include "heddle/topology.h"

/* hwloc's synthetic description ("pack:2 l3:4 core:8 pu:2"), or one that lstopo wrote as XML: a name ending in .xml.
 * All CPUs are usable, there is no quota, and OMP_NUM_THREADS is not looked at. */
hd_status hd__topology_describe(hd_topology **out, hd_ctx *ctx, const char *description);

/* Works cores, mask and budget out again, after `usable` or the quota of a description were changed. */
void hd__topology_count_budget(hd_topology *t);

typedef struct hd_memory_piece {
  void *from;
  size_t bytes;
  int32_t numa; /* as in hd_cpu */
} hd_memory_piece;

/* Binds the whole pages inside each piece, which nobody has touched yet, to its NUMA node. HD_E_SYSTEM where the system
 * refuses: then they come from wherever it takes them. */
hd_status hd__topology_bind_memory(hd_ctx *ctx, const hd_memory_piece *piece, int pieces);

#endif
