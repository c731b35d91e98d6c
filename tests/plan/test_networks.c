/* Random networks (drawn_network.h): the plain plan (HEDDLE_PLAN=plain) against the fastest one, against the fastest
 * without each of its choices, and against layouts and instruction sets. The losses of three steps and the weights
 * after them must have the same bits. Every plan is checked after each of its passes.
 *
 *     test_networks [COUNT [FIRST_SEED]]           140 networks from seed 0 on, and those of tests/plan/networks
 *     test_networks --write FOLDER COUNT [SEED]    model files SEED.yaml, for tools/pytorch/torch_networks.py
 *
 * A failure prints its seed and the network, made smaller, as a file for tests/plan/networks: networks that failed
 * once are tried for ever. Its first line has the experiment. */
#include "scratch.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include "heddle.h"
#include "plan/drawn_network.h"
#include "train/run/session.h"

enum { STEPS = 3, MOST_VARIANTS = 24, MOST_NUMBERS = 64, MOST_ELEMS = 4 * 9 * 9, CLASSES = 10 };

/* ---- The data: numbers and targets without a pattern ---- */

typedef struct rows {
  float x[MOST_NUMBERS * MOST_ELEMS], target[MOST_NUMBERS * CLASSES];
  int32_t label[MOST_NUMBERS];
} rows;

static const rows *drawn_rows(void) {
  static rows r;
  uint32_t state = 1;
  if (r.x[0] != 0)
    return &r;
  for (size_t i = 0; i < sizeof r.x / sizeof *r.x; i++) {
    state = state * 1664525 + 1013904223;
    r.x[i] = (float)(state >> 8) / (1 << 22) - 2.0f;
  }
  for (size_t i = 0; i < sizeof r.target / sizeof *r.target; i++)
    r.target[i] = (float)(i * 37 % 101) / 101.0f;
  for (int i = 0; i < MOST_NUMBERS; i++)
    r.label[i] = i * 7 % CLASSES;
  return &r;
}

static hd_status add_data(hd_ctx *ctx, const int input[3], bool labels, int outputs, int samples) {
  static hd_custom_arrays arrays;
  const rows *r = drawn_rows();
  arrays = (hd_custom_arrays){.struct_bytes = sizeof arrays,
                              .count = samples,
                              .floats = r->x,
                              .labels = labels ? r->label : NULL,
                              .targets = labels ? NULL : r->target};
  const hd_custom_data data = {.struct_bytes = sizeof data,
                               .name = "rows",
                               .channels = input[0],
                               .height = input[1],
                               .width = input[2],
                               .dtype = HD_F32,
                               .classes = labels ? CLASSES : 0,
                               .outputs = labels ? 0 : outputs,
                               .train = &arrays,
                               .test = &arrays};
  return hd_data_add(ctx, &data);
}

/* ---- Running ---- */

/* A model with its data and experiment. */
typedef struct trial {
  char text[DRAWN_TEXT];
  int input[3], outputs;
  bool labels;
  drawn_experiment experiment;
} trial;

typedef struct variant {
  const char *plan, *isa, *threads, *accumulate, *stages;
} variant;

typedef struct outcome {
  hd_status status;
  double loss[STEPS];
  uint64_t weights; /* a hash */
  char why[256];
} outcome;

static uint64_t hash_of(const hd_session *s) {
  const hd_store *store = s->compute.store;
  const float *w = store->weights[hd__store_buffer(store)];
  uint64_t hash = 14695981039346656037ull;
  for (int i = 0; i < store->directory->entries; i++) {
    const hd_store_entry *e = &store->directory->entry[i];
    const unsigned char *bytes = (const unsigned char *)(w + e->offset);
    for (int64_t k = 0; k < hd__store_entry_elems(e) * (int64_t)sizeof *w; k++)
      hash = (hash ^ bytes[k]) * 1099511628211ull;
  }
  return hash;
}

