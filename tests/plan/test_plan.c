/* Model files in, plans out: what all passes make of a model, against the texts that stand beside this file.
 *
 * NAME.plan holds what the plan of tests/plan/NAME.yaml or data/models/NAME.yaml prints, for training and for
 * evaluation. A change to a pass is meant to be seen here. After one that is meant,
 *
 *     tests/plan/test_plan --print tests/plan/NAME.yaml > tests/plan/NAME.plan
 *
 * writes the text anew. Of a model that is another with other sizes, the text's SHA-256 is kept. Every plan, for every
 * table of kernels, must also keep its memory's promises (plan/check.h). Models that make no sense (bad_models.h) are
 * refused with one line: file, line, what was expected, what was found, a remedy. */
#include <dirent.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "graph/model.h"
#include "plan/bad_models.h"
#include "plan/check.h"
#include "plan/plan.h"
#include "tap.h"

enum { MAX_FILES = 64, MAX_ALLOCATIONS = 2000 };

/* A text that grows while it is printed; the caller frees it. */
typedef struct text {
  char *data;
  size_t length;
} text;

static const char *source_folder(void) {
  const char *folder = getenv("SRCDIR");
  return folder ? folder : ".";
}

static text read_text(const char *path) {
  text t = {0};
  if (!path)
    bail_out("out of memory");
  FILE *file = fopen(path, "rb");
  if (!file)
    return t;
  FILE *copy = open_memstream(&t.data, &t.length);
  for (int c; copy && (c = getc(file)) != EOF;)
    putc(c, copy);
  fclose(file);
  if (!copy || fclose(copy))
    bail_out("cannot read %s", path);
  return t;
}

static hd_status make_plan(hd_plan **plan, hd_ctx *ctx, const text *model, const hd_kernels *table,
                           const hd_plan_settings *settings) {
  hd_graph *graph;
  *plan = NULL;
  HD_TRY(hd__model_parse(&graph, NULL, ctx, model->data, model->length, "model.yaml"));
  hd_plan_settings cut = *settings;
  cut.stages = graph->stages;
  return hd__plan_create(plan, ctx, graph, table, &cut);
}

