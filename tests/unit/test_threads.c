/* Threads' speeds: set by the user, measured, or equal; the signals that they block; threads on a machine with more
 * CPUs than a cpu_set_t holds; and beside an OpenMP runtime that begins late. (Where threads go and that they get
 * there: test_placement.) */
#include "scratch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include "base/status.h"
#include "platform/cpu_set.h"
#include "platform/openmp_binding.h"
#include "platform/thread_start.h"
#include "platform/threads.h"

static hd_ctx *ctx;

/* ---- A system with CPUs 0 to 4095 ---- */

enum { CPUS = 4096 };
#define OTHER_CPUS CPUS
#define OTHER_WORDS                                                                                                    \
  { ~0UL, [CPUS / 64 - 1] = ~0UL }
#include "other_cpus.h"

/* Where this thread is bound to; -1: to none alone. */
static int bound_to(void) {
  int found = -1;
  for (int i = 0; i < CPUS && hd__cpu_set_count(&allowed) == 1; i++)
    found = hd__cpu_set_has(&allowed, i) ? i : found;
  return found;
}

static void note_cpu(void *arg, int thread) { ((int *)arg)[thread] = bound_to(); }

static void test_many_cpus(void) {
  hd_binding thread[] = {{3, -1, 0, -1}, {1023, -1, 0, -1}, {1024, -1, 0, -1}, {CPUS - 1, -1, 0, -1}};
  const hd_cpu_set before = allowed;
  int cpu[4];
  hd_threads *threads;
  if (hd__threads_create(&threads, ctx, &(hd_placement){.threads = 4, .thread = thread, .cpus = 4}) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd__threads_run(threads, ctx, note_cpu, cpu);
  for (int i = 0; i < 4; i++)
    is_int(cpu[i], thread[i].cpu, "thread %d is bound to CPU %d of %d", i, thread[i].cpu, CPUS);
  ok(!hd__threads_refused(threads), "none is refused");
  ok(!memcmp(&before, &allowed, sizeof before), "and the thread that called has its CPUs back");
  hd__threads_destroy(threads);
}

/* Unbound threads on cores of these kinds. */
static hd_status make(hd_threads **out, const int *kind, int count) {
  hd_binding thread[8];
  for (int i = 0; i < count; i++)
    thread[i] = (hd_binding){-1, -1, kind[i], -1};
  return hd__threads_create(out, ctx, &(hd_placement){.threads = count, .thread = thread, .cpus = count});
}

/* "7 1 7", or "alike". */
static const char *speeds(const hd_threads *threads) {
  static char text[128];
  const int32_t *speed = hd__threads_speeds(threads);
  size_t at = 0;
  snprintf(text, sizeof text, "alike");
  for (int i = 0; speed && i < hd__threads_count(threads); i++)
    at += (size_t)snprintf(text + at, sizeof text - at, i ? " %d" : "%d", speed[i]);
  return text;
}

static void test_said(void) {
  static const char *const bad[] = {"fast", "1,,2", "1,2,", "-1", "1001", "1.5", "1 2", "0", "0,0", "123456789012345"};
  hd_threads *threads;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    setenv("HEDDLE_THREAD_SPEEDS", bad[i], 1);
    hd_status status = make(&threads, (int[]){0, 0, 0}, 3);
    ok(status == HD_E_USAGE && !threads && strstr(hd_ctx_message(ctx), bad[i]), "'%s' is refused: %s", bad[i],
       hd_ctx_message(ctx));
  }
  setenv("HEDDLE_THREAD_SPEEDS", "7,0", 1);
  make(&threads, (int[]){1, 0, 0}, 3);
  is_str(speeds(threads), "7 0 7", "a short list goes round");
  ok(!hd__threads_need_speeds(threads), "set speeds are not measured");
  hd__threads_destroy(threads);
  unsetenv("HEDDLE_THREAD_SPEEDS");
}

static void test_told(void) {
  hd_threads *threads;
  make(&threads, (int[]){1, 1, 1}, 3);
  is_str(speeds(threads), "alike", "threads on cores of one kind are alike");
  ok(!hd__threads_need_speeds(threads), "and need no measuring");
  hd__threads_destroy(threads);
  make(&threads, (int[]){1, 0, -1, 1, 0}, 5);
  ok(hd__threads_need_speeds(threads), "threads on cores of several kinds do");
  is_str(speeds(threads), "alike", "until then they count as alike");
  hd__threads_set_speeds(threads, (double[]){8e6, 3e6, 2e6, 5e6, 4e6});
  is_str(speeds(threads), "1000 500 250 1000 500", "a kind is as fast as its fastest thread");
  ok(!hd__threads_need_speeds(threads), "and need it once");
  hd__threads_destroy(threads);
  make(&threads, (int[]){1, 0}, 2);
  hd__threads_unbind(threads);
  ok(!hd__threads_need_speeds(threads), "threads that are anywhere need none");
  hd__threads_destroy(threads);
}

/* ---- Signals ---- */

