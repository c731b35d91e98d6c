/* heddle bench: what this machine can do at most, and how close heddle comes to it. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench_ranks.h"
#include "cli/bench_report.h"
#include "cli/cli.h"

enum { MOST_SHAPES = 64, MOST_WORDS = 80 };

typedef struct request {
  double seconds;
  const char *svg;
  hd_bench_conv_shape shape[MOST_SHAPES];
  hd_bench_product product[MOST_SHAPES];
  int shapes, products;
  const char *peers[MOST_WORDS]; /* options for the script */
  int words;
  int rounds;
} request;

typedef int bench_fn(hd_ctx *ctx, const hd_config *config, const request *r);

static int take_seconds(void *self, const char *value) {
  request *r = self;
  char *end;
  r->seconds = strtod(value, &end);
  if (end != value && !*end && r->seconds >= 0.1 && r->seconds <= 3600)
    return -1;
  cli_complain("--seconds expects 0.1 to 3600, found '%s'", value);
  return CLI_USAGE;
}

static int take_svg(void *self, const char *value) {
  ((request *)self)->svg = value;
  return -1;
}

/* "13x13x32": up to `most` numbers of 1 to 5 digits; returns how many (0: none, or an x too many), and what follows. */
static int read_sizes(int32_t *out, int most, const char *text, const char **rest) {
  int count = 0;
  for (*rest = text; count < most;) {
    size_t digits = strspn(*rest, "0123456789");
    if (digits < 1 || digits > 5)
      return 0;
    out[count++] = atoi(*rest);
    *rest += digits;
    if (**rest != 'x')
      break;
    ++*rest;
  }
  return count;
}

/* ",NAME=A" or ",NAME=AxB": sets one or two numbers. */
static int read_setting(hd_bench_conv_shape *s, const char *text, const char **rest) {
  const struct {
    const char *name;
    int32_t *value;
    int values;
  } settings[] = {{"out", &s->out, 1},        {"kernel", s->kernel, 2},  {"stride", s->stride, 2},
                  {"padding", s->padding, 2}, {"groups", &s->groups, 1}, {"pool", &s->pool, 1}};
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    size_t length = strlen(settings[i].name);
    if (strncmp(text + 1, settings[i].name, length) || text[1 + length] != '=')
      continue;
    int32_t number[2] = {0};
    int count = read_sizes(number, settings[i].values, text + 2 + length, rest);
    settings[i].value[0] = number[0];
    if (settings[i].values == 2)
      settings[i].value[1] = count == 2 ? number[1] : number[0];
    return count > 0 && (**rest == ',' || !**rest);
  }
  return 0;
}

static int take_shape(void *self, const char *value) {
  request *r = self;
  int32_t input[3] = {0};
  const char *at;
  hd_bench_conv_shape s = {.kernel = {3, 3}, .stride = {1, 1}, .groups = 1, .pool = 1};
  int sound = read_sizes(input, 3, value, &at) == 3 && (*at == ',' || !*at);
  s.channels = input[0];
  s.height = input[1];
  s.width = input[2];
  while (sound && *at == ',')
    sound = read_setting(&s, at, &at);
  if (!sound || s.out < 1 || r->shapes == MOST_SHAPES) {
    cli_complain("--shape expects CxHxW,out=N[,kernel=K][,stride=S][,padding=P][,groups=G][,pool=M], for example "
                 "32x13x13,out=64,pool=2, up to %d times, found '%s'",
                 MOST_SHAPES, value);
    return CLI_USAGE;
  }
  r->shape[r->shapes++] = s;
  return -1;
}

static int take_size(void *self, const char *value) {
  request *r = self;
  int32_t size[3] = {0};
  const char *rest;
  int count = read_sizes(size, 3, value, &rest);
  if ((count != 1 && count != 3) || *rest || r->products == MOST_SHAPES) {
    cli_complain("--size expects MxNxK, or N for NxNxN, up to %d times, found '%s'", MOST_SHAPES, value);
    return CLI_USAGE;
  }
  r->product[r->products++] =
      (hd_bench_product){.m = size[0], .n = size[count == 1 ? 0 : 1], .k = size[count == 1 ? 0 : 2]};
  return -1;
}

static int take_word(request *r, const char *option, const char *value) {
  if (r->words + 4 > MOST_WORDS) {
    cli_complain("%s expects to be given less often, found it once more; leave some out", option);
    return CLI_USAGE;
  }
  r->peers[r->words++] = option;
  if (value)
    r->peers[r->words++] = value;
  return -1;
}

