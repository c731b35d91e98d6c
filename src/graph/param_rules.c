/* Reads and applies rules for parameters: see param_rules.h. */
#include "graph/param_rules.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "base/text_buffer.h"
#include "base/number.h"

enum { MAX_RULES = 1000, REQUIRES_GRAD = 0, LR, WEIGHT_DECAY, SETTINGS };
static const double MAX_RATE = 1e6;

typedef struct rule {
  const char *match;
  const hd_yaml_node *set[SETTINGS]; /* NULL: not given */
} rule;

static hd_status read_rule(rule *out, hd_ctx *ctx, const hd_yaml_node *node) {
  static const char *const keys[] = {"match", "requires_grad", "lr", "weight_decay", NULL};
  bool flag, any = false;
  double rate;
  HD_TRY(hd__yaml_expect(ctx, node, HD_YAML_MAPPING, "a rule ({match: 'PATTERN', SETTING: VALUE})"));
  HD_TRY(hd__yaml_only_keys(ctx, node, keys));
  const hd_yaml_node *match = hd__yaml_get(node, "match");
  if (!match)
    return hd__yaml_fail(ctx, node, "expected 'match: PATTERN' in a rule for parameters, found none; add it");
  HD_TRY(hd__yaml_text(&out->match, ctx, match));
  for (int k = 0; k < SETTINGS; k++) {
    const hd_yaml_node *given = out->set[k] = hd__yaml_get(node, keys[1 + k]);
    any |= given != NULL;
    if (given)
      HD_TRY(k == REQUIRES_GRAD ? hd__yaml_bool(&flag, ctx, given) : hd__yaml_number(&rate, ctx, given, 0, MAX_RATE));
  }
  if (any)
    return HD_OK;
  return hd__yaml_fail(ctx, node, "expected requires_grad, lr or weight_decay beside 'match: %s', found none; add one",
                       out->match);
}

static hd_status check_list(hd_ctx *ctx, const hd_yaml_node *rules) {
  HD_TRY(hd__yaml_expect(ctx, rules, HD_YAML_SEQUENCE, "a list of rules as 'parameters'"));
  if (rules->count <= MAX_RULES)
    return HD_OK;
  return hd__yaml_fail(ctx, rules, "expected at most %d rules, found %d; use wider patterns", MAX_RULES, rules->count);
}

/* The values have been checked when the rule was read. */
static void set(hd_param *param, const rule *r) {
  if (r->set[REQUIRES_GRAD])
    param->frozen = !strcmp(r->set[REQUIRES_GRAD]->text, "false");
  if (r->set[LR])
    hd__parse_double(&param->lr, r->set[LR]->text);
  if (r->set[WEIGHT_DECAY])
    hd__parse_double(&param->weight_decay, r->set[WEIGHT_DECAY]->text);
}

/* "conv1.weight, conv1.bias, ...": the names that a rule can match. */
static const char *list_names(char *text, size_t bytes, const hd_graph *graph) {
  hd_line l = {.text = text, .bytes = bytes};
  for (int p = 0; p < graph->param_count; p++)
    if (!graph->params[p].running)
      hd__line_add(&l, "%s%s", l.length ? ", " : "", graph->values[graph->params[p].value].name);
  return text;
}

/* A parameter shared by several layers has a name for each. */
static bool matches(const hd_graph *graph, int param, const char *pattern) {
  bool found = !fnmatch(pattern, graph->values[graph->params[param].value].name, 0);
  for (int i = 0; i < graph->alias_count; i++)
    found |= graph->aliases[i].param == param && !fnmatch(pattern, graph->aliases[i].name, 0);
  return found;
}

hd_status hd__param_rules_apply(hd_graph *graph, hd_ctx *ctx, const hd_yaml_node *rules) {
  char names[400];
  HD_TRY(check_list(ctx, rules));
  for (int i = 0; i < rules->count; i++) {
    rule r;
    bool matched = false;
    HD_TRY(read_rule(&r, ctx, &rules->item[i]));
    for (int p = 0; p < graph->param_count; p++)
      if (!graph->params[p].running && matches(graph, p, r.match)) {
        set(&graph->params[p], &r);
        matched = true;
      }
    if (!matched)
      return hd__yaml_fail(ctx, &rules->item[i],
                           "expected a pattern that matches a parameter, found '%.100s'; there are %s", r.match,
                           list_names(names, sizeof names, graph));
  }
  return HD_OK;
}

static void append_quoted(hd_line *l, const char *text) {
  hd__line_add(l, "'");
  for (; *text; text++)
    hd__line_add(l, *text == '\'' ? "''" : "%c", *text);
  hd__line_add(l, "'");
}

hd_status hd__param_rules_text(char *text, size_t bytes, hd_ctx *ctx, const hd_yaml_node *rules) {
  hd_line l = {.text = text, .bytes = bytes};
  HD_TRY(check_list(ctx, rules));
  hd__line_add(&l, "[");
  for (int i = 0; i < rules->count; i++) {
    rule r;
    HD_TRY(read_rule(&r, ctx, &rules->item[i]));
    hd__line_add(&l, "%s{match: ", i ? ", " : "");
    append_quoted(&l, r.match);
    for (int k = 0; k < SETTINGS; k++)
      if (r.set[k])
        hd__line_add(&l, ", %s: %s", r.set[k]->key, r.set[k]->text);
    hd__line_add(&l, "}");
  }
  hd__line_add(&l, "]");
  if (l.length < bytes)
    return HD_OK;
  return hd__yaml_fail(ctx, rules, "expected rules of at most %zu characters, found more; use wider patterns",
                       bytes - 1);
}
