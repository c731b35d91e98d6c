/* Where threads go, on machines that hwloc makes up from a line, and on this one. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "scratch.h"

#include <dlfcn.h>
#include <hwloc.h>
#include <pthread.h>
#include <sched.h>

#include "base/alloc.h"
#include "base/status.h"
#include "platform/cpu_claim.h"
#include "platform/threads.h"
#include "platform/topology.h"
#include "train/run/session.h"

static hd_ctx *ctx;
static hd_topology *machine;
static int environment_changes;

/* In the place of the system's, to count. */
int setenv(const char *name, const char *value, int overwrite) {
  int (*real)(const char *, const char *, int);
  void *found = dlsym(RTLD_NEXT, "setenv");
  memcpy(&real, &found, sizeof real);
  environment_changes++;
  return real(name, value, overwrite);
}

static void make(const char *description) {
  hd_topology_destroy(machine);
  if (hd__topology_describe(&machine, ctx, description) != HD_OK)
    bail_out("%s: %s", description, hd_ctx_message(ctx));
}

/* Only the CPUs of [from, to] are usable; further calls add some. */
static void allow(int from, int to) {
  for (int i = 0; i < machine->cpus; i++)
    machine->cpu[i].usable = machine->cpu[i].cpu >= from && machine->cpu[i].cpu <= to;
  hd__topology_count_budget(machine);
}

static void forbid(int from, int to) {
  for (int i = 0; i < machine->cpus; i++)
    if (machine->cpu[i].cpu >= from && machine->cpu[i].cpu <= to)
      machine->cpu[i].usable = 0;
  hd__topology_count_budget(machine);
}

static void set_quota(double cpus) {
  machine->budget.quota = cpus;
  snprintf(machine->budget.quota_file, sizeof machine->budget.quota_file, "/sys/fs/cgroup/cpu.max");
  hd__topology_count_budget(machine);
}

/* Cores from `first` on become efficient ones of one CPU. */
static void make_hybrid(int first) {
  for (int i = 0; i < machine->cpus; i++)
    machine->cpu[i].kind = machine->cpu[i].core < first;
  machine->kinds = 2;
}

static hd_placement *placed(const hd_placement_request *request) {
  static hd_placement *place;
  hd_placement_destroy(place);
  if (hd__placement_create(&place, ctx, machine, request) != HD_OK)
    diag("%s", hd_ctx_message(ctx));
  return place;
}

/* "0,1 2": the CPUs of threads; those of workers behind a slash. */
static const char *cpus_text(const hd_placement *place) {
  static char text[8192];
  size_t at = 0;
  text[0] = 0;
  for (int i = 0; place && i < place->threads; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, i ? ",%d" : "%d", place->thread[i].cpu);
  for (int i = 0; place && i < place->workers; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, i ? ",%d" : "/%d", place->worker[i].cpu);
  return text;
}

static void goes(const hd_placement_request *request, const char *want, const char *name) {
  is_str(cpus_text(placed(request)), want, "%s", name);
}
#define GOES(want, name, ...) goes(&(hd_placement_request){__VA_ARGS__}, want, name)

static void test_tables(void) {
  make("pack:2 numa:2 l3:2 core:4 pu:2");
  is_int(machine->packages, 2, "packages");
  is_int(machine->numa_nodes, 4, "NUMA nodes");
  is_int(machine->l3_groups, 8, "L3 groups");
  is_int(machine->cores, 32, "cores");
  is_int(machine->cpus, 64, "CPUs");
  is_int(machine->kinds, 1, "one kind of core");
  is_int(machine->kind[0].type, HD_CORE_UNIFORM, "which has no special name");
  const hd_cpu *last = &machine->cpu[63];
  ok(last->package == 1 && last->numa == 3 && last->l3 == 7 && last->core == 31 && last->sibling == 1,
     "the last CPU is in the last of all");
  ok(machine->budget.cpus == 64 && machine->budget.cores == 32 && machine->budget.mask == 64, "all of it is usable");
  make("pu:3");
  ok(machine->cores == 3 && machine->packages == 1 && machine->l3_groups == 0, "CPUs without cores are cores");
  hd_topology *none;
  hd_status status = hd__topology_describe(&none, ctx, "a fridge");
  ok(status == HD_E_USAGE && !none && strstr(hd_ctx_message(ctx), "'a fridge'"), "what is no machine is refused");
}

