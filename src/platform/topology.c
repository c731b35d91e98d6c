/* The topology: hwloc's view of the machine as a flat table of CPUs.
 *
 * hwloc is used without its plugins and its x86 component: the plugins open graphics and OpenCL libraries, and the
 * component moves this thread from CPU to CPU; both take tens of milliseconds and give nothing that threads need.
 * The affinity mask is read here too. */
#include "platform/topology.h"

#include <errno.h>
#include <hwloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "platform/cpu_claim.h"
#include "platform/openmp_binding.h"
#include "platform/environment.h"
#include "platform/file.h"
#include "platform/cgroup.h"
#include "platform/thread_start.h"

/* ---- Loading from hwloc ---- */

static void choose_parts(hwloc_topology_t machine) {
  hwloc_topology_set_components(machine, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  hwloc_topology_set_all_types_filter(machine, HWLOC_TYPE_FILTER_KEEP_NONE);
  const hwloc_obj_type_t kept[] = {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_CORE, HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE,
                                   HWLOC_OBJ_L3CACHE};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    hwloc_topology_set_type_filter(machine, kept[i], HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(machine, HWLOC_OBJ_GROUP,
                                 HWLOC_TYPE_FILTER_KEEP_STRUCTURE); /* the parents of NUMA nodes */
  hwloc_topology_set_flags(machine, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
}

/* Kept until the process ends, so that hwloc searches its plugins only once, during a short change of the
 * environment: other threads read the environment at any time. */
static hwloc_topology_t kept_open;

static void open_kept(void *unused) {
  if (hwloc_topology_init(&kept_open) != 0)
    kept_open = NULL;
}

static void keep_plugins_out(void) {
  hd__environment_during((const char *const[]){"HWLOC_PLUGINS_PATH=/dev/null", NULL}, open_kept, NULL);
}

/* hwloc holds a lock while it makes, copies or destroys a topology. A fork waits for this one around it, so that no
 * thread that a child has not got holds either there. */
static pthread_mutex_t hwloc_calls = PTHREAD_MUTEX_INITIALIZER;

static void lock_calls(void) { pthread_mutex_lock(&hwloc_calls); }
static void end_calls(void) { pthread_mutex_unlock(&hwloc_calls); }
static void expect_forks(void) { pthread_atfork(lock_calls, end_calls, end_calls); }

static void begin_calls(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, expect_forks);
  lock_calls();
}

static int start(hwloc_topology_t *machine) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  begin_calls();
  pthread_once(&once, keep_plugins_out);
  const int failed = hwloc_topology_init(machine);
  end_calls();
  return failed;
}

static void destroy(hwloc_topology_t machine) {
  begin_calls();
  hwloc_topology_destroy(machine);
  end_calls();
}

static bool is_xml(const char *description) {
  size_t length = strlen(description);
  return length > 4 && !strcmp(description + length - 4, ".xml");
}

/* This machine as it was found first, for as long as as many CPUs are online: hwloc reads hundreds of files, which
 * takes longer than training a small network. Read and written between begin_calls and end_calls. */
static struct {
  hwloc_topology_t found;
  long online;
} found_here;

/* Whether environment variables of hwloc's describe another machine. */
static bool is_described(void) {
  static const char *const names[] = {"HWLOC_XMLFILE",    "HWLOC_SYNTHETIC",  "HWLOC_FSROOT",
                                      "HWLOC_COMPONENTS", "HWLOC_THISSYSTEM", "HWLOC_CPUID_PATH"};
  size_t i = 0;
  while (i < sizeof names / sizeof *names && !getenv(names[i]))
    i++;
  return i < sizeof names / sizeof *names;
}

/* A copy of what was found; NULL: nothing yet. */
static hwloc_topology_t copy_found(void) {
  hwloc_topology_t copy = NULL;
  begin_calls();
  if (found_here.found && found_here.online == sysconf(_SC_NPROCESSORS_ONLN) &&
      hwloc_topology_dup(&copy, found_here.found) != 0)
    copy = NULL;
  end_calls();
  return copy;
}

static void keep_found(hwloc_topology_t machine) {
  hwloc_topology_t copy;
  begin_calls();
  if (hwloc_topology_dup(&copy, machine) == 0) {
    if (found_here.found)
      hwloc_topology_destroy(found_here.found);
    found_here.found = copy;
    found_here.online = sysconf(_SC_NPROCESSORS_ONLN);
  }
  end_calls();
}

/* `description` NULL: this machine, or the one that hwloc's environment variables name. */
static hd_status load(hwloc_topology_t *machine, hd_ctx *ctx, const char *description) {
  HD_TRY(hd__thread_check_stack(ctx)); /* hwloc needs tens of KB */
  const bool is_here = !description && !is_described();
  if (is_here && (*machine = copy_found()) != NULL)
    return HD_OK;
  if (start(machine) != 0)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for hwloc's topology");
  choose_parts(*machine);
  int failed = 0;
  if (description)
    failed = is_xml(description) ? hwloc_topology_set_xml(*machine, description)
                                 : hwloc_topology_set_synthetic(*machine, description);
  if (!failed && hwloc_topology_load(*machine) == 0 && hwloc_get_nbobjs_by_type(*machine, HWLOC_OBJ_PU) > 0) {
    if (is_here)
      keep_found(*machine);
    return HD_OK;
  }
  destroy(*machine);
  *machine = NULL;
  if (description)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected a machine as an hwloc synthetic description or XML file, found '%.80s'; unset "
                    "HWLOC_SYNTHETIC and HWLOC_XMLFILE for this one",
                    description);
  return hd__fail(ctx, HD_E_SYSTEM, "hwloc found no CPUs; see what lstopo says");
}