static hd_status configure(hd_config *config, hd_ctx *ctx, const trial *t, const variant *v) {
  const char *const pairs[][2] = {{"model", t->text},      {"data", "rows"},
                                  {"threads", v->threads}, {"accumulate", v->accumulate},
                                  {"stages", v->stages},   {"out", in_scratch("run")}};
  hd_status status = add_data(ctx, t->input, t->labels, t->outputs, t->experiment.samples);
  for (int i = 0; i < t->experiment.options && status == HD_OK; i++)
    status = hd_config_set(config, ctx, t->experiment.key[i], t->experiment.value[i]);
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs && status == HD_OK; i++)
    if (pairs[i][1])
      status = hd_config_set(config, ctx, pairs[i][0], pairs[i][1]);
  return status;
}

static outcome run(const trial *t, const variant *v) {
  outcome out = {.status = HD_OK};
  hd_ctx *ctx;
  hd_config *config = NULL;
  hd_session *session = NULL;
  char plan[80];
  snprintf(plan, sizeof plan, "check%s%s", *v->plan ? "," : "", v->plan);
  setenv("HEDDLE_PLAN", plan, 1);
  setenv("HEDDLE_ISA", v->isa, 1);
  scratch_remove(in_scratch("run"));
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  out.status = hd_config_create(&config, ctx);
  if (out.status == HD_OK)
    out.status = configure(config, ctx, t, v);
  if (out.status == HD_OK)
    out.status = hd_session_create(&session, ctx, config);
  for (int i = 0; i < STEPS && out.status == HD_OK; i++)
    out.status = hd_session_step(&out.loss[i], session, ctx, 1);
  if (out.status == HD_OK)
    out.weights = hash_of(session);
  snprintf(out.why, sizeof out.why, "%s", hd_ctx_message(ctx));
  hd_session_destroy(session);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return out;
}

/* A run whose numbers are not finite ends in the same way everywhere; losses are compared as bits. */
static bool alike(const outcome *a, const outcome *b) {
  return a->status == b->status && a->weights == b->weights && !memcmp(a->loss, b->loss, sizeof a->loss);
}

/* Some layouts do not fit some networks: fewer shards than micro-batches, fewer layers than stages. */
static bool does_not_fit(const outcome *o) { return o->status == HD_E_USAGE || o->status == HD_E_UNSUPPORTED; }

static int variants_of(variant out[MOST_VARIANTS], hd_op op) {
  static char without[48];
  static const char *const plans[] = {
      "", "-relu", "-recompute", "-needed", "-reuse", "-in-place", "-form", "-outputs", "-reuse,-in-place,-recompute"};
  int count = 0;
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
    out[count++] = (variant){plans[i], "", "1", "1", NULL};
  snprintf(without, sizeof without, "-%s", hd__op_info(op)->name);
  out[count++] = (variant){without, "", "1", "1", NULL};
  out[count++] = (variant){"", "", "2", "1", NULL};
  out[count++] = (variant){"", "", "3", "2", NULL};
  out[count++] = (variant){"", "", "2", "1", "2"};
  out[count++] = (variant){"", "scalar", "1", "4", NULL};
  out[count++] = (variant){"", "avx2", "2", "1", NULL};
  out[count++] = (variant){"", "avx512", "1", "1", NULL};
  return count;
}

static const variant plain = {"plain", "", "1", "1", NULL};

static trial trial_of(const drawn_network *s, const drawn_experiment *e) {
  trial t = {.input = {s->input[0], s->input[1], s->input[2]},
             .outputs = s->outputs,
             .labels = hd__op_info(s->loss_op)->rule->labels,
             .experiment = *e};
  drawn_text(t.text, s);
  return t;
}

/* ---- Failures ---- */

static uint64_t current_seed;

/* A crash says whose it is, and then goes its way. */
static void say_seed(void) {
  char line[64];
  const int length =
      snprintf(line, sizeof line, "# a crash in the network of seed %llu\n", (unsigned long long)current_seed);
  (void)!write(1, line, (size_t)length);
}

static void on_crash(int signal) {
  struct sigaction usual = {.sa_handler = SIG_DFL};
  say_seed();
  sigaction(signal, &usual, NULL);
}

__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

static void name_crashes(void) {
  const struct sigaction action = {.sa_handler = on_crash};
  if (__sanitizer_set_death_callback) {
    __sanitizer_set_death_callback(say_seed);
    return;
  }
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  sigaction(SIGABRT, &action, NULL);
}

