/* The definition of an operation except for its chains: arguments, shape rule, gradient, costs, settings in model
 * files, samples for the tests. Each folder NAME/ has one descriptor, hd__rule_NAME in NAME.c, which is also that of
 * the kernels NAME_dx and NAME_dw of its gradient; a row of kernel/ops.def adds it to the table.
 *
 * Rules know shapes and settings alone. graph/ makes nodes and values from them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shape.h"
#include "base/status.h"
#include "base/tools_api.h"
#include "kernel/kernel.h"

/* A layer's settings; an operation ignores the fields that it does not use. */
typedef struct hd_attrs {
  int32_t out;
  int32_t kernel[2], padding[2];
  int32_t stride[2]; /* 0: not given: the kernel's, for a pool */
  int32_t dilation[2];
  int32_t output_padding[2];
  int32_t groups;            /* convolutions: groups of channels, 1 for none */
  int32_t bias;              /* 1: the layer has a bias */
  int32_t init;              /* conv2d: hd_init of the weight, */
  int32_t init_samples;      /* made from at most this many samples */
  float init_eps;            /* which is added to the eigenvalues */
  int32_t count_include_pad; /* avg_pool2d: 1 divides by the whole window, padding included */
  int32_t approximate;       /* gelu: 1: the tanh form, 0: the erf form */
  float negative_slope;      /* leaky_relu */
  float alpha;               /* elu */
  float beta, threshold;     /* softplus */
  float min, max;            /* clip */
  int32_t num_parameters;    /* prelu */
  int32_t size[2];           /* upsample, adaptive pools: of the output */
  int32_t factor_of[2];      /* upsample: how often the input's sides fit the output's; 0: not given */
  int32_t mode;              /* upsample, pad: one of its choices */
  int32_t align_corners;     /* upsample */
  int32_t end[2];           /* pad: pixels below and to the right, -1: as padding; slice: the channel behind the last */
  int32_t start;            /* slice */
  int32_t swap[2], inner;   /* reshape: parts that change places, and the elements behind both */
  int32_t over;             /* mean, max: 1 channels, 0 pixels */
  int32_t ceil_mode;        /* pools */
  int32_t tokens;           /* embedding: rows of its weight */
  float init_std;           /* embedding, position: the standard deviation of their first weights */
  int32_t heads, key_heads; /* attention: of queries; of keys and values, 0: as many */
  int32_t hidden_size;      /* lstm, gru: channels of the state */
  int32_t num_layers;       /* lstm, gru */
  int32_t causal;           /* attention: 1: a place reads itself and those before it alone */
  int32_t pointwise;        /* conv2d: 1: a linear layer over the channels of each place, which it was written as;
                               a loss: one for each place, even if a text has one */
  float factor;             /* scale */
  float p;                  /* dropout, attention: the share of elements that become zero */
  float base;               /* rotary */
  float eps;                /* normalisation: added to the variance */
  float momentum;           /* batch_norm: of running statistics */
  int32_t shard_stats;      /* batch_norm: 1 trains with the statistics of each shard, 0 with those of the batch */
  int32_t move;             /* flatten: 1 moves the elements into PyTorch's order, 0 keeps the memory order */
  const struct hd_custom_op *custom_op; /* the operation of the caller's program */

  /* Of the loss. */
  int32_t ignore_index;  /* cross_entropy: samples with this label are ignored */
  float label_smoothing; /* cross_entropy: the share of the target that is distributed equally over all classes */
  float delta;           /* huber: where the square becomes a line */
} hd_attrs;

typedef enum hd_setting_type {
  HD_SETTING_INT,
  HD_SETTING_FLAG,
  HD_SETTING_REAL,
  HD_SETTING_SIDES,
  HD_SETTING_CHOICE,
  HD_SETTING_LAYER,  /* names another layer: graph/model.c reads it */
  HD_SETTING_WEIGHTS /* loss: a weight for each score: graph/model_loss.c reads it */
} hd_setting_type;

