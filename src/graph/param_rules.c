/* Reads and applies rules for parameters: see param_rules.h. */
#include "graph/param_rules.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text_buffer.h"
#include "base/number.h"

enum { MAX_RULES = 1000 };
static const double MAX_RATE = 1e6;

typedef struct rule {
  const char *match;
  const hd_yaml_node *requires_grad, *lr, *weight_decay; /* NULL: not given */
} rule;

static hd_status read_rate(double *rate, hd_ctx *ctx, const hd_yaml_node *node) {
  const char *text;
  HD_TRY(hd__yaml_text(&text, ctx, node));
  if (hd__parse_double(rate, text) && *rate >= 0 && *rate <= MAX_RATE)
    return HD_OK;
  return hd__yaml_fail(ctx, node, "expected a number from 0 to %g as '%s', found '%s'; change it", MAX_RATE, node->key,
                       text);
}

static hd_status read_rule(rule *out, hd_ctx *ctx, const hd_yaml_node *node) {
  static const char *const keys[] = {"match", "requires_grad", "lr", "weight_decay", NULL};
  bool flag;
  double rate;
  HD_TRY(hd__yaml_expect(ctx, node, HD_YAML_MAPPING, "a rule ({match: 'PATTERN', SETTING: VALUE})"));
  HD_TRY(hd__yaml_only_keys(ctx, node, keys));
  const hd_yaml_node *match = hd__yaml_get(node, "match");
  if (!match)
    return hd__yaml_fail(ctx, node, "expected 'match: PATTERN' in a rule for parameters, found none; add it");
  HD_TRY(hd__yaml_text(&out->match, ctx, match));
  out->requires_grad = hd__yaml_get(node, "requires_grad");
  out->lr = hd__yaml_get(node, "lr");
  out->weight_decay = hd__yaml_get(node, "weight_decay");
  if (out->requires_grad)
    HD_TRY(hd__yaml_bool(&flag, ctx, out->requires_grad));
  if (out->lr)
    HD_TRY(read_rate(&rate, ctx, out->lr));
  if (out->weight_decay)
    HD_TRY(read_rate(&rate, ctx, out->weight_decay));
  if (!out->requires_grad && !out->lr && !out->weight_decay)
    return hd__yaml_fail(
        ctx, node, "expected requires_grad, lr or weight_decay beside 'match: %s', found none; add one", out->match);
  return HD_OK;
}

static hd_status check_list(hd_ctx *ctx, const hd_yaml_node *rules) {
  HD_TRY(hd__yaml_expect(ctx, rules, HD_YAML_SEQUENCE, "a list of rules as 'parameters'"));
  if (rules->count <= MAX_RULES)
    return HD_OK;
  return hd__yaml_fail(ctx, rules, "expected at most %d rules, found %d; use wider patterns", MAX_RULES, rules->count);
}

/* The values have been checked when the rule was read. */
static void set(hd_param *param, const rule *r) {
  if (r->requires_grad)
    param->frozen = !strcmp(r->requires_grad->text, "false");
  if (r->lr)
    hd__parse_double(&param->lr, r->lr->text);
  if (r->weight_decay)
    hd__parse_double(&param->weight_decay, r->weight_decay->text);
}

/* "conv1.weight, conv1.bias, ...": the names that a rule can match. */
static const char *list_names(char *text, size_t bytes, const hd_graph *graph) {
  size_t at = 0;
  for (int p = 0; p < graph->param_count && at < bytes; p++)
    if (!graph->params[p].running)
      at += (size_t)snprintf(text + at, bytes - at, "%s%s", at ? ", " : "", graph->values[graph->params[p].value].name);
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
    const hd_yaml_node *value[] = {r.requires_grad, r.lr, r.weight_decay};
    for (int k = 0; k < 3; k++)
      if (value[k])
        hd__line_add(&l, ", %s: %s", value[k]->key, value[k]->text);
    hd__line_add(&l, "}");
  }
  hd__line_add(&l, "]");
  if (l.length < bytes)
    return HD_OK;
  return hd__yaml_fail(ctx, rules, "expected rules of at most %zu characters, found more; use wider patterns",
                       bytes - 1);
}
