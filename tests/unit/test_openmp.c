/* A program with OpenMP of its own: training changes none of its settings, and whatever OpenMP's variables and the
 * program's rounding mode say, the machine has its CPUs, and training and what is made of it the same result. Each
 * case is a process: the variables count when the runtime is loaded. */
#include "scratch.h"

#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <fenv.h>

#include "heddle.h"
#include "heddle/export.h"
#include "heddle/predict.h"
#include "heddle/tensor.h"
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

static unsigned long long sum_of(const void *bytes, size_t length) {
  unsigned long long sum = 0;
  for (size_t i = 0; i < length; i++)
    sum = 31 * sum + ((const unsigned char *)bytes)[i];
  return sum;
}

/* A prediction, an evaluation, an option, and an element of a tensor. */
static hd_status compute(unsigned long long *sum, hd_ctx *ctx, const hd_config *config, const char *run) {
  enum { CLASSES = 10 };
  static uint8_t pixels[28 * 28];
  double is[CLASSES + 5] = {0}, *more = is + CLASSES;
  hd_evaluation judged = {.struct_bytes = sizeof judged};
  hd_predictor *predictor;
  hd_tensor *x;
  for (size_t i = 0; i < sizeof pixels; i++)
    pixels[i] = (uint8_t)(37 * i + 11);
  HD_TRY(hd_predictor_create(&predictor, ctx, run, config));
  hd_status status = hd_predict_pixels(is, predictor, ctx, pixels, 1);
  hd_predictor_destroy(predictor);
  HD_THEN(status, hd_evaluate(&judged, ctx, run, config));
  memcpy(more, (double[]){judged.loss, judged.f1, judged.auc, hd_config_get_real(config, HD_OPT_LR)}, 4 * sizeof *more);
  hd_evaluation_fini(&judged);
  HD_THEN(status, hd_tensor_full(&x, ctx, HD_F32, 0.7, HD_DIMS(1)));
  HD_TRY(status);
  status = hd_tensor_item(&more[4], ctx, x);
  hd_tensor_destroy(x);
  *sum = sum_of(is, sizeof is);
  return status;
}

/* The network as a C file. */
static hd_status export(unsigned long long *sum, hd_ctx *ctx, const char *run) {
  static char text[1 << 20];
  const char *file = in_scratch("network.c");
  HD_TRY(hd_model_export(ctx, run, HD_EXPORT_C, file));
  FILE *from = fopen(file, "r");
  const size_t length = from ? fread(text, 1, sizeof text, from) : 0;
  if (!from || fclose(from) != 0 || length == 0 || length == sizeof text)
    bail_out("expected a C file, found none or a larger one");
  *sum = sum_of(text, length);
  return HD_OK;
}

/* The CPUs that heddle may use, the digest of a run on two threads and what is made of it, or a failure, and whether
 * OpenMP and the rounding mode are as they were. */
static void play(char text[TEXT_BYTES]) {
  hd_ctx *ctx;
  hd_config *config;
  hd_session *session = NULL;
  hd_topology *machine;
  const char *const all[] = {"model",   "simplenet", "data", "random:1x28x28", "lr", "0.03", "max-steps", "6",
                             "threads", "2",         "out",  in_scratch("run")};
  unsigned long long sum[2] = {0};
  const omp_settings before = read_settings();
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("no context");
  if (hd_topology_create(&machine, ctx) != HD_OK || hd_config_create(&config, ctx) != HD_OK) {
    snprintf(text, TEXT_BYTES, "%s", hd_ctx_message(ctx));
    hd_ctx_destroy(ctx);
    return;
  }
  if (getenv("HD_ROUND_UP"))
    fesetround(FE_UPWARD);
  const int rounding = fegetround();
  for (size_t i = 0; i < sizeof all / sizeof *all; i += 2)
    hd_config_set(config, ctx, all[i], all[i + 1]);
  hd_status status = hd_session_create(&session, ctx, config);
  if (status == HD_OK)
    status = hd_session_train(session, ctx, NULL, NULL);
  HD_THEN(status, compute(&sum[0], ctx, config, in_scratch("run")));
  HD_THEN(status, export(&sum[1], ctx, in_scratch("run")));
  const char *result = status == HD_OK ? hd_session_report(session)->weights_sha256 : hd_ctx_message(ctx);
  const int threads = status == HD_OK ? hd_session_report(session)->threads : 0;
  const omp_settings after = read_settings();
  snprintf(text, TEXT_BYTES, "%d CPUs, %d threads, %s, %llx, %llx, OpenMP %s", (int)machine->budget.mask, threads,
           result, sum[0], sum[1],
           memcmp(&before, &after, sizeof before) || fegetround() != rounding ? "changed" : "unchanged");
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