/* Other threads may read it meanwhile, those of the program that uses the library, too. */
static void test_environment(void) {
  environment_changes = 0;
  make("pu:2");
  hd_topology *this_one;
  if (hd_topology_create(&this_one, ctx) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_topology_destroy(this_one);
  is_int(environment_changes, 0, "a machine is looked at again without a change to the environment");
}

static void test_policies(void) {
  make("pack:2 l3:2 core:2 pu:2"); /* core c has CPUs 2c and 2c + 1 */
  GOES("0,2,4,6,8,10,12,14", "physical: one thread on each core", .threads = 0);
  GOES("0,2,4", "physical: neighbours first", .threads = 3);
  GOES("0,2,4,6,8,10,12,14,1,3", "physical: further CPUs after all cores", .threads = 10);
  GOES("0,1,2,3,4,5,6,7", "compact: cores are filled", .policy = HD_PLACEMENT_COMPACT);
  GOES("0,8,4,12,2,10,6,14", "spread: packages in turn, then L3 groups", .policy = HD_PLACEMENT_SPREAD);
  GOES("0,8,4", "spread: as far apart as can be", .policy = HD_PLACEMENT_SPREAD, .threads = 3);
  GOES("0,2,4,6,8,10,12,14,1,3,5,7,9,11,13,15", "all: one thread on each CPU", .policy = HD_PLACEMENT_ALL);
  GOES("3,1,8", "a list, in its order", .cpus = "3,1,8");
  GOES("2,3,4,9", "a list with a range", .cpus = "2-4,9");
  GOES("2,3,2,3,2", "more threads than CPUs of the list go round", .cpus = "2-3", .threads = 5);
  is_int(placed(&(hd_placement_request){.cpus = "2-3", .threads = 5})->cpus, 2, "and share these");
  make("pack:2 numa:2 core:2 pu:1");
  GOES("0,4,2,6,1,5,3,7", "spread: NUMA nodes in turn", .policy = HD_PLACEMENT_SPREAD);
  is_int(placed(&(hd_placement_request){.policy = HD_PLACEMENT_SPREAD})->thread[3].numa, 3,
         "a thread's NUMA node is reported");
}

static void test_sizes(void) {
  static const char *const machines[] = {"core:1 pu:1",
                                         "core:1 pu:2",
                                         "core:2 pu:1",
                                         "core:6 pu:2",
                                         "pack:2 l3:3 core:5 pu:2",
                                         "pack:2 numa:4 l3:4 core:8 pu:1",
                                         "pack:2 core:128 pu:1",
                                         "pack:1 core:256 pu:4"};
  int wrong = 0, tried = 0;
  for (size_t m = 0; m < sizeof machines / sizeof *machines; m++) {
    make(machines[m]);
    for (int policy = HD_PLACEMENT_PHYSICAL; policy <= HD_PLACEMENT_ALL; policy++)
      for (int threads = 0; threads <= machine->cpus + 1 && threads <= HD_MAX_THREADS; threads = threads * 3 / 2 + 1) {
        const hd_placement *place =
            placed(&(hd_placement_request){.policy = (hd_placement_choice)policy, .threads = threads, .workers = 2});
        static char taken[2048];
        memset(taken, 0, sizeof taken);
        tried++;
        if (threads > 0 && place->threads != threads)
          wrong++;
        if (threads == 0 && place->threads != (policy == HD_PLACEMENT_ALL ? machine->cpus : machine->cores))
          wrong++;
        for (int i = 0; i < place->threads + place->workers; i++) {
          const int cpu = i < place->threads ? place->thread[i].cpu : place->worker[i - place->threads].cpu;
          if (place->threads > machine->cpus)
            wrong += cpu != -1;
          else if (cpu >= 0)
            wrong += taken[cpu]++;
          else
            wrong += i < place->threads;
        }
      }
  }
  is_int(wrong, 0, "1 to 256 cores, every policy: a CPU for each thread, none twice (%d placements)", tried);
}

static void test_masks(void) {
  make("pack:2 core:4 pu:2");
  allow(0, 0);
  GOES("0", "one CPU in the mask: one thread", .threads = 0);
  allow(3, 12);
  forbid(6, 7);
  is_int(machine->budget.mask, 8, "a mask with a hole");
  is_int(machine->budget.cores, 5, "and half a core at each end");
  GOES("3,4,8,10,12", "one thread on each of its cores", .threads = 0);
  GOES("3,4,8,10,12,5,9,11", "all: all of its CPUs", .policy = HD_PLACEMENT_ALL);
  GOES("3,8,4,10,12", "spread: over both packages", .policy = HD_PLACEMENT_SPREAD);
  GOES("3,4,5,8,9", "compact: over what there is", .policy = HD_PLACEMENT_COMPACT);
  GOES("-1,-1,-1,-1,-1,-1,-1,-1,-1", "more threads than usable CPUs are not bound", .threads = 9);
  ok(strstr(placed(&(hd_placement_request){.threads = 9})->why, "share 8 CPUs"), "and the line says why");
}

static void test_quotas(void) {
  make("core:4 pu:2");
  set_quota(1.5);
  is_int(machine->budget.cpus, 1, "a quota of 1.5 CPUs is a budget of 1");
  GOES("-1", "one thread, wherever there is time for it", .threads = 0);
  const hd_placement *place = placed(&(hd_placement_request){.threads = 0});
  ok(strstr(place->why, "quota of 1.5 CPUs in /sys/fs/cgroup/cpu.max"), "the line names quota and file: %s",
     place->why);
  GOES("-1,-1,-1", "more than the budget, if requested", .threads = 3);
  is_int(placed(&(hd_placement_request){.threads = 3})->cpus, 1, "which can keep one CPU busy");
  GOES("5", "a list is bound even so", .cpus = "5");
  GOES("0", "a list longer than the quota: as many threads as it allows", .cpus = "0,2,4");
  set_quota(0.2);
  is_int(machine->budget.cpus, 1, "a fifth of a CPU is a budget of 1");
  set_quota(3);
  GOES("-1,-1,-1", "three CPUs of eight", .threads = 0);
  GOES("0,1,2", "compact is bound", .policy = HD_PLACEMENT_COMPACT);
  set_quota(6);
  is_int(placed(&(hd_placement_request){.threads = 0})->threads, 4, "a quota above the cores: a thread on each core");
  set_quota(100);
  GOES("0,2,4,6", "a quota wider than the mask does not count", .threads = 0);
}

static void test_hybrid(void) {
  make("core:6 pu:2"); /* cores 0 and 1 powerful with two CPUs each, 2 to 5 efficient */
  make_hybrid(2);
  for (int i = 0; i < 12; i++)
    if (machine->cpu[i].core >= 2 && machine->cpu[i].sibling == 1)
      machine->cpu[i].usable = 0;
  hd__topology_count_budget(machine);
  GOES("0,2,4,6,8,10", "hybrid: a thread on each core, the powerful first", .threads = 0);
  GOES("0,2,4,6,8,10,1,3", "hybrid: second CPUs after the efficient cores", .policy = HD_PLACEMENT_ALL);
  GOES("0,1,2,3,4", "hybrid, compact: the powerful cores are filled first", .policy = HD_PLACEMENT_COMPACT,
       .threads = 5);
  for (int i = 0; i < 12; i++)
    machine->cpu[i].kind = !machine->cpu[i].kind;
  GOES("4,6,8,10,0,2", "hybrid: wherever the powerful ones are", .threads = 0);
}

/* Writes a machine of six cores as XML, as lstopo does of a real one: the first two are powerful. */
static int record_hybrid(const char *path) {
  hwloc_topology_t recorded;
  hwloc_bitmap_t powerful = hwloc_bitmap_alloc(), efficient = hwloc_bitmap_alloc();
  hwloc_topology_init(&recorded);
  hwloc_topology_set_synthetic(recorded, "l3:1 core:6 pu:2");
  int failed = hwloc_topology_load(recorded);
  hwloc_bitmap_set_range(powerful, 0, 3);
  hwloc_bitmap_set_range(efficient, 4, 11);
  failed |= hwloc_cpukinds_register(recorded, powerful, 1, 0, NULL, 0);
  failed |= hwloc_cpukinds_register(recorded, efficient, 0, 0, NULL, 0);
  failed |= hwloc_topology_export_xml(recorded, path, 0);
  hwloc_bitmap_free(powerful);
  hwloc_bitmap_free(efficient);
  hwloc_topology_destroy(recorded);
  return failed;
}

/* A short run of three threads. */
static hd_session *run(const char *name) {
  static const char *const settings[] = {"model",   "simplenet", "data", "random:1x28x28", "max-steps", "3",
                                         "threads", "3",         NULL};
  hd_config *config;
  hd_session *session = NULL;
  hd_config_create(&config, ctx);
  hd_config_set(config, ctx, "out", in_scratch("%s", name));
  for (int i = 0; settings[i]; i += 2)
    hd_config_set(config, ctx, settings[i], settings[i + 1]);
  if (hd_session_create(&session, ctx, config) != HD_OK || hd_session_train(session, ctx, NULL, NULL) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_config_destroy(config);
  return session;
}

/* Two threads on powerful cores, one on another: timed, and that changes nothing. (Where this machine has no CPU of
 * that number, the thread is anywhere.) */
static void test_run(const char *path) {
  setenv("HWLOC_SYNTHETIC", "core:3 pu:1", 1);
  hd_session *plain = run("plain");
  unsetenv("HWLOC_SYNTHETIC");
  setenv("HWLOC_XMLFILE", path, 1);
  hd_session *mixed = run("mixed");
  unsetenv("HWLOC_XMLFILE");
  const int32_t *speed = hd__threads_speeds(mixed->compute.threads);
  ok(!hd__threads_speeds(plain->compute.threads), "threads of one kind are not timed");
  ok(speed && speed[0] == speed[1] && speed[2] > 0 && (speed[0] == 1000 || speed[2] == 1000),
     "threads of two kinds are: %d, %d, %d", speed ? speed[0] : 0, speed ? speed[1] : 0, speed ? speed[2] : 0);
  is_str(hd_session_report(mixed)->weights_sha256, hd_session_report(plain)->weights_sha256, "with the same digest");
  hd_session_destroy(plain);
  hd_session_destroy(mixed);
}

static void test_recorded(void) {
  hd_topology *none;
  const char *path = in_scratch("hybrid.xml");
  if (record_hybrid(path) != 0)
    bail_out("expected hwloc to write %s", path);
  make(path);
  is_int(machine->kinds, 2, "a recorded machine: two kinds of core");
  is_int(machine->kind[0].type, HD_CORE_EFFICIENCY, "the weaker one");
  is_int(machine->kind[0].cores, 4, "of four cores");
  is_int(machine->kind[0].cpus, 8, "with two CPUs each");
  is_int(machine->kind[1].type, HD_CORE_PERFORMANCE, "and the stronger one");
  is_int(machine->kind[1].cores, 2, "of two");
  GOES("0,2,4,6,8,10", "on which threads begin", .threads = 0);
  test_run(path);
  put_file(path, "<topology", 9);
  hd_status status = hd__topology_describe(&none, ctx, path);
  ok(status == HD_E_USAGE && !none, "a record that is cut off is refused");
}

static void test_workers(void) {
  make("core:4 pu:2");
  GOES("0,2,4,6/1,3", "workers beside threads: the further CPUs of their cores", .workers = 2);
  GOES("0,2/4,6,1", "workers take spare cores first", .threads = 2, .workers = 3);
  GOES("0,2,4,6,1,3,5,7/-1", "where threads are everywhere workers are not bound", .policy = HD_PLACEMENT_ALL,
       .workers = 1);
  make("core:2 pu:1");
  GOES("0/1,-1", "one spare core, two workers", .threads = 1, .workers = 2);
}

enum { FAR = 1000003, LOOKS = 20000 }; /* no machine has such a CPU */

static void *look_often(void *unused) {
  for (int i = 0; i < LOOKS; i++)
    hd__claim_find(FAR);
  return unused;
}

/* Takes and gives back, while others check whether it is taken. */
static void test_looking(void) {
  hd_binding thread = {.cpu = FAR};
  pthread_t looker;
  int missed = 0;
  if (pthread_create(&looker, NULL, look_often, NULL) != 0) {
    skip(1, "no second thread here");
    return;
  }
  for (int i = 0; i < LOOKS; i++) {
    hd_claim claim;
    missed += !hd__claim_take(&claim, &(hd_placement){.threads = 1, .thread = &thread});
    hd__claim_drop(&claim);
  }
  pthread_join(looker, NULL);
  is_int(missed, 0, "a check takes nothing meanwhile");
}

/* A job claims no CPUs of threads that it does not start. */
static void test_thread_limit(void) {
  hd_binding thread[2] = {{.cpu = FAR}, {.cpu = FAR + 1}};
  hd_threads *threads;
  hd_ctx *own;
  int32_t count;
  setenv("OMP_THREAD_LIMIT", "1", 1);
  if (hd_ctx_create(&own) != HD_OK)
    bail_out("out of memory");
  hd_set_num_threads(own, 2);
  ok(hd_get_num_threads(&count, own) == HD_OK && count == 1, "threads are within OMP_THREAD_LIMIT");
  hd_ctx_destroy(own);
  if (hd__threads_open_at(&threads, ctx, &(hd_placement){.threads = 2, .thread = thread, .cpus = 2}) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  ok(hd__claim_find(FAR) && !hd__claim_find(FAR + 1), "and so are the CPUs that are claimed");
  hd__threads_destroy(threads);
  unsetenv("OMP_THREAD_LIMIT");
}

static void test_other_jobs(void) {
  make("core:4 pu:2");
  machine->cpu[0].busy = machine->cpu[3].busy = 1; /* cores 0 and 1 */
  GOES("4,6", "cores of other jobs are left alone", .threads = 2);
  GOES("-1,-1,-1,-1", "where idle cores are too few threads are not bound", .threads = 0);
  ok(strstr(placed(&(hd_placement_request){.threads = 0})->why, "other jobs"), "and the line says why");
  GOES("4,6,0,2,5,7,1,3", "but bound where every CPU has one", .threads = 8);
  GOES("0,2", "requested policies ignore it", .threads = 2, .policy = HD_PLACEMENT_SPREAD);
  GOES("1", "nor do lists", .cpus = "1");

  machine->cpu[0].busy = machine->cpu[3].busy = 2; /* reserved by another user */
  GOES("4,6", "what another user calls taken is left alone", .threads = 2);
  GOES("4,6,0,2", "but bound to where there is no other core", .threads = 0);
  ok(strstr(placed(&(hd_placement_request){.threads = 0})->why, "another user"), "and the line says so");
  machine->cpu[1].busy = 1;
  GOES("-1,-1,-1,-1", "and not where a job of this user is on the same core", .threads = 0);

  const int far = FAR;
  hd_binding thread[2] = {{.cpu = far}, {.cpu = far + 1}};
  const hd_placement place = {.threads = 2, .thread = thread};
  hd_claim first, second;
  if (hd__claim_find(far) || !hd__claim_take(&first, &place) || !hd__claim_find(far)) {
    skip(8, "no sockets here, or another test of this kind");
    return;
  }
  ok(hd__claim_find(far + 1) && !hd__claim_find(far + 2), "a job's CPUs are seen");
  ok(!hd__claim_take(&second, &place), "a second job on them is notified of the first");
  hd__claim_drop(&first);
  ok(hd__claim_find(far), "and is seen when that one has ended");
  hd__claim_drop(&second);
  ok(!hd__claim_find(far), "until it ends, too");
  thread[1].cpu = far;
  ok(hd__claim_take(&first, &place), "two threads of a job on one CPU do not dispute it");
  hd__claim_drop(&first);
  test_thread_limit();
  test_looking();
}

static void test_omp(void) {
  static const struct {
    const char *text;
    int threads;
  } good[] = {{"3", 3}, {"1000", 1000}, {"1024", 1024}, {"5,2", 5}, {" 5 , 2", 5}, {"4\t", 4}};
  static const char *const bad[] = {"0", "-2", "many", ",2", "1025", "99999999999999999999", "3x", " "};
  hd_placement *place;
  int wrong = 0;
  make("core:4 pu:2");
  char *omp = machine->budget.omp;
  const size_t room = sizeof machine->budget.omp;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    snprintf(omp, room, "%s", good[i].text);
    wrong += placed(&(hd_placement_request){.threads = 0})->threads != good[i].threads;
  }
  is_int(wrong, 0, "OMP_NUM_THREADS is followed, more than the budget too; of a list the first counts");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    snprintf(omp, room, "%s", bad[i]);
    wrong += hd__placement_create(&place, ctx, machine, &(hd_placement_request){.threads = 0}) != HD_E_USAGE || place ||
             !strstr(hd_ctx_message(ctx), bad[i]);
  }
  is_int(wrong, 0, "what is no number of threads is refused, and named");
  is_int(placed(&(hd_placement_request){.threads = 2})->threads, 2, "a number of threads wins");
  snprintf(omp, room, "2");
  GOES("1,3", "a list of CPUs with OMP_NUM_THREADS", .cpus = "1,3,5");
}

static void refuses_list(const char *cpus, const char *says) {
  hd_placement *place;
  hd_status status = hd__placement_create(&place, ctx, machine, &(hd_placement_request){.cpus = cpus});
  if (!ok(status == HD_E_USAGE && !place && strstr(hd_ctx_message(ctx), says), "the list '%s' is refused", cpus))
    diag("found status %d, '%s'", (int)status, hd_ctx_message(ctx));
}

static void test_bad_lists(void) {
  static const char *const none[] = {"",
                                     ",",
                                     "1,",
                                     "a",
                                     "1-",
                                     "-1",
                                     "3-1",
                                     "1 2",
                                     "0x1",
                                     "1--2",
                                     "1-2-3",
                                     "+",
                                     "1,,2",
                                     "99999999999999999999",
                                     "0-99999999999999999999"};
  hd_placement *place;
  make("core:4 pu:2");
  allow(0, 5);
  forbid(3, 3);
  for (size_t i = 0; i < sizeof none / sizeof *none; i++)
    refuses_list(none[i], "such as 0-3,8");
  refuses_list("0,3", "(0-2,4-5), found 3");
  refuses_list("0-5", "(0-2,4-5), found 3");
  refuses_list("8", "found 8");
  refuses_list("0-9223372036854775807", "found 3");
  refuses_list("1,0-2", "found 1 twice");
  is_int(hd__placement_create(&place, ctx, machine, &(hd_placement_request){.threads = 1025}), HD_E_USAGE,
         "1025 threads are refused");
  is_int(hd__placement_create(&place, ctx, machine, &(hd_placement_request){.workers = -1}), HD_E_USAGE,
         "so are -1 workers");
}

/* ---- This machine ---- */

static void test_here(void) {
  cpu_set_t mask, one;
  hd_topology *all, *narrow;
  hd_threads *threads;
  unsetenv("OMP_NUM_THREADS");
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) {
    skip(5, "more CPUs than a mask can hold");
    return;
  }
  hd_topology_create(&all, ctx);
  is_int(all->budget.mask, CPU_COUNT(&mask), "the mask has as many CPUs as the system reports");
  ok(all->budget.cpus >= 1 && all->budget.cpus <= all->budget.mask, "the budget is between one CPU and the mask");
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &mask))
    last--;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  if (sched_setaffinity(0, sizeof one, &one) == 0) {
    hd_topology_create(&narrow, ctx);
    is_int(narrow->budget.cpus, 1, "with one CPU in the mask the budget is one");
    is_int(narrow->cpus, all->cpus, "of the same machine");
    is_int(hd__threads_open(&threads, ctx, &(hd_placement_request){.threads = 2}), HD_OK, "two threads on it");
    ok(hd__threads_share_cpus(threads), "are crowded");
    hd__threads_destroy(threads);
    hd_topology_destroy(narrow);
    sched_setaffinity(0, sizeof mask, &mask);
  } else {
    skip(4, "the mask cannot be changed");
  }
  hd_topology_destroy(all);
}

