/* heddle bench: the machine's limits, and heddle's speed relative to them. The command line; see bench.h. */
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The benches, as bits. */
enum {
  STEP = 1,
  CONV = 2,
  GEMM = 4,
  BARRIER = 8,
  LOADER = 16,
  PEERS = 32,
  ALLREDUCE = 64,
  RANKS = 128,
  LOADER_PEERS = 256,
  ALLREDUCE_PEERS = 512,
  RPC = 1024,
  RPC_PEERS = 2048,
  SCRIPTS = PEERS | LOADER_PEERS | ALLREDUCE_PEERS | RPC_PEERS
};

/* ---- Options ---- */

/* "13x13x32": up to `most` numbers of 1 to 5 digits; returns their count (0: none, or a trailing x) and the rest of
 * the text. */
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

static int take_shape(const cli_extra *option, const char *value) {
  int32_t input[3] = {0};
  const char *at;
  hd_bench_conv_shape s = {.kernel = {3, 3}, .stride = {1, 1}, .groups = 1, .pool = 1};
  int sound = read_sizes(input, 3, value, &at) == 3 && (*at == ',' || !*at);
  s.channels = input[0];
  s.height = input[1];
  s.width = input[2];
  while (sound && *at == ',')
    sound = read_setting(&s, at, &at);
  if (!sound || s.out < 1 || bench_asked.shapes == BENCH_MOST_SHAPES) {
    cli_complain("--shape expects CxHxW,out=N[,kernel=K][,stride=S][,padding=P][,groups=G][,pool=M], for example "
                 "32x13x13,out=64,pool=2, up to %d times, found '%s'; %s",
                 BENCH_MOST_SHAPES, value,
                 bench_asked.shapes == BENCH_MOST_SHAPES ? "leave some out" : "write its sizes in this form");
    return CLI_USAGE;
  }
  bench_asked.shape[bench_asked.shapes++] = s;
  return 0;
}

enum { MOST_SIZE = 16384 }; /* as hd_bench_gemm() takes */

static bool is_size(int32_t side) { return side >= 1 && side <= MOST_SIZE; }

static int take_size(const cli_extra *option, const char *value) {
  int32_t size[3] = {0};
  const char *rest;
  int count = read_sizes(size, 3, value, &rest);
  const hd_bench_product p = {.m = size[0], .n = size[count == 1 ? 0 : 1], .k = size[count == 1 ? 0 : 2]};
  if ((count != 1 && count != 3) || *rest || !is_size(p.m) || !is_size(p.n) || !is_size(p.k) ||
      bench_asked.products == BENCH_MOST_SHAPES) {
    cli_complain("--size expects MxNxK, or N for NxNxN, of 1 to %d, up to %d times, found '%s'; %s", MOST_SIZE,
                 BENCH_MOST_SHAPES, value,
                 bench_asked.products == BENCH_MOST_SHAPES ? "leave some out" : "write 256x1024x64, for example");
    return CLI_USAGE;
  }
  bench_asked.product[bench_asked.products++] = p;
  return 0;
}

/* An option for the script. */
static int take_word(const cli_extra *option, const char *value) {
  if (bench_asked.words == BENCH_MOST_WORDS) {
    cli_complain("--%s was given too often; leave some out", option->name);
    return CLI_USAGE;
  }
  bench_asked.peers[bench_asked.words] = option;
  bench_asked.value[bench_asked.words++] = value;
  return 0;
}

static int take_nothing(const cli_extra *option, const char *value) { return 0; }

static int take_work(const cli_extra *option, const char *value) {
  static const char *const works[] = {"cnn", "mlp",      "simplenet", "fastmnist",
                                      "ddp", "gpt-nano", "gpt-baby",  "char-lstm"};
  for (size_t i = 0; i < sizeof works / sizeof *works; i++)
    if (!strcmp(value, works[i]))
      return take_word(option, value);
  if (access(value, R_OK) == 0)
    return take_word(option, value);
  cli_complain("--work expects cnn, mlp, simplenet, fastmnist, ddp, gpt-nano, gpt-baby, char-lstm or a model file, "
               "found '%s'; name one of these, or a file that can be read",
               value);
  return CLI_USAGE;
}

/* The instruction sets to which peers can be limited: bench/peers/peers.py. */
static int take_isa(const cli_extra *option, const char *value) {
  if (!strcmp(value, "avx2"))
    return take_word(option, value);
  cli_complain("--isa expects avx2, found '%s'; leave it out for the best that this CPU has", value);
  return CLI_USAGE;
}

