/* A network as data: values, the nodes that make them, and the parameters they use.
 *
 * A graph is written in order: a node's inputs exist before it. Shapes are known at once, since every node is inferred
 * when it is added. Node numbers are those of the graph as written (`written`); passes that fuse or add nodes keep the
 * number of the node they came from, because random numbers and sums are keyed by it.
 *
 * Values of rank 3 are channels, height, width in shape; in memory the channel is fastest. A value that a flatten made
 * of an image without moving it keeps that memory order and says so (`order`); only a linear layer reads such a value,
 * and its weight's home order follows.
 *
 * A graph knows no device, no batch size and no lane. The graph owns its names and arrays. */
#ifndef HD_GRAPH_GRAPH_H
#define HD_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/shape.h"
#include "base/status.h"
#include "heddle/dtype.h"
#include "kernel/kernel.h"

typedef enum hd_value_kind {
  HD_VALUE_INPUT,      /* samples */
  HD_VALUE_LABEL,      /* what the loss compares with: a class number, or target numbers */
  HD_VALUE_ROWS,       /* one slot per sample: activations and their gradients */
  HD_VALUE_PARAM,      /* a parameter */
  HD_VALUE_PARAM_GRAD, /* its gradient */
  HD_VALUE_STATISTIC,  /* of the whole batch: mean or variance per channel */
  HD_VALUE_CONST       /* numbers that the model's description gives */
} hd_value_kind;

typedef struct hd_value {
  char *name;
  hd_value_kind kind;
  hd_dtype dtype;
  hd_shape shape;  /* without the sample dimension; parameters: as in files */
  hd_shape order;  /* rank 3 if this flat value still lies in memory as that image, else rank 0 */
  int producer;    /* node index, -1 for none */
  int param;       /* parameter index for PARAM and PARAM_GRAD, else -1 */
  float *constant; /* CONST: its elements, owned */
} hd_value;

/* What a user writes about a layer; a field that an operation does not use is ignored there. */
typedef struct hd_attrs {
  int32_t out;
  int32_t kernel[2], padding[2];
  int32_t stride[2];           /* 0: not given, which is a pool's kernel, else 1 */
  int32_t groups;              /* conv2d: into how many its channels are divided, 1 for none */
  int32_t bias;                /* 1: the layer has one */
  int32_t count_include_pad;   /* avg_pool2d: 1 divides by the whole window, padding included */
  int32_t approximate;         /* gelu: 1 takes the tanh form, 0 the erf form */
  float negative_slope;        /* leaky_relu */
  float p;                     /* dropout: the share of elements that become zero */
  float eps;                   /* normalisation: added to the variance */
  float momentum;              /* batch_norm: of running statistics */
  int32_t shard_stats;         /* batch_norm: 1 trains by the statistics of each shard, 0 by those of the batch */
  int32_t move;                /* flatten: 1 brings the elements into PyTorch's order, 0 leaves them where they lie */
  const struct hd_own_op *own; /* own: which of the caller's operations */

  /* Of the loss. */
  int32_t ignore_index;  /* cross_entropy: samples with this label do not count */
  float label_smoothing; /* cross_entropy: the share of the target that all classes have alike */
  float delta;           /* huber: where the square becomes a line */
} hd_attrs;

/* What is minimised: its operation and settings, and the weights of classes (cross_entropy) or of positive examples
 * (bce_with_logits), one per score, NULL for none. */
typedef struct hd_loss {
  hd_op op;
  hd_attrs attrs;
  const float *weight;
} hd_loss;

#define HD_LOSS_DEFAULT ((hd_loss){.op = HD_OP_cross_entropy, .attrs = {.ignore_index = HD_IGNORE_NOTHING, .delta = 1}})
enum { HD_IGNORE_NOTHING = -100 }; /* an ignore_index that is no label, as in PyTorch */

typedef struct hd_node {
  hd_op op;
  char *name;
  int written;                        /* number in the graph as written */
  int in[HD_MAX_IN], out[HD_MAX_OUT]; /* value indices, -1 where absent */
  bool view;                          /* out[0] is in[0] under another shape: same memory, no kernel */
  hd_attrs attrs;
  hd_geom geom;
} hd_node;

typedef enum hd_init { HD_INIT_UNIFORM, HD_INIT_ZERO, HD_INIT_ONE } hd_init;

