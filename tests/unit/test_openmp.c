/* A program with OpenMP of its own: training changes none of its settings, and whatever OpenMP's variables say, the
 * machine has its CPUs and training the same result. Each case is a process: the variables count when the runtime is
 * loaded. */
#include "scratch.h"

#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <fenv.h>

#include "heddle.h"
#include "heddle/topology.h"

enum { TEXT_BYTES = 512, THREADS = 2 };

typedef struct omp_settings {
  int threads, dynamic, levels, limit, in_parallel, region;
} omp_settings;

static omp_settings read_settings(void) {
  omp_settings s = {.threads = omp_get_max_threads(),
                    .dynamic = omp_get_dynamic(),
                    .levels = omp_get_max_active_levels(),
                    .limit = omp_get_thread_limit(),
                    .in_parallel = omp_in_parallel()};
#pragma omp parallel
#pragma omp single
  s.region = omp_get_num_threads();
  return s;
}

/* The CPUs that heddle may use, the digest of a run on two threads or its failure, and whether OpenMP is as it was. */
static void play(char text[TEXT_BYTES]) {
  hd_ctx *ctx;
  hd_config *config;
  hd_session *session = NULL;
  hd_topology *machine;
  const char *const all[] = {"model", "simplenet", "data", "random:1x28x28", "max-steps", "6", "threads", "2"};
  const omp_settings before = read_settings();
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("no context");
  if (hd_topology_create(&machine, ctx) != HD_OK || hd_config_create(&config, ctx) != HD_OK) {
    snprintf(text, TEXT_BYTES, "%s", hd_ctx_message(ctx));
    hd_ctx_destroy(ctx);
    return;
  }
  hd_config_set(config, ctx, "out", in_scratch("run"));
  for (size_t i = 0; i < sizeof all / sizeof *all; i += 2)
    hd_config_set(config, ctx, all[i], all[i + 1]);
  if (getenv("HD_ROUND_UP"))
    fesetround(FE_UPWARD);
  hd_status status = hd_session_create(&session, ctx, config);
  if (status == HD_OK)
    status = hd_session_train(session, ctx, NULL, NULL);
  const char *result = status == HD_OK ? hd_session_report(session)->weights_sha256 : hd_ctx_message(ctx);
  const int threads = status == HD_OK ? hd_session_report(session)->threads : 0;
  const omp_settings after = read_settings();
  snprintf(text, TEXT_BYTES, "%d CPUs, %d threads, %s, OpenMP %s", (int)machine->budget.mask, threads, result,
           memcmp(&before, &after, sizeof before) ? "changed" : "unchanged");
  hd_session_destroy(session);
  hd_config_destroy(config);
  hd_topology_destroy(machine);
  hd_ctx_destroy(ctx);
}

/* The line of this program in a process with settings of the shell. */
static void in_shell(char text[TEXT_BYTES], const char *program, const char *before) {
  char command[2 * SCRATCH_PATH_BYTES];
  snprintf(command, sizeof command, "%s exec '%s' play", before, program);
  FILE *from = popen(command, "r");
  text[0] = 0;
  if (from && !fgets(text, TEXT_BYTES, from))
    snprintf(text, TEXT_BYTES, "no line");
  text[strcspn(text, "\n")] = 0;
  const int end = from ? pclose(from) : -1;
  if (end != 0)
    snprintf(text, TEXT_BYTES, "status %d", end);
}

/* The address sanitizer makes frames larger. */
#if defined(__SANITIZE_ADDRESS__)
#define SMALL_STACK "ulimit -S -s 2048;"
#define TINY_STACK "ulimit -s 128;"
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SMALL_STACK "ulimit -S -s 2048;"
#define TINY_STACK "ulimit -s 128;"
#endif
#endif
#ifndef SMALL_STACK
#define SMALL_STACK "ulimit -S -s 256;"
#define TINY_STACK "ulimit -s 40;" /* the system starts no program with much less */
#endif

static const char *const settings[] = {"export OMP_PROC_BIND=true;",
                                       "export OMP_PROC_BIND=close OMP_PLACES=threads;",
                                       "export OMP_PLACES=cores;",
                                       "export OMP_MAX_ACTIVE_LEVELS=0;",
                                       "export OMP_DYNAMIC=true OMP_NESTED=true;",
                                       "export OMP_STACKSIZE=32k;",
                                       "export OMP_WAIT_POLICY=passive OMP_SCHEDULE=guided;",
                                       SMALL_STACK,
                                       "export HD_ROUND_UP=1;"};

static const char *const refused[] = {"ulimit -s 128;", TINY_STACK};

int main(int argc, char **argv) {
  char plain[TEXT_BYTES], text[TEXT_BYTES], all[128];
  if (argc > 1) {
    play(text);
    printf("%s\n", text);
    return 0;
  }
  cpu_set_t mine;
  sched_getaffinity(0, sizeof mine, &mine);
  in_shell(plain, argv[0], "");
  snprintf(all, sizeof all, "%d CPUs, %d threads, ", CPU_COUNT(&mine), THREADS);
  ok(!strncmp(plain, all, strlen(all)) && strstr(plain, "OpenMP unchanged"), "a program: %s", plain);
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    in_shell(text, argv[0], settings[i]);
    is_str(text, plain, "%s the same", settings[i]);
  }
  int cpu = 0;
  while (!CPU_ISSET(cpu, &mine))
    cpu++;
  snprintf(all, sizeof all, "export GOMP_CPU_AFFINITY=%d;", cpu);
  in_shell(text, argv[0], all);
  ok(!strncmp(text, "1 CPUs", 6) || CPU_COUNT(&mine) == 1, "%s one CPU is what the user asked for: %s", all, text);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    in_shell(text, argv[0], refused[i]);
    ok(strstr(text, "expected a stack of") != NULL, "%s is refused: %s", refused[i], text);
  }
  return done_testing();
}
