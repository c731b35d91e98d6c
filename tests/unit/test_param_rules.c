/* Rules for groups of parameters: which parameters a pattern finds, what wins where several do, one line of text for
 * any way to write them; and what they make of a plan: frozen parameters without gradient, update and optimizer state.
 */
#include "tap.h"

#include "exec/weight_store.h"
#include "graph/model.h"
#include "graph/param_rules.h"

static const char MODEL[] = "model: m\ninput: [1, 8, 8]\nlayers:\n"
                            "  - conv1: {op: conv2d, out: 3, kernel: 3}\n  - bn1: {op: batch_norm}\n"
                            "  - conv2: {op: conv2d, out: 4, kernel: 3}\n  - flat: {op: flatten}\n"
                            "  - fc1: {op: linear, out: 5}\n  - fc2: {op: linear, out: 3, bias: false}\n";

static hd_ctx *ctx;

static hd_graph *graph_of(const char *rules) {
  char text[1024];
  hd_graph *graph;
  snprintf(text, sizeof text, "%s%s", MODEL, rules);
  if (hd__model_parse(&graph, NULL, ctx, text, strlen(text), "m.yaml") != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  return graph;
}

static const hd_param *param_of(const hd_graph *graph, const char *name) {
  for (int p = 0; p < graph->param_count; p++)
    if (!strcmp(graph->values[graph->params[p].value].name, name))
      return &graph->params[p];
  bail_out("no parameter %s", name);
}

static int count_frozen(const hd_graph *graph) {
  int count = 0;
  for (int p = 0; p < graph->param_count; p++)
    count += graph->params[p].frozen;
  return count;
}

static void test_patterns(void) {
  static const struct {
    const char *match;
    int found;
  } list[] = {{"conv1.weight", 1}, {"conv1.*", 2}, {"conv?.*", 4}, {"*", 9},       {"*.bias", 4},
              {"*.weight", 5},     {"bn1.*", 2},   {"fc[2]*", 1},  {"*1.*", 6},    {"[!c]*", 5},
              {"fc*.weight", 2},   {"f*1*", 2},    {"fc1*", 2},    {"*.weigh?", 5}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    char rules[128];
    snprintf(rules, sizeof rules, "parameters: [{match: '%s', requires_grad: false}]\n", list[i].match);
    hd_graph *graph = graph_of(rules);
    is_int(count_frozen(graph), list[i].found, "'%s' finds %d parameters", list[i].match, list[i].found);
    ok(!param_of(graph, "bn1.running_mean")->frozen, "'%s' finds no running statistic", list[i].match);
    hd__graph_destroy(graph);
  }
}

static void test_order(void) {
  hd_graph *graph = graph_of("parameters:\n  - {match: '*', lr: 0.5, weight_decay: 0.25}\n"
                             "  - {match: 'conv*', requires_grad: false, lr: 2}\n"
                             "  - {match: conv2.bias, requires_grad: true}\n  - {match: 'fc*', weight_decay: 0}\n");
  const hd_param *bias = param_of(graph, "conv2.bias"), *fc = param_of(graph, "fc2.weight");
  ok(param_of(graph, "conv2.weight")->frozen && !bias->frozen, "the last rule with requires_grad wins");
  ok(bias->lr == 2 && bias->weight_decay == 0.25, "each setting for itself");
  ok(fc->lr == 0.5 && fc->weight_decay == 0, "0 is a value, not the run's");
  hd__graph_destroy(graph);
  graph = graph_of("");
  ok(isnan(param_of(graph, "fc1.bias")->lr) && isnan(param_of(graph, "fc1.bias")->weight_decay),
     "without rules a parameter has the run's settings");
  hd__graph_destroy(graph);
}

/* Both names of a shared parameter find it, and there is one of it. */
static void test_shared(void) {
  static const char *const lists[] = {"fc2.weight", "fc3.weight", "fc[23].weight"};
  for (int i = 0; i < 3; i++) {
    char rules[256];
    snprintf(rules, sizeof rules,
             "  - fc3: {op: linear, out: 3, share: fc2, from: fc1}\n  - sum: {op: add, from: [fc2, fc3]}\n"
             "parameters: [{match: '%s', requires_grad: false}]\n",
             lists[i]);
    hd_graph *graph = graph_of(rules);
    is_int(count_frozen(graph), 1, "'%s' finds the weight that fc2 and fc3 share", lists[i]);
    is_int(graph->alias_count, 1, "which has one more name");
    is_str(graph->aliases[0].name, "fc3.weight", "that of fc3");
    hd__graph_destroy(graph);
  }
}

static void check_text(const char *rules, const char *wanted) {
  char text[512] = "";
  hd_yaml *yaml;
  hd_status status = hd__yaml_parse(&yaml, ctx, rules, strlen(rules), "rules");
  if (status == HD_OK) {
    status = hd__param_rules_text(text, sizeof text, ctx, hd__yaml_root(yaml));
    hd__yaml_destroy(yaml);
  }
  is_str(status == HD_OK ? text : hd_ctx_message(ctx), wanted, "one line for %.40s", rules);
}

static void test_text(void) {
  check_text("- match: a.*\n  requires_grad: false\n", "[{match: 'a.*', requires_grad: false}]");
  check_text("[{lr: 1e-3, match: \"it's\", weight_decay: 0}, {match: b, requires_grad: true}]",
             "[{match: 'it''s', lr: 1e-3, weight_decay: 0}, {match: 'b', requires_grad: true}]");
  check_text("[{match: 'it''s', lr: 1e-3, weight_decay: 0}]", "[{match: 'it''s', lr: 1e-3, weight_decay: 0}]");
  check_text("[]", "[]");
  char small[20];
  hd_yaml *yaml;
  const char *rules = "[{match: abcdefghij, lr: 1}]";
  if (hd__yaml_parse(&yaml, ctx, rules, strlen(rules), "rules") != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  is_int(hd__param_rules_text(small, sizeof small, ctx, hd__yaml_root(yaml)), HD_E_FORMAT,
         "a text too long is refused");
  hd__yaml_destroy(yaml);
}

static hd_plan *plan_of(const char *rules) {
  hd_plan *plan;
  if (hd__plan_create(&plan, ctx, graph_of(rules), hd__kernels_reference(), &(hd_plan_settings){.train = true}) !=
      HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  return plan;
}

/* Elements of the parameters that match: conv1 27 + 3, bn1 3 + 3, conv2 108 + 4, fc1 64 * 5 + 5, fc2 15. */
static void test_cost(void) {
  hd_plan *all = plan_of(""), *head = plan_of("parameters: [{match: '[cb]*', requires_grad: false}]\n");
  hd_store *store_all, *store_head;
  is_int(head->trained_elems, 320 + 16 + 16, "trained_elems are those of fc1 and fc2, padded");
  is_int(head->param_elems, all->param_elems, "the weights are all there");
  int backward = 0;
  for (int i = 0; i < head->graph->node_count; i++)
    backward += i > head->graph->values[head->graph->loss].producer;
  is_int(backward, 4, "the loss, fc2 and fc1 alone have gradients: 4 nodes behind the loss");
  is_int(head->direct_elems, 32, "no sums but the statistics' of bn1");
  if (hd__store_create(&store_all, ctx, NULL, all, 2) != HD_OK ||
      hd__store_create(&store_head, ctx, NULL, head, 2) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  const hd_directory *d[2] = {store_all->directory, store_head->directory};
  for (int i = 0; i < 2; i++)
    is_int(d[i]->packed_offset - d[i]->state_offset, d[i]->trained_elems * 4 * 2 * 2,
           "two states in two versions of %lld floats that are trained", (long long)d[i]->trained_elems);
  hd__store_destroy(store_all);
  hd__store_destroy(store_head);
  hd__plan_destroy(all);
  hd__plan_destroy(head);
}

static void test_groups(void) {
  hd_plan *plan = plan_of("parameters: [{match: '*.bias', weight_decay: 0}, {match: 'fc*', lr: 0.1}, "
                          "{match: 'bn1.*', weight_decay: 0}, {match: 'conv1.*', requires_grad: false, lr: 7}]\n");
  is_int(plan->group_count, 4, "the run's, no decay, another lr, both: 4 groups; a frozen parameter needs none");
  hd__plan_destroy(plan);
  char rules[4096] = "parameters: [";
  for (int i = 0; i < 9; i++)
    snprintf(rules + strlen(rules), sizeof rules - strlen(rules), "{match: '*', lr: %d}, ", i);
  snprintf(rules + strlen(rules), sizeof rules - strlen(rules), "{match: fc1.bias, lr: 9}]\n");
  plan = plan_of(rules);
  is_int(plan->group_count, 3, "rules that were overruled leave no group");
  hd__plan_destroy(plan);
  is_int(hd__plan_create(&plan, ctx, graph_of("parameters: [{match: '*', requires_grad: false}]\n"),
                         hd__kernels_reference(), &(hd_plan_settings){.train = true}),
         HD_E_USAGE, "nothing to train is refused");
  ok(strstr(hd_ctx_message(ctx), "every one frozen") != NULL, "and named");
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  test_patterns();
  test_order();
  test_shared();
  test_text();
  test_cost();
  test_groups();
  hd_ctx_destroy(ctx);
  return done_testing();
}