/* A parameter, or a running statistic, which lives in files and versions like one but follows the batches' statistics
 * instead of a gradient. In files its shape is value->shape; in memory (home order) it is rows x h x w x c, and the
 * file order of the same elements is rows x c x h x w. */
typedef struct hd_param {
  int value;
  int written; /* node number that owns it */
  int slot;    /* 0 weight, 1 bias: keys its random numbers together with the node number */
  int32_t rows, c, h, w;
  int32_t fan_in; /* UNIFORM: in +-1/sqrt(fan_in), PyTorch's default for both weight and bias */
  hd_init init;
  bool frozen;             /* takes no gradient and no update */
  double lr, weight_decay; /* of its own; NAN: the run's */
  bool running;            /* a running statistic: new = fma(momentum, batch - old, old) */
  int statistic;           /* running: the value that holds the batch's, -1 before the batch pass */
  float momentum;
} hd_param;

/* One more name of a parameter: "NODE.weight" of a node that uses another one's. */
typedef struct hd_alias {
  char *name;
  int param;
} hd_alias;

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
} hd_graph;

hd_status hd__graph_create(hd_graph **out, hd_ctx *ctx, const hd_shape *input);
void hd__graph_destroy(hd_graph *graph);

/* Adds a node as a user writes it: infers its shapes, makes its parameters ("NAME.weight", "NAME.bias"). `in` holds
 * `count` values; another node's parameters among them, where its own would stand, are used instead. *out is the value
 * it makes. */
hd_status hd__graph_add(int *out, hd_graph *graph, hd_ctx *ctx, hd_op op, const char *name, const int *in, int count,
                        const hd_attrs *attrs);

/* Adds the loss against the labels, whose kind and shape it decides; sets logits and loss. */
hd_status hd__graph_add_loss(hd_graph *graph, hd_ctx *ctx, int logits, const hd_loss *loss);

/* The node that makes the loss. */
const hd_node *hd__graph_loss_node(const hd_graph *graph);

/* Lets cross_entropy read a probability for each class in place of a label, before any pass. Other losses read numbers
 * anyway. */
void hd__graph_soften_labels(hd_graph *graph);

/* Changes the label smoothing, before any pass; refused unless the loss is cross_entropy. */
hd_status hd__graph_smooth_labels(hd_graph *graph, hd_ctx *ctx, double smoothing);

/* For passes and operations. A node of a pass carries its geometry with it and makes no parameters. A value has at most
 * INT_MAX / 8 elements a sample, so that kernels may count them in 32 bits. */
hd_status hd__graph_new_value(int *out, hd_graph *graph, hd_ctx *ctx, const char *name, hd_value_kind kind,
                              hd_dtype dtype, const hd_shape *shape);
hd_status hd__graph_new_node(hd_node **out, hd_graph *graph, hd_ctx *ctx, hd_op op, const char *name, int written);
hd_status hd__graph_new_param(int *out, hd_graph *graph, hd_ctx *ctx, const hd_node *node, int slot, const char *suffix,
                              const hd_shape *shape, const hd_shape *home, int32_t fan_in);

/* Notes that the node uses this parameter for the one it would call "NODE.SUFFIX". */
hd_status hd__graph_new_alias(hd_graph *graph, hd_ctx *ctx, const hd_node *node, const char *suffix, int param);

/* Makes room for a node at `index` by moving the ones from there on; *out is empty but for op, name and number. */
hd_status hd__graph_insert_node(hd_node **out, hd_graph *graph, hd_ctx *ctx, int index, hd_op op, const char *name,
                                int written);

/* Takes a node out; the producers of values follow. Its outputs must have found another producer or no reader. */
void hd__graph_remove_node(hd_graph *graph, int index);

/* Slot geometry: elements from one sample to the next (floats padded to 16, bytes to 64; one element unpadded). */
int64_t hd__value_stride(const hd_value *value);
int hd__dtype_bytes(hd_dtype dtype);

/* Elements of a parameter, and the file index of home element (row, i), i counting h, w, c. */
int64_t hd__param_elems(const hd_param *param);
int64_t hd__param_columns(const hd_param *param);

int64_t hd__param_file_index(const hd_param *param, int64_t row, int64_t column);

/* Whether training computes a gradient for it and updates it. */
bool hd__param_trains(const hd_param *param);

/* Prints nodes, shapes and parameters, one line each; what tests of passes compare. */
void hd__graph_print(const hd_graph *graph, FILE *to);

#endif