static int take_python(void *self, const char *value) { return take_word(self, "--python", value); }
static int take_markdown(void *self, const char *value) { return take_word(self, "--markdown", value); }

static int take_nothing(void *self, const char *value) { return -1; }

static int take_work(void *self, const char *value) {
  static const char *const works[] = {"cnn", "mlp", "simplenet", "fastmnist", "ddp"};
  for (size_t i = 0; i < sizeof works / sizeof *works; i++)
    if (!strcmp(value, works[i]))
      return take_word(self, "--work", value);
  cli_complain("--work expects cnn, mlp, simplenet, fastmnist or ddp, found '%s'", value);
  return CLI_USAGE;
}

static int take_rounds(void *self, const char *value) {
  ((request *)self)->rounds = atoi(value);
  if (strspn(value, "0123456789") == strlen(value) && strlen(value) < 4 && atoi(value) > 0)
    return take_word(self, "--rounds", value);
  cli_complain("--rounds expects 1 to 999, found '%s'", value);
  return CLI_USAGE;
}

static int wants_json(const hd_config *config) { return !strcmp(hd_config_get(config, "json"), "true"); }

static int save_svg(const char *path, const bench_ops *ops) {
  if (!path)
    return CLI_OK;
  FILE *file = fopen(path, "w");
  if (file)
    bench_draw(file, ops);
  return cli_close_svg(file, path);
}

/* ---- step ---- */

static void print_step(const hd_bench_step_result *r, const bench_ops *ops) {
  const double gflops = 1e-9 * r->flops * r->samples_per_s, executed = 1e-9 * r->executed_flops * r->samples_per_s;
  const double peak = r->machine.all_peak_gflops;
  bench_print_machine(&r->machine);
  printf("\n%s on %s, batch %lld, %d lane%s: %s samples/s (%s to %s, fastest turn %s)\n", r->model, r->data,
         (long long)r->batch, r->threads, r->threads == 1 ? "" : "s", cli_grouped(llround(r->samples_per_s)),
         cli_grouped(llround(r->low)), cli_grouped(llround(r->high)), cli_grouped(llround(r->best)));
  printf("  dense     %8.1f GFLOP/s, %5.1f %% of the peak (%.2f MFLOP a sample)\n", gflops, 100 * gflops / peak,
         1e-6 * r->flops);
  printf("  executed  %8.1f GFLOP/s, %5.1f %% of the peak (%.2f MFLOP a sample)\n", executed, 100 * executed / peak,
         1e-6 * r->executed_flops);
  bench_print_ops(ops);
}

static void json_step(const hd_bench_step_result *r, const bench_ops *ops) {
  const double gflops = 1e-9 * r->flops * r->samples_per_s, executed = 1e-9 * r->executed_flops * r->samples_per_s;
  printf("{\"model\": ");
  cli_json_text(stdout, r->model);
  printf(", \"data\": ");
  cli_json_text(stdout, r->data);
  printf(", \"batch\": %lld, \"samples_per_s\": %.1f, \"low\": %.1f, \"high\": %.1f, \"best\": %.1f, \"gflops\": %.3f, "
         "\"executed_gflops\": %.3f, \"percent_of_peak\": %.3f, \"lane_step_us\": %.3f, ",
         (long long)r->batch, r->samples_per_s, r->low, r->high, r->best, gflops, executed,
         100 * gflops / r->machine.all_peak_gflops, 1e6 * r->lane_step_s);
  bench_json_machine(&r->machine);
  printf(", ");
  bench_json_ops(ops);
  printf("}\n");
}

static int bench_step(hd_ctx *ctx, const hd_config *config, const request *asked) {
  hd_bench_step_result *r;
  hd_status status = hd_bench_step(&r, ctx, config, asked->seconds);
  if (status != HD_OK)
    return cli_fail(status, hd_ctx_message(ctx));
  bench_ops ops = {
      .machine = &r->machine, .op = r->ops, .count = r->op_count, .per = "step", .whole_s = r->lane_step_s};
  snprintf(ops.title, sizeof ops.title, "%s, batch %lld: %s samples/s on %d lane%s, %.0f %% of the FMA peak (dense)",
           r->model, (long long)r->batch, cli_grouped(llround(r->samples_per_s)), r->threads,
           r->threads == 1 ? "" : "s", 1e-7 * r->flops * r->samples_per_s / r->machine.all_peak_gflops);
  (wants_json(config) ? json_step : print_step)(r, &ops);
  int code = save_svg(asked->svg, &ops);
  hd_bench_step_destroy(r);
  return code;
}