typedef struct difference {
  const drawn_experiment *experiment;
  const variant *variant;
} difference;

static bool differs(void *arg, const drawn_network *s) {
  const difference *d = arg;
  const trial t = trial_of(s, d->experiment);
  const outcome want = run(&t, &plain), got = run(&t, d->variant);
  return want.status == HD_OK && !does_not_fit(&got) && !alike(&want, &got);
}

static void say_trial(const trial *t, const variant *v) {
  char options[1024] = "", text[DRAWN_TEXT];
  for (int i = 0; i < t->experiment.options; i++)
    snprintf(options + strlen(options), sizeof options - strlen(options), " --%s %s", t->experiment.key[i],
             t->experiment.value[i]);
  diag("HEDDLE_PLAN='%s' HEDDLE_ISA='%s' --threads %s --accumulate %s --stages %s", v->plan, v->isa, v->threads,
       v->accumulate, v->stages ? v->stages : "1");
  diag("# %d samples, %s%s", t->experiment.samples, t->labels ? "labels" : "targets", options);
  snprintf(text, sizeof text, "%s", t->text);
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
    diag("%s", line);
}

/* ---- Checking ---- */

typedef struct tally {
  int networks, refused, comparisons, failed;
  int used[HD_OP_COUNT];
} tally;

/* Compares every variant; the first that differs, or NULL. Fails at once where the plain plan does. */
static const variant *first_difference(tally *t, const trial *of, const variant *all, int count) {
  const outcome want = run(of, &plain);
  if (want.status == HD_E_SYSTEM) {
    diag("the plain plan: %s", want.why);
    return &plain;
  }
  if (want.status != HD_OK) { /* a batch norm of one number, for example */
    if (getenv("HD_VERBOSE"))
      diag("seed %llu: %s", (unsigned long long)current_seed, want.why);
    t->refused++;
    return NULL;
  }
  t->networks++;
  for (int i = 0; i < count; i++) {
    const outcome got = run(of, &all[i]);
    if (does_not_fit(&got))
      continue;
    t->comparisons++;
    if (alike(&want, &got))
      continue;
    diag("loss %.9g %.9g %.9g, expected %.9g %.9g %.9g; %s", got.loss[0], got.loss[1], got.loss[2], want.loss[0],
         want.loss[1], want.loss[2], got.why);
    return &all[i];
  }
  return NULL;
}

static void check(tally *t, uint64_t seed) {
  drawn_network s;
  drawn_experiment e;
  variant all[MOST_VARIANTS];
  current_seed = seed;
  draw_network(&s, seed);
  draw_rules(&s);
  draw_experiment(&e);
  const trial whole = trial_of(&s, &e);
  const int count = variants_of(all, s.layers ? s.op[seed % (uint64_t)s.layers] : HD_OP_linear), before = t->networks;
  const variant *found = first_difference(t, &whole, all, count);
  for (int i = 0; i < s.layers && t->networks > before; i++)
    t->used[s.op[i]]++;
  t->used[s.loss_op] += t->networks > before;
  if (!found || t->failed++ >= 5)
    return;
  difference d = {.experiment = &e, .variant = found};
  if (found != &plain)
    drawn_shrink(&s, differs, &d);
  const trial small = trial_of(&s, &e);
  diag("seed %llu:", (unsigned long long)seed);
  say_trial(&small, found);
}

/* ---- Networks that failed once ---- */

static bool read_options(drawn_experiment *e, char *line) {
  char kind[16];
  int at = 0;
  *e = (drawn_experiment){0};
  if (sscanf(line, "# %d samples, %15[a-z]%n", &e->samples, kind, &at) != 2)
    return false;
  for (char *word = strtok(line + at, " \n"); word; word = strtok(NULL, " \n")) {
    const char *value = strtok(NULL, " \n");
    snprintf(e->key[e->options], sizeof *e->key, "%s", word + 2);
    snprintf(e->value[e->options++], sizeof *e->value, "%s", value ? value : "");
  }
  return e->options > 0;
}

