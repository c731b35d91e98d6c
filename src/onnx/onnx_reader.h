/* The state of reading an ONNX file: its values by name, the layers that were made of its nodes.
 *
 *     onnx_read.c        the file: unpacking within bounds, the description, the check of what was read
 *     onnx_fold.c        constants, and what follows from them alone, as arrays (onnx_array.h)
 *     onnx_values.c      what a value is: a node's output, or a constant tensor
 *     onnx_input.c       what the first nodes do to the input
 *     onnx_outputs.c     what the outputs are of
 *     onnx_classes.c     the names of classes
 *     onnx_put.c         the layers and their names; what values are
 *     onnx_view.c        a tensor of the file as the elements of a layer
 *     onnx_move.c        layers that move these elements, where another layer needs another order
 *     onnx_shapes.c      operators that move elements, or none
 *     onnx_layers.c      a layer for each other operator: the table; onnx_layers.h has the families
 *     onnx_attention.c   attention, which files spell out
 *     onnx_products.c    products of two values, which are an attention's in any order of axes
 *     onnx_einsum.c      Einsum, as such products or as linear layers
 *     onnx_heads.c       queries, keys and values of one layer, and rotary
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

enum { HD_ONNX_SOFTMAX_OF_ONE_AXIS = 13 }; /* the opset; before it, it is over all later axes, too */

enum { HD_ONNX_RANK = 8, HD_ONNX_ATOMS = 10 };

/* Elements `step` apart in the order of PyTorch of a layer's samples, along an axis of a tensor. */
typedef struct hd_onnx_atom {
  int axis;
  int64_t size, step; /* step 0: an element that the tensor repeats */
} hd_onnx_atom;

/* A tensor of the file as a layer's elements in some order: its axes, one of them the batch, are products of atoms,
 * which are listed in the order of the axes; none has the size 1. Operators that move elements alone change the view.
 */
typedef struct hd_onnx_scores hd_onnx_scores;
typedef struct hd_onnx_view {
  char layer[HD_ONNX_NAME_BYTES]; /* "": not known yet */
  const HdOnnx__Node *source;     /* the operator that moved its elements last, or NULL */
  bool flat;                      /* its samples are of c flat elements; else images of c x h x w */
  int64_t c, h, w;
  const hd_onnx_scores *scores; /* no layer has it, but an attention may: see onnx_products.c; mostly NULL */
  int rank, batch, atoms;
  hd_onnx_atom atom[HD_ONNX_ATOMS];
} hd_onnx_view;

/* Scores of an attention, which have no layer of their own. */
struct hd_onnx_scores {
  hd_onnx_scores *next;
  const HdOnnx__Node *node; /* the product */
  hd_onnx_view a, b;        /* batch x heads x rows x channels */
  int64_t heads, rows[2];   /* of a and of b */
  double factor;
  bool masked, causal; /* rows of b up to that of a */
  bool softmax;        /* over the rows of b, which are the keys */
};

typedef struct hd_onnx_value {
  const char *name;
  int node, tensor;   /* an index, or -1 */
  const char *behind; /* the name of the value behind nodes that pass it on as it is, mostly its own */
  int output, uses;   /* of the node; how many nodes and outputs of the graph read it */
  bool busy;          /* its view is being made */
  hd_onnx_view *view; /* NULL before it is known */
} hd_onnx_value;

/* A layer with weights of the file, which others may share. */
typedef struct hd_onnx_owner {
  char layer[HD_ONNX_NAME_BYTES];
  const char *kind, *weight, *bias;
} hd_onnx_owner;

/* A view, and the layer that brings its elements into another order. */
typedef struct hd_onnx_move {
  hd_onnx_view from, to;
} hd_onnx_move;

/* The place of a name in the file, and the value that it names; -1: none. */
typedef struct hd_onnx_place {
  const char *name;
  int value;
} hd_onnx_place;

/* A value that is x * scale + shift of each channel of the graph's input. */
typedef enum hd_onnx_map_state { HD_ONNX_MAP_UNKNOWN, HD_ONNX_NO_MAP, HD_ONNX_MAP } hd_onnx_map_state;

