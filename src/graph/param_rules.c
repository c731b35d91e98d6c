/* Reads and applies rules for parameters: see param_rules.h. */
#include "graph/param_rules.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/text_buffer.h"
#include "optimizer/optimizer.h"

enum { MAX_RULES = 1000, MAX_KEYS = 40, PATTERN_BYTES = 128 };

typedef struct rule {
  const char *match; /* NULL: all */
  hd_op op;          /* HD_OP_COUNT: any */
  const hd_yaml_node *frozen;
  bool requires_grad;
  hd_update_settings update;
} rule;

static const char MATCH[] = "match", OP[] = "op", REQUIRES_GRAD[] = "requires_grad";

static hd_status check_keys(hd_ctx *ctx, const hd_yaml_node *node) {
  const char *keys[MAX_KEYS] = {MATCH, OP, REQUIRES_GRAD};
  int count = 3;
  for (const hd_update_setting *s = hd__update_settings; s->name; s++)
    keys[count++] = s->name;
  return hd__yaml_only_keys(ctx, node, keys);
}

static bool has_params(hd_op op) {
  const hd_op_info *is = hd__op_info(op);
  return is->role == HD_ROLE_FORWARD && is->rule && is->rule->fewest > 0 && is->rule->dw.in[0];
}

static hd_status read_op(hd_op *out, hd_ctx *ctx, const hd_yaml_node *node) {
  const char *text;
  HD_TRY(hd__yaml_text(&text, ctx, node));
  hd_nearest nearest = {.word = text};
  for (hd_op op = 0; op < HD_OP_COUNT; op++) {
    if (!has_params(op))
      continue;
    hd__nearest_try(&nearest, hd__op_info(op)->name);
    if (!strcmp(hd__op_info(op)->name, text)) {
      *out = op;
      return HD_OK;
    }
  }
  return hd__yaml_fail(ctx, node, "expected an operation with parameters as 'op', found '%.60s'; %s%s%s", text,
                       nearest.name ? "did you mean '" : "write conv2d or linear", nearest.name ? nearest.name : "",
                       nearest.name ? "'?" : "");
}

static hd_status read_settings(rule *out, hd_ctx *ctx, const hd_yaml_node *node, bool *any) {
  if (out->frozen) {
    *any = true;
    HD_TRY(hd__yaml_bool(&out->requires_grad, ctx, out->frozen));
  }
  for (const hd_update_setting *s = hd__update_settings; s->name; s++) {
    const hd_yaml_node *given = hd__yaml_get(node, s->name);
    *any |= given != NULL;
    if (given)
      HD_TRY(hd__update_settings_read(&out->update, ctx, s, given));
  }
  return HD_OK;
}

static hd_status read_rule(rule *out, hd_ctx *ctx, const hd_yaml_node *node) {
  bool any = false;
  *out = (rule){.op = HD_OP_COUNT};
  hd__update_settings_clear(&out->update);
  HD_TRY(hd__yaml_expect(ctx, node, HD_YAML_MAPPING, "a rule ({match: 'PATTERN', SETTING: VALUE})"));
  HD_TRY(check_keys(ctx, node));
  const hd_yaml_node *match = hd__yaml_get(node, MATCH), *op = hd__yaml_get(node, OP);
  out->frozen = hd__yaml_get(node, REQUIRES_GRAD);
  if (!match && !op)
    return hd__yaml_fail(ctx, node,
                         "expected 'match: PATTERN' or 'op: OPERATION' in a rule for parameters, found none; add it");
  if (match)
    HD_TRY(hd__yaml_text(&out->match, ctx, match));
  if (op)
    HD_TRY(read_op(&out->op, ctx, op));
  HD_TRY(read_settings(out, ctx, node, &any));
  if (any)
    return HD_OK;
  return hd__yaml_fail(
      ctx, node, "expected requires_grad, lr, weight_decay or another setting beside '%s: %s', found none; add one",
      match ? MATCH : OP, match ? out->match : hd__op_info(out->op)->name);
}

static hd_status check_list(hd_ctx *ctx, const hd_yaml_node *rules) {
  HD_TRY(hd__yaml_expect(ctx, rules, HD_YAML_SEQUENCE, "a list of rules as 'parameters'"));
  if (rules->count <= MAX_RULES)
    return HD_OK;
  return hd__yaml_fail(ctx, rules, "expected at most %d rules, found %d; use wider patterns", MAX_RULES, rules->count);
}

