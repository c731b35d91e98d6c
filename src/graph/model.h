/* Model files: YAML text that describes a network, parsed into a graph.
 *
 *     model: cnn
 *     input: [1, 28, 28]
 *     layers:
 *       - conv1: {op: conv2d, out: 32, kernel: 3}
 *       - relu1: {op: relu}
 *       - sum: {op: add, from: [relu1, conv0]}
 *       - block:
 *           repeat: 3
 *           layers:
 *             - conv: {op: conv2d, out: 32, kernel: 3, padding: 1}
 *             - sum: {op: add, from: [conv, above]}
 *     parameters:
 *       - {match: 'conv1.*', requires_grad: false}
 *
 * Each layer reads the one above unless `from` names others. kernel, stride and padding are one number or two (height,
 * width); stride defaults to 1, for max_pool2d to its kernel; groups, of conv2d, to 1. A repeat's layers are named
 * block1.conv, block1.sum, block2.conv and so on; within a round a name refers first to the round's layers, and `above`
 * is the round's input. The last layer's output is one score per class or output; the loss is cross-entropy unless an
 * entry `loss` names another (model_loss.c), or one for each of several layers (model_heads.c). `input: [4]` is for
 * rows of 4 numbers, and `input: data` and `out: classes` for what the data have (model_words.h); without data that is
 * 1x28x28 and 10. `parameters` may be left out: see param_rules.h. */
#pragma once

#include "base/yaml_bind.h"
#include "graph/graph.h"

enum { HD_MODEL_MAX_SIDE = 65535, HD_MODEL_MAX_CHANNELS = 1 << 20 }; /* of an input */

/* Parses `text` (`length` bytes; `source` names it in errors) and builds its graph, loss included. `name`, if not NULL,
 * receives the model's name; the caller frees it with hd__free. */
hd_status hd__model_parse(hd_graph **out, char **name, hd_ctx *ctx, const char *text, size_t length,
                          const char *source);

/* The same for samples of another shape than the file's `input`. */
hd_status hd__model_parse_for(hd_graph **out, hd_ctx *ctx, const char *text, size_t length, const char *source,
                              const hd_shape *input);

/* For model.c: adds the loss named in the file's root to the value `scores`; `last` is that value's place in the
 * file. */
hd_status hd__model_read_loss(hd_graph *graph, hd_ctx *ctx, const hd_yaml_node *root, int scores,
                              const hd_yaml_node *last);

/* For model.c: adds the losses of a list, one for each head: a layer and its loss, as `loss` states a single one. */
hd_status hd__model_read_heads(hd_graph *graph, hd_ctx *ctx, const hd_yaml_node *list);

/* For model_heads.c: the operation that a loss names. */
hd_status hd__model_find_loss(hd_op *out, hd_ctx *ctx, const hd_yaml_node *name);