typedef struct hd_onnx_map {
  hd_onnx_map_state state;
  double scale[HD_ONNX_CHANNELS], shift[HD_ONNX_CHANNELS];
  double *mean, *std; /* of each element of a row instead, (x - mean) / std; the reader frees `mean`, or NULL */
} hd_onnx_map;

typedef struct hd_onnx_reader hd_onnx_reader;
struct hd_onnx_reader {
  hd_ctx *ctx;
  const char *path;
  const HdOnnx__Graph *graph;
  hd_onnx_model *out;
  hd_onnx_value *value; /* by name */
  int values;
  hd_onnx_place *place;            /* a hash table of the names in the file by their addresses, */
  size_t places;                   /* and the number of its entries, a power of 2 */
  int64_t opset;                   /* the version of the operators */
  const char *input;               /* the graph's input, */
  size_t input_rank;               /* its dimensions, the batch among them, */
  hd_onnx_view view_in;            /* and what they are of the network's */
  int64_t batch;                   /* of the input, 0: any */
  int channel_axis;                /* of an image that is the input */
  hd_onnx_map *map;                /* of each node's output, then of the input */
  int64_t row;                     /* elements of the input where it is a row, else 0, */
  int row_maps;                    /* and how many maps of its elements there are */
  const hd_onnx_map *taken;        /* the value that layers read as the input; NULL before the first of them, */
  const HdOnnx__Node *taken_node;  /* and the node that computes it, or NULL */
  const HdOnnx__Tensor **constant; /* of each initializer, then of each node's first output, or NULL; */
  int *type;                       /* their types in the file, which are narrower than those that readers know; */
  struct hd_onnx_block *blocks;    /* the constants that are not in the file, */
  int64_t room;                    /* and how many bytes they may still have */
  bool beside;                     /* constants may lie in files beside this one */
  hd_onnx_owner *owner;            /* layers with weights, */
  int owners;
  hd_onnx_move *move; /* and those that move elements */
  int moves;
  char (*taken_name)[HD_ONNX_NAME_BYTES]; /* HD_ONNX_NAMES names of layers, "" for none */
  FILE *text, *rules;                     /* the layers, and the rules for parameters, so far */
  hd_onnx_scores *scores;                 /* of products of two values */
  int layers, depth, map_depth, looks;    /* looks: into values, for numbers */
  hd_onnx_view *shape;                    /* of each layer that was made: checked against the network's */
  /* Of files above those that call them: hd__onnx_make, hd__onnx_view, hd__onnx_merged_view,
   * hd__onnx_fold_late. */
  hd_status (*make)(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k);
  hd_status (*view)(hd_onnx_view *out, hd_onnx_reader *r, const char *value);
  hd_status (*merged_view)(hd_onnx_view *out, hd_onnx_reader *r, const char *value);
  void (*fold_late)(hd_onnx_reader *r, const char *name);
};

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

/* The node with an output of this very name, though it may only pass a value on. */
const HdOnnx__Node *hd__onnx_node(const hd_onnx_reader *r, const char *name);

/* A constant number, or one that is computed from the sizes of values. */
bool hd__onnx_number(double *out, hd_onnx_reader *r, const char *name);

/* What stands behind a name; NULL: there is nothing. */
hd_onnx_value *hd__onnx_find(const hd_onnx_reader *r, const char *name);

/* How many nodes and outputs read a value. */
int hd__onnx_uses(const hd_onnx_reader *r, const char *name);

/* Input k of a node, "" where it is left out. */
const char *hd__onnx_input(const HdOnnx__Node *node, size_t k);