/* ---- conv ---- */

static int bench_conv(hd_ctx *ctx, const hd_config *config, const request *asked) {
  hd_bench_conv_result *r;
  hd_status status = hd_bench_conv(&r, ctx, config, asked->shape, asked->shapes, asked->seconds);
  if (status != HD_OK)
    return cli_fail(status, hd_ctx_message(ctx));
  bench_ops ops = {.machine = &r->machine, .op = r->ops, .count = r->op_count, .per = "sample"};
  snprintf(ops.title, sizeof ops.title, "Convolutions%s%.100s", asked->shapes ? "" : " of ",
           asked->shapes ? "" : hd_config_get(config, "model"));
  if (wants_json(config)) {
    printf("{");
    bench_json_machine(&r->machine);
    printf(", ");
    bench_json_ops(&ops);
    printf("}\n");
  } else {
    bench_print_machine(&r->machine);
    bench_print_ops(&ops);
  }
  int code = save_svg(asked->svg, &ops);
  hd_bench_conv_destroy(r);
  return code;
}

/* ---- gemm ---- */

static void print_gemm(const hd_bench_gemm_result *r) {
  bench_print_machine(&r->machine);
  printf("\n    m     n     k    heddle  of peak  OpenBLAS     ratio   (GFLOP/s, one lane; %s)\n",
         *r->openblas ? r->openblas : "no OpenBLAS here");
  for (int i = 0; i < r->count; i++) {
    const hd_bench_product *p = &r->products[i];
    printf("%5d %5d %5d %9.1f %6.0f %%", p->m, p->n, p->k, p->gflops, 100 * p->gflops / r->machine.peak_gflops);
    if (isfinite(p->openblas_gflops))
      printf(" %9.1f %9.2f", p->openblas_gflops, p->gflops / p->openblas_gflops);
    printf("\n");
  }
}

static void json_gemm(const hd_bench_gemm_result *r) {
  printf("{");
  bench_json_machine(&r->machine);
  printf(", \"openblas\": ");
  cli_json_text(stdout, r->openblas);
  printf(", \"sizes\": [");
  for (int i = 0; i < r->count; i++) {
    const hd_bench_product *p = &r->products[i];
    printf("%s{\"m\": %d, \"n\": %d, \"k\": %d, \"gflops\": %.3f, \"openblas_gflops\": ", i ? ", " : "", p->m, p->n,
           p->k, p->gflops);
    cli_json_real(stdout, p->openblas_gflops);
    printf("}");
  }
  printf("]}\n");
}

/* What OpenBLAS reaches with a core type, "" for the one it would choose here: it takes one for good when it is opened,
 * so each is tried in a process of its own. 0 if it cannot run. */
static double try_core(const char *self, const char *core) {
  char line[4096] = "";
  double gflops = 0;
  setenv("HEDDLE_BENCH_SELF", self, 1);
  if (*core)
    setenv("OPENBLAS_CORETYPE", core, 1);
  else
    unsetenv("OPENBLAS_CORETYPE");
  FILE *child = popen("HEDDLE_BENCH_CORE=chosen exec \"$HEDDLE_BENCH_SELF\" bench gemm --threads 1 --size 384 "
                      "--seconds 0.1 --json 2>/dev/null",
                      "r");
  if (child) {
    while (fgets(line, sizeof line, child)) {
      const char *found = strstr(line, "\"openblas_gflops\": ");
      gflops = found ? atof(found + strlen("\"openblas_gflops\": ")) : gflops;
    }
    pclose(child);
  }
  return gflops;
}

/* Leaves the best core type in the environment, for OpenBLAS to read when it is opened. */
static void choose_core(void) {
  static const char *const cores[] = {"", "Haswell", "Zen", "SkylakeX", "Cooperlake", "Sapphirerapids"};
  const char *said = getenv("OPENBLAS_CORETYPE"), *chosen = getenv("HEDDLE_BENCH_CORE"), *best = "";
  char self[4096], user[64];
  double most = 0;
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (chosen || length <= 0)
    return;
  self[length] = 0;
  snprintf(user, sizeof user, "%s", said ? said : "");
  for (int i = -1; i < (int)(sizeof cores / sizeof *cores); i++) {
    const char *core = i < 0 ? user : cores[i];
    const double gflops = try_core(self, core);
    if (gflops > 1.03 * most) {
      most = gflops;
      best = core;
    }
  }
  if (*best)
    setenv("OPENBLAS_CORETYPE", best, 1);
  else
    unsetenv("OPENBLAS_CORETYPE");
}

