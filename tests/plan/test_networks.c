/* Random networks, drawn from the table of operations, so that a new operation is among them from its first day: the plain
 * plan (HEDDLE_PLAN=plain) against the fastest one, against the fastest without each of its choices, and against layouts
 * and instruction sets. The losses of three steps and the weights after them must have the same bits.
 *
 *     test_networks [COUNT [FIRST_SEED]]     60 networks from seed 0 on
 *
 * A network is a chain of layers of any operation after any other, with branches, blocks that are repeated and shared
 * weights; what a shape rule refuses is drawn again. A failure prints its seed and the network, made smaller. */
#include "scratch.h"

#include <math.h>

#include "heddle.h"
#include "op/op.h"
#include "train/session/session.h"

enum { MOST_LAYERS = 14, LINE = 160, TEXT = 4096, STEPS = 3, MOST_VARIANTS = 24, LOSSES = STEPS };

/* ---- Drawing ---- */

static uint64_t state;
static uint32_t draw(uint32_t below) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)((state >> 33) % below);
}
static bool chance(uint32_t percent) { return draw(100) < percent; }

typedef struct sketch {
  int input[3];
  int layers;
  char line[MOST_LAYERS][LINE]; /* "name: {op: ..." without the brace at the end */
  hd_op op[MOST_LAYERS];
  char rules[3 * LINE]; /* of parameters, or "" */
  bool flat;            /* the last value */
} sketch;

/* Ends with what makes ten scores of the last value, which `flat` says is flat. */
static void text_of(char text[TEXT], const sketch *s, bool flat) {
  int n = snprintf(text, TEXT, "model: drawn\ninput: [%d, %d, %d]\nlayers:\n", s->input[0], s->input[1], s->input[2]);
  for (int i = 0; i < s->layers; i++)
    n += snprintf(text + n, (size_t)(TEXT - n), "  - %s}\n", s->line[i]);
  snprintf(text + n, (size_t)(TEXT - n), "%s  - scores: {op: linear, out: 10}\n%s",
           flat ? "" : "  - flat: {op: flatten}\n", s->rules);
}

static bool is_valid_text(const char *text) {
  hd_ctx ctx = {0};
  hd_network network;
  hd_graph *graph = NULL;
  if (hd__network_find(&network, &ctx, text) != HD_OK)
    return false;
  const bool valid = hd__network_graph(&graph, &ctx, &network) == HD_OK;
  if (valid)
    hd__graph_destroy(graph);
  hd__network_fini(&network);
  return valid;
}

/* Whether it can be trained; finds out whether its last value is flat. */
static bool is_valid(sketch *s) {
  char text[TEXT];
  for (int flat = 0; flat < 2; flat++) {
    s->flat = flat;
    text_of(text, s, flat);
    if (is_valid_text(text))
      return true;
  }
  return false;
}

static void draw_setting(char *line, const sketch *s, hd_op op, const hd_op_setting *o) {
  static const int widths[] = {1, 2, 3, 4, 5, 8, 10, 16, 17, 20};
  char value[64] = "";
  const double high = o->high < 6 ? o->high : 6, low = o->low;
  switch (o->type) {
  case HD_SETTING_INT: snprintf(value, sizeof value, "%d", widths[draw(10)]); break;
  case HD_SETTING_FLAG: snprintf(value, sizeof value, "%s", draw(2) ? "true" : "false"); break;
  case HD_SETTING_REAL: snprintf(value, sizeof value, "%.3f", low + (high - low) * draw(1000) / 1000.0); break;
  case HD_SETTING_SIDES: snprintf(value, sizeof value, "%d", (int)low + (int)draw(4)); break;
  case HD_SETTING_CHOICE: snprintf(value, sizeof value, "%s", o->choices[draw(2)]); break;
  case HD_SETTING_LAYER:
    for (int i = s->layers - 1; i >= 0 && !*value; i--)
      if (s->op[i] == op)
        snprintf(value, sizeof value, "n%d", i);
    break;
  case HD_SETTING_WEIGHTS: break;
  }
  if (*value)
    snprintf(line + strlen(line), LINE - strlen(line), ", %s: %s", o->key, value);
}

/* A layer with drawn settings that reads `from`, "" for the one above; whether the network is valid with it. */
static bool add(sketch *s, hd_op op, const char *from) {
  const hd_op_rule *rule = hd__op_info(op)->rule;
  char *line = s->line[s->layers];
  if (s->layers == MOST_LAYERS)
    return false;
  snprintf(line, LINE, "n%d: {op: %s", s->layers, hd__op_info(op)->name);
  if (*from)
    snprintf(line + strlen(line), LINE - strlen(line), ", from: %s", from);
  for (const hd_op_setting *o = rule->settings; o && o->key; o++)
    if (o->required || chance(30))
      draw_setting(line, s, op, o);
  s->op[s->layers++] = op;
  if (is_valid(s))
    return true;
  s->layers--;
  return false;
}