/* A constant; NULL: the value is none. A number; whole numbers, and how many (0: there are none, or too many). */
const HdOnnx__Tensor *hd__onnx_tensor(const hd_onnx_reader *r, const char *name);
int hd__onnx_type(const hd_onnx_reader *r, const char *name);     /* in the file */
bool hd__onnx_is_real(const hd_onnx_reader *r, const char *name); /* whether it has fractions, constant or computed */
bool hd__onnx_scalar(double *out, const hd_onnx_reader *r, const char *name);
bool hd__onnx_flag(bool *out, const hd_onnx_reader *r, const char *name);
int hd__onnx_ints(int64_t out[8], hd_onnx_reader *r, const char *name);

/* Stands for the size of the batch in lists of whole numbers. */
#define HD_ONNX_BATCH (INT64_MIN + 1)

/* How many times the size of the batch a number of such a list is: n for INT64_MIN + n; 0: it is a number. */
static inline int64_t hd__onnx_batches(int64_t number) {
  return number > INT64_MIN && number <= INT64_MIN + INT32_MAX ? number - INT64_MIN : 0;
}

/* Whether this size, the first of a Reshape, is that of the batch: 0, which copies it, or a number where the file
 * states how many samples the batch has. */
bool hd__onnx_keeps_batch(const hd_onnx_reader *r, int64_t side);

/* The same of an attribute, which older versions of an operator have, or of an input. */
int hd__onnx_list(int64_t out[8], hd_onnx_reader *r, const HdOnnx__Node *node, const char *attribute, size_t input);

/* Numbers an initializer's and a Constant's elements. */
int64_t hd__onnx_elems(const HdOnnx__Tensor *t);

/* Makes the constants of the file. */
hd_status hd__onnx_fold(hd_onnx_reader *r);
/* The same of one that follows from the sizes of values, such as a mask of places. */
void hd__onnx_fold_late(hd_onnx_reader *r, const char *name);
void hd__onnx_free_constants(hd_onnx_reader *r);

/* The elements of a tensor of `count` floats; false: it is not one. The same for floats or doubles. */
bool hd__onnx_floats(float *out, const HdOnnx__Tensor *t, int64_t count);

/* What a constant of places x places leaves: `number`: added, else truth values; `keeps`: where they are true. */
typedef enum hd_onnx_mask { HD_ONNX_NO_MASK, HD_ONNX_CAUSAL, HD_ONNX_OTHER_MASK } hd_onnx_mask;
hd_onnx_mask hd__onnx_mask_of(const hd_onnx_reader *r, const char *name, bool number, bool keeps);
/* A whole number of a tensor; false: it has others. */
bool hd__onnx_whole_number(int64_t *out, const HdOnnx__Tensor *t, int64_t i);
bool hd__onnx_reals(double *out, const HdOnnx__Tensor *t, int64_t count);

/* Whether a value is the graph's input, or a map of it. A layer that reads such a value reads the input of the
 * description; HD_E_UNSUPPORTED if the map is not of positive numbers, or if another layer reads another one. */
bool hd__onnx_is_input(hd_onnx_reader *r, const char *name);
hd_status hd__onnx_take_input(hd_onnx_reader *r, const char *name);

/* The value that all outputs are of, the only output mostly; labels and lists of probabilities are those of another
 * value. NULL: they are of several. */
const char *hd__onnx_output(const hd_onnx_reader *r);

/* The constant that labels are taken from, in the order of the scores; NULL: there is none. */
const HdOnnx__Tensor *hd__onnx_labels(const hd_onnx_reader *r);

/* Takes the names of classes from there, or from a list in JSON, which is NULL where the file has none. */
hd_status hd__onnx_read_classes(hd_onnx_reader *r, const char *listed);

/* The score of a class, or of each label, whose probabilities a value is, for bce_with_logits; NULL: it is none. */
const char *hd__onnx_binary_score(const hd_onnx_reader *r, const char *output);

/* Skips a Reshape to (-1, 1), with which scikit-learn's regressors end, whatever number of targets they have. */
hd_status hd__onnx_skip_column(const char **output, hd_onnx_reader *r);

/* Whether a node is scikit-learn's (x - offset) * scale. */
bool hd__onnx_is_scaler(const HdOnnx__Node *node);