static int bench_gemm(hd_ctx *ctx, const hd_config *config, const request *asked) {
  hd_bench_gemm_result *r;
  choose_core();
  hd_status status = hd_bench_gemm(&r, ctx, config, asked->product, asked->products, asked->seconds);
  if (status != HD_OK)
    return cli_fail(status, hd_ctx_message(ctx));
  (wants_json(config) ? json_gemm : print_gemm)(r);
  hd_bench_gemm_destroy(r);
  return CLI_OK;
}

/* ---- barrier ---- */

static int bench_barrier(hd_ctx *ctx, const hd_config *config, const request *asked) {
  hd_bench_barrier_result r;
  hd_status status = hd_bench_barrier(&r, ctx, config, asked->seconds);
  if (status != HD_OK)
    return cli_fail(status, hd_ctx_message(ctx));
  if (wants_json(config)) {
    printf("{\"cpu\": ");
    cli_json_text(stdout, r.cpu);
    printf(", \"threads\": %d, \"cpus\": %d, \"us\": %.4f, \"openmp_us\": %.4f}\n", r.threads, r.cpus, r.us,
           r.openmp_us);
    return CLI_OK;
  }
  printf("%s, %d lane%s on %d CPU%s, medians of %d turns (their 95 %% interval)\n", r.cpu, r.threads,
         r.threads == 1 ? "" : "s", r.cpus, r.cpus == 1 ? "" : "s", r.turns);
  printf("  heddle's meeting  %8.3f us (%.3f to %.3f)\n", r.us, r.us_low, r.us_high);
  printf("  OpenMP's barrier  %8.3f us (%.3f to %.3f)\n", r.openmp_us, r.openmp_us_low, r.openmp_us_high);
  return CLI_OK;
}

/* ---- loader ---- */

static int bench_loader(hd_ctx *ctx, const hd_config *config, const request *asked) {
  hd_bench_loader_result r;
  hd_status status = hd_bench_loader(&r, ctx, config, asked->seconds);
  if (status != HD_OK)
    return cli_fail(status, hd_ctx_message(ctx));
  if (wants_json(config)) {
    printf("{\"cpu\": ");
    cli_json_text(stdout, r.cpu);
    printf(", \"data\": ");
    cli_json_text(stdout, r.data);
    printf(", \"workers\": %d, \"batch\": %lld, \"samples\": %lld, \"samples_per_s\": %.1f, \"low\": %.1f, \"high\": "
           "%.1f, \"mean\": %.6g, \"std\": %.6g, \"start_s\": %.6f, \"stop_s\": %.6f}\n",
           r.workers, (long long)r.batch, (long long)r.samples, r.samples_per_s, r.low, r.high, r.mean, r.std,
           r.start_s, r.stop_s);
    return CLI_OK;
  }
  printf("%s on %s, batch %lld, %d worker%s\n", r.data, r.cpu, (long long)r.batch, r.workers,
         r.workers == 1 ? "" : "s");
  printf("  %s samples/s", cli_grouped((long long)(r.samples_per_s + 0.5)));
  printf(" (%s", cli_grouped((long long)(r.low + 0.5)));
  printf(" to %s), medians of %d turns\n", cli_grouped((long long)(r.high + 0.5)), r.turns);
  printf("  mean %.4f, standard deviation %.4f of what was delivered\n", r.mean, r.std);
  printf("  started in %.1f ms, ended in %.1f ms\n", 1e3 * r.start_s, 1e3 * r.stop_s);
  return CLI_OK;
}

/* ---- peers ---- */

static int run_script(const char *script, const hd_config *config, const request *asked) {
  const char *word[MOST_WORDS + 12], *threads = hd_config_get(config, "threads");
  const char *folder = hd_config_get(config, "data-dir");
  char seconds[32];
  int count = 0;
  snprintf(seconds, sizeof seconds, "%g", asked->seconds);
  for (int i = 0; i < asked->words; i++)
    word[count++] = asked->peers[i];
  word[count++] = "--seconds";
  word[count++] = seconds;
  if (strcmp(threads, "auto")) {
    word[count++] = "--threads";
    word[count++] = threads;
  }
  if (*folder) {
    word[count++] = "--data-dir";
    word[count++] = folder;
  }
  if (wants_json(config))
    word[count++] = "--json";
  word[count] = NULL;
  return bench_peers(script, word);
}

