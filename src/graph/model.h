/* Model files: YAML that a person would like to read, made into a graph.
 *
 *     model: cnn
 *     input: [1, 28, 28]
 *     layers:
 *       - conv1: {op: conv2d, out: 32, kernel: 3}
 *       - relu1: {op: relu}
 *       - sum: {op: add, from: [relu1, conv0]}
 *
 * Each layer reads the one above unless `from` names others. kernel, stride and padding are one number or two (height,
 * width); stride defaults to 1, for max_pool2d to its kernel; groups, of conv2d, to 1. The last layer's output is one
 * score per class; the loss is cross-entropy. */
#ifndef HD_GRAPH_MODEL_H
#define HD_GRAPH_MODEL_H

#include "graph/graph.h"

/* Parses `text` (`length` bytes; `source` names it in errors) and builds its graph, loss included. `name`, if not NULL,
 * receives the model's name; the caller frees it with hd__free. */
hd_status hd__model_parse(hd_graph **out, char **name, hd_ctx *ctx, const char *text, size_t length,
                          const char *source);

#endif