/* Attributes, with the format's defaults. */
const HdOnnx__Attribute *hd__onnx_attribute(const HdOnnx__Node *node, const char *name);
int64_t hd__onnx_int(const HdOnnx__Node *node, const char *name, int64_t fallback);
float hd__onnx_float(const HdOnnx__Node *node, const char *name, float fallback);
bool hd__onnx_text(const HdOnnx__Node *node, const char *name, const char *expected);

/* Adds the weight LAYER.SUFFIX of these elements, which it copies; one of `count` equal elements, which the file does
 * not have and training leaves as they are. */
hd_status hd__onnx_add_weight(hd_onnx_reader *r, const char *layer, const char *suffix, const hd_shape *shape,
                              const float *elems);
hd_status hd__onnx_add_equal(hd_onnx_reader *r, const char *layer, const char *suffix, int64_t count, float value);

/* The floats of a constant; the caller frees them. HD_E_UNSUPPORTED: it is none, or has other numbers; `count`, unless
 * -1, are expected. */
hd_status hd__onnx_read_floats(float **out, const HdOnnx__Tensor **t, hd_onnx_reader *r, const HdOnnx__Node *node,
                               const char *name, int64_t count);

/* ---- Expressions: what they are of, and their constants ---- */

typedef enum hd_onnx_kind {
  HD_ONNX_NO_EXPRESSION,
  HD_ONNX_FUNCTION, /* `layer` of x */
  HD_ONNX_SOFTPLUS,
  HD_ONNX_RMS_NORM,   /* over `axes` */
  HD_ONNX_LAYER_NORM, /* likewise */
  HD_ONNX_LINEAR,
  HD_ONNX_GROUP_NORM /* with the attributes of `norm` */
} hd_onnx_kind;

typedef struct hd_onnx_expression {
  hd_onnx_kind kind;
  const char *layer, *x, *weight, *bias; /* weight, bias: NULL for none */
  const HdOnnx__Node *norm, *back;       /* a norm's mean; of a group norm: the norm, and the reshape behind it */
  int64_t groups;
  float number; /* beta of a softplus, eps of a norm */
  int rank;     /* the most dimensions of its numbers */
} hd_onnx_expression;

/* The expression that a node ends. */
void hd__onnx_find_expression(hd_onnx_expression *out, hd_onnx_reader *r, const HdOnnx__Node *node);

/* ---- Views ---- */

/* The view of a computed value; the layers before it are made unless they are there. */
hd_status hd__onnx_view(hd_onnx_view *out, hd_onnx_reader *r, const char *value);

/* The same of a tensor whose first axis may be of the batch and more, or of scores of an attention. */
hd_status hd__onnx_merged_view(hd_onnx_view *out, hd_onnx_reader *r, const char *value);

/* The same of one whose first axis is of the batch and perhaps more: for layers of each element or along other axes. */
hd_status hd__onnx_beside_view(hd_onnx_view *out, hd_onnx_reader *r, const char *value);

/* The elements along an axis, and of a sample. */
int64_t hd__onnx_side(const hd_onnx_view *v, int axis);
int64_t hd__onnx_sample(const hd_onnx_view *v);

/* The axis of a node's numbers, from the front; -1: there is none such. */
int hd__onnx_axis(const hd_onnx_view *v, int64_t axis);

static inline int64_t hd__onnx_pixels(const hd_onnx_view *v) { return v->h * v->w; }
static inline bool hd__onnx_in_mask(uint32_t mask, int axis) { return mask >> axis & 1; }

/* A layer's output as a tensor: of rank 2 its flat elements, of rank 3 an image of one row, of rank 4 an image. */
void hd__onnx_whole(hd_onnx_view *v, const char *layer, int rank, bool flat, int64_t c, int64_t h, int64_t w);

/* Whether the elements are in the order of the axes. */
bool hd__onnx_in_order(const hd_onnx_view *v);

/* Whether some elements are repeated; leaves these out, as an operator repeats them itself: the axes that then have one
 * element. */