static int run_peers(hd_ctx *ctx, const hd_config *config, const request *asked) {
  return run_script("peers.py", config, asked);
}

static int run_loader_peers(hd_ctx *ctx, const hd_config *config, const request *asked) {
  return run_script("loaders.py", config, asked);
}

/* ---- allreduce ---- */

static int ranks_of(const hd_config *config) {
  const int procs = atoi(hd_config_get(config, "procs"));
  return procs > 1 ? procs : 2;
}

static int run_allreduce(hd_ctx *ctx, const hd_config *config, const request *asked) {
  return bench_allreduce(ctx, ranks_of(config), wants_json(config));
}

static int run_allreduce_peers(hd_ctx *ctx, const hd_config *config, const request *asked) {
  const char *word[MOST_WORDS + 4];
  char procs[16];
  int count = 0;
  snprintf(procs, sizeof procs, "%d", ranks_of(config));
  for (int i = 0; i < asked->words; i++)
    word[count++] = asked->peers[i];
  word[count++] = "--procs";
  word[count++] = procs;
  if (wants_json(config))
    word[count++] = "--json";
  word[count] = NULL;
  return bench_peers("allreduce.py", word);
}

/* ---- ranks ---- */

static int run_ranks(hd_ctx *ctx, const hd_config *config, const request *asked) {
  return bench_ranks(ctx, config, asked->seconds, asked->rounds, asked->svg);
}

/* ---- the command ---- */

static const char *const lanes_alone[] = {"threads", "cpus", "placement", "seed", "json", NULL};
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

enum {
  HAS_SVG = 1,
  HAS_SHAPE = 2,
  HAS_SIZE = 4,
  HAS_PEERS = 8,
  HAS_WORK = 16,
  MAY_HAVE_PEERS = 32,
  NO_SECONDS = 64,
  HAS_ROUNDS = 128
};

static const struct {
  const char *name;
  bench_fn *run;
  const char *const *options; /* NULL: all of train's */
  int has;
  const char *help;
} benches[] = {
    {"step", bench_step, NULL, HAS_SVG, "a model's training step as train runs it, and where its time goes"},
    {"conv", bench_conv, with_model, HAS_SVG | HAS_SHAPE,
     "convolutions, of a model or of given shapes, and their gradients"},
    {"gemm", bench_gemm, lanes_alone, HAS_SIZE, "products of matrices, against OpenBLAS"},
    {"barrier", bench_barrier, lanes_alone, 0, "what it takes lanes to meet, against the OpenMP runtime"},
    {"loader", bench_loader, for_loader, MAY_HAVE_PEERS,
     "reading, transforming and normalising samples, by workers or without"},
    {"peers", run_peers, for_peers, HAS_PEERS | HAS_WORK,
     "training against PyTorch and JAX, as far as they are installed, in turns"},
    {"allreduce", run_allreduce, for_allreduce, NO_SECONDS | MAY_HAVE_PEERS, "sums over --procs ranks (2), by size"},
    {"ranks", run_ranks, for_ranks, HAS_SVG | HAS_ROUNDS,
     "training with threads against ranks, at equal numbers of cores, in turns"},
    {"loader --peers", run_loader_peers, for_peers, HAS_PEERS | MAY_HAVE_PEERS,
     "reading MNIST and JPEG pictures against PyTorch's DataLoader, in turns"},
    {"allreduce --peers", run_allreduce_peers, for_allreduce, NO_SECONDS | HAS_PEERS | MAY_HAVE_PEERS,
     "sums over ranks against MPI and gloo, in turns"},
};

enum { BENCHES = sizeof benches / sizeof *benches, MOST_EXTRA = 10 };

/* "loader --peers" is asked for with that option at any place. */
static bool asks_for(const char *name, int argc, char **argv) {
  const size_t length = strcspn(name, " ");
  bool found = argc > 1 && strlen(argv[1]) == length && !strncmp(argv[1], name, length);
  bool option = !name[length];
  for (int i = 2; i < argc && !option; i++)
    option = !strcmp(argv[i], name + length + 1);
  return found && option;
}