static int take_precision(const cli_extra *option, const char *value) {
  if (!strcmp(value, "f32") || !strcmp(value, "bf16"))
    return take_word(option, value);
  cli_complain("--precision expects f32 or bf16, found '%s'; leave it out for f32", value);
  return CLI_USAGE;
}

static int take_rounds(const cli_extra *option, const char *value) {
  CLI_TRY(cli_take_whole(option, value));
  return take_word(option, value);
}

static const cli_extra extra[] = {
    {"seconds", "S", "seconds to measure (default 3)", cli_take_real, &bench_asked.seconds, 0.1, 3600,
     .of = STEP | CONV | GEMM | BARRIER | LOADER | PEERS | LOADER_PEERS},
    {"seconds", "S", "rough duration of a run on all cores, in seconds (default 1)", cli_take_real,
     &bench_asked.ranks_seconds, 0.1, 3600, .of = RANKS},
    {"svg", "FILE", "draw the result into this file", cli_take_text, &bench_asked.svg, .of = STEP | CONV | RANKS},
    {"shape", "SHAPE",
     "measure this convolution instead of a model's: CxHxW,out=N and, unless they are these, "
     "kernel=3,stride=1,pool=1,padding=0,groups=1; may be repeated",
     take_shape, .of = CONV},
    {"size", "MxNxK", "measure this product, of sides from 1 to 16384 (default: a list of them); may be repeated",
     take_size, .of = GEMM},
    {"python", "PATH", "a Python with PyTorch or JAX (default python3); may be repeated", take_word, .of = SCRIPTS},
    {"markdown", NULL, "print a Markdown table", take_word, .of = SCRIPTS},
    {"rounds", "N", "measure each N times, taking turns (default 5)", take_rounds, &bench_asked.rounds, 1,
     BENCH_RANKS_ROUNDS, .of = SCRIPTS | RANKS},
    {"work", "NAME|FILE",
     "what to train: cnn, mlp, simplenet, fastmnist, ddp (default: these), gpt-nano, gpt-baby, char-lstm or a model "
     "file; may be repeated",
     take_work, .of = PEERS},
    {"eager", NULL, "use PyTorch without torch.compile, which takes a minute per network (default: with it)", take_word,
     .of = PEERS},
    {"isa", "NAME", "avx2: limit heddle and its peers to that instruction set (default: the best of this CPU)",
     take_isa, .of = PEERS},
    {"precision", "NAME", "f32 or bf16: the products of heddle, and of PyTorch by autocast (default f32)",
     take_precision, .of = PEERS},
    {"peers", NULL, "compare with other libraries, taking turns; see --peers --help", take_nothing,
     .of = LOADER | ALLREDUCE | RPC | LOADER_PEERS | ALLREDUCE_PEERS | RPC_PEERS},
    {0}};

/* ---- Peers ---- */

static const char TRAINING[] = "peers.py";

/* `option` and `value` are the script's own; those of the command are passed on. */
static int run_script(const char *script, const char *option, const char *value, const hd_config *config) {
  static char name[BENCH_MOST_WORDS][16];
  const char *word[2 * BENCH_MOST_WORDS + 10], *threads = hd_config_get(config, "threads");
  const char *folder = hd_config_get(config, "data-dir");
  int count = 0;
  for (int i = 0; i < bench_asked.words; i++) {
    snprintf(name[i], sizeof name[i], "--%s", bench_asked.peers[i]->name);
    word[count++] = name[i];
    if (bench_asked.value[i])
      word[count++] = bench_asked.value[i];
  }
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
  if (!strcmp(script, TRAINING)) {
    word[count++] = "--batch";
    word[count++] = hd_config_get(config, "batch");
  }
  if (cli_wants_json(config))
    word[count++] = "--json";
  word[count] = NULL;
  return bench_peers(script, word);
}

static int run_timed(const char *script, const hd_config *config) {
  char seconds[32];
  snprintf(seconds, sizeof seconds, "%g", bench_asked.seconds);
  return run_script(script, "--seconds", seconds, config);
}

static int run_peers(hd_ctx *ctx, hd_config *config, int count, char **operand) { return run_timed(TRAINING, config); }

static int run_loader_peers(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  return run_timed("loaders.py", config);
}

static int run_allreduce_peers(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  char procs[16];
  snprintf(procs, sizeof procs, "%d", bench_procs(config));
  return run_script("allreduce.py", "--procs", procs, config);
}

static int run_rpc_peers(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  return run_script("rpc.py", "--procs", "2", config);
}

