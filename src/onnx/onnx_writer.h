/* The state of writing an ONNX file: nodes and tensors, packed one by one.
 *
 *     onnx_write.c             the file: parameters, input, outputs, metadata
 *     onnx_nodes.c             nodes, tensors and attributes as messages
 *     onnx_write_layers.c      the form of each layer: the table; layers of one node, or of each element
 *     onnx_write_images.c      resizing, padding, means and pools of images
 *     onnx_write_norms.c       norms
 *     onnx_write_places.c      layers of tokens: attention, rotary, embedding
 *     onnx_write_recurrent.c   recurrent layers
 *
 * Images are batch x channels x height x width. In a network that reads tokens, whose first layer is an embedding,
 * values are batch x places x channels.
 *
 * Every node and every tensor is packed as a message of its own and appended to the graph: the fields of a message may
 * be written one after the other in any pieces. */
#pragma once

#include <onnx.pb-c.h>

#include "onnx/onnx.h"

enum { HD_ONNX_FLOAT = 1, HD_ONNX_INT64 = 7, HD_ONNX_DOUBLE = 11 }; /* types of tensors */
enum { HD_ONNX_VALUE_BYTES = 160, HD_ONNX_VALUES = 40, HD_ONNX_ATTRIBUTES = 8, HD_ONNX_INTS = 5 };

typedef struct hd_onnx_writer {
  FILE *to; /* the graph's fields */
  hd_ctx *ctx;
  const hd_onnx_network *net;
  char (*value)[HD_ONNX_VALUE_BYTES]; /* the name of each value of the graph */
  const char *layer, *out;            /* of the layer that is being written: its name, that of its output */
  char name[HD_ONNX_VALUES][HD_ONNX_VALUE_BYTES];
  int names;   /* of values and constants within the layer */
  bool places; /* it reads tokens */
  bool masked; /* the constant that makes attention causal is written */
  bool failed; /* out of memory */
} hd_onnx_writer;

typedef struct hd_onnx_attributes {
  HdOnnx__Attribute item[HD_ONNX_ATTRIBUTES], *list[HD_ONNX_ATTRIBUTES];
  int64_t number[HD_ONNX_ATTRIBUTES][HD_ONNX_INTS];
  size_t count;
} hd_onnx_attributes;

/* ---- Attributes ---- */

void hd__onnx_set_int(hd_onnx_attributes *a, const char *name, int64_t value);
void hd__onnx_set_float(hd_onnx_attributes *a, const char *name, float value);
void hd__onnx_set_text(hd_onnx_attributes *a, const char *name, const char *text);

/* One to HD_ONNX_INTS numbers. */
void hd__onnx_set_ints(hd_onnx_attributes *a, const char *name, const int64_t *from, size_t count);

/* Two numbers, down and across; `twice`: then the same again, as for padding at both ends. */
void hd__onnx_set_sides(hd_onnx_attributes *a, const char *name, int32_t down, int32_t across, bool twice);

/* ---- Tensors and nodes ---- */

/* Appends a message's fields to a file. */
void hd__onnx_pack(FILE *to, const void *message);

void hd__onnx_write_tensor(hd_onnx_writer *w, const char *name, int type, const void *bytes, const int64_t *dim,
                           size_t rank);

/* A name for a value inside of the layer; constants there, one float or a list of whole numbers. */
const char *hd__onnx_new_name(hd_onnx_writer *w);
const char *hd__onnx_write_number(hd_onnx_writer *w, float value);
const char *hd__onnx_write_numbers(hd_onnx_writer *w, const int64_t *number, int64_t count);

/* Adds a node with inputs, which NULL ends; returns the name of its output. */
const char *hd__onnx_write_node(hd_onnx_writer *w, const char *op, const char *name, const char *out,
                                const hd_onnx_attributes *a, ...);

/* A node inside of the layer, of one or two inputs; and its last one. */
const char *hd__onnx_step(hd_onnx_writer *w, const char *op, const char *a, const char *b);
void hd__onnx_finish(hd_onnx_writer *w, const char *op, const hd_onnx_attributes *a, const char *x, const char *y);

/* Nodes inside of the layer that move elements; of rank 0: the axes are exchanged. */
const char *hd__onnx_step_reshape(hd_onnx_writer *w, const char *x, const int64_t *shape, size_t rank);
const char *hd__onnx_step_transpose(hd_onnx_writer *w, const char *x, const int64_t *perm, size_t rank);

/* ---- Layers ---- */

/* Input k of a node; NULL: it has none. */
static inline const char *hd__onnx_in(const hd_onnx_writer *w, const hd_node *node, int k) {
  return node->in[k] < 0 ? NULL : w->value[node->in[k]];
}

/* The axis of channels: of places, or of flat values, the last. */
static inline int64_t hd__onnx_channel_axis(const hd_onnx_writer *w, const hd_node *node) {
  return w->places && w->net->graph->values[node->in[0]].shape.rank == 3 ? 2 : 1;
}

/* Writes a layer; `op`: its node, or the last of its nodes. */
typedef void hd_onnx_writing(hd_onnx_writer *w, const hd_node *node, const char *op);
hd_onnx_writing hd__onnx_write_adaptive, hd__onnx_write_attention, hd__onnx_write_batch_norm, hd__onnx_write_embedding,
    hd__onnx_write_group_norm, hd__onnx_write_instance_norm, hd__onnx_write_layer_norm, hd__onnx_write_layer_norm2d,
    hd__onnx_write_line, hd__onnx_write_pad, hd__onnx_write_recurrent, hd__onnx_write_rms_norm, hd__onnx_write_rotary,
    hd__onnx_write_upsample;

/* x W' + b of each place. */
void hd__onnx_write_pointwise(hd_onnx_writer *w, const hd_node *node);

/* The layer in the form that the table has for it; HD_E_UNSUPPORTED: there is none. */
hd_status hd__onnx_write_layer(hd_onnx_writer *w, const hd_node *node);

/* The node that joins the scores of several heads, which stay apart in a file; NULL: there is one head. */
const hd_node *hd__onnx_joined_heads(const hd_graph *graph);

/* Whether a node computes what a recurrent layer's gates read, which ONNX does together with the recurrence. */
bool hd__onnx_is_for_gates(const hd_graph *graph, const hd_node *node);