/* What users of the public calls reach: other machines by hwloc's variables, quotas by HEDDLE_SYSROOT. */
static void test_variables(void) {
  hd_topology *other = NULL;
  mkdir(in_scratch("sys"), 0700);
  mkdir(in_scratch("sys/fs"), 0700);
  mkdir(in_scratch("sys/fs/cgroup"), 0700);
  mkdir(in_scratch("proc"), 0700);
  mkdir(in_scratch("proc/self"), 0700);
  put_file(in_scratch("proc/self/cgroup"), "0::/\n", 5);
  put_file(in_scratch("sys/fs/cgroup/cpu.max"), "350000 100000\n", 14);
  setenv("HEDDLE_SYSROOT", scratch(), 1);
  setenv("HWLOC_SYNTHETIC", "pack:2 core:4 pu:2", 1);
  is_int(hd_topology_create(&other, ctx), HD_OK, "a machine that a variable describes");
  ok(other && other->packages == 2 && other->cores == 8 && other->cpus == 16 && other->budget.mask == 16,
     "all of it is usable");
  ok(other && other->budget.cpus == 3 && other->budget.quota == 3.5 && strstr(other->budget.quota_file, "cpu.max") &&
         strstr(other->budget.why, "quota of 3.5 CPUs limits it to that many"),
     "under a quota of 3.5 CPUs: %s", other ? other->budget.why : "");
  hd_topology_destroy(other);
  unsetenv("HWLOC_SYNTHETIC");
  put_file(in_scratch("cut.xml"), "<topology", 9);
  setenv("HWLOC_XMLFILE", in_scratch("cut.xml"), 1);
  is_int(hd_topology_create(&other, ctx), HD_E_SYSTEM, "a machine that cannot be read");
  ok(!other && strstr(hd_ctx_message(ctx), "lstopo"), "is none: %s", hd_ctx_message(ctx));
  unsetenv("HWLOC_XMLFILE");
  unsetenv("HEDDLE_SYSROOT");
  hd_topology_destroy(NULL);
  hd_placement_destroy(NULL);
  pass("nothing may be destroyed");
}