/* ---- The command ---- */

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const cli_command benches[] = {
    {"bench step", "a model's training step as train runs it, and where its time goes", .kind = STEP,
     .run = bench_step},
    {"bench conv", "convolutions, of a model or of given shapes, and their gradients", .kind = CONV, .run = bench_conv,
     .options = OPTIONS("model", "threads", "cpus", "placement", "seed", "json")},
    {"bench gemm", "products of matrices, against OpenBLAS", .kind = GEMM, .run = bench_gemm,
     .options = OPTIONS("threads", "cpus", "placement", "seed", "json")},
    {"bench barrier", "the time of a barrier, against the OpenMP runtime", .kind = BARRIER, .run = bench_barrier,
     .options = OPTIONS("threads", "cpus", "placement", "seed", "json")},
    {"bench loader", "reading, transforming and normalising samples, with workers or without", .kind = LOADER,
     .run = bench_loader,
     .options = OPTIONS("data", "data-dir", "batch", "seed", "sampler", "no-shuffle", "drop-last", "on-error", "exif",
                        "allow-empty", "transforms", "eval-transforms", "workers", "prefetch-factor", "pin-memory",
                        "cache", "threads", "cpus", "placement", "json")},
    {"bench peers", "training against PyTorch and JAX, if they are installed, taking turns", .kind = PEERS,
     .run = run_peers, .options = OPTIONS("data-dir", "batch", "threads", "json")},
    {"bench allreduce", "sums over --procs ranks, by size", .kind = ALLREDUCE, .run = bench_allreduce, .procs = "2",
     .options = OPTIONS("procs", "json")},
    {"bench rpc", "calls between --procs ranks, by size, and calls per second", .kind = RPC, .run = bench_rpc,
     .procs = "2", .options = OPTIONS("procs", "json")},
    {"bench ranks", "training with threads against ranks on the same number of cores, taking turns", .kind = RANKS,
     .run = bench_ranks,
     .options = OPTIONS("model", "data", "data-dir", "batch", "shards", "optimizer", "accumulate", "precision",
                        "arithmetic", "transforms", "workers", "threads", "cpus", "placement", "seed", "json")},
    {"bench loader --peers", "reading MNIST and JPEG pictures against PyTorch's DataLoader, taking turns",
     .kind = LOADER_PEERS, .run = run_loader_peers, .options = OPTIONS("data-dir", "threads", "json")},
    {"bench allreduce --peers", "sums over ranks against MPI and gloo, taking turns", .kind = ALLREDUCE_PEERS,
     .run = run_allreduce_peers, .procs = "2", .options = OPTIONS("procs", "json")},
    {"bench rpc --peers", "calls between two ranks against MPI, gRPC and PyTorch, taking turns", .kind = RPC_PEERS,
     .run = run_rpc_peers, .options = OPTIONS("json")},
};

enum { BENCHES = sizeof benches / sizeof *benches };

static const char *name_of_bench(int index) { return index < BENCHES ? benches[index].name + strlen("bench ") : NULL; }

/* "loader --peers": the option may stand at any place. */
static bool is_requested(const char *name, int argc, char **argv) {
  const size_t length = strcspn(name, " ");
  bool found = argc > 1 && strlen(argv[1]) == length && !strncmp(argv[1], name, length);
  bool option = !name[length];
  for (int i = 2; i < argc && !option; i++)
    option = !strcmp(argv[i], name + length + 1);
  return found && option;
}

static int help(void) {
  cli_help_width();
  cli_print("usage: \theddle bench WHAT [options]: this machine's limits, and how close heddle comes to them\n\n");
  for (int i = 0; i < BENCHES; i++)
    cli_print_entry(name_of_bench(i), benches[i].help);
  cli_print("\nOptions besides those that heddle bench WHAT --help lists:\n");
  for (const cli_extra *e = extra; e->name; e++)
    if (e->of != RANKS)
      cli_print_extra(e);
  return CLI_OK;
}

static int choose(int argc, char **argv) {
  if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
    return help();
  for (int i = BENCHES - 1; i >= 0; i--)
    if (is_requested(name_of_bench(i), argc, argv)) {
      cli_command bench = benches[i];
      bench.extra = extra;
      argv[1] = (char *)bench.name;
      return cli_run(&bench, argc - 1, argv + 1);
    }
  return cli_unknown("bench expects the name of a benchmark", name_of_bench, argc > 1 ? argv[1] : NULL,
                     "heddle bench --help");
}

const cli_command cli_bench = {
    .name = "bench", .help = "this machine's limits, and how close heddle comes to them", .choose = choose};
