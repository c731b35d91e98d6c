/* Layers and their settings in model files, as the rules of operations (op/op.h) have them. */
#pragma once

#include "base/yaml_bind.h"
#include "graph/graph.h"

typedef struct hd_layer_form {
  hd_op op;
  int fewest, most;              /* inputs: a layer with one reads the layer above unless `from` names another */
  const hd_op_setting *settings; /* NULL: none */
  bool line;                     /* conv1d and the like: along the width of a signal, whose height is 1 */
} hd_layer_form;

/* The form of the operation that the layer's `op` names. */
hd_status hd__layer_form(hd_layer_form *out, hd_ctx *ctx, const hd_yaml_node *layer);

/* Reads a layer's settings; a setting that is not given has PyTorch's default. */
hd_status hd__layer_attrs(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *layer, const hd_layer_form *form);

/* Reads the settings that `node`, a mapping, has; required ones of a `kind` must be there. */
hd_status hd__layer_settings(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node, const hd_op_setting *settings,
                             const char *kind);

/* Fails if `node` has other keys than those of the list, which NULL ends, and of the settings. */
hd_status hd__layer_only_keys(hd_ctx *ctx, const hd_yaml_node *node, const char *const *more,
                              const hd_op_setting *settings);

/* Describes what a node is where a list is expected, for messages: "'3'", "a list of 3", "a mapping". Returns text. */
const char *hd__layer_found(char *text, size_t bytes, const hd_yaml_node *node);

enum { HD_LAYER_FOUND_BYTES = 64 };