/* A setting of model files: where its value goes, and what is allowed. */
typedef struct hd_op_setting {
  const char *key; /* NULL ends a list */
  hd_setting_type type;
  size_t field;           /* in hd_attrs: int32_t; REAL: float; SIDES: int32_t[2]; LAYER, WEIGHTS: none */
  size_t geom;            /* where it is copied to in hd_geom, for kernels; 0: nowhere, or by the shape rule */
  double low, high;       /* both included */
  const char *choices[4]; /* CHOICE: the names of 0, 1, ..., at most three */
  bool required;
  double default_value;
  const char *help; /* the last field: tools/op-tables reads a setting up to it */
} hd_op_setting;

#define HD_SETTING(KEY, TYPE, member, ...)                                                                             \
  { .key = KEY, .type = HD_SETTING_##TYPE, .field = offsetof(hd_attrs, member), __VA_ARGS__ }
#define HD_TO_GEOM(member) .geom = offsetof(hd_geom, member)
#define HD_SETTINGS_END                                                                                                \
  { .key = NULL }

/* Of several operations. */
#define HD_BIAS_SETTINGS                                                                                               \
  HD_SETTING("bias", FLAG, bias, .high = 1, .default_value = 1, .help = "whether a bias is added"),                    \
      HD_SETTING("share", LAYER, bias, .help = "an earlier layer of the same kind whose weight and bias are used")
#define HD_CONV_SETTINGS                                                                                               \
  HD_SETTING("out", INT, out, .low = 1, .high = 1 << 20, .required = true, .help = "channels of the output"),          \
      HD_SETTING("kernel", SIDES, kernel, .low = 1, .high = 1024, .required = true,                                    \
                 .help = "height and width of the kernel"),                                                            \
      HD_SETTING("stride", SIDES, stride, .low = 1, .high = 1024, .default_value = 1,                                  \
                 .help = "step from one position of the kernel to the next"),                                          \
      HD_SETTING("dilation", SIDES, dilation, .low = 1, .high = 1024, .default_value = 1,                              \
                 .help = "distance between neighbouring elements of the kernel, in pixels"),                           \
      HD_SETTING("groups", INT, groups, .low = 1, .high = 1 << 20, .default_value = 1,                                 \
                 .help = "groups of channels; a divisor of inputs and outputs")
#define HD_POOL_SETTINGS                                                                                               \
  HD_SETTING("kernel", SIDES, kernel, .low = 1, .high = 1024, .required = true,                                        \
             .help = "height and width of the window"),                                                                \
      HD_SETTING("stride", SIDES, stride, .low = 1, .high = 1024,                                                      \
                 .help = "step from window to window (default: the kernel's size)"),                                   \
      HD_SETTING("padding", SIDES, padding, .low = 0, .high = 1024,                                                    \
                 .help = "padding at each edge, at most half the kernel"),                                             \
      HD_SETTING("ceil_mode", FLAG, ceil_mode, HD_TO_GEOM(window.ceil_mode), .high = 1,                                \
                 .help = "whether a last window may reach beyond the padding")
#define HD_RECURRENT_SETTINGS                                                                                          \
  HD_SETTING("hidden_size", INT, hidden_size, .low = 1, .high = 65536, .required = true,                               \
             .help = "channels of the state, and of the output"),                                                      \
      HD_SETTING("num_layers", INT, num_layers, .low = 1, .high = 64, .default_value = 1,                              \
                 .help = "layers, each of which reads the states of the one before"),                                  \
      HD_SETTING("bias", FLAG, bias, .high = 1, .default_value = 1, .help = "whether biases are added")
#define HD_EPS_SETTING                                                                                                 \
  HD_SETTING("eps", REAL, eps, HD_TO_GEOM(norm.eps), .low = 0, .high = 1, .default_value = 1e-5,                       \
             .help = "added to the variance")

/* First values; the first ones are the choices of a convolution's setting `init`. */
typedef enum hd_init {
  HD_INIT_UNIFORM, /* drawn */
  HD_INIT_WHITEN,  /* made of the training samples: train/run/whitening.h */
  HD_INIT_DIRAC,   /* outputs copy inputs */
  HD_INIT_ZERO,
  HD_INIT_ONE,
  HD_INIT_QUARTER,
  HD_INIT_NORMAL /* drawn, with a standard deviation */
} hd_init;

/* The most numbers of a patch that a convolution whitens: its eigenvectors take the cube in time. */
enum { HD_WHITEN_MOST = 512 };

/* A parameter or running statistic of a layer, in the order of in[1], in[2] ... */
typedef struct hd_op_param {
  const char *suffix; /* of its name in files */
  hd_shape shape;     /* in files */
  hd_shape in_memory; /* in memory: rows, channels, height, width of the input's order */
  int32_t fan_in;     /* UNIFORM: in +-1/sqrt(fan_in), PyTorch's default for both weight and bias */
  hd_init init;
  float std;    /* NORMAL */
  bool shared;  /* may be another layer's instead */
  bool running; /* a running statistic, not trained */
} hd_op_param;

enum { HD_OP_PARAMS = 4 };

/* The fields that a shape rule reads, and below those that it writes. */
typedef struct hd_op_shapes {
  hd_ctx *ctx;
  const char *layer, *op; /* the names, for messages */
  const hd_attrs *attrs;
  int inputs;
  hd_shape x[HD_MAX_IN], order[HD_MAX_IN]; /* order: of rank 3 if a flat value has the memory order of that image */

  hd_geom geom;
  hd_shape y, y_order;
  bool view;     /* y is x with another shape: same memory, no kernel */
  bool argmax;   /* out[1] has a byte for each element of y */
  hd_shape kept; /* out[1] has numbers for the gradient, of this shape; rank 0: it has not */
  int params;
  hd_op_param param[HD_OP_PARAMS];
} hd_op_shapes;

typedef hd_status hd_shape_rule(hd_op_shapes *shapes);

/* An argument of a kernel of the gradient: input or output k of the layer, the gradient of y, the gradients of weight
 * and bias, summed over the batch, or an output of dx, which is then computed before dw. */
typedef enum hd_arg {
  HD_ARG_NONE,
  HD_ARG_X,
  HD_ARG_W,
  HD_ARG_B,
  HD_ARG_IN3,
  HD_ARG_IN4,
  HD_ARG_IN5,
  HD_ARG_IN6, /* input k is HD_ARG_X + k */
  HD_ARG_Y,
  HD_ARG_OUT1,
  HD_ARG_OUT2, /* output k is HD_ARG_Y + k */
  HD_ARG_DY,
  HD_ARG_DW,
  HD_ARG_DB,
  HD_ARG_DX,
  HD_ARG_DX1 /* output k of dx is HD_ARG_DX + k */
} hd_arg;

/* A kernel of the gradient: what it reads. */
typedef struct hd_backward {
  hd_op op;
  hd_arg in[HD_MAX_IN]; /* none: there is no such kernel */
} hd_backward;

/* The ways of computing the gradient with respect to the inputs. */
typedef enum hd_dx_kind {
  HD_DX_FIRST, /* dx writes that of in[0] */
  HD_DX_EACH,  /* dx is called for each input, with the geometry of `part` */
  HD_DX_ALL,   /* dx writes those of all inputs in one call */
  HD_DX_SAME   /* dy, for each input: there is no kernel */
} hd_dx_kind;

/* The kernels of a rule. */
typedef enum hd_op_role { HD_ROLE_FORWARD, HD_ROLE_DX, HD_ROLE_DW } hd_op_role;

/* Writes the values of an element of x at which its output bends; returns how many. */
enum { HD_OP_CORNERS = 2 };
typedef int hd_corners(double at[HD_OP_CORNERS], const hd_geom *g);

/* Which places of its inputs a place of the output depends on, where a layer reads a text: so can the next token be
 * computed from what is kept of those before (train/inference/decoder.h). An elementwise operation needs not say it. */
typedef enum hd_op_places {
  HD_PLACES_ANY,
  HD_PLACES_SAME,     /* the same one */
  HD_PLACES_NUMBERED, /* the same one, and its number: geom.attention.first is that of the first */
  HD_PLACES_WEIGHTED, /* the same one, and its row of in[1] */
  HD_PLACES_PAST,     /* if causal, the same one and those before it: geom.attention.first */
  HD_PLACES_STATE     /* the same one, and the outputs of the one before: geom.recurrent.first */
} hd_op_places;

typedef struct hd_op_rule {
  int fewest, most;  /* inputs of a layer of model files; 0: not a layer */
  bool loss;         /* a loss of model files */
  bool numbers;      /* it reads numbers of rows, which only the input has: it has no dx */
  bool labels;       /* loss: its target is the number of a class */
  bool several;      /* loss: of several heads, which model files state as a list */
  const char *torch; /* what computes the same in PyTorch, for docs/model-files.md */
  const hd_op_setting *settings;
  hd_shape_rule *shapes;
  hd_backward dx, dw; /* dw writes the gradients of in[1] and in[2] */
  hd_dx_kind dx_kind;
  bool dx1;  /* dx writes a second output for dw, of the same shape */
  int gates; /* a recurrent layer, which reads so many gates for each channel of its state; 0: it is none */
  void (*part)(hd_geom *geom, const hd_geom *layer, int input); /* HD_DX_EACH */
  bool elementwise;                                             /* y = f(x); without `corners` its corner is at 0 */
  bool maximum;                                                 /* y is a maximum of some of x; dx reads x */
  hd_corners *corners;                                          /* where f has corners or jumps */
  bool in_place;                                                /* y may be x, and dx dy */
  hd_op_places places;

  /* Costs of a sample, counted as for dense libraries. Multiply-adds of layers with weights to multiply; NULL: 0.
   * Floating-point operations by role: of an element of x, or a function. A multiply-add is two; a comparison, an
   * exponential, a tanh and a division are one each. Bias terms are not counted. */
  int64_t (*macs)(const hd_geom *g);
  int32_t flops[3];
  int64_t (*flops_of)(const hd_geom *g, hd_op_role role);

  void (*fill_reference)(hd_kernels *table); /* run_outputs and form of the reference table; NULL: there are none */
  const hd_geom *samples;                    /* shapes for tests: fields that are 0 are completed */
  int sample_count;
} hd_op_rule;

#define HD_SAMPLES(list) .samples = list, .sample_count = sizeof(list) / sizeof *(list)

/* Shared by the rules of elementwise operations, whose gradients read dy and `other`, which is x or y; of those of two
 * values; and of losses, whose gradients read scores, target and weights. */
#define HD_ELEMENTWISE(name, other)                                                                                    \
  .fewest = 1, .most = 1, .shapes = hd__shapes_same, .elementwise = true, .in_place = true,                            \
  .dx = {HD_OP_##name##_dx, {HD_ARG_DY, other}}
#define HD_BINARY(name)                                                                                                \
  .fewest = 2, .most = 2, .shapes = hd__shapes_binary, .places = HD_PLACES_SAME, .dx_kind = HD_DX_EACH,                \
  .part = hd__part_binary, .flops_of = hd__flops_binary, HD_SAMPLES(hd__samples_binary)
#define HD_LOSS(name)                                                                                                  \
  .loss = true, .shapes = hd__shapes_loss, .dx = {HD_OP_##name##_dx, {HD_ARG_X, HD_ARG_W, HD_ARG_B}},                  \
  HD_SAMPLES(hd__samples_loss)

typedef struct hd_op_info {
  const char *name;
  hd_op_class class;
  hd_op_role role;
  const hd_op_rule *rule; /* of the layer; NULL for UPDATE */
} hd_op_info;

HD_TOOLS_API const hd_op_info *hd__op_info(hd_op op);
hd_op hd__op_find(const char *name); /* HD_OP_COUNT: there is none */

/* The same of layers over signals, channels x length, which are rows of pixels: conv1d is conv2d. */
hd_op hd__op_find_line(const char *name);

HD_TOOLS_API int64_t hd__op_flops(hd_op op, const hd_geom *geom);
int64_t hd__op_macs(hd_op op, const hd_geom *geom);

/* The default settings of a layer. */
void hd__op_defaults(hd_attrs *attrs, const hd_op_setting *settings);

/* Copies those that kernels read. */
void hd__op_settings_to_geom(hd_geom *geom, const hd_attrs *attrs, const hd_op_setting *settings);

/* The setting of a loss with a weight for each score; NULL: there is none. */
const hd_op_setting *hd__op_weights(const hd_op_rule *rule);

/* Whether out[0] may be in[0]. */
HD_TOOLS_API bool hd__op_works_in_place(hd_op op);

/* The index-th shape for tests, complete; returns 0 when there is none left. */
int hd__op_sample(hd_geom *geom, hd_op op, int index);

/* ---- For shape rules ---- */

/* The geometry of an operation that kernels see as ci channels of hi x wi, its output alike. */
hd_geom hd__geom_of_shape(const hd_shape *shape);

/* Completes a geometry: ho, wo, hp, wp from the other fields; groups and dilation are 1 where they are 0. Returns 0 if
 * no output position exists. */
HD_TOOLS_API int hd__geom_finish(hd_geom *geom);

/* y has the shape and memory order of x. */
hd_shape_rule hd__shapes_same;

/* At -3 and 3. */
hd_corners hd__corners_hard;

/* Windows over an image, from kernel, stride and padding. */
hd_shape_rule hd__shapes_pool;

/* Of the mean of each window: an addition for each position and a division; the gradient has the same. */
int64_t hd__flops_mean(const hd_geom *g, hd_op_role role);

/* The geometry of a convolution over an image, from its settings; hd__geom_finish is left to do. Then its weight and
 * bias: weight has the dimensions outputs x inputs of a group x height x width, or inputs x outputs. */
hd_status hd__shapes_conv(hd_op_shapes *shapes);
hd_status hd__shapes_conv_params(hd_op_shapes *shapes, const hd_shape *weight);

/* A flat value times a weight, plus a bias. */
hd_shape_rule hd__shapes_linear;

/* The rule of losses: a number for each sample. */
hd_shape_rule hd__shapes_loss;

/* Adds a parameter; returns it. */
hd_op_param *hd__shapes_param(hd_op_shapes *shapes, const char *suffix, const hd_shape *shape,
                              const hd_shape *in_memory);

/* The rule of operations of two values of one shape, or of one that is spread over the pixels or channels of the other;
 * the part of an input; an operation for each element, two in gradients. */
hd_shape_rule hd__shapes_binary;
void hd__part_binary(hd_geom *geom, const hd_geom *layer, int input);
int64_t hd__flops_binary(const hd_geom *g, hd_op_role role);

/* y has the shape of x, an image. An output of other sides; of the sides of `size`; of one pixel or one channel, as
 * `over` says. */
hd_shape_rule hd__shapes_image, hd__shapes_adaptive, hd__shapes_line;
hd_status hd__shapes_sides(hd_op_shapes *shapes, const int32_t out[2]);

/* A recurrent layer over gates of each place. It keeps `more` numbers beside the gates for each channel of the state.
 * Its costs. */
hd_status hd__shapes_recurrent(hd_op_shapes *shapes, int gates, int more);
int64_t hd__macs_recurrent(const hd_geom *g);
int64_t hd__flops_recurrent(const hd_geom *g, hd_op_role role);

/* A norm with a weight for each channel, and a bias if it has one. */
hd_status hd__shapes_channel_norm(hd_op_shapes *shapes, bool biased);

/* Whether it is the identity in evaluation: dropout. */
bool hd__op_drops(hd_op op);

/* Samples of dropouts, softmaxes, elementwise operations, those of two values, losses, and the rules above. */
extern const hd_geom hd__samples_dropout[5], hd__samples_softmax[6], hd__samples_each[5], hd__samples_binary[9],
    hd__samples_loss[11];
extern const hd_geom hd__samples_line[5], hd__samples_adaptive[5], hd__samples_channel_norm[5],
    hd__samples_instance_norm[3];