bool hd__onnx_repeats(const hd_onnx_view *v);
uint32_t hd__onnx_strip(hd_onnx_view *v);

/* Makes neighbouring atoms of an axis that lie as one. */
void hd__onnx_merge(hd_onnx_view *v);

/* Whether the elements lie in the same places of their layers. */
bool hd__onnx_same_places(const hd_onnx_view *a, const hd_onnx_view *b);

/* The atoms as products of other sides; false: a side begins within an atom that it does not divide. */
bool hd__onnx_divide(hd_onnx_view *out, const hd_onnx_view *v, const int64_t *side, int rank);

/* The place in a layer of each element of a sample, in the order of the axes. */
void hd__onnx_places(int64_t *place, const hd_onnx_view *v);

/* Moves atoms from axes to axes, to[] of each; a rank; no element moves. */
void hd__onnx_rename_axes(hd_onnx_view *v, const int *to, int rank);

/* After a layer over channels, or over pixels, the new view: its channels are `axis` alone; they are gone; pixels are
 * gone. */
hd_status hd__onnx_set_channels(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int axis,
                                int64_t channels);
void hd__onnx_drop_channels(hd_onnx_view *v);
void hd__onnx_drop_pixels(hd_onnx_view *v);

/* ---- Layers that move elements ---- */

/* Brings the elements into the order of the axes and the shape that a tensor of such a rank has: see hd__onnx_whole. */
hd_status hd__onnx_settle(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node);

/* Makes flat elements of a tensor of rank 2, or an image of them. `any_order`: they may stay in their order. */
hd_status hd__onnx_flatten(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, bool any_order);
hd_status hd__onnx_image(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node);

/* Makes some axes, bits of a mask, the channels; the other axes stay or become pixels. `settled`: in the order of the
 * axes, two of them as height and width. */
hd_status hd__onnx_to_channels(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, uint32_t axes,
                               bool settled);

/* Makes some axes all of the pixels of an image. */
hd_status hd__onnx_to_pixels(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, uint32_t axes);

/* The tensor with other axes, sides of all of them; the first is the batch and, unless side[0] is 1, some of the first
 * elements. */
hd_status hd__onnx_reshape(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const int64_t *side, int rank);

/* Channels from start to end - 1 of an axis of any kind. */
hd_status hd__onnx_cut(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int axis, int64_t start,
                       int64_t end);

/* Makes the operands of an operator of two values: layers that it can read. `out`: the view of its output but for the
 * layer. */
hd_status hd__onnx_pair(hd_onnx_view *out, hd_onnx_view *a, hd_onnx_view *b, hd_onnx_reader *r,
                        const HdOnnx__Node *node);

/* ---- Products of two values ---- */

/* Refuses scores, which something else than an attention reads. */
hd_status hd__onnx_refuse_scores(hd_onnx_reader *r, const hd_onnx_scores *scores);
void hd__onnx_free_scores(hd_onnx_reader *r);

/* ---- Layers ---- */

/* Makes a layer; its name is that of `weight` without the suffix, if that has one, else the node's. The description
 * follows in braces. The view, which has the shape of its output, gets the name. */
hd_status hd__onnx_put(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const char *weight,
                       const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Adds a number to each element of a sample, in the order of the axes. */
hd_status hd__onnx_put_position(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const char *name,
                                const float *number);

/* The view of output k of a node; what moves elements alone is in onnx_shapes.c. */
hd_status hd__onnx_make(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k);

/* softmax(q k' * factor [+ mask]) v; k has its last two axes exchanged. */
typedef struct hd_onnx_attention {
  const char *q, *k, *v;
  double factor;
  bool causal;
  int rank;     /* the most dimensions of the constants in it */
  int64_t axis; /* of the softmax */
} hd_onnx_attention;

/* Of queries, keys and values that one layer makes; rotary, which a Concat ends. found: whether it is that. */
hd_status hd__onnx_read_joint_attention(bool *found, hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node,
                                        const hd_onnx_attention *a);
hd_status hd__onnx_read_rotary(bool *found, hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node);
