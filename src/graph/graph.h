/* A network as data: values, the nodes that produce them, and the parameters they use.
 *
 * A graph is written in order: a node's inputs exist before it. Shapes are known at once, since every node is inferred
 * when it is added. Node numbers are those of the graph as written (`written`); passes that fuse or add nodes keep the
 * number of the node they came from, because random numbers and sums are keyed by it.
 *
 * Values of rank 3 are channels, height, width in shape; in memory the channel is fastest. A flatten that does
 * not move the elements of an image keeps the image's memory order, which its output records in `order`; only a linear
 * layer reads such a value, and the columns of its weight are in the same order.
 *
 * A graph is independent of device, batch size and threads. It owns its names and arrays. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/tools_api.h"
#include "base/shape.h"
#include "base/status.h"
#include "optimizer/update_settings.h"
#include "heddle/dtype.h"
#include "op/op.h"

typedef enum hd_value_kind {
  HD_VALUE_INPUT,      /* samples */
  HD_VALUE_LABEL,      /* the target of the loss: a class number, or target numbers */
  HD_VALUE_ROWS,       /* one slot per sample: activations and their gradients */
  HD_VALUE_PARAM,      /* a parameter */
  HD_VALUE_PARAM_GRAD, /* its gradient */
  HD_VALUE_STATISTIC,  /* of the whole batch: mean or variance per channel */
  HD_VALUE_CONST       /* numbers from the model's description */
} hd_value_kind;

typedef struct hd_value {
  char *name;
  hd_value_kind kind;
  hd_dtype dtype;
  hd_shape shape;  /* without the sample dimension; parameters: as in files */
  hd_shape order;  /* rank 3: this flat value has the memory order of that image; else rank 0 */
  int producer;    /* node index, -1 for none */
  int param;       /* parameter index for PARAM and PARAM_GRAD, else -1 */
  float *constant; /* CONST: its elements, owned */
} hd_value;

/* The loss: its operation and settings, and the weights of classes (cross_entropy) or of positive examples
 * (bce_with_logits), one per score, NULL for none. */
typedef struct hd_loss {
  hd_op op;
  hd_attrs attrs;
  const float *weight;
  const hd_weighted_sum_geom *heads; /* weighted_sum: those whose scores `logits` joins; else NULL */
} hd_loss;

typedef struct hd_node {
  hd_op op;
  char *name;
  int written;                        /* number in the graph as written */
  int in[HD_MAX_IN], out[HD_MAX_OUT]; /* value indices, -1 where absent */
  bool view;                          /* out[0] is in[0] with another shape: same memory, no kernel */
  bool again;                         /* a forward node, computed once more for gradients */
  hd_attrs attrs;
  hd_geom geom;
} hd_node;

/* A parameter, or a running statistic, which is stored in files and versions like one but follows the batches'
 * statistics instead of a gradient. In files its shape is value->shape. Memory order is rows x h x w x c, and file
 * order is rows x c x h x w. */
typedef struct hd_param {
  int value;
  int written; /* node number that owns it */
  int slot;    /* 0 weight, 1 bias: keys its random numbers together with the node number */
  int32_t rows, c, h, w;
  float std;      /* NORMAL: the standard deviation */
  int32_t fan_in; /* UNIFORM: in +-1/sqrt(fan_in), PyTorch's default for both weight and bias */
  hd_init init;
  hd_op op;                  /* of the layer that owns it */
  bool frozen;               /* takes no gradient and no update; a running statistic: stays as it is */
  bool later;                /* it is frozen in an earlier stage of the run, and has its place among what is trained */
  hd_update_settings update; /* of this parameter; settings that are not given are the run's */
  bool running;              /* a running statistic: new = fma(momentum, batch - old, old) */
  int statistic;             /* running: the value with the batch's statistic, -1 before the batch pass */
  float momentum;
} hd_param;

/* An alias of a parameter: "NODE.weight" of a node that uses another node's parameter. */
typedef struct hd_alias {
  char *name;
  int param;
} hd_alias;

enum { HD_MAX_STAGES = 32 };

/* Stages of a network, neighbouring layers each: stage s begins with the node of this number as written. */
typedef struct hd_stages {
  int count;                /* 0: not given */
  int first[HD_MAX_STAGES]; /* [0] is 0 */
} hd_stages;

typedef struct hd_graph {
  hd_node *nodes;
  int node_count, node_room;
  hd_value *values;
  int value_count, value_room;
  hd_param *params;
  int param_count, param_room;
  hd_alias *aliases;
  int alias_count, alias_room;
  int written_count;
  int input, label; /* value indices */
  int logits, loss; /* value indices, -1 before the loss exists */
  bool weighs;      /* samples have weights: a target is followed by one */
  bool of_classes;  /* targets are numbers made of labels, a score for each class */
  hd_stages stages; /* as the model file cuts it */
} hd_graph;

hd_status hd__graph_create(hd_graph **out, hd_ctx *ctx, const hd_shape *input);
void hd__graph_destroy(hd_graph *graph);

