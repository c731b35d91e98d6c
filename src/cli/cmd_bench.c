/* heddle bench: the machine's limits, and heddle's speed relative to them. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

/* ---- peers ---- */

/* `option` and `value` are the script's own; those of the command are passed on. */
static int run_script(const char *script, const char *option, const char *value, const hd_config *config,
                      const bench_request *asked) {
  const char *word[BENCH_MOST_WORDS + 12], *threads = hd_config_get(config, "threads");
  const char *folder = hd_config_get(config, "data-dir");
  int count = 0;
  for (int i = 0; i < asked->words; i++)
    word[count++] = asked->peers[i];
  word[count++] = option;
  word[count++] = value;
  if (strcmp(threads, "auto")) {
    word[count++] = "--threads";
    word[count++] = threads;
  }
  if (*folder) {
    word[count++] = "--data-dir";
    word[count++] = folder;
  }
  if (cli_wants_json(config))
    word[count++] = "--json";
  word[count] = NULL;
  return bench_peers(script, word);
}

static int run_timed(const char *script, const hd_config *config, const bench_request *asked) {
  char seconds[32];
  snprintf(seconds, sizeof seconds, "%g", asked->seconds);
  return run_script(script, "--seconds", seconds, config, asked);
}

static int run_peers(hd_ctx *ctx, const hd_config *config, const bench_request *asked) {
  return run_timed("peers.py", config, asked);
}

static int run_loader_peers(hd_ctx *ctx, const hd_config *config, const bench_request *asked) {
  return run_timed("loaders.py", config, asked);
}

/* ---- allreduce ---- */

static int ranks_of(const hd_config *config) {
  const int procs = (int)hd_config_get_int(config, HD_OPT_PROCS);
  return procs > 1 ? procs : 2;
}

static int run_allreduce(hd_ctx *ctx, const hd_config *config, const bench_request *asked) {
  return bench_allreduce(ctx, ranks_of(config), cli_wants_json(config));
}

static int run_allreduce_peers(hd_ctx *ctx, const hd_config *config, const bench_request *asked) {
  char procs[16];
  snprintf(procs, sizeof procs, "%d", ranks_of(config));
  return run_script("allreduce.py", "--procs", procs, config, asked);
}

/* ---- ranks ---- */

static int run_ranks(hd_ctx *ctx, const hd_config *config, const bench_request *asked) {
  return bench_ranks(ctx, config, asked->seconds, asked->rounds, asked->svg);
}

/* ---- the command ---- */

static const char *const threads_alone[] = {"threads", "cpus", "placement", "seed", "json", NULL};
static const char *const with_model[] = {"model", "threads", "cpus", "placement", "seed", "json", NULL};

static const char *const for_loader[] = {"data",       "data-dir",        "batch",      "seed",       "sampler",
                                         "no-shuffle", "drop-last",       "on-error",   "transforms", "eval-transforms",
                                         "workers",    "prefetch-factor", "pin-memory", "cache",      "threads",
                                         "cpus",       "placement",       "json",       NULL};
static const char *const for_peers[] = {"data-dir", "threads", "json", NULL};
static const char *const for_allreduce[] = {"procs", "json", NULL};
static const char *const for_ranks[] = {"model",      "data",      "data-dir",   "batch",      "shards",  "optimizer",
                                        "accumulate", "precision", "arithmetic", "transforms", "workers", "threads",
                                        "cpus",       "placement", "seed",       "json",       NULL};