/* A file as say_trial prints it. */
static void read_trial(trial *t, const char *path) {
  char line[1024];
  FILE *file = fopen(path, "re");
  if (!file || !fgets(line, sizeof line, file))
    bail_out("cannot read %s", path);
  *t = (trial){.labels = strstr(line, "labels") != NULL};
  if (!read_options(&t->experiment, line))
    bail_out("%s: the first line has no experiment", path);
  const size_t bytes = fread(t->text, 1, sizeof t->text - 1, file);
  t->text[bytes] = 0;
  fclose(file);
  const char *input = strstr(t->text, "input: ["), *scores = strstr(t->text, "scores: {op: linear, out: ");
  if (!input || !scores || sscanf(input, "input: [%d, %d, %d]", &t->input[0], &t->input[1], &t->input[2]) != 3 ||
      sscanf(scores, "scores: {op: linear, out: %d", &t->outputs) != 1)
    bail_out("%s: no input or no scores", path);
}

static int is_model(const struct dirent *entry) { return strstr(entry->d_name, ".yaml") != NULL; }

static void check_known(tally *t) {
  char folder[1024], path[1400];
  struct dirent **entry = NULL;
  snprintf(folder, sizeof folder, "%s/tests/plan/networks", getenv("SRCDIR") ? getenv("SRCDIR") : ".");
  const int count = scandir(folder, &entry, is_model, alphasort);
  if (count <= 0)
    bail_out("%s has no networks", folder);
  for (int i = 0; i < count; i++) {
    static trial of;
    variant all[MOST_VARIANTS];
    snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
    read_trial(&of, path);
    const int before = t->networks;
    const variant *found = first_difference(t, &of, all, variants_of(all, HD_OP_linear));
    if (found || t->networks == before) {
      t->failed++;
      diag("%s%s", path, found ? "" : " cannot be trained");
      if (found)
        say_trial(&of, found);
    }
    free(entry[i]);
  }
  free(entry);
}

/* ---- The program ---- */

static void check_used(const tally *t) {
  int missing = 0;
  for (hd_op op = 0; op < HD_OP_COUNT; op++) {
    const hd_op_info *info = hd__op_info(op);
    const bool is_drawn = info->rule && (info->rule->fewest > 0 || info->rule->loss) && info->role == HD_ROLE_FORWARD;
    if (is_drawn && !t->used[op] && op != HD_OP_custom && !info->rule->numbers && !info->rule->several &&
        op != HD_OP_shifted_linear) {
      diag("%s is in none", info->name);
      missing++;
    }
  }
  is_int(missing, 0, "every operation and every loss is in some network");
}

static int write_models(const char *folder, int count, uint64_t first) {
  char path[1024], text[DRAWN_TEXT];
  for (uint64_t seed = first; seed < first + (uint64_t)count; seed++) {
    drawn_network s;
    draw_network(&s, seed);
    drawn_text(text, &s);
    snprintf(path, sizeof path, "%s/%llu.yaml", folder, (unsigned long long)seed);
    FILE *file = fopen(path, "we");
    if (!file || fputs(text, file) < 0 || fclose(file))
      bail_out("cannot write %s", path);
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 3 && !strcmp(argv[1], "--write"))
    return write_models(argv[2], atoi(argv[3]), argc > 4 ? strtoull(argv[4], NULL, 10) : 0);
  const int wanted = argc > 1 ? atoi(argv[1]) : 140;
  const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
  tally drawn = {0}, known = {0};
  if (access("/dev/shm", W_OK) == 0)
    setenv("TMPDIR", "/dev/shm", 1); /* of each run a folder */
  name_crashes();
  check_known(&known);
  is_int(known.failed, 0, "%d networks that failed once, %d comparisons", known.networks, known.comparisons);
  for (uint64_t seed = first; drawn.networks < wanted; seed++) {
    check(&drawn, seed);
    if (drawn.networks % 500 == 0)
      fflush(stdout);
  }
  is_int(drawn.failed, 0, "%d networks, %d comparisons with the plain plan (%d drawn networks cannot be trained)",
         drawn.networks, drawn.comparisons, drawn.refused);
  if (wanted >= 140 && first == 0) /* so many from elsewhere may leave one out */
    check_used(&drawn);
  return done_testing();
}
