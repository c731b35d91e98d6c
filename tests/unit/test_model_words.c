/* What model files leave to the data: the text with the data's numbers in place of words, its loss, and whether a
 * recorded text is that of a file. */
#include "scratch.h"

#include "base/alloc.h"
#include "graph/model.h"
#include "graph/model_words.h"

static hd_ctx *ctx;

#define LAYERS "layers:\n  - fc: {op: linear, out: classes}\n"
#define THREE "layers:\n  - fc: {op: linear, out: 3}\n"

static const hd_model_facts rows = {.input = {1, {4}}, .classes = 3};
static const hd_model_facts numbers = {.input = {1, {4}}, .classes = 3, .loss = "mse"};
static const hd_model_facts pictures = {.input = {3, {3, 32, 32}}, .classes = 3};

static const struct {
  const char *what, *written;
  const hd_model_facts *facts;
  const char *resolved; /* NULL: nothing is replaced */
} texts[] = {
    {"rows", "model: m\ninput: data\n" LAYERS, &rows, "model: m\ninput: [4]\n" THREE},
    {"pictures", "model: m\ninput: data\n" LAYERS, &pictures, "model: m\ninput: [3, 32, 32]\n" THREE},
    {"numbers alone", "model: m\ninput: [4]\n" THREE, &rows, NULL},
    {"outputs alone", "model: m\ninput: [4]\n" LAYERS, &rows, "model: m\ninput: [4]\n" THREE},
    {"quotes and comments", "model: m # \303\251\ninput: 'data' # the data's\n" LAYERS, &rows,
     "model: m # \303\251\ninput: [4] # the data's\n" THREE},
    {"a repeat, and a layer in its middle",
     "model: m\ninput: data\nlayers:\n  - b: {repeat: 2, layers: [{fc: {op: linear, out: classes}}]}\n"
     "  - out: {op: linear, out: classes}\n",
     &rows,
     "model: m\ninput: [4]\nlayers:\n  - b: {repeat: 2, layers: [{fc: {op: linear, out: 3}}]}\n"
     "  - out: {op: linear, out: 3}\n"},
    {"a loss for a text without one", "model: m\ninput: data\n" LAYERS, &numbers,
     "model: m\ninput: [4]\n" THREE "loss: mse\n"},
    {"a loss behind a line without an end", "  model: m\n  input: [4]\n  layers: [{f: {op: linear, out: 3}}]", &numbers,
     "  model: m\n  input: [4]\n  layers: [{f: {op: linear, out: 3}}]\n  loss: mse\n"},
    {"a loss in brackets", "{model: m, input: data, layers: [{f: {op: linear, out: classes}}]}", &numbers,
     "{loss: mse, model: m, input: [4], layers: [{f: {op: linear, out: 3}}]}"},
    {"a loss before a mark of the end", "model: m\ninput: [4]\n" THREE "...\n", &numbers,
     "loss: mse\nmodel: m\ninput: [4]\n" THREE "...\n"},
    {"a loss in place of another", "model: m\ninput: [4]\nloss: huber # why\n" THREE, &numbers,
     "model: m\ninput: [4]\nloss: mse # why\n" THREE},
    {"a loss in place of one with settings", "model: m\ninput: [4]\nloss:\n  op: huber\n  delta: 2\n# end\n" THREE,
     &numbers, "model: m\ninput: [4]\nloss:\n  mse\n# end\n" THREE},
    {"a byte order mark", "\357\273\277model: m\ninput: data\n" LAYERS, &numbers,
     "\357\273\277model: m\ninput: [4]\n" THREE "loss: mse\n"},
    {"lines that end with two characters", "model: m\r\ninput: data\r\nlayers: [{f: {op: linear, out: 3}}]\r\n", &rows,
     "model: m\r\ninput: [4]\r\nlayers: [{f: {op: linear, out: 3}}]\r\n"},
    {"words that are no values", "model: data\ninput: [4]\nlayers:\n  - classes: {op: linear, out: 3}\n", &rows, NULL},
    {"a word as a block of lines", "model: m\ninput: >-\n  data\n" THREE, &rows, NULL},
};