static void note_cpu(void *arg, int thread) {
  cpu_set_t mask;
  int *cpu = arg;
  cpu[thread] = sched_getaffinity(0, sizeof mask, &mask) == 0 && CPU_COUNT(&mask) == 1 ? sched_getcpu() : -1;
}

static void test_binding(void) {
  hd_placement *place;
  hd_threads *threads;
  cpu_set_t before, after;
  int cpu[HD_MAX_THREADS], wrong = 0;
  if (hd__threads_place(&place, ctx, &(hd_placement_request){.policy = HD_PLACEMENT_SPREAD}) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  sched_getaffinity(0, sizeof before, &before);
  hd__threads_create(&threads, ctx, place);
  hd__threads_run(threads, ctx, note_cpu, cpu);
  for (int i = 0; i < hd__threads_count(threads); i++)
    wrong += cpu[i] != place->thread[i].cpu;
  is_int(wrong, 0, "threads run where they were placed");
  hd__threads_unbind(threads);
  hd__threads_run(threads, ctx, note_cpu, cpu);
  sched_getaffinity(0, sizeof after, &after);
  ok(CPU_EQUAL(&before, &after), "and the thread that called has its mask back");
  hd__threads_destroy(threads);
  hd_placement_destroy(place);
}

static void test_no_memory(void) {
  const hd_placement_request request = {.workers = 2};
  hd_placement *place = NULL;
  make("core:4 pu:2");
  survives_no_memory(hd__placement_create(&place, ctx, machine, &request), !place, ctx, "memory", 3, "a placement");
  hd_placement_destroy(place);
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  test_tables();
  test_environment();
  test_policies();
  test_sizes();
  test_masks();
  test_quotas();
  test_hybrid();
  test_recorded();
  test_workers();
  test_other_jobs();
  test_omp();
  test_bad_lists();
  test_here();
  test_variables();
  test_binding();
  test_no_memory();
  placed(&(hd_placement_request){.threads = -1});
  hd_topology_destroy(machine);
  hd_ctx_destroy(ctx);
  return done_testing();
}
