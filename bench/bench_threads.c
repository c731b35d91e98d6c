/* Is `threads` = auto as fast as the best of an exhaustive sweep, and never slower than one thread?
 *
 *     bench_threads [-r ROUNDS] [-s SECONDS] [-d DATA] [MODEL ...]      default: 9 rounds of 0.5 s, digits;
 *                                                                       simplenet mlp cnn
 *
 * In each round every number of threads up to the CPUs trains for SECONDS in a new session, then `auto` does
 * twice: in a long run, which searches (nothing is remembered from round to round), and in a run of three epochs, as is
 * the default. So whatever else the machine does hits all alike. Reported are medians over the rounds; auto's
 * ratios are medians of the ratios within each round, and so is the lowest bar that two runs of the best number itself
 * clear: what of a ratio is noise. Other load on the machine shows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heddle.h"

enum { MOST_THREADS = 64, MOST_ROUNDS = 101, EXTRA = 3, MOST_CONTENDERS = MOST_THREADS + EXTRA };

typedef struct contender {
  char threads[16];
  const char *epochs, *name;
  double speed[MOST_ROUNDS];
  int came[MOST_ROUNDS]; /* threads that ran */
} contender;

static hd_ctx *ctx;
static double seconds = 0.5;
static const char *data = "digits";
static char folder[] = "/tmp/bench-threads-XXXXXX", run[64];

static void check(hd_status status) {
  if (status == HD_OK)
    return;
  fprintf(stderr, "bench_threads: %s\n", hd_ctx_message(ctx));
  exit(1);
}

/* The run before, and what may have been remembered. */
static void forget(void) {
  char command[160];
  snprintf(command, sizeof command, "rm -rf '%s' '%s/threads.json'", run, folder);
  if (system(command) != 0)
    fprintf(stderr, "bench_threads: %s failed\n", command);
}

static hd_session *open_session(const char *model, const contender *c) {
  hd_config *config;
  hd_session *session;
  forget();
  check(hd_config_create(&config, ctx));
  check(hd_config_set(config, ctx, "model", model));
  check(hd_config_set(config, ctx, "data", data));
  check(hd_config_set(config, ctx, "threads", c->threads));
  check(hd_config_set(config, ctx, "epochs", c->epochs));
  check(hd_config_set(config, ctx, "out", run));
  check(hd_session_create(&session, ctx, config));
  hd_config_destroy(config);
  return session;
}

/* Samples a second of training, evaluations left out. */
static void take_turn(contender *c, const char *model, int round) {
  hd_session *session = open_session(model, c);
  const hd_report *report = hd_session_report(session);
  check(hd_session_step(NULL, session, ctx, 20)); /* wakes the threads */
  const double early = report->train_s;
  check(hd_session_step(NULL, session, ctx, 20));
  double step_s = (report->train_s - early) / 20;
  const double start = report->train_s;
  int64_t steps = 0;
  while (report->train_s - start < seconds && !hd_session_done(session)) {
    const int64_t more = 1 + (int64_t)((seconds - (report->train_s - start)) / step_s);
    check(hd_session_step(NULL, session, ctx, more));
    steps += more;
    step_s = (report->train_s - start) / (double)steps;
  }
  c->speed[round] = report->samples_per_s;
  c->came[round] = report->threads;
  hd_session_destroy(session);
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(const double *values, int count) {
  double sorted[MOST_ROUNDS];
  memcpy(sorted, values, (size_t)count * sizeof *sorted);
  qsort(sorted, (size_t)count, sizeof *sorted, compare);
  return sorted[count / 2];
}

static double ratio(const contender *a, const contender *b, int rounds) {
  double each[MOST_ROUNDS];
  for (int r = 0; r < rounds; r++)
    each[r] = a->speed[r] / b->speed[r];
  return median(each, rounds);
}

static void report(const contender *c, int cpus, int rounds) {
  int best = 0;
  for (int i = 0; i < cpus; i++) {
    printf("  %s thread%s %12.0f samples/s\n", c[i].threads, i ? "s" : " ", median(c[i].speed, rounds));
    if (median(c[i].speed, rounds) > median(c[best].speed, rounds))
      best = i;
  }
  for (int i = cpus; i < cpus + EXTRA; i++) {
    printf("  %s %9.0f samples/s, %.3f of %d threads, %.2f times one; threads:", c[i].name, median(c[i].speed, rounds),
           ratio(&c[i], &c[best], rounds), best + 1, ratio(&c[i], &c[0], rounds));
    for (int r = 0; r < rounds; r++)
      printf(" %d", c[i].came[r]);
    printf("\n");
  }
}

static void bench(const char *model, int cpus, int rounds) {
  static contender c[MOST_CONTENDERS];
  static const char *const name[EXTRA] = {"auto, long run ", "auto, 3 epochs ", "all CPUs, again"};
  for (int i = 0; i < cpus + EXTRA; i++) {
    c[i].epochs = i == cpus + 1 ? "3" : "1000000";
    c[i].name = i < cpus ? "" : name[i - cpus];
    snprintf(c[i].threads, sizeof c[i].threads, "%d", i < cpus ? i + 1 : cpus);
    if (i == cpus || i == cpus + 1)
      snprintf(c[i].threads, sizeof c[i].threads, "auto");
  }
  for (int r = 0; r < rounds; r++)
    for (int k = 0; k < cpus + EXTRA; k++)
      take_turn(&c[r % 2 ? cpus + EXTRA - 1 - k : k], model, r);
  printf("%s on %s, %d rounds\n", model, data, rounds);
  report(c, cpus, rounds);
}

int main(int argc, char **argv) {
  static const char *const usual[] = {"simplenet", "mlp", "cnn"};
  int rounds = 9, option;
  hd_topology *machine;
  while ((option = getopt(argc, argv, "r:s:d:")) != -1) {
    if (option == 'r')
      rounds = atoi(optarg);
    else if (option == 's')
      seconds = atof(optarg);
    else if (option == 'd')
      data = optarg;
    else
      return 2;
  }
  rounds = rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
  if (!mkdtemp(folder) || hd_ctx_create(&ctx) != HD_OK)
    return 1;
  snprintf(run, sizeof run, "%s/run", folder);
  setenv("HEDDLE_CACHE", folder, 1);
  check(hd_topology_create(&machine, ctx));
  const int cpus = machine->budget.cpus < MOST_THREADS ? machine->budget.cpus : MOST_THREADS;
  printf("%s, %d CPUs; %s\n", machine->model, cpus, machine->budget.why);
  hd_topology_destroy(machine);
  if (optind == argc)
    for (int i = 0; i < 3; i++)
      bench(usual[i], cpus, rounds);
  for (int i = optind; i < argc; i++)
    bench(argv[i], cpus, rounds);
  hd_ctx_destroy(ctx);
  forget();
  rmdir(folder);
  return 0;
}
