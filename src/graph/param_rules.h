/* Groups of parameters: rules that select parameters by name and override the run's settings.
 *
 *     parameters:
 *       - {match: 'conv1.*', requires_grad: false}
 *       - {match: '*.bias', weight_decay: 0}
 *       - {match: 'fc*', lr: 0.0001}
 *       - {match: '*.weight', op: conv2d, optimizer: sgd, momentum: 0.6}
 *
 * `match` is a shell pattern over whole names, `op` the operation of the layer; a rule selects the parameters that have
 * both. Rules apply in order: for each setting the last matching rule determines the value. A rule that matches nothing
 * is an error. */
#pragma once

#include "base/yaml_bind.h"
#include "graph/graph.h"

/* Applies a list of rules to a graph's parameters. */
hd_status hd__param_rules_apply(hd_graph *graph, hd_ctx *ctx, const hd_yaml_node *rules);

/* Freezes the parameters whose names match one of these patterns, which commas separate; `option` names the text in
 * messages. A norm whose weight and bias match keeps its running statistics and normalises by them. Parameters of the
 * layer `spared` (NULL: of none) stay as they are. A pattern that matches nothing else is an error. */
hd_status hd__param_rules_freeze(hd_graph *graph, hd_ctx *ctx, const char *patterns, const hd_node *spared,
                                 const char *option);

/* The same for what is trained in a later stage: of frozen parameters, those that match are marked so, and are free
 * `now` if that has come. */
hd_status hd__param_rules_unfreeze(hd_graph *graph, hd_ctx *ctx, const char *patterns, bool now, const char *option);

/* Checks the rules as far as possible without a graph, and writes them as one line of YAML in a canonical form. */
hd_status hd__param_rules_text(char *text, size_t bytes, hd_ctx *ctx, const hd_yaml_node *rules);