/* ---- The table of CPUs ---- */

static int32_t index_of(hwloc_topology_t machine, hwloc_obj_t pu, hwloc_obj_type_t type) {
  hwloc_obj_t above = hwloc_get_ancestor_obj_by_type(machine, type, pu);
  return above ? (int32_t)above->logical_index : -1;
}

static int32_t node_of(hwloc_topology_t machine, unsigned cpu) {
  hwloc_obj_t node = NULL;
  while ((node = hwloc_get_next_obj_by_type(machine, HWLOC_OBJ_NUMANODE, node)))
    if (hwloc_bitmap_isset(node->cpuset, cpu))
      return (int32_t)node->logical_index;
  return -1;
}

/* The kind of a CPU as hwloc ranks it, 0 where it has none. */
static int32_t kind_of(hwloc_topology_t machine, hwloc_obj_t pu) {
  int kind = hwloc_cpukinds_get_by_cpuset(machine, pu->cpuset, 0);
  return kind < 0 ? 0 : kind < HD_MAX_KINDS ? kind : HD_MAX_KINDS - 1;
}

static void list_cpus(hd_topology *t, hwloc_topology_t machine, hwloc_const_bitmap_t usable) {
  hwloc_obj_t pu = NULL;
  for (int i = 0; i < t->cpus && (pu = hwloc_get_next_obj_by_type(machine, HWLOC_OBJ_PU, pu)); i++) {
    hd_cpu *cpu = &t->cpu[i];
    int32_t package = index_of(machine, pu, HWLOC_OBJ_PACKAGE), core = index_of(machine, pu, HWLOC_OBJ_CORE);
    *cpu = (hd_cpu){.cpu = (int32_t)pu->os_index,
                    .core = core < 0 ? i : core, /* some virtual machines describe no cores */
                    .package = package < 0 ? 0 : package,
                    .numa = node_of(machine, pu->os_index),
                    .l3 = index_of(machine, pu, HWLOC_OBJ_L3CACHE),
                    .kind = kind_of(machine, pu),
                    .usable = hwloc_bitmap_isset(usable, pu->os_index) != 0};
    cpu->sibling = i > 0 && cpu[-1].core == cpu->core ? cpu[-1].sibling + 1 : 0;
  }
}

const char *hd_core_type_name(hd_core_type type) {
  static const char *const name[] = {"uniform", "low-power", "efficiency", "performance", "of several"};
  return (unsigned)type <= HD_CORE_OTHER ? name[type] : "";
}

const char *hd_memory_level_name(hd_memory_level level) {
  static const char *const name[] = {"L1d", "L2", "L3", "memory"};
  return (unsigned)level <= HD_MAIN_MEMORY ? name[level] : "";
}

static void count_kinds(hd_topology *t) {
  static const hd_core_type types[3][3] = {{HD_CORE_UNIFORM},
                                           {HD_CORE_EFFICIENCY, HD_CORE_PERFORMANCE},
                                           {HD_CORE_LOW_POWER, HD_CORE_EFFICIENCY, HD_CORE_PERFORMANCE}};
  t->kinds = 1;
  for (int i = 0; i < t->cpus; i++) {
    hd_core_kind *kind = &t->kind[t->cpu[i].kind];
    kind->cpus++;
    kind->cores += t->cpu[i].sibling == 0;
    t->kinds = t->cpu[i].kind >= t->kinds ? t->cpu[i].kind + 1 : t->kinds;
  }
  for (int k = 0; k < t->kinds; k++)
    t->kind[k].type = t->kinds <= 3 ? types[t->kinds - 1][k] : HD_CORE_OTHER;
}

