/* The state of reading an ONNX file: its values by name, the layers that were made of its nodes.
 *
 *     onnx_read.c        the file: unpacking within bounds, the description, the check of what was read
 *     onnx_values.c      what a value is: a node's output, or a constant tensor
 *     onnx_input.c       what the first nodes do to the input
 *     onnx_layers.c      a layer for each operator
 *     onnx_expression.c  layers that ONNX files spell out as several operators
 *
 * Layers are made from the output backwards, each after its inputs; nodes that no layer needs are never looked at. */
#pragma once

#include <onnx.pb-c.h>
#include <stdint.h>
#include <stdio.h>

#include "onnx/onnx.h"

enum { HD_ONNX_NODES = 4096, HD_ONNX_TENSORS = 4096, HD_ONNX_LAYERS = 1000, HD_ONNX_NAME_BYTES = 65 };
enum { HD_ONNX_ROW = 65535, HD_ONNX_ROW_MAPS = 16 }; /* elements of a row; maps of rows in a file */
enum { HD_ONNX_MOST_SIDE = 1 << 28 };                /* of a tensor: elements are counted in 31 bits */
enum { HD_ONNX_NAMES = 2 * HD_ONNX_LAYERS + 3 };

typedef struct hd_onnx_value {
  const char *name;
  int node, tensor;   /* an index, or -1 */
  const char *behind; /* the name of the value behind nodes that pass it on as it is, mostly its own */
} hd_onnx_value;

/* The place of a name in the file, and the value that it names; -1: none. */
typedef struct hd_onnx_place {
  const char *name;
  int value;
} hd_onnx_place;

/* A requirement on the network that was read: a flat layer, with this many elements unless 0. */
typedef struct hd_onnx_flat {
  const char *layer;
  int64_t elems;
} hd_onnx_flat;

/* A value that is x * scale + shift of each channel of the graph's input. */
typedef enum hd_onnx_map_state { HD_ONNX_MAP_UNKNOWN, HD_ONNX_NO_MAP, HD_ONNX_MAP } hd_onnx_map_state;

typedef struct hd_onnx_map {
  hd_onnx_map_state state;
  double scale[HD_ONNX_CHANNELS], shift[HD_ONNX_CHANNELS];
  double *mean, *std; /* of each element of a row instead, (x - mean) / std; the reader frees `mean`, or NULL */
} hd_onnx_map;

typedef struct hd_onnx_reader {
  hd_ctx *ctx;
  const char *path;
  const HdOnnx__Graph *graph;
  hd_onnx_model *out;
  hd_onnx_value *value; /* by name */
  int values;
  hd_onnx_place *place;                   /* a hash table of the names in the file by their addresses, */
  size_t places;                          /* and the number of its entries, a power of 2 */
  int64_t opset;                          /* the version of the operators */
  const char *input;                      /* the graph's input, */
  size_t input_rank;                      /* its dimensions, the batch among them, */
  const char *layer_in;                   /* and the layer that it is: "input", or one that flattens it */
  hd_onnx_map *map;                       /* of each node's output, then of the input */
  int64_t row;                            /* elements of the input where it is a row, else 0, */
  int row_maps;                           /* and how many maps of its elements there are */
  const hd_onnx_map *taken;               /* the value that layers read as the input; NULL before the first of them, */
  const HdOnnx__Node *taken_node;         /* and the node that computes it, or NULL */
  char (*layer)[HD_ONNX_NAME_BYTES];      /* of each node, "" before it is made; then of the flattened input */
  char (*taken_name)[HD_ONNX_NAME_BYTES]; /* HD_ONNX_NAMES names of layers, "" for none */
  FILE *text;                             /* the layers so far */
  int layers, depth;
  hd_onnx_flat *flat;
  int flats;
} hd_onnx_reader;

