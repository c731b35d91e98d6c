/* The machine: its CPUs, those that this process may use, and the placement of a run's threads.
 *
 *     hd_topology *machine;
 *     hd_placement *place;
 *     hd_topology_create(&machine, ctx);
 *     hd_config_place(&place, ctx, config, machine);
 *     for (int i = 0; i < place->threads; i++)
 *       printf("thread %d on CPU %d\n", i, place->thread[i].cpu);
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

#include "heddle/options.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_MAX_THREADS = 1024, HD_MAX_KINDS = 8, HD_MAX_CACHES = 8 };

typedef struct hd_cpu {
  int32_t cpu;           /* the system's number */
  int32_t core, package; /* that it belongs to */
  int32_t numa, l3;      /* -1: none */
  int32_t sibling;       /* 0: the first CPU of its core, 1: the second, ... */
  int32_t kind;          /* index into hd_topology.kind */
  int32_t usable;        /* in this process's affinity mask, which lies inside its cpuset */
  int32_t busy;          /* a thread of another heddle job is bound to it; 1: of this user, 2: as another user claims */
} hd_cpu;

typedef enum hd_core_type {
  HD_CORE_UNIFORM, /* all are equal */
  HD_CORE_LOW_POWER,
  HD_CORE_EFFICIENCY,
  HD_CORE_PERFORMANCE,
  HD_CORE_OTHER /* of a machine with more than three kinds */
} hd_core_type;

/* "uniform", "low-power", "efficiency", "performance" or "of several". Static storage. */
HD_API const char *hd_core_type_name(hd_core_type type);

/* A kind of core, the least powerful first. A machine of equal cores has one. */
typedef struct hd_core_kind {
  hd_core_type type;
  int32_t cores, cpus;
} hd_core_kind;

typedef enum hd_memory_level { HD_L1D, HD_L2, HD_L3, HD_MAIN_MEMORY } hd_memory_level;

/* "L1d", "L2", "L3" or "memory". Static storage. */
HD_API const char *hd_memory_level_name(hd_memory_level level);

typedef struct hd_cache {
  hd_memory_level level;
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
  char quota_file[256]; /* that sets it */
  char omp[96];         /* OMP_NUM_THREADS as the user set it; "": not set */
  char why[400];        /* one line: which of these limits decides */
} hd_budget;

typedef struct hd_topology {
  char model[128]; /* of the processor; may be empty */
  int32_t packages, numa_nodes, l3_groups, cores, cpus, kinds, caches;
  int64_t memory_bytes;
  hd_cpu *cpu; /* in the order of the machine: the CPUs of a core are adjacent, as are the cores of a cache */
  hd_numa *numa;
  hd_core_kind kind[HD_MAX_KINDS];
  hd_cache cache[HD_MAX_CACHES];
  hd_budget budget;
} hd_topology;

/* The machine of this process, as hwloc sees it; with HWLOC_SYNTHETIC or HWLOC_XMLFILE set another one, all of it
 * usable. Quotas are read below HEDDLE_SYSROOT, if that is set: from its sys/fs/cgroup and proc/self/cgroup.
 * HD_E_SYSTEM where hwloc finds no CPU, or where the calling thread's stack is below 240 KB; HD_E_NOMEM; *out is NULL
 * then. Takes some milliseconds. Any number of threads may call it, each with another context; no other thread may
 * change the environment meanwhile. */
HD_API hd_status hd_topology_create(hd_topology **out, hd_ctx *ctx);
HD_API void hd_topology_destroy(hd_topology *topology);

typedef struct hd_binding {
  int32_t cpu;  /* -1: not bound */
  int32_t numa; /* of that CPU; -1: unknown */
  int32_t kind; /* of its core, as in hd_cpu; -1: unknown */
  int32_t l3;   /* of that CPU, as in hd_cpu; -1: unknown */
} hd_binding;

typedef struct hd_placement {
  int32_t threads, workers;
  hd_binding *thread, *worker;
  int32_t cpus;  /* CPUs that may be busy at once: more threads than this share them */
  char why[384]; /* one line: the reason for the number of threads and their placement */
} hd_placement;

/* Made by hd_config_place (heddle/config.h); NULL is allowed. */
HD_API void hd_placement_destroy(hd_placement *placement);

/* ---- The threads of a context ---- */

/* Sets the default number of threads of a context, for sessions and evaluations with `threads` = auto, large
 * tensors, and pools of 0 workers. It takes precedence over OMP_NUM_THREADS and over stored tuning results, and
 * never changes a result. A context starts without such a number; existing sessions and pools keep theirs.
 *
 * 1 to HD_MAX_THREADS; HD_E_USAGE for others, or without a context: the number is unchanged then. More than the
 * budget are allowed: then the status is HD_OK and the context's message warns that they share CPUs; else it is "".
 *
 * Thread safety: as every call with a context, one thread at a time for each context; contexts do not share it. */
HD_API hd_status hd_set_num_threads(hd_ctx *ctx, int32_t threads);

/* That number; if it is not set, the default: OMP_NUM_THREADS, else one for each physical core within the budget,
 * which is read anew. At most OMP_THREAD_LIMIT. Errors as for hd_topology_create and hd_config_place; *threads is 0
 * then. */
HD_API hd_status hd_get_num_threads(int32_t *threads, hd_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