/* Levels 1 to 3 of data, the sizes of the first cache of each. */
static void list_caches(hd_topology *t, hwloc_topology_t machine) {
  static const hwloc_obj_type_t type[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE};
  for (int i = 0; i <= HD_L3; i++) {
    int count = hwloc_get_nbobjs_by_type(machine, type[i]);
    if (count <= 0)
      continue;
    hd_cache *cache = &t->cache[t->caches++];
    cache->level = (hd_memory_level)i;
    cache->bytes = (int64_t)hwloc_get_obj_by_type(machine, type[i], 0)->attr->cache.size;
    cache->count = count;
  }
  int l3_groups = hwloc_get_nbobjs_by_type(machine, HWLOC_OBJ_L3CACHE);
  t->l3_groups = l3_groups > 0 ? l3_groups : 0;
}

static void list_memory(hd_topology *t, hwloc_topology_t machine) {
  hwloc_obj_t node = NULL;
  for (int i = 0; i < t->numa_nodes && (node = hwloc_get_next_obj_by_type(machine, HWLOC_OBJ_NUMANODE, node)); i++)
    t->numa[i] = (hd_numa){.node = (int32_t)node->os_index, .memory_bytes = (int64_t)node->attr->numanode.local_memory};
  t->memory_bytes = (int64_t)hwloc_get_root_obj(machine)->total_memory;
}

/* This machine's memory as the monitor has it: the nodes of a virtual machine may state less than there is. */
static void correct_memory(hd_topology *t) {
  long long kib;
  char text[4096];
  hd__file_text(text, sizeof text, "/proc/meminfo");
  const char *at = strstr(text, "MemTotal:");
  if (!at || sscanf(at, "MemTotal: %lld kB", &kib) != 1 || kib <= 0 || kib > INT64_MAX / 1024)
    return;
  t->memory_bytes = kib * 1024;
  if (t->numa_nodes == 1)
    t->numa[0].memory_bytes = t->memory_bytes;
}

static void name_model(hd_topology *t, hwloc_topology_t machine) {
  hwloc_obj_t package = hwloc_get_obj_by_type(machine, HWLOC_OBJ_PACKAGE, 0);
  const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
  if (!model)
    model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(machine), "CPUModel");
  snprintf(t->model, sizeof t->model, "%s", model ? model : "");
}

static int count_of(hwloc_topology_t machine, hwloc_obj_type_t type, int least) {
  int count = hwloc_get_nbobjs_by_type(machine, type);
  return count < least ? least : count;
}

static hd_status tabulate(hd_topology **out, hd_ctx *ctx, hwloc_topology_t machine, hwloc_const_bitmap_t usable) {
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for the table of CPUs"));
  hd_topology *t = *out;
  t->cpus = count_of(machine, HWLOC_OBJ_PU, 1);
  t->numa_nodes = count_of(machine, HWLOC_OBJ_NUMANODE, 0);
  t->packages = count_of(machine, HWLOC_OBJ_PACKAGE, 1);
  t->cpu = hd__calloc((size_t)t->cpus, sizeof *t->cpu);
  t->numa = hd__calloc((size_t)t->numa_nodes + 1, sizeof *t->numa);
  const hd_status status = HD_ALLOCATED(t->cpu && t->numa, ctx, "out of memory for the table of CPUs");
  HD_TRY(HD_CREATED(status, out, hd_topology_destroy));
  list_cpus(t, machine, usable);
  count_kinds(t);
  list_caches(t, machine);
  list_memory(t, machine);
  name_model(t, machine);
  return HD_OK;
}

/* ---- The budget ---- */

/* `limit`: the variable that allows no more than the mask; NULL: none does. */
static void explain(hd_budget *budget, int cpus, const char *limit) {
  const char *tight = budget->cpus < budget->mask ? "limits it to that many" : "limits it no further";
  const char *who = limit ? limit : "the affinity mask and the cpuset";
  int n = snprintf(budget->why, sizeof budget->why, "%s %s %d of %d CPU%s", who, limit ? "allows" : "allow",
                   budget->mask, cpus, cpus == 1 ? "" : "s");
  if (budget->quota > 0)
    snprintf(budget->why + n, sizeof budget->why - (size_t)n, "; a quota of %.4g CPUs %s (%s)", budget->quota, tight,
             budget->quota_file);
  else
    snprintf(budget->why + n, sizeof budget->why - (size_t)n, "; there is no CPU quota");
}

static void count_budget(hd_topology *t, const char *limit) {
  hd_budget *budget = &t->budget;
  int last_core = -1;
  t->cores = budget->mask = budget->cores = 0;
  for (int i = 0; i < t->cpus; i++) {
    t->cores += t->cpu[i].sibling == 0;
    budget->mask += t->cpu[i].usable != 0;
    if (t->cpu[i].usable && t->cpu[i].core != last_core) {
      budget->cores++;
      last_core = t->cpu[i].core;
    }
  }
  int quota = hd__quota_floor(budget->quota);
  budget->cpus = budget->mask < quota ? budget->mask : quota;
  if (budget->cpus < 1)
    budget->cpus = 1;
  explain(budget, t->cpus, limit);
}