/* Fails with "PATH: node 'NAME' (OPERATOR): " before the message. */
hd_status hd__onnx_refuse(hd_onnx_reader *r, const HdOnnx__Node *node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- Values ---- */

hd_status hd__onnx_list_values(hd_onnx_reader *r);

/* The value behind nodes that pass it on as it is. */
const char *hd__onnx_resolve(const hd_onnx_reader *r, const char *name);

/* Whether a node is of an operator of ONNX. */
bool hd__onnx_is(const HdOnnx__Node *node, const char *op);

/* The node that computes a value, of one operator unless `op` is NULL; NULL: there is none such. */
const HdOnnx__Node *hd__onnx_producer(const hd_onnx_reader *r, const char *name, const char *op);
int hd__onnx_index(const hd_onnx_reader *r, const HdOnnx__Node *node);

/* Input k of a node, "" where it is left out. */
const char *hd__onnx_input(const HdOnnx__Node *node, size_t k);

/* A constant; NULL: the value is none. A number; whole numbers, and how many (0: there are none, or too many). */
const HdOnnx__Tensor *hd__onnx_tensor(const hd_onnx_reader *r, const char *name);
bool hd__onnx_scalar(double *out, const hd_onnx_reader *r, const char *name);
bool hd__onnx_flag(bool *out, const hd_onnx_reader *r, const char *name);
int hd__onnx_ints(int64_t out[8], const hd_onnx_reader *r, const char *name);

/* The elements of a tensor of `count` floats; false: it is not one. The same for floats or doubles. */
bool hd__onnx_floats(float *out, const HdOnnx__Tensor *t, int64_t count);
bool hd__onnx_reals(double *out, const HdOnnx__Tensor *t, int64_t count);

/* Whether a value is the graph's input, or a map of it. A layer that reads such a value reads the input of the
 * description; HD_E_UNSUPPORTED if the map is not of positive numbers, or if another layer reads another one. */
bool hd__onnx_is_input(hd_onnx_reader *r, const char *name);
hd_status hd__onnx_take_input(hd_onnx_reader *r, const char *name);

/* Attributes, with the format's defaults. */
const HdOnnx__Attribute *hd__onnx_attribute(const HdOnnx__Node *node, const char *name);
int64_t hd__onnx_int(const HdOnnx__Node *node, const char *name, int64_t fallback);
float hd__onnx_float(const HdOnnx__Node *node, const char *name, float fallback);
bool hd__onnx_text(const HdOnnx__Node *node, const char *name, const char *expected);

/* Adds the weight LAYER.SUFFIX, whose shape is the tensor's or, of rank 1, all its elements; `transpose`: a matrix. */
typedef enum hd_onnx_order { HD_ONNX_AS_IT_IS, HD_ONNX_AS_VECTOR, HD_ONNX_TRANSPOSED } hd_onnx_order;
hd_status hd__onnx_add_weight(hd_onnx_reader *r, const HdOnnx__Node *node, const char *layer, const char *suffix,
                              const char *name, hd_onnx_order order);

/* The same with `count` equal elements. */
hd_status hd__onnx_add_equal(hd_onnx_reader *r, const char *layer, const char *suffix, int64_t count, float value);

/* ---- Expressions: what they are of, and their constants ---- */

typedef enum hd_onnx_kind {
  HD_ONNX_NO_EXPRESSION,
  HD_ONNX_FUNCTION, /* `layer` of x */
  HD_ONNX_SOFTPLUS,
  HD_ONNX_RMS_NORM,
  HD_ONNX_LINEAR,
  HD_ONNX_GROUP_NORM /* with the attributes of `norm` */
} hd_onnx_kind;

typedef struct hd_onnx_expression {
  hd_onnx_kind kind;
  const char *layer, *x, *weight, *bias;
  const HdOnnx__Node *norm;
  int64_t groups;
  float number; /* beta of a softplus, eps of an RMS norm */
} hd_onnx_expression;

/* The expression that a node ends. */
void hd__onnx_find_expression(hd_onnx_expression *out, const hd_onnx_reader *r, const HdOnnx__Node *node);

/* ---- Layers ---- */

/* The layer whose output is a value; it and those before it are made unless they are there. */
hd_status hd__onnx_layer(const char **layer, hd_onnx_reader *r, const char *value);