static void test_resolve(void) {
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char *text = NULL;
    bool same = false;
    const char *wanted = texts[i].resolved, *written = texts[i].written;
    is_int(hd__model_resolve(&text, ctx, written, strlen(written), "m.yaml", texts[i].facts), HD_OK, "%s",
           texts[i].what);
    if (!ok(wanted ? text && !strcmp(text, wanted) : !text, "%s: the text", texts[i].what))
      diag("found '%s'", text ? text : "(none)");
    is_int(hd__model_is_resolved(&same, ctx, written, wanted ? wanted : written), HD_OK, "%s: it is compared",
           texts[i].what);
    ok(same, "%s: it is the file's", texts[i].what);
    hd__free(text);
  }
}

static void test_other(void) {
  static const char written[] = "model: m\ninput: data\nlayers:\n  - a: {op: linear, out: classes}\n"
                                "  - b: {op: linear, out: classes}\n";
  static const char *const other[] = {
      "model: m\ninput: [4]\nlayers:\n  - a: {op: linear, out: 3}\n  - b: {op: linear, out: 4}\n",
      "model: n\ninput: [4]\nlayers:\n  - a: {op: linear, out: 3}\n  - b: {op: linear, out: 3}\n",
      "model: m\ninput: [4]\nlayers:\n  - a: {op: linear, out: 3}\n  - b: {op: linear, out: 3, bias: false}\n",
      "model: m\ninput: [4, 4]\nlayers:\n  - a: {op: linear, out: 3}\n  - b: {op: linear, out: 3}\n",
      "model: m\ninput: [4]\nlayers:\n  - a: {op: linear, out: 3}\n"};
  for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
    bool same = true;
    hd__model_is_resolved(&same, ctx, written, other[i]);
    ok(!same, "another text is not the file's, %zu", i);
  }
}

/* Without data the words have defaults; an input that is given is the samples'. */
static void test_defaults(void) {
  static const char words[] = "model: m\ninput: data\nlayers:\n  - f: {op: flatten}\n"
                              "  - fc: {op: linear, out: classes}\n",
                    number[] = "model: m\ninput: data\nloss: l1\nlayers:\n  - f: {op: flatten}\n"
                               "  - fc: {op: linear, out: classes}\n",
                    row[] = "model: m\ninput: [4]\n" THREE;
  const hd_shape given = {3, {1, 1, 7}};
  hd_graph *graph;
  hd__model_parse(&graph, NULL, ctx, words, strlen(words), "m.yaml");
  is_int(hd__shape_elems(&graph->values[graph->input].shape), 28 * 28, "the default input");
  is_int(graph->values[graph->logits].shape.dim[0], 10, "the default outputs");
  hd__graph_destroy(graph);
  hd__model_parse(&graph, NULL, ctx, number, strlen(number), "m.yaml");
  is_int(graph->values[graph->logits].shape.dim[0], 1, "the default output of a loss on numbers");
  hd__graph_destroy(graph);
  hd__model_parse_for(&graph, ctx, words, strlen(words), "m.yaml", &given);
  is_int(graph->values[graph->input].shape.dim[0], 7, "a row in place of the default");
  hd__graph_destroy(graph);
  hd__model_parse_for(&graph, ctx, row, strlen(row), "m.yaml", &given);
  is_int(graph->values[graph->input].shape.dim[0], 7, "a row in place of the file's");
  hd__graph_destroy(graph);
}

static void test_outline(void) {
  static const char text[] = "model: m\ninput: data\nloss: {op: cross_entropy, ignore_index: 255}\n" THREE;
  hd_model_outline outline;
  is_int(hd__model_outline(&outline, ctx, text, strlen(text), "m.yaml"), HD_OK, "an outline");
  ok(outline.input && !outline.classes && outline.rows && outline.has_loss && !strcmp(outline.name, "m"),
     "what the text leaves to the data");
  is_int(outline.ignored, 255, "the label that the loss ignores");
  hd__free(outline.name);
}

static void test_no_memory(void) {
  static const char written[] = "model: m\ninput: data\n" LAYERS;
  char *text = NULL;
  held before = held_now();
  survives_no_memory(hd__model_resolve(&text, ctx, written, strlen(written), "m.yaml", &numbers), !text, ctx, "", 5,
                     "a text's words");
  hd__free(text);
  holds_same(before, "and nothing is left behind");
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  test_resolve();
  test_other();
  test_defaults();
  test_outline();
  test_no_memory();
  hd_ctx_destroy(ctx);
  return done_testing();
}