/* The number of wrong signals: those that a thread raises by an instruction are open, others blocked. */
static int wrong_signals(void) {
  static const int open[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL}, blocked[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};
  sigset_t mask;
  int wrong = 0;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  for (size_t i = 0; i < sizeof open / sizeof *open; i++)
    wrong += sigismember(&mask, open[i]) != 0;
  for (size_t i = 0; i < sizeof blocked / sizeof *blocked; i++)
    wrong += sigismember(&mask, blocked[i]) != 1;
  return wrong;
}

static void count_wrong(void *arg, int thread) { ((int *)arg)[thread] = wrong_signals(); }

static void *count_alone(void *arg) {
  count_wrong(arg, 0);
  return NULL;
}

static void test_signals(void) {
  hd_threads *threads;
  hd_thread alone;
  int wrong[3], one = -1;
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  make(&threads, (int[]){0, 0, 0}, 3);
  hd__threads_run(threads, ctx, count_wrong, wrong);
  hd__threads_destroy(threads);
  ok(wrong[1] == 0 && wrong[2] == 0, "threads leave signals to the program's: %d %d", wrong[1], wrong[2]);
  if (hd__thread_start(&alone, count_alone, &one) != 0)
    bail_out("no thread");
  hd__thread_join(&alone);
  is_int(one, 0, "as any thread of the library does");
  ok(!hd__thread_is_here(&alone), "which is not here when it was joined");
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  int changed = 0;
  for (int i = 1; i < SIGRTMIN; i++)
    changed += sigismember(&before, i) != sigismember(&after, i);
  is_int(changed, 0, "the starting thread's are as before");
}

/* ---- An OpenMP runtime that begins when it is asked, as LLVM's ---- */

enum { PLACE_CPU = CPUS - 2, SMALL_STACK = 256 << 10, STACK = 4 << 20 }; /* of omp_stub.c; of a thread */

static void begin(void) {
  hd_cpu_set place;
  hd__cpu_set_one(&place, PLACE_CPU);
  hd__cpu_set_bind(&place);
}

static const char *stub(const char *name) {
  const char *build = getenv("BUILDDIR");
  static char path[2][SCRATCH_PATH_BYTES];
  static int next;
  char *out = path[next++ % 2];
  snprintf(out, SCRATCH_PATH_BYTES, "%s/tests/unit/.libs/%s.so", build ? build : ".", name);
  return out;
}

/* Loads a library whose name is longer than that of a runtime, then the runtime. */
static void load_runtime(void) {
  void (**at_first)(void);
  const char *target = in_scratch("libomptarget.so");
  if (symlink(stub("nvml_bare"), target) != 0 || !dlopen(target, RTLD_NOW))
    bail_out("expected a library, found none: %s", dlerror());
  void *runtime = dlopen(stub("libomp"), RTLD_NOW), *found = runtime ? dlsym(runtime, "omp_stub_begin") : NULL;
  if (!found)
    bail_out("expected a runtime, found none: %s", dlerror());
  memcpy(&at_first, &found, sizeof found);
  *at_first = begin;
}

static void *measure_stack(void *bytes) {
  pthread_attr_t how;
  if (pthread_getattr_np(pthread_self(), &how) == 0) {
    pthread_attr_getstacksize(&how, bytes);
    pthread_attr_destroy(&how);
  }
  return NULL;
}

/* The size of the stack of a thread that this one starts. */
static size_t stack_of_thread(void) {
  pthread_attr_t usual, small;
  hd_thread alone;
  size_t bytes = 0;
  pthread_getattr_default_np(&usual);
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, SMALL_STACK);
  pthread_setattr_default_np(&small);
  if (hd__thread_start(&alone, measure_stack, &bytes) != 0)
    bail_out("no thread");
  hd__thread_join(&alone);
  pthread_setattr_default_np(&usual);
  pthread_attr_destroy(&usual);
  pthread_attr_destroy(&small);
  return bytes;
}

static void test_runtime(void) {
  const hd_cpu_set before = allowed;
  hd_cpu_set all;
  if (access(stub("libomp"), R_OK) != 0) {
    skip(4, "this build makes no modules");
    return;
  }
  if (dlsym(RTLD_DEFAULT, "omp_get_num_places")) { /* clang links it to all programs */
    skip(4, "this build has a runtime of its own");
    return;
  }
  load_runtime();
  setenv("OMP_PROC_BIND", "true", 1);
  const bool bound = hd__openmp_has_bound(&all);
  ok(!bound && !memcmp(&before, &allowed, sizeof before), "a question that makes a runtime begin binds no thread");
  begin();
  ok(hd__openmp_has_bound(&all) && hd__cpu_set_count(&all) == 2, "a thread that it binds later is known");
  const size_t bytes = stack_of_thread(); /* on CPUs that the system refuses */
  ok(bytes >= STACK, "a thread that cannot be started on all places has its stack: %zu bytes", bytes);
  unsetenv("OMP_PROC_BIND");
  ok(!hd__openmp_has_bound(&all), "without its variables no runtime is asked");
  allowed = before;
}

int main(void) {
  unsetenv("HEDDLE_THREAD_SPEEDS");
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("no context");
  test_said();
  test_told();
  test_many_cpus();
  test_signals();
  test_runtime();
  hd_ctx_destroy(ctx);
  return done_testing();
}
