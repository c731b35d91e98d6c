/* Helpers to print the machine, shared by the text and the picture of heddle topo and by other commands. */
#pragma once

#include <stdio.h>

#include "heddle.h"

/* The end (exclusive) of the CPUs from `from` on that share a core, a group (one L3 cache in one NUMA node) or a
 * package. The table is in the machine's order, so these are adjacent. */
typedef enum topo_level { TOPO_CORE, TOPO_GROUP, TOPO_PACKAGE } topo_level;
int topo_end(const hd_topology *t, int from, topo_level level);

/* The first thread on a CPU from `from` on, -1: none. */
int topo_thread(const hd_placement *p, int cpu, int from);

/* "32 MiB" in a static buffer that the next call but three reuses. */
const char *topo_bytes(int64_t bytes);

/* "caches: 4 x L2 of 1 MiB, ...", a line, and as a member of an object. */
void topo_print_caches(const hd_topology *t);
void topo_json_caches(const hd_topology *t);

/* "0-3,8" of numbers, which are sorted; truncated if they do not fit. */
enum { TOPO_RANGES_BYTES = 512 };
const char *topo_ranges(char text[TOPO_RANGES_BYTES], int *number, int count);

/* The bytes of an L3 cache, 0 without one. */
int64_t topo_l3_bytes(const hd_topology *t);

/* Draws the machine; the file is the caller's. */
void topo_draw(FILE *file, const hd_topology *t, const hd_placement *p);