/* A layer of a model. */
typedef struct hd_layer_spec {
  hd_op op;
  const char *name;
  const int *in; /* values; parameters of another node in the place of this node's are used instead of new ones */
  int inputs;
  const hd_attrs *attrs;
} hd_layer_spec;

/* Adds a node as written in a model: infers its shapes, makes its parameters ("NAME.weight", "NAME.bias"). *out is the
 * node's output value. */
hd_status hd__graph_add(int *out, hd_graph *graph, hd_ctx *ctx, const hd_layer_spec *layer);

/* Adds the loss, which determines kind and shape of the labels; sets logits and loss. */
hd_status hd__graph_add_loss(hd_graph *graph, hd_ctx *ctx, int logits, const hd_loss *loss);

/* The node of the loss. */
const hd_node *hd__graph_loss_node(const hd_graph *graph);

/* The layer whose output the loss reads; of several heads the node that joins them. */
const hd_node *hd__graph_head(const hd_graph *graph);

/* The loss of one of several heads, the targets that it reads, and those that all read. */
hd_op hd__head_op(const hd_loss_head *head);
int32_t hd__head_numbers(const hd_loss_head *head);
int32_t hd__heads_targets(const hd_weighted_sum_geom *heads);

/* Makes cross_entropy read a probability for each class instead of a label; call before any pass. The targets of other
 * losses are numbers already. */
void hd__graph_soften_labels(hd_graph *graph);

/* Makes training weigh the samples: each target is followed by a weight; call before any pass, after the above. */
void hd__graph_weigh_samples(hd_graph *graph);

/* Changes the label smoothing; call before any pass. Fails unless the loss is cross_entropy. */
hd_status hd__graph_smooth_labels(hd_graph *graph, hd_ctx *ctx, double smoothing);

typedef struct hd_value_type {
  hd_value_kind kind;
  hd_dtype dtype;
  hd_shape shape;
} hd_value_type;

/* For passes and operations. A node added by a pass has its geometry set and makes no parameters. A value has at most
 * INT_MAX / 8 elements a sample, so that kernels may count them in 32 bits. */
hd_status hd__graph_new_value(int *out, hd_graph *graph, hd_ctx *ctx, const char *name, const hd_value_type *type);
hd_status hd__graph_new_node(hd_node **out, hd_graph *graph, hd_ctx *ctx, hd_op op, const char *name, int written);
hd_status hd__graph_new_param(int *out, hd_graph *graph, hd_ctx *ctx, const hd_node *node, int slot,
                              const hd_op_param *like);

/* Makes out[slot] of a node, named "NODE" or "NODE.SUFFIX". */
hd_status hd__graph_output(hd_graph *graph, hd_ctx *ctx, hd_node *node, int slot, const char *suffix,
                           const hd_value_type *type);

/* Adds the alias "NODE.SUFFIX" for a parameter that the node uses in the place of a new one. */
hd_status hd__graph_new_alias(hd_graph *graph, hd_ctx *ctx, const hd_node *node, const char *suffix, int param);

/* Inserts a node at `index` and moves the later ones; *out is empty except for op, and the name and number of `of`,
 * which may be a node of the graph. */
hd_status hd__graph_insert_node(hd_node **out, hd_graph *graph, hd_ctx *ctx, int index, hd_op op, const hd_node *of);

/* Removes a node and updates the producers of values. Its outputs must have another producer or no reader. */
void hd__graph_remove_node(hd_graph *graph, int index);

/* The number of times that nodes read a value; *reader, if not NULL: the last of them, -1 for none. */
int hd__graph_reads(const hd_graph *graph, int value, int *reader);

/* Slot geometry: elements from one sample to the next (whole cache lines, and one more where that would be a
 * multiple of 1 KB; one element unpadded). */
HD_TOOLS_API int64_t hd__value_stride(const hd_value *value);
HD_TOOLS_API int hd__dtype_bytes(hd_dtype dtype);

/* The number of elements of a parameter, the elements of a row, and the index in file order of element (row, column) in
 * memory order; column counts h, w, c. */
int64_t hd__param_elems(const hd_param *param);
int64_t hd__param_columns(const hd_param *param);

int64_t hd__param_file_index(const hd_param *param, int64_t row, int64_t column);

/* Whether training computes a gradient for it and updates it. */
bool hd__param_trains(const hd_param *param);

/* Whether it is trained in any stage of the run. */
bool hd__param_ever_trains(const hd_param *param);

/* Whether a batch_norm as written normalises by its running statistics in training too, which then stay. */
bool hd__graph_has_stored_statistics(const hd_graph *graph, const hd_node *norm);

/* Gradients are nodes too, named like the layer whose gradient they are; they follow the loss. And what a node
 * computes: "forward", "again" (the same for gradients), "dx" (the gradient of its input) or "dw" (of its
 * parameters). */
bool hd__graph_is_gradient(const hd_graph *graph, int node);
const char *hd__graph_direction(const hd_graph *graph, int node);

/* Prints nodes, shapes and parameters, one line each; tests of passes compare this text. */
void hd__graph_print(const hd_graph *graph, FILE *to);
