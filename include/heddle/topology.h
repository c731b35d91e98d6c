/* The machine: what there is, how much of it this process may use, and where a run's lanes go.
 *
 *     hd_topology *machine;
 *     hd_placement *place;
 *     hd_topology_create(&machine, ctx);
 *     hd_placement_create(&place, ctx, machine, &(hd_placement_request){.threads = 0});
 *     for (int i = 0; i < place->lanes; i++)
 *       printf("lane %d on CPU %d\n", i, place->lane[i].cpu);
 *     hd_placement_destroy(place);
 *     hd_topology_destroy(machine);
 *
 * A CPU is a logical one, as nproc, lscpu and taskset count and number them; a core is a physical one, with one CPU or
 * several. Cores, packages, NUMA nodes and L3 groups are counted from 0 in the order of the machine.
 *
 * Nothing here binds or starts anything. A topology never changes after it was made, nor does a placement; any thread
 * may read them. The caller owns both; NULL may be destroyed. */
#ifndef HEDDLE_TOPOLOGY_H
#define HEDDLE_TOPOLOGY_H

#include <stdint.h>

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_MAX_THREADS = 1024, HD_MAX_KINDS = 8, HD_MAX_CACHES = 8 };

typedef struct hd_cpu {
  int32_t cpu;           /* the system's number */
  int32_t core, package; /* where it is */
  int32_t numa, l3;      /* -1: none */
  int32_t sibling;       /* 0: the first CPU of its core, 1: the second, ... */
  int32_t kind;          /* index into hd_topology.kind */
  int32_t usable;        /* in this process's affinity mask, which lies inside its cpuset */
  int32_t busy;          /* a lane of another heddle job is bound to it */
} hd_cpu;

/* A kind of core, the least powerful first. A machine of equal cores has one. */
typedef struct hd_core_kind {
  const char *name; /* "uniform"; "efficiency", "performance"; static storage */
  int32_t cores, cpus;
} hd_core_kind;

typedef struct hd_cache {
  char name[8];  /* "L1d", "L2", "L3" */
  int64_t bytes; /* of one */
  int32_t count;
} hd_cache;

typedef struct hd_numa {
  int32_t node; /* the system's number */
  int64_t memory_bytes;
} hd_numa;

/* How many CPUs this process may keep busy. */
typedef struct hd_budget {
  int32_t cpus;         /* the smaller of the mask and the floor of the quota, at least 1 */
  int32_t mask;         /* CPUs in the affinity mask */
  int32_t cores;        /* physical cores with a CPU in the mask */
  double quota;         /* CPUs of the tightest cgroup quota, this process's or an ancestor's; 0: none */
  char quota_file[256]; /* where it stands */
  char omp[96];         /* OMP_NUM_THREADS as the user set it; "": not set */
  char why[400];        /* one line: which of them decides */
} hd_budget;

typedef struct hd_topology {
  char model[128]; /* of the processor; may be empty */
  int32_t packages, numa_nodes, l3_groups, cores, cpus, kinds, caches;
  int64_t memory_bytes;
  hd_cpu *cpu; /* in the order of the machine: a core's CPUs are neighbours, as are a cache's cores */
  hd_numa *numa;
  hd_core_kind kind[HD_MAX_KINDS];
  hd_cache cache[HD_MAX_CACHES];
  hd_budget budget;
} hd_topology;

/* The machine of this process, as hwloc sees it; with HWLOC_SYNTHETIC or HWLOC_XMLFILE set another one, all of it
 * usable. Quotas are read below HEDDLE_SYSROOT, if that is set: from its sys/fs/cgroup and proc/self/cgroup.
 * HD_E_SYSTEM where hwloc finds no CPU, HD_E_NOMEM; *out is NULL then. Takes some milliseconds. Any number of threads
 * may call it, each with a context of its own; no other thread may change the environment meanwhile. */
HD_API hd_status hd_topology_create(hd_topology **out, hd_ctx *ctx);
HD_API void hd_topology_destroy(hd_topology *topology);

/* Which CPUs lanes take, and in which order. A core's further CPUs come after the first ones of all cores, except in
 * COMPACT; powerful kinds of cores come first, always. */
typedef enum hd_placement_policy {
  HD_PLACE_PHYSICAL, /* one lane per core, in the order of the machine; cores that are busy last */
  HD_PLACE_COMPACT,  /* as near to each other as can be: all CPUs of a core before the next core */
  HD_PLACE_SPREAD,   /* as far from each other as can be: packages, NUMA nodes and L3 groups in turn */
  HD_PLACE_ALL       /* one lane per CPU */
} hd_placement_policy;

enum { HD_PLACEMENT_POLICIES = HD_PLACE_ALL + 1 };

/* "physical", "compact", "spread" or "all", as --placement has it; never NULL. Static storage. */
HD_API const char *hd_placement_policy_text(hd_placement_policy policy);

typedef struct hd_placement_request {
  hd_placement_policy policy;
  const char *cpus; /* "0-3,8": these CPUs in this order, instead of a policy; NULL: none */
  int32_t threads;  /* lanes; 0: OMP_NUM_THREADS, else what suits the policy within the budget */
  int32_t workers;  /* loader threads, which want a CPU too */
} hd_placement_request;

typedef struct hd_binding {
  int32_t cpu;  /* -1: wherever the system puts it */
  int32_t numa; /* of that CPU; -1: unknown */
  int32_t kind; /* of its core, as in hd_cpu; -1: unknown */
  int32_t l3;   /* that it lives under, as in hd_cpu; -1: unknown */
} hd_binding;

typedef struct hd_placement {
  int32_t lanes, workers;
  hd_binding *lane, *worker;
  int32_t cpus;  /* that may be busy at once: more lanes than this share them */
  char why[384]; /* one line: how the number of lanes and their places came about */
} hd_placement;

/* A pure function of the topology and the request. Lanes are not bound to CPUs (-1) where they are more than the
 * usable ones, and with PHYSICAL where a quota is tighter than the mask or idle cores are too few: the system balances
 * better. Workers get cores without a lane first, then the further CPUs of lanes' cores, else -1. HD_E_USAGE for a
 * list of CPUs that is none or leaves the mask, for `threads` above HD_MAX_THREADS, and, where it counts, for an
 * OMP_NUM_THREADS that is no number of threads; HD_E_NOMEM. *out is NULL then. */
HD_API hd_status hd_placement_create(hd_placement **out, hd_ctx *ctx, const hd_topology *topology,
                                     const hd_placement_request *request);
HD_API void hd_placement_destroy(hd_placement *placement);

/* ---- The threads of a context ---- */

/* How many threads whatever is made with this context takes from now on unless it says a number itself: sessions and
 * evaluations with `threads` = auto, large tensors, pools of 0 workers. It stands above OMP_NUM_THREADS and above what
 * tuning remembers, and never changes a result. A context starts without such a number; sessions and pools that exist
 * keep theirs.
 *
 * 1 to HD_MAX_THREADS; HD_E_USAGE for others, or without a context, and the number before stands. More than the budget
 * are allowed: then the status is HD_OK and the context's message warns that they share CPUs; else it is "".
 *
 * Thread safety: as every call with a context, one thread at a time for each context; contexts do not share it. */
HD_API hd_status hd_set_num_threads(hd_ctx *ctx, int32_t threads);

/* That number; before it was set, what would be taken: OMP_NUM_THREADS, else one for each physical core within the
 * budget, which is looked at anew. Fails as hd_topology_create and hd_placement_create do; *threads is 0 then. */
HD_API hd_status hd_get_num_threads(int32_t *threads, hd_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