static hd_plan *plan_of(const text *model, const hd_kernels *table, bool train, bool clip) {
  hd_ctx *ctx;
  hd_plan *plan;
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  if (make_plan(&plan, ctx, model, table,
                &(hd_plan_settings){.train = train, .clip_norm = clip, .recompute = train, .may_shift = true}) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_ctx_destroy(ctx);
  return plan;
}

static void print_plans(FILE *to, const text *model, const hd_kernels *table) {
  for (int train = 1; train >= 0; train--) {
    hd_plan *plan = plan_of(model, table, train, false);
    fprintf(to, "%s\n", train ? "== training" : "\n== evaluation");
    hd__plan_print(plan, to);
    hd__plan_destroy(plan);
  }
}

static text printed(const text *model, const hd_kernels *table) {
  text t = {0};
  FILE *to = open_memstream(&t.data, &t.length);
  if (!to)
    bail_out("out of memory");
  print_plans(to, model, table);
  fclose(to);
  return t;
}

/* Prints where two texts differ. */
static void show_difference(const char *expected, const char *found) {
  for (int line = 1; *expected || *found; line++) {
    size_t e = strcspn(expected, "\n"), f = strcspn(found, "\n");
    if (e != f || memcmp(expected, found, e)) {
      diag("line %d: expected '%.*s'", line, (int)e, expected);
      diag("line %d: found    '%.*s'", line, (int)f, found);
      return;
    }
    expected += e + (expected[e] == '\n');
    found += f + (found[f] == '\n');
  }
}

/* Models whose plan reads as another's. */
static const struct {
  const char *name, *other, *sha256;
} alike[] = {
    {"cifar-fast", "cifar-94", "d9121f6e9c31361ec31df891a53e36ccdb507e3ece928638476f51d9f6ca794f"},
    {"cifar-resnet", "resnet", "82077ac35bba899edde6a01238c2e9a5cc19f699786066d01de9cbbe3ad1a0b2"},
    {"fastmnist", "cnn", "2f5d7f949dbd6f31f91be05893a7c723db9fc521a5fc639bb79db504902af598"},
    {"gpt-baby", "gpt-nano", "5904e100ccb0461485c77cca4fc9aeb7af505ed58f8624066c1b5f22792dc879"},
    {"m5", "allconv", "aefac909e5e487c07c7478c5114f228e62fd1bd4eebbfda94fcf0d2f46289591"},
    {"mobilenetv3-small", "resnet", "e30b351680bd42829d5f0d2adbf5ecfc78513079651092f3475e25926a9a2672"},
    {"resnet18", "resnet", "895527aa3641e0b0b17f396287231636aa5ccd8c3aef2e341b1a82b06b44c5fe"},
    {"unet-small", "branches", "b5972ba69be671cfb68e36178726b73e1503807d712ef3fd5f34b23ca635defd"},
    {"sums", "gpt-nano", "37798c25074897af4cf38c9d12fcfa35d814d25ac9b69ed4ace4535691b9c9e2"},
    {"simplenet", "linear", "ae24e58665692b1dbaf2053a085e368ad11acb61fafd27cafe8b6047826d2e0a"},
};

static bool check_digest(const char *name, const text *found) {
  char hex[HD_SHA256_HEX_BYTES];
  hd_sha256 *sha = hd__sha256_create();
  if (!sha)
    bail_out("out of memory");
  hd__sha256_update(sha, found->data, found->length);
  hd__sha256_finish(sha, hex);
  for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
    if (!strcmp(alike[i].name, name))
      return is_str(hex, alike[i].sha256, "%s: the plan has its SHA-256; see that of %s", name, alike[i].other) || true;
  return false;
}

static void check_print(const char *name, const text *model) {
  char *path = hd__printf_alloc("%s/tests/plan/%s.plan", source_folder(), name);
  text expected = read_text(path), found = printed(model, hd__kernels_reference());
  if (!expected.data && !check_digest(name, &found))
    fail("%s: expected %s, found no such file", name, path);
  else if (expected.data && !ok(!strcmp(expected.data, found.data), "%s: the plan is the one in %s.plan", name, name))
    show_difference(expected.data, found.data);
  free(expected.data);
  free(found.data);
  hd__free(path);
}

/* All tables that this machine runs, and the double one. */
static int list_tables(const hd_kernels *tables[8]) {
  static const char *const isas[] = {"reference", "scalar", "avx2", "avx512", "neon"};
  int count = 0;
  for (size_t i = 0; i < sizeof isas / sizeof *isas; i++)
    if (hd__kernels_of(isas[i]))
      tables[count++] = hd__kernels_of(isas[i]);
  tables[count++] = hd__kernels_reference_f64();
  return count;
}

static void check_memory(const char *name, const text *model) {
  const hd_kernels *tables[8];
  int count = list_tables(tables), wrong = 0;
  for (int t = 0; t < count; t++)
    for (int train = 0; train < 2; train++) {
      hd_plan *plan = plan_of(model, tables[t], train, false);
      hd_finding fault = {0};
      hd__check_memory(&fault, plan);
      hd__check_parts(&fault, plan);
      if (fault.found)
        diag("%s, %s: %s", tables[t]->name, train ? "training" : "evaluation", fault.text);
      wrong += fault.found;
      hd__plan_destroy(plan);
    }
  ok(wrong == 0, "%s: what a call reads is there, in every table's plan", name);
}

/* A plan follows from the graph and from which gradients a table can form; nothing else of a table may show. */
static void check_tables(const char *name, const text *model) {
  const hd_kernels *tables[8], *reference = hd__kernels_reference();
  int count = list_tables(tables), wrong = 0;
  text expected = printed(model, reference);
  for (int t = 0; t < count; t++) {
    bool same_forms = true;
    for (int op = 0; op < HD_OP_COUNT; op++)
      same_forms = same_forms && !tables[t]->form[op] == !reference->form[op];
    if (!same_forms)
      continue;
    text found = printed(model, tables[t]);
    if (strcmp(expected.data, found.data)) {
      diag("the plan for %s differs from the reference's", tables[t]->name);
      show_difference(expected.data, found.data);
      wrong++;
    }
    free(found.data);
  }
  free(expected.data);
  ok(wrong == 0, "%s: tables that form the same gradients have the same plan", name);
}

/* Clipping changes the phases behind the shards, and nothing before them. */
static void check_clipping(const char *name, const text *model) {
  hd_plan *plan = plan_of(model, hd__kernels_reference(), true, false);
  hd_plan *clipped = plan_of(model, hd__kernels_reference(), true, true);
  hd_plan *evaluation = plan_of(model, hd__kernels_reference(), false, true);
  int segments = plan->segments, wrong = 0;
  for (int i = 0; i < segments; i++)
    wrong += (plan->phases[i].kind != HD_PHASE_SHARDS && plan->phases[i].kind != HD_PHASE_OUTPUTS) ||
             clipped->phases[i].kind != plan->phases[i].kind;
  ok(wrong == 0 && plan->phase_count == segments + 1 && plan->phases[segments].kind == HD_PHASE_REDUCE_UPDATE &&
         clipped->phase_count == segments + 2 && clipped->phases[segments].kind == HD_PHASE_REDUCE_NORM &&
         clipped->phases[segments + 1].kind == HD_PHASE_UPDATE && evaluation->phase_count == 1 &&
         evaluation->phases[0].kind == HD_PHASE_SHARDS,
     "%s: %d phases of shards and one behind them, two with clipping, one in all in evaluation", name, segments);
  ok(plan->size.arena_bytes == clipped->size.arena_bytes && plan->call_count == clipped->call_count,
     "%s: clipping leaves the shards' phase as it is", name);
  hd__plan_destroy(plan);
  hd__plan_destroy(clipped);
  hd__plan_destroy(evaluation);
}

static void check_model(const char *folder, const char *name) {
  char *path = hd__printf_alloc("%s/%s.yaml", folder, name);
  text model = read_text(path);
  if (!model.data)
    bail_out("cannot read %s", path);
  check_print(name, &model);
  check_tables(name, &model);
  check_memory(name, &model);
  check_clipping(name, &model);
  free(model.data);
  hd__free(path);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Every NAME.yaml of a folder, in order of names. */
static void check_folder(const char *inside, int at_least) {
  char *names[MAX_FILES], *folder = hd__printf_alloc("%s/%s", source_folder(), inside);
  int count = 0;
  DIR *dir = folder ? opendir(folder) : NULL;
  if (!dir)
    bail_out("cannot open %s in %s; set SRCDIR to the source folder", inside, source_folder());
  for (struct dirent *entry; (entry = readdir(dir)) && count < MAX_FILES;) {
    size_t length = strlen(entry->d_name);
    if (length > 5 && !strcmp(entry->d_name + length - 5, ".yaml"))
      names[count++] = strndup(entry->d_name, length - 5);
  }
  closedir(dir);
  qsort(names, (size_t)count, sizeof *names, by_name);
  ok(count >= at_least, "%s holds at least %d models", inside, at_least);
  for (int i = 0; i < count; i++) {
    check_model(folder, names[i]);
    free(names[i]);
  }
  hd__free(folder);
}

/* One line: FILE:LINE: what was expected, what was found, a remedy. */
static bool is_good_message(const char *message, int line, const char *found) {
  char where[64];
  snprintf(where, sizeof where, "bad.yaml:%d: ", line);
  const char *expected = strstr(message, "expect"), *what = strstr(message, "found");
  const char *remedy = what ? strstr(what, "; ") : NULL;
  for (const char *c = message; *c; c++)
    if ((unsigned char)*c < ' ')
      return false;
  return !strncmp(message, where, strlen(where)) && expected && what && remedy && remedy[2] && strstr(message, found);
}

static void check_bad(hd_ctx *ctx, const char *what, const char *model, int line, hd_status status, const char *found) {
  hd_graph *graph;
  char *name;
  hd_status got = hd__model_parse(&graph, &name, ctx, model, strlen(model), "bad.yaml");
  bool refused = got == status && !graph && !name;
  if (ok(refused && is_good_message(hd_ctx_message(ctx), line, found), "refused: %s", what))
    return;
  diag("expected %s in 'bad.yaml:%d: expected ..., found ...; ...' with \"%s\"", hd_status_text(status), line, found);
  diag("found %s: %s", hd_status_text(got), got == HD_OK ? "a graph" : hd_ctx_message(ctx));
  hd__graph_destroy(graph);
  hd__free(name);
}

static void check_too_many_layers(hd_ctx *ctx) {
  text t = {0};
  FILE *to = open_memstream(&t.data, &t.length);
  fprintf(to, "model: bad\ninput: [1, 8, 8]\nlayers:\n");
  for (int i = 0; i < 1001; i++)
    fprintf(to, "  - r%d: {op: relu}\n", i);
  fclose(to);
  check_bad(ctx, "1001 layers", t.data, 4, HD_E_FORMAT, "found 1001");
  free(t.data);
}

static void check_bad_models(void) {
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  for (int i = 0; i < bad_model_count; i++) {
    const bad_model *bad = &bad_models[i];
    check_bad(ctx, bad->what, bad->text, bad->line, bad->status, bad->found);
  }
  check_too_many_layers(ctx);
  hd_ctx_destroy(ctx);
}

/* Whichever allocation fails, the plan reports it and leaves nothing behind. */
static void check_allocations(const char *name) {
  char *path = hd__printf_alloc("%s/tests/plan/%s.yaml", source_folder(), name);
  text model = read_text(path);
  hd_ctx *ctx;
  if (!model.data || hd_ctx_create(&ctx) != HD_OK)
    bail_out("cannot read %s", path);
  hd_plan *plan = NULL;
  hd_status status = HD_E_NOMEM;
  int count = 0, other = 0;
  for (; status != HD_OK && count < MAX_ALLOCATIONS; count++) {
    hd__alloc_fail_after(count);
    status =
        make_plan(&plan, ctx, &model, hd__kernels_reference(), &(hd_plan_settings){.train = true, .recompute = true});
    hd__alloc_fail_after(-1);
    other += status != HD_OK && (status != HD_E_NOMEM || plan || !*hd_ctx_message(ctx));
  }
  ok(status == HD_OK && count > 50 && other == 0, "%s: each of %d allocations may fail", name, count - 1);
  hd__plan_destroy(plan);
  hd_ctx_destroy(ctx);
  free(model.data);
  hd__free(path);
}

/* Copies of a weight that two layers share are told apart by what they are of, not by the padding of structs. */
static void check_padding(void) {
  static const char model[] = "model: twins\ninput: [4, 12, 12]\nlayers:\n"
                              "  - a: {op: conv2d, out: 4, kernel: 3, padding: 1}\n  - first: {op: tanh}\n"
                              "  - b: {op: conv2d, out: 4, kernel: 3, padding: 1, share: a}\n  - last: {op: tanh}\n"
                              "  - flat: {op: flatten}\n  - c: {op: linear, out: 10}\n";
  int copies[2] = {0};
  for (int pass = 0; pass < 2; pass++) {
    hd_ctx *ctx;
    hd_graph *graph;
    hd_plan *plan;
    const char *why;
    const hd_plan_settings cut = {.train = true};
    if (hd_ctx_create(&ctx) != HD_OK ||
        hd__model_parse(&graph, NULL, ctx, model, sizeof model - 1, "model.yaml") != HD_OK)
      bail_out("not a model");
    for (int i = 0; i < graph->node_count && pass; i++) {
      hd_geom *g = &graph->nodes[i].geom;
      const hd_geom was = *g;
      memset(g, i, sizeof *g);
      memcpy(g, &was, offsetof(hd_geom, relu) + sizeof was.relu);
#define RESTORE(name) g->name = was.name;
      HD_GEOMS(RESTORE)
#undef RESTORE
    }
    if (hd__plan_create(&plan, ctx, graph, hd__kernels_select(NULL, &why), &cut) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
    copies[pass] = plan->packed_count;
    hd__plan_destroy(plan);
    hd_ctx_destroy(ctx);
  }
  ok(copies[0] == copies[1], "%d packed weights, whatever is in the padding of structs", copies[0]);
}

int main(int argc, char **argv) {
  if (argc == 3 && !strcmp(argv[1], "--print")) {
    text model = read_text(argv[2]);
    if (!model.data)
      bail_out("cannot read %s", argv[2]);
    print_plans(stdout, &model, hd__kernels_reference());
    free(model.data);
    return 0;
  }
  check_folder("data/models", 5);
  check_folder("tests/plan", 10);
  check_bad_models();
  check_padding();
  check_allocations("branches");
  check_allocations("repeats");
  check_allocations("batch_norm");
  check_allocations("shard_norm");
  return done_testing();
}
