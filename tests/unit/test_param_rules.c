/* Rules for groups of parameters: which parameters a pattern finds, what wins where several do, one line of text for
 * any way to write them; and what they make of a plan: frozen parameters without gradient, update and optimizer state.
 */
#include "tap.h"

#include "exec/weight_store.h"
#include "graph/model.h"
#include "graph/param_rules.h"
#include "train/settings/settings.h"

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

static double lr_of(const hd_param *param) { return param->update.value[HD_SET_lr]; }
static double decay_of(const hd_param *param) { return param->update.value[HD_SET_weight_decay]; }

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
  ok(lr_of(bias) == 2 && decay_of(bias) == 0.25, "each setting for itself");
  ok(lr_of(fc) == 0.5 && decay_of(fc) == 0, "0 is a value, not the run's");
  hd__graph_destroy(graph);
  graph = graph_of("");
  ok(isnan(lr_of(param_of(graph, "fc1.bias"))) && isnan(decay_of(param_of(graph, "fc1.bias"))),
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
  check_text("[{op: linear, betas: [0.5, 0.75], optimizer: adam}]",
             "[{match: '*', op: linear, optimizer: adam, betas: [0.5, 0.75]}]");
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

/* What is wrong is named, with what was meant. */
static void test_refused(void) {
  check_text("[{match: a, optimiser: sgd}]",
             "rules:1: expected a known key, found 'optimiser'; did you mean 'optimizer'?");
  check_text("[{match: a, optimizer: sdg}]",
             "rules:1: expected one of sgd, adam, adamw, muon, lion, rmsprop, nadam as 'optimizer', "
             "found 'sdg'; did you mean 'sgd'?");
  check_text("[{match: a, momentum: 2}]",
             "rules:1: expected a number from 0 to 1 as 'momentum', found '2'; write one in that range");
  check_text("[{match: a, betas: [0.9, 1]}]",
             "rules:1: expected two numbers from 0 to below 1 as 'betas', found others; write [A, B]");
  check_text("[{op: conv2, lr: 1}]",
             "rules:1: expected an operation with parameters as 'op', found 'conv2'; did you mean 'conv2d'?");
  check_text("[{op: flatten, lr: 1}]",
             "rules:1: expected an operation with parameters as 'op', found 'flatten'; write conv2d or linear");
  check_text("[{lr: 1}]",
             "rules:1: expected 'match: PATTERN' or 'op: OPERATION' in a rule for parameters, found none; add it");
  check_text("[{op: linear}]", "rules:1: expected requires_grad, lr, weight_decay or another setting beside 'op: "
                               "linear', found none; add one");
}

/* The rules of parameters have the values of the run's options. */
static void test_options(void) {
  for (const hd_update_setting *s = hd__update_settings; s->name; s++) {
    char name[40];
    const hd_option *option = NULL;
    snprintf(name, sizeof name, "%s", s->name);
    for (char *c = strchr(name, '_'); c; c = strchr(c, '_'))
      *c = '-';
    for (int i = 0; hd_option_at(i); i++)
      option = strcmp(hd_option_at(i)->name, name) ? option : hd_option_at(i);
    bool same = option != NULL;
    if (same && s->kind != HD_UPDATE_FLAG && s->kind != HD_UPDATE_CHOICE)
      same = option->min == s->min && option->max == s->max;
    for (int i = 0; same && s->choices && (s->choices[i] || option->choices[i]); i++)
      same = s->choices[i] && option->choices[i] && !strcmp(s->choices[i], option->choices[i]);
    ok(same, "%s has the bounds and the choices of --%s", s->name, name);
  }
}

static const hd_plan_settings adam = {
    .train = true,
    .update = {{[HD_SET_optimizer] = HD_OPTIMIZER_ADAM, [HD_SET_lr] = 0.001, [HD_SET_weight_decay] = 0.01}}};

static void is_refused(const char *rules, const char *wanted) {
  hd_plan *plan;
  const hd_status status = hd__plan_create(&plan, ctx, graph_of(rules), hd__kernels_reference(), &adam);
  is_int(status, HD_E_USAGE, "refused: %s", rules);
  ok(strstr(hd_ctx_message(ctx), wanted) != NULL, "with: %s", hd_ctx_message(ctx));
}

static hd_plan *plan_of(const char *rules) {
  hd_plan *plan;
  if (hd__plan_create(&plan, ctx, graph_of(rules), hd__kernels_reference(), &adam) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  return plan;
}

/* A rule selects by name and by operation; what it gives beside the optimizer must be the optimizer's. */
static void test_optimizers(void) {
  hd_plan *plan = plan_of("parameters: [{match: '*.weight', op: conv2d, optimizer: sgd, momentum: 0.9}, "
                          "{op: linear, match: '*.bias', optimizer: sgd}]\n");
  is_int(plan->update.group_count, 3, "adam, sgd with momentum, sgd");
  is_int(plan->update.states, 2, "adam keeps the most states");
  for (int p = 0; p < plan->param_count; p++) {
    const char *name = plan->params[p].name;
    const bool conv = !strncmp(name, "conv", 4) && strstr(name, ".weight"), bias = !strcmp(name, "fc1.bias");
    const hd_plan_group *group = &plan->update.groups[plan->params[p].group];
    is_int(group->states, conv ? 1 : bias ? 0 : 2, "states of %s", name);
  }
  hd__plan_destroy(plan);
  is_refused("parameters: [{match: 'fc1.*', momentum: 0.9}]\n",
             "momentum for the optimizer sgd, muon or rmsprop, found it for 'fc1.weight' of adam");
  is_refused("parameters: [{match: 'fc1.*', optimizer: sgd, eps: 0.1}]\n",
             "eps for the optimizer adam, adamw, rmsprop or nadam, found it for 'fc1.weight' of sgd");
  is_refused("parameters: [{op: linear, optimizer: sgd, nesterov: true}]\n", "a momentum above 0 beside nesterov");
}

/* Elements of the parameters that match: conv1 27 + 3, bn1 3 + 3, conv2 108 + 4, fc1 64 * 5 + 5, fc2 15. */
static void test_cost(void) {
  hd_plan *all = plan_of(""), *head = plan_of("parameters: [{match: '[cb]*', requires_grad: false}]\n");
  hd_store *store_all, *store_head;
  is_int(head->size.trained_elems, 320 + 16 + 16, "trained_elems are those of fc1 and fc2, padded");
  is_int(head->size.param_elems, all->size.param_elems, "the weights are all there");
  int backward = 0;
  for (int i = 0; i < head->graph->node_count; i++)
    backward += i > head->graph->values[head->graph->loss].producer;
  is_int(backward, 4, "the loss, fc2 and fc1 alone have gradients: 4 nodes behind the loss");
  is_int(head->size.direct_elems, 32, "no sums but the statistics' of bn1");
  if (hd__store_create(&store_all, ctx, NULL, all) != HD_OK || hd__store_create(&store_head, ctx, NULL, head) != HD_OK)
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
  is_int(plan->update.group_count, 4, "the run's, no decay, another lr, both: 4 groups; a frozen parameter needs none");
  hd__plan_destroy(plan);
  char rules[4096] = "parameters: [";
  for (int i = 0; i < 9; i++)
    snprintf(rules + strlen(rules), sizeof rules - strlen(rules), "{match: '*', lr: %d}, ", i);
  snprintf(rules + strlen(rules), sizeof rules - strlen(rules), "{match: fc1.bias, lr: 9}]\n");
  plan = plan_of(rules);
  is_int(plan->update.group_count, 3, "rules that were overruled leave no group");
  hd__plan_destroy(plan);
  is_int(hd__plan_create(&plan, ctx, graph_of("parameters: [{match: '*', requires_grad: false}]\n"),
                         hd__kernels_reference(), &adam),
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
  test_refused();
  test_options();
  test_optimizers();
  test_cost();
  test_groups();
  hd_ctx_destroy(ctx);
  return done_testing();
}