static void list_extra(cli_extra *out, int has, request *r) {
  int count = 0;
  if (!(has & NO_SECONDS))
    out[count++] = (cli_extra){
        "seconds", "S", has & HAS_ROUNDS ? "how long a run on all cores takes, about (1)" : "how long to measure (3)",
        take_seconds, r};
  if (has & HAS_SVG)
    out[count++] = (cli_extra){"svg", "FILE", "draw it", take_svg, r};
  if (has & HAS_SHAPE)
    out[count++] = (cli_extra){
        "shape", "SHAPE",
        "CxHxW,out=N,kernel=3,stride=1,padding=0,groups=1,pool=1 instead of a model's; may be repeated", take_shape, r};
  if (has & HAS_SIZE)
    out[count++] = (cli_extra){"size", "MxNxK", "this product instead of a list; may be repeated", take_size, r};
  if (has & HAS_PEERS) {
    out[count++] =
        (cli_extra){"python", "PATH", "an interpreter with peers (python3); may be repeated", take_python, r};
    out[count++] = (cli_extra){"markdown", NULL, "a table for a page", take_markdown, r};
  }
  if (has & (HAS_PEERS | HAS_ROUNDS))
    out[count++] = (cli_extra){"rounds", "N", "how often each is measured (5)", take_rounds, r};
  if (has & HAS_WORK)
    out[count++] =
        (cli_extra){"work", "NAME", "cnn, mlp, simplenet, fastmnist or ddp (all); may be repeated", take_work, r};
  if (has & MAY_HAVE_PEERS)
    out[count++] = (cli_extra){"peers", NULL, "against other libraries, in turns; see --peers --help", take_nothing, r};
  out[count] = (cli_extra){0};
}

static int run_bench(int which, int argc, char **argv) {
  request r = {.seconds = benches[which].run == run_ranks ? 1 : 3, .rounds = 5};
  cli_extra extra[MOST_EXTRA];
  char usage[192];
  hd_ctx *ctx;
  hd_config *config;
  list_extra(extra, benches[which].has, &r);
  snprintf(usage, sizeof usage, "usage: heddle bench %s [options%s]: %s", benches[which].name,
           benches[which].options ? "" : ", those of train too", benches[which].help);
  if (hd_ctx_create(&ctx) != HD_OK)
    return cli_fail(HD_E_NOMEM, NULL);
  int first = 0, code = hd_config_create(&config, ctx) == HD_OK ? -1 : cli_fail(HD_E_NOMEM, NULL);
  if (code < 0)
    code = cli_parse_with(&first, config, ctx, argc, argv, benches[which].options, extra, usage);
  if (code < 0 && first < argc) {
    cli_complain("bench %s expects options only, found '%s'; see heddle bench %s --help", benches[which].name,
                 argv[first], benches[which].name);
    code = CLI_USAGE;
  }
  if (code < 0)
    code = benches[which].run(ctx, config, &r);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return code;
}

static int help(void) {
  cli_extra extra[MOST_EXTRA];
  printf("usage: heddle bench WHAT [options]: this machine's limits, and how close to them heddle comes\n\n");
  for (int i = 0; i < BENCHES; i++)
    printf("  %-17s %s\n", benches[i].name, benches[i].help);
  printf("\nBeside the options that heddle bench WHAT --help lists:\n");
  list_extra(extra, ~(NO_SECONDS | HAS_ROUNDS), NULL);
  for (const cli_extra *e = extra; e->name; e++)
    printf("  --%s %-*s %s\n", e->name, 21 - (int)strlen(e->name), e->arg ? e->arg : "", e->help);
  return CLI_OK;
}

int cli_bench(int argc, char **argv) {
  char list[128];
  int at = 0;
  if (argc > 1 && !strcmp(argv[1], "--help"))
    return help();
  for (int i = BENCHES - 1; i >= 0; i--)
    if (asks_for(benches[i].name, argc, argv)) {
      char name[32];
      snprintf(name, sizeof name, "bench %s", benches[i].name);
      argv[1] = name;
      return run_bench(i, argc - 1, argv + 1);
    }
  for (int i = 0; i < BENCHES; i++)
    at += snprintf(list + at, sizeof list - (size_t)at, "%s%s", i ? ", " : "", benches[i].name);
  cli_complain("bench expects what to measure (%s), found %s%.80s%s; see heddle bench --help", list,
               argc > 1 ? "'" : "", argc > 1 ? argv[1] : "none", argc > 1 ? "'" : "");
  return CLI_USAGE;
}
