/* Groups of parameters: rules that pick parameters by name and set what differs from the run's settings.
 *
 *     parameters:
 *       - {match: 'conv1.*', requires_grad: false}
 *       - {match: '*.bias', weight_decay: 0}
 *       - {match: 'fc*', lr: 0.0001}
 *
 * `match` is a shell pattern over whole names. Rules apply in order: of several that match a parameter the last one
 * wins, setting by setting. A rule that matches nothing is an error. */
#ifndef HD_GRAPH_PARAM_RULES_H
#define HD_GRAPH_PARAM_RULES_H

#include "base/yaml_bind.h"
#include "graph/graph.h"

/* Applies a list of rules to a graph's parameters. */
hd_status hd__param_rules_apply(hd_graph *graph, hd_ctx *ctx, const hd_yaml_node *rules);

/* Checks what needs no graph, and writes the rules as one line of YAML, the same for any way to write them. */
hd_status hd__param_rules_text(char *text, size_t bytes, hd_ctx *ctx, const hd_yaml_node *rules);

#endif