static const struct {
  const char *name;
  bench_fn *run;
  const char *const *options; /* NULL: all of train's */
  int has;
  const char *help;
} benches[] = {
    {"step", bench_step, NULL, BENCH_HAS_SVG, "a model's training step as train runs it, and where its time goes"},
    {"conv", bench_conv, with_model, BENCH_HAS_SVG | BENCH_HAS_SHAPE,
     "convolutions, of a model or of given shapes, and their gradients"},
    {"gemm", bench_gemm, threads_alone, BENCH_HAS_SIZE, "products of matrices, against OpenBLAS"},
    {"barrier", bench_barrier, threads_alone, 0, "the time of a barrier, against the OpenMP runtime"},
    {"loader", bench_loader, for_loader, BENCH_MAY_HAVE_PEERS,
     "reading, transforming and normalising samples, by workers or without"},
    {"peers", run_peers, for_peers, BENCH_HAS_PEERS | BENCH_HAS_WORK,
     "training against PyTorch and JAX, as far as they are installed, in turns"},
    {"allreduce", run_allreduce, for_allreduce, BENCH_NO_SECONDS | BENCH_MAY_HAVE_PEERS,
     "sums over --procs ranks (2), by size"},
    {"ranks", run_ranks, for_ranks, BENCH_HAS_SVG | BENCH_HAS_ROUNDS,
     "training with threads against ranks, at equal numbers of cores, in turns"},
    {"loader --peers", run_loader_peers, for_peers, BENCH_HAS_PEERS | BENCH_MAY_HAVE_PEERS,
     "reading MNIST and JPEG pictures against PyTorch's DataLoader, in turns"},
    {"allreduce --peers", run_allreduce_peers, for_allreduce, BENCH_NO_SECONDS | BENCH_HAS_PEERS | BENCH_MAY_HAVE_PEERS,
     "sums over ranks against MPI and gloo, in turns"},
};

enum { BENCHES = sizeof benches / sizeof *benches };

/* "loader --peers": the option may stand at any place. */
static bool is_requested(const char *name, int argc, char **argv) {
  const size_t length = strcspn(name, " ");
  bool found = argc > 1 && strlen(argv[1]) == length && !strncmp(argv[1], name, length);
  bool option = !name[length];
  for (int i = 2; i < argc && !option; i++)
    option = !strcmp(argv[i], name + length + 1);
  return found && option;
}

/* The argument of the command's function. */
typedef struct asked_bench {
  bench_fn *run;
  bench_request request;
} asked_bench;

static int start(void *self, hd_ctx *ctx, hd_config *config, int count, char **operand) {
  const asked_bench *asked = self;
  return asked->run(ctx, config, &asked->request);
}

static int run_bench(int which, int argc, char **argv) {
  asked_bench asked = {.run = benches[which].run, .request = {.seconds = 3, .rounds = 5}};
  cli_extra extra[BENCH_MOST_EXTRA];
  char usage[192];
  if (asked.run == run_ranks)
    asked.request.seconds = 1;
  bench_list_extra(extra, benches[which].has, &asked.request);
  snprintf(usage, sizeof usage, "heddle bench %s [options%s]: %s", benches[which].name,
           benches[which].options ? "" : ", those of train too", benches[which].help);
  const cli_command command = {
      .name = argv[0], .usage = usage, .options = benches[which].options, .extra = extra, .run = start, .self = &asked};
  return cli_run(&command, argc, argv);
}

static int help(void) {
  cli_extra extra[BENCH_MOST_EXTRA];
  cli_help_width();
  cli_print("usage: \theddle bench WHAT [options]: this machine's limits, and how close to them heddle comes\n\n");
  for (int i = 0; i < BENCHES; i++)
    cli_print_entry(benches[i].name, benches[i].help);
  cli_print("\nBeside the options that heddle bench WHAT --help lists:\n");
  bench_list_extra(extra, ~(BENCH_NO_SECONDS | BENCH_HAS_ROUNDS), &(bench_request){0});
  for (const cli_extra *e = extra; e->name; e++)
    cli_print_extra(e, 0);
  return CLI_OK;
}

static const char *name_of_bench(int index) { return index < BENCHES ? benches[index].name : NULL; }

int cli_bench(int argc, char **argv) {
  if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
    return help();
  for (int i = BENCHES - 1; i >= 0; i--)
    if (is_requested(benches[i].name, argc, argv)) {
      char name[32];
      snprintf(name, sizeof name, "bench %s", benches[i].name);
      argv[1] = name;
      return run_bench(i, argc - 1, argv + 1);
    }
  return cli_unknown("bench expects what to measure", name_of_bench, argc > 1 ? argv[1] : NULL, "heddle bench --help");
}