static void set(hd_param *param, const rule *r) {
  if (r->frozen)
    param->frozen = !r->requires_grad;
  hd__optimizer_follow(&param->update, &r->update);
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
static bool matches_name(const hd_graph *graph, int param, const char *pattern) {
  bool found = !fnmatch(pattern, graph->values[graph->params[param].value].name, 0);
  for (int i = 0; i < graph->alias_count; i++)
    found |= graph->aliases[i].param == param && !fnmatch(pattern, graph->aliases[i].name, 0);
  return found;
}

static bool matches(const hd_graph *graph, int param, const rule *r) {
  return (r->op == HD_OP_COUNT || graph->params[param].op == r->op) &&
         (!r->match || matches_name(graph, param, r->match));
}

hd_status hd__param_rules_apply(hd_graph *graph, hd_ctx *ctx, const hd_yaml_node *rules) {
  char names[400];
  HD_TRY(check_list(ctx, rules));
  for (int i = 0; i < rules->count; i++) {
    rule r;
    bool matched = false;
    HD_TRY(read_rule(&r, ctx, &rules->item[i]));
    for (int p = 0; p < graph->param_count; p++)
      if (!graph->params[p].running && matches(graph, p, &r)) {
        set(&graph->params[p], &r);
        matched = true;
      }
    if (!matched)
      return hd__yaml_fail(ctx, &rules->item[i],
                           "expected a pattern that matches a parameter%s%s, found '%.100s'; there are %s",
                           r.match && r.op < HD_OP_COUNT ? " of the operation " : "",
                           r.match && r.op < HD_OP_COUNT ? hd__op_info(r.op)->name : "",
                           r.match ? r.match : hd__op_info(r.op)->name, list_names(names, sizeof names, graph));
  }
  return HD_OK;
}

/* ---- Freezing by name ---- */

static bool is_of(const hd_graph *graph, const hd_node *node, int param) {
  for (int k = 1; node && k < HD_MAX_IN; k++)
    if (node->in[k] >= 0 && graph->values[node->in[k]].param == param)
      return true;
  return false;
}

/* Parameters that are looked at. */
typedef struct sought {
  const hd_node *spared; /* not those of this layer; NULL: of none */
  bool frozen;           /* only those that are frozen */
  const char *option;    /* for messages */
} sought;

/* Marks what the pattern matches; false: nothing. */
static bool mark(bool *named, const hd_graph *graph, const char *pattern, const sought *s) {
  bool any = false;
  for (int p = 0; p < graph->param_count; p++) {
    const hd_param *param = &graph->params[p];
    if (!param->running && !is_of(graph, s->spared, p) && (param->frozen || !s->frozen) &&
        matches_name(graph, p, pattern))
      any = named[p] = true;
  }
  return any;
}

/* The running statistics of norms of which weight and bias are named. */
static void mark_statistics(bool *named, const hd_graph *graph) {
  for (const hd_node *node = graph->nodes; node < graph->nodes + graph->node_count; node++) {
    const bool norm = node->op == HD_OP_batch_norm;
    if (norm && named[graph->values[node->in[1]].param] && named[graph->values[node->in[2]].param])
      named[graph->values[node->in[3]].param] = named[graph->values[node->in[4]].param] = true;
  }
}

/* Marks what the patterns name, with commas between them; the caller frees *named. */
static hd_status mark_all(bool **named, hd_ctx *ctx, const hd_graph *graph, const char *patterns, const sought *s) {
  char names[400], pattern[PATTERN_BYTES];
  HD_TRY(HD_NEW(*named, graph->param_count, ctx, "out of memory for the names of parameters"));
  for (const char *at = patterns; *at; at += strcspn(at, ","), at += *at == ',') {
    snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(at, ","), at);
    if (!mark(*named, graph, pattern, s))
      return hd__fail(ctx, HD_E_USAGE, "%s expects a pattern that matches a%s parameter%s%s, found '%s'; there are %s",
                      s->option, s->frozen ? " frozen" : "", s->spared ? ", other than those of the new head " : "",
                      s->spared ? s->spared->name : "", pattern, list_names(names, sizeof names, graph));
  }
  mark_statistics(*named, graph);
  return HD_OK;
}

hd_status hd__param_rules_freeze(hd_graph *graph, hd_ctx *ctx, const char *patterns, const hd_node *spared,
                                 const char *option) {
  HD_OWNED bool *named = NULL;
  HD_TRY(mark_all(&named, ctx, graph, patterns, &(sought){.spared = spared, .option = option}));
  for (int p = 0; p < graph->param_count; p++)
    graph->params[p].frozen |= named[p];
  return HD_OK;
}

hd_status hd__param_rules_unfreeze(hd_graph *graph, hd_ctx *ctx, const char *patterns, bool now, const char *option) {
  HD_OWNED bool *named = NULL;
  HD_TRY(mark_all(&named, ctx, graph, patterns, &(sought){.frozen = true, .option = option}));
  for (int p = 0; p < graph->param_count; p++)
    if (named[p] && graph->params[p].frozen) {
      graph->params[p].later = true;
      graph->params[p].frozen = !now;
    }
  return HD_OK;
}

/* ---- Rules as text ---- */

static void append_quoted(hd_line *l, const char *text) {
  hd__line_add(l, "'");
  for (; *text; text++)
    hd__line_add(l, *text == '\'' ? "''" : "%c", *text);
  hd__line_add(l, "'");
}

/* ", KEY: VALUE", or of a list ", KEY: [A, B]". */
static void append_entry(hd_line *l, const hd_yaml_node *node) {
  if (node && node->kind == HD_YAML_SCALAR)
    hd__line_add(l, ", %s: %s", node->key, node->text);
  else if (node)
    hd__line_add(l, ", %s: [%s, %s]", node->key, node->item[0].text, node->item[1].text);
}

/* `match` first, then `op`, then the settings in their order. */
static void append_rule(hd_line *l, const rule *r, const hd_yaml_node *node) {
  hd__line_add(l, "{match: ");
  append_quoted(l, r->match ? r->match : "*");
  append_entry(l, hd__yaml_get(node, OP));
  append_entry(l, r->frozen);
  for (const hd_update_setting *s = hd__update_settings; s->name; s++)
    append_entry(l, hd__yaml_get(node, s->name));
  hd__line_add(l, "}");
}

hd_status hd__param_rules_text(char *text, size_t bytes, hd_ctx *ctx, const hd_yaml_node *rules) {
  hd_line l = {.text = text, .bytes = bytes};
  HD_TRY(check_list(ctx, rules));
  hd__line_add(&l, "[");
  for (int i = 0; i < rules->count; i++) {
    rule r;
    HD_TRY(read_rule(&r, ctx, &rules->item[i]));
    hd__line_add(&l, i ? ", " : "");
    append_rule(&l, &r, &rules->item[i]);
  }
  hd__line_add(&l, "]");
  if (l.length < bytes)
    return HD_OK;
  return hd__yaml_fail(ctx, rules, "expected rules of at most %zu characters, found more; use wider patterns",
                       bytes - 1);
}