static hd_op draw_op(const sketch *s) {
  if (s->layers > 0 && chance(12))
    return chance(70) ? HD_OP_add : HD_OP_concat;
  if (s->layers > 0 && chance(10))
    return HD_OP_relu;
  if (s->layers > 0 && chance(15))
    return s->op[s->layers - 1];
  if (!s->flat && chance(12))
    return HD_OP_flatten;
  for (;;) {
    const hd_op op = (hd_op)draw(HD_OP_COUNT);
    const hd_op_info *info = hd__op_info(op);
    if (info->rule && info->rule->fewest > 0 && info->role == HD_ROLE_FORWARD)
      return op;
  }
}

/* A number below `count`, most often a small one. */
static int steps_back(int count) {
  const int step = (int)draw(4);
  return step < 3 && step < count ? step : (int)draw((uint32_t)count);
}

static void add_some(sketch *s) {
  char from[64] = "";
  const hd_op op = draw_op(s);
  const hd_op_rule *rule = hd__op_info(op)->rule;
  if (rule->fewest > 1 && s->layers > 0)
    snprintf(from, sizeof from, "[n%d, n%d]", s->layers - 1, s->layers - 1 - steps_back(s->layers));
  else if (s->layers > 1 && chance(25)) { /* a branch, joined at once */
    sketch before = *s;
    snprintf(from, sizeof from, "n%d", s->layers - 2 - steps_back(s->layers - 1));
    const hd_op joins = chance(60) ? HD_OP_add : HD_OP_concat;
    char line[64];
    snprintf(line, sizeof line, "[n%d, n%d]", s->layers, s->layers - 1);
    /* Only both together are valid: the layer above has no other reader. */
    snprintf(s->line[s->layers], LINE, "n%d: {op: %s, from: %s", s->layers, hd__op_info(op)->name, from);
    s->op[s->layers++] = op;
    if (s->layers == MOST_LAYERS || !add(s, joins, line))
      *s = before;
    return;
  }
  add(s, op, from);
}

static void draw_network(sketch *s, uint64_t seed) {
  static const int channels[] = {1, 1, 2, 3, 3, 4};
  state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (int i = 0; i < 8; i++)
    draw(2);
  *s = (sketch){.input = {channels[draw(6)], 1 + (int)draw(9), 1 + (int)draw(9)}};
  const int wanted = 1 + (int)draw(9);
  for (int tries = 0; s->layers < wanted && tries < 60 && s->layers < MOST_LAYERS - 4; tries++)
    add_some(s);
  is_valid(s);
}

/* Some layers are frozen, end to train after a step, or have other settings; some weights are muon's. */
static void draw_rules(sketch *s) {
  static const char *const rules[] = {"requires_grad: false", "lr: 0.003", "weight_decay: 0.1", "epochs: 0.001"};
  const sketch before = *s;
  char *end = s->rules;
  if (chance(45))
    end += snprintf(end, LINE, "parameters:\n");
  if (*s->rules && chance(30))
    end += snprintf(end, LINE, "  - {match: '*.weight', op: linear, optimizer: muon}\n");
  if (*s->rules)
    snprintf(end, LINE, "  - {match: '%s.*', %s}\n", s->layers && chance(80) ? "n?" : "scores", rules[draw(4)]);
  if (!is_valid(s))
    *s = before;
}

/* ---- Running ---- */

/* What an experiment is beside its network; drawn with it. */
typedef struct experiment {
  char batch[8], lr[8];
  const char *optimizer, *precision, *clip, *ema;
} experiment;

static void draw_experiment(experiment *e) {
  static const char *const optimizers[] = {"sgd", "adam", "adamw"};
  snprintf(e->batch, sizeof e->batch, "%d", 1 + (int)draw(20));
  snprintf(e->lr, sizeof e->lr, "0.0%d", 1 + (int)draw(5));
  e->optimizer = optimizers[draw(3)];
  e->precision = chance(25) ? "bf16" : "f32";
  e->clip = chance(30) ? "0.5" : NULL;
  e->ema = chance(20) ? "0.9" : NULL;
}

typedef struct variant {
  const char *plan, *isa, *threads, *accumulate, *stages;
} variant;

typedef struct outcome {
  hd_status status;
  double loss[LOSSES];
  uint64_t weights; /* a hash */
  char why[200];
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

static hd_status configure(hd_config *config, hd_ctx *ctx, const sketch *s, const experiment *e, const variant *v) {
  char text[TEXT], data[64];
  text_of(text, s, s->flat);
  snprintf(data, sizeof data, "random:%dx%dx%d", s->input[0], s->input[1], s->input[2]);
  const char *const pairs[][2] = {{"model", text},
                                  {"data", data},
                                  {"batch", e->batch},
                                  {"lr", e->lr},
                                  {"optimizer", e->optimizer},
                                  {"precision", e->precision},
                                  {"clip-grad-norm", e->clip},
                                  {"ema", e->ema},
                                  {"threads", v->threads},
                                  {"accumulate", v->accumulate},
                                  {"stages", v->stages},
                                  {"out", in_scratch("run")}};
  hd_status status = HD_OK;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs && status == HD_OK; i++)
    if (pairs[i][1])
      status = hd_config_set(config, ctx, pairs[i][0], pairs[i][1]);
  return status;
}

