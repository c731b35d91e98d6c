/* The settings of a layer in a model file: a form per row of ops.def, a reader per setting.
 *
 * A new setting needs a reader and a field of hd_attrs. */
#ifndef HD_GRAPH_MODEL_LAYER_H
#define HD_GRAPH_MODEL_LAYER_H

#include "base/yaml_bind.h"
#include "graph/graph.h"

enum { HD_LAYER_MAX_KEYS = 8 };

typedef struct hd_layer_form {
  hd_op op;
  int min_inputs, max_inputs;          /* a layer with one input reads the layer above unless `from` names another */
  int required;                        /* the first of `keys` must be given */
  const char *keys[HD_LAYER_MAX_KEYS]; /* besides op and from */
} hd_layer_form;

/* The form of the operation that the layer's `op` names. */
hd_status hd__layer_form(const hd_layer_form **out, hd_ctx *ctx, const hd_yaml_node *layer);

/* Reads a layer's settings; a setting that is not given has PyTorch's default. */
hd_status hd__layer_attrs(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *layer, const hd_layer_form *form);

/* Describes what a node is where a list is expected, for messages: "'3'", "a list of 3", "a mapping". Returns text. */
const char *hd__layer_found(char *text, size_t bytes, const hd_yaml_node *node);

enum { HD_LAYER_FOUND_BYTES = 64 };

#endif