void hd__topology_count_budget(hd_topology *t) { count_budget(t, NULL); }

static void take_quota(hd_budget *budget) {
  char cgroups[HD_CGROUP_PATH_BYTES], membership[HD_CGROUP_PATH_BYTES];
  hd__cgroup_paths(cgroups, membership);
  hd_quota quota = hd__quota_read(cgroups, membership);
  budget->quota = quota.cpus;
  snprintf(budget->quota_file, sizeof budget->quota_file, "%s", quota.file);
}

/* Marks the CPUs of this thread's mask, which is that of all threads of a process that binds none, unless its OpenMP
 * runtime does (openmp_binding.h); of a description all CPUs. */
static void take_mask(hwloc_bitmap_t usable, hwloc_topology_t machine) {
  hwloc_bitmap_copy(usable, hwloc_topology_get_topology_cpuset(machine));
  hwloc_bitmap_t mask = hwloc_bitmap_alloc();
  hd_cpu_set set;
  const bool read = mask && hwloc_topology_is_thissystem(machine) && hd__openmp_unbound(&set);
  for (int cpu = 0; read && cpu < HD_CPU_SET_CPUS; cpu++)
    if (hd__cpu_set_has(&set, cpu))
      hwloc_bitmap_set(mask, (unsigned)cpu);
  if (read && hwloc_bitmap_intersects(mask, usable))
    hwloc_bitmap_and(usable, usable, mask);
  hwloc_bitmap_free(mask);
}

/* Objects of hwloc that end with their scope. */
HD_RELEASER(release_machine, struct hwloc_topology, destroy)
HD_RELEASER(release_bitmap, struct hwloc_bitmap_s, hwloc_bitmap_free)
#define MACHINE HD_RELEASED(release_machine) hwloc_topology_t
#define BITMAP HD_RELEASED(release_bitmap) hwloc_bitmap_t

hd_status hd_topology_create(hd_topology **out, hd_ctx *ctx) {
  MACHINE machine = NULL;
  *out = NULL;
  HD_TRY(load(&machine, ctx, NULL));
  BITMAP usable = hwloc_bitmap_alloc();
  HD_TRY(HD_ALLOCATED(usable, ctx, "out of memory for the affinity mask"));
  const bool here = hwloc_topology_is_thissystem(machine) != 0;
  take_mask(usable, machine);
  HD_TRY(tabulate(out, ctx, machine, usable));
  if (here)
    correct_memory(*out);
  for (int i = 0; i < (*out)->cpus && here; i++)
    (*out)->cpu[i].busy = (int32_t)hd__claim_find((*out)->cpu[i].cpu);
  take_quota(&(*out)->budget);
  const char *wanted = getenv("OMP_NUM_THREADS");
  snprintf((*out)->budget.omp, sizeof(*out)->budget.omp, "%s", wanted ? wanted : "");
  count_budget(*out, here ? hd__openmp_limit() : NULL);
  return HD_OK;
}

hd_status hd__topology_describe(hd_topology **out, hd_ctx *ctx, const char *description) {
  MACHINE machine = NULL;
  *out = NULL;
  HD_TRY(load(&machine, ctx, description));
  HD_TRY(tabulate(out, ctx, machine, hwloc_topology_get_topology_cpuset(machine)));
  hd__topology_count_budget(*out);
  return HD_OK;
}

/* 0, or an errno. */
static int bind_range(hwloc_topology_t machine, const hd_memory_range *range) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)range->from;
  const uintptr_t first = (at + page - 1) / page * page, end = (at + range->bytes) / page * page;
  hwloc_obj_t node = hwloc_get_obj_by_type(machine, HWLOC_OBJ_NUMANODE, (unsigned)range->numa);
  if (!node || first >= end)
    return 0;
  int failed = hwloc_set_area_membind(machine, (void *)first, end - first, node->nodeset, HWLOC_MEMBIND_BIND,
                                      HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_NOCPUBIND);
  return failed ? errno : 0;
}

hd_status hd__topology_bind_memory(hd_ctx *ctx, const hd_memory_range *range, int count) {
  MACHINE machine = NULL;
  HD_TRY(load(&machine, ctx, NULL));
  int why = 0;
  for (int i = 0; i < count && why == 0; i++)
    why = bind_range(machine, &range[i]);
  return why == 0 ? HD_OK : hd__fail(ctx, HD_E_SYSTEM, "memory cannot be bound to NUMA nodes: %s", strerror(why));
}

void hd_topology_destroy(hd_topology *t) {
  if (!t)
    return;
  hd__free(t->cpu);
  hd__free(t->numa);
  hd__free(t);
}