static outcome run(const sketch *s, const experiment *e, const variant *v) {
  outcome out = {.status = HD_OK};
  hd_ctx *ctx;
  hd_config *config = NULL;
  hd_session *session = NULL;
  setenv("HEDDLE_PLAN", v->plan, 1);
  setenv("HEDDLE_ISA", v->isa, 1);
  scratch_remove(in_scratch("run"));
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  out.status = hd_config_create(&config, ctx);
  if (out.status == HD_OK)
    out.status = configure(config, ctx, s, e, v);
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

static bool differs(const sketch *s, const experiment *e, const variant *v) {
  const outcome want = run(s, e, &plain), got = run(s, e, v);
  return want.status == HD_OK && !does_not_fit(&got) && !alike(&want, &got);
}

/* Leaves layers out, one after the other, as long as the difference stays. */
static void shrink(sketch *s, const experiment *e, const variant *v) {
  for (int i = s->layers - 1; i >= 0; i--) {
    sketch smaller = *s;
    memmove(smaller.line[i], smaller.line[i + 1], (size_t)(s->layers - 1 - i) * sizeof *s->line);
    smaller.layers--;
    if (is_valid(&smaller) && differs(&smaller, e, v))
      *s = smaller;
  }
}

static void say(const sketch *s, const experiment *e, const variant *v, uint64_t seed) {
  char text[TEXT];
  sketch small = *s;
  shrink(&small, e, v);
  text_of(text, &small, small.flat);
  diag("seed %llu: HEDDLE_PLAN='%s' HEDDLE_ISA='%s' --threads %s --accumulate %s --stages %s --batch %s --lr %s "
       "--optimizer %s --precision %s --clip-grad-norm %s --ema %s",
       (unsigned long long)seed, v->plan, v->isa, v->threads, v->accumulate, v->stages ? v->stages : "1", e->batch,
       e->lr, e->optimizer, e->precision, e->clip ? e->clip : "none", e->ema ? e->ema : "none");
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
    diag("%s", line);
}

typedef struct tally {
  int networks, refused, comparisons, failed;
  int used[HD_OP_COUNT];
} tally;

static void check(tally *t, uint64_t seed) {
  sketch s;
  experiment e;
  variant all[MOST_VARIANTS];
  draw_network(&s, seed);
  draw_rules(&s);
  draw_experiment(&e);
  const outcome want = run(&s, &e, &plain);
  if (want.status != HD_OK) { /* a batch norm of one number, for example */
    if (getenv("HD_VERBOSE"))
      diag("seed %llu: %s", (unsigned long long)seed, want.why);
    t->refused++;
    return;
  }
  t->networks++;
  for (int i = 0; i < s.layers; i++)
    t->used[s.op[i]]++;
  const int count = variants_of(all, s.layers ? s.op[draw((uint32_t)s.layers)] : HD_OP_linear);
  for (int i = 0; i < count; i++) {
    const outcome got = run(&s, &e, &all[i]);
    if (does_not_fit(&got))
      continue;
    t->comparisons++;
    if (alike(&want, &got))
      continue;
    if (t->failed++ < 5) {
      say(&s, &e, &all[i], seed);
      diag("loss %.9g %.9g %.9g, expected %.9g %.9g %.9g; %s", got.loss[0], got.loss[1], got.loss[2], want.loss[0],
           want.loss[1], want.loss[2], got.why);
    }
    break;
  }
}

int main(int argc, char **argv) {
  const int wanted = argc > 1 ? atoi(argv[1]) : 60;
  const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
  tally t = {0};
  for (uint64_t seed = first; t.networks < wanted; seed++)
    check(&t, seed);
  is_int(t.failed, 0, "%d networks, %d comparisons with the plain plan (%d drawn networks cannot be trained)",
         t.networks, t.comparisons, t.refused);
  int missing = 0;
  for (hd_op op = 0; op < HD_OP_COUNT; op++) {
    const hd_op_info *info = hd__op_info(op);
    if (wanted >= 60 && info->rule && info->rule->fewest > 0 && info->role == HD_ROLE_FORWARD && !t.used[op] &&
        op != HD_OP_custom && op != HD_OP_shifted_linear) {
      diag("%s is in none", info->name);
      missing++;
    }
  }
  is_int(missing, 0, "every operation is in some network");
  return done_testing();
}
