/* Writes a network as an ONNX file of opset 17: one node for a layer, or the few that ONNX needs for it.
 *
 * Images are batch x channels x height x width. In a network that reads tokens, whose first layer is an embedding,
 * values are batch x places x channels.
 *
 * Every node and every tensor is packed as a message of its own and appended to the graph: the fields of a message may
 * be written one after the other in any pieces. */
#include "onnx/onnx.h"

#ifdef HD_HAVE_ONNX

#include <math.h>
#include <onnx.pb-c.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/text_buffer.h"
#include "base/version.h"
#include "onnx/onnx_gates.h"
#include "op/attention/attention.h"
#include "op/adaptive.h"
#include "op/rotary/rotary.h"

enum {
  OPSET = 17,
  IR_VERSION = 8,
  FLOAT = 1,
  INT64 = 7,
  DOUBLE = 11,
  NAME_BYTES = 160,
  HEAD_BYTES = 128,
  NAMES = 40,
  MOST_ATTRIBUTES = 8,
  MOST_INTS = 5,
  ENTRIES = 4 + HD_LOSS_HEADS
};
enum { ATTRIBUTE_FLOAT = 1, ATTRIBUTE_INT = 2, ATTRIBUTE_STRING = 3, ATTRIBUTE_INTS = 7 };
static const int64_t MOST_BYTES = INT32_MAX; /* of a message */

typedef struct writer {
  FILE *to; /* the graph's fields */
  hd_ctx *ctx;
  const hd_onnx_network *net;
  char (*value)[NAME_BYTES]; /* the name of each value of the graph */
  const char *layer, *out;   /* of the layer that is being written: its name, that of its output */
  char name[NAMES][NAME_BYTES];
  int names;   /* of values and constants within the layer */
  bool places; /* it reads tokens */
  bool masked; /* the constant that makes attention causal is written */
  bool failed; /* out of memory */
} writer;

typedef struct attributes {
  HdOnnx__Attribute item[MOST_ATTRIBUTES], *list[MOST_ATTRIBUTES];
  int64_t number[MOST_ATTRIBUTES][MOST_INTS];
  size_t count;
} attributes;

typedef struct file_buffer {
  ProtobufCBuffer base;
  FILE *to;
} file_buffer;

static void append(ProtobufCBuffer *buffer, size_t length, const uint8_t *bytes) {
  fwrite(bytes, 1, length, ((file_buffer *)buffer)->to);
}

static void pack(FILE *to, const void *message) {
  file_buffer buffer = {{append}, to};
  protobuf_c_message_pack_to_buffer(message, &buffer.base);
}

/* ---- Attributes, tensors, nodes ---- */

static HdOnnx__Attribute *add_attribute(attributes *a, const char *name, int32_t type) {
  HdOnnx__Attribute *at = a->list[a->count] = &a->item[a->count];
  hd_onnx__attribute__init(at);
  at->name = (char *)name;
  at->has_type = 1;
  at->type = type;
  a->count++;
  return at;
}

static void add_int(attributes *a, const char *name, int64_t value) {
  HdOnnx__Attribute *at = add_attribute(a, name, ATTRIBUTE_INT);
  at->has_i = 1;
  at->i = value;
}

static void add_float(attributes *a, const char *name, float value) {
  HdOnnx__Attribute *at = add_attribute(a, name, ATTRIBUTE_FLOAT);
  at->has_f = 1;
  at->f = value;
}

static void add_text(attributes *a, const char *name, const char *text) {
  HdOnnx__Attribute *at = add_attribute(a, name, ATTRIBUTE_STRING);
  at->has_s = 1;
  at->s = (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}

/* One to MOST_INTS numbers. */
static void add_ints(attributes *a, const char *name, const int64_t *from, size_t count) {
  int64_t *number = a->number[a->count];
  HdOnnx__Attribute *at = add_attribute(a, name, ATTRIBUTE_INTS);
  memcpy(number, from, count * sizeof *number);
  at->ints = number;
  at->n_ints = count;
}

/* Two numbers, down and across; `twice`: then the same again, as for padding at both ends. */
static void add_sides(attributes *a, const char *name, int32_t down, int32_t across, bool twice) {
  int64_t *number = a->number[a->count];
  HdOnnx__Attribute *at = add_attribute(a, name, ATTRIBUTE_INTS);
  number[0] = number[2] = down;
  number[1] = number[3] = across;
  at->ints = number;
  at->n_ints = twice ? 4 : 2;
}

static void put_tensor(writer *w, const char *name, int type, const void *bytes, const int64_t *dim, size_t rank) {
  HdOnnx__Graph graph = HD_ONNX__GRAPH__INIT;
  HdOnnx__Tensor tensor = HD_ONNX__TENSOR__INIT, *list = &tensor;
  size_t length = type == FLOAT ? sizeof(float) : sizeof(int64_t); /* or a double */
  for (size_t i = 0; i < rank; i++)
    length *= (size_t)dim[i];
  tensor.name = (char *)name;
  tensor.has_data_type = tensor.has_raw_data = 1;
  tensor.data_type = type;
  tensor.dims = (int64_t *)dim;
  tensor.n_dims = rank;
  tensor.raw_data = (ProtobufCBinaryData){length, (uint8_t *)bytes};
  graph.initializer = &list;
  graph.n_initializer = 1;
  pack(w->to, &graph.base);
}

/* A name for a value inside of the layer. */
static const char *new_name(writer *w) {
  char *name = w->name[w->names];
  snprintf(name, NAME_BYTES, "%s/%d", w->layer, w->names++);
  return name;
}

static const char *constant(writer *w, float value) {
  const char *name = new_name(w);
  put_tensor(w, name, FLOAT, &value, NULL, 0);
  return name;
}

/* Adds a node with inputs, which NULL ends; returns the name of its output. */
static const char *put_node(writer *w, const char *op, const char *name, const char *out, const attributes *a, ...) {
  HdOnnx__Graph graph = HD_ONNX__GRAPH__INIT;
  HdOnnx__Node node = HD_ONNX__NODE__INIT, *list = &node;
  char *in[HD_MAX_IN + 1];
  va_list args;
  va_start(args, a);
  while (node.n_input < HD_MAX_IN && (in[node.n_input] = va_arg(args, char *)))
    node.n_input++;
  va_end(args);
  node.op_type = (char *)op;
  node.name = (char *)name;
  node.input = in;
  node.output = (char *[]){(char *)out};
  node.n_output = 1;
  if (a) {
    node.attribute = (HdOnnx__Attribute **)a->list;
    node.n_attribute = a->count;
  }
  graph.node = &list;
  graph.n_node = 1;
  pack(w->to, &graph.base);
  return out;
}

/* A node inside of the layer, of one or two inputs; and its last one. */
static const char *step(writer *w, const char *op, const char *a, const char *b) {
  const char *name = new_name(w);
  return put_node(w, op, name, name, NULL, a, b, (char *)NULL);
}

static void finish(writer *w, const char *op, const attributes *a, const char *x, const char *y) {
  put_node(w, op, w->layer, w->out, a, x, y, (char *)NULL);
}

/* ---- Layers ---- */

/* The axis of channels: of places, or of flat values, the last. */
static int64_t channel_axis(const writer *w, const hd_node *node) {
  return w->places && w->net->graph->values[node->in[0]].shape.rank == 3 ? 2 : 1;
}

static const char *input(const writer *w, const hd_node *node, int k) {
  return node->in[k] < 0 ? NULL : w->value[node->in[k]];
}

static void write_pointwise(writer *w, const hd_node *node);

static void write_window(writer *w, const hd_node *node, const char *op) {
  const hd_geom *g = &node->geom;
  if (w->places) {
    write_pointwise(w, node);
    return;
  }
  const bool pool = node->op == HD_OP_max_pool2d || node->op == HD_OP_avg_pool2d;
  attributes a = {.count = 0};
  add_sides(&a, "kernel_shape", g->window.kh, g->window.kw, false);
  add_sides(&a, "strides", g->window.sh, g->window.sw, false);
  add_sides(&a, "pads", g->window.ph, g->window.pw, true);
  if (!pool) {
    add_sides(&a, "dilations", g->window.dilation[0], g->window.dilation[1], false);
    add_int(&a, "group", g->conv.groups);
  }
  if (g->window.transposed)
    add_sides(&a, "output_padding", g->conv_transpose2d.output_padding[0], g->conv_transpose2d.output_padding[1],
              false);
  if (node->op == HD_OP_avg_pool2d)
    add_int(&a, "count_include_pad", g->avg_pool2d.count_include_pad);
  if (pool && g->window.ceil_mode)
    add_int(&a, "ceil_mode", 1);
  put_node(w, op, w->layer, w->out, &a, input(w, node, 0), input(w, node, 1), input(w, node, 2), (char *)NULL);
}

static void write_linear(writer *w, const hd_node *node, const char *op) {
  attributes a = {.count = 0};
  add_int(&a, "transB", 1);
  put_node(w, op, w->layer, w->out, &a, input(w, node, 0), input(w, node, 1), input(w, node, 2), (char *)NULL);
}

static void write_plain(writer *w, const hd_node *node, const char *op) {
  attributes a = {.count = 0};
  if (node->op == HD_OP_leaky_relu || node->op == HD_OP_elu)
    add_float(&a, "alpha", node->op == HD_OP_elu ? node->geom.elu.alpha : node->geom.leaky_relu.negative_slope);
  if (node->op == HD_OP_hardsigmoid)
    add_float(&a, "alpha", (float)(1.0 / 6));
  if (node->op == HD_OP_flatten || node->op == HD_OP_softmax || node->op == HD_OP_log_softmax)
    add_int(&a, "axis", channel_axis(w, node));
  finish(w, op, &a, input(w, node, 0), input(w, node, 1));
}

static void write_concat(writer *w, const hd_node *node, const char *op) {
  attributes a = {.count = 0};
  add_int(&a, "axis", channel_axis(w, node));
  put_node(w, op, w->layer, w->out, &a, input(w, node, 0), input(w, node, 1), input(w, node, 2), input(w, node, 3),
           input(w, node, 4), input(w, node, 5), input(w, node, 6), (char *)NULL);
}

static void write_scale(writer *w, const hd_node *node, const char *op) {
  finish(w, op, NULL, input(w, node, 0), constant(w, node->geom.scale.factor));
}

static void write_swish(writer *w, const hd_node *node, const char *op) {
  const char *x = input(w, node, 0);
  finish(w, op, NULL, x, step(w, "Sigmoid", x, NULL));
}

static void write_clip(writer *w, const hd_node *node, const char *op) {
  const bool is_relu6 = node->op == HD_OP_relu6;
  const char *min = constant(w, is_relu6 ? 0 : node->geom.clip.min);
  const char *max = constant(w, is_relu6 ? 6 : node->geom.clip.max);
  put_node(w, op, w->layer, w->out, NULL, input(w, node, 0), min, max, (char *)NULL);
}

/* Softplus(beta * x) / beta; with Where(beta * x > threshold, x, ...) if it jumps by more than rounding does. */
static void write_softplus(writer *w, const hd_node *node, const char *op) {
  const hd_softplus_geom *s = &node->geom.softplus;
  const char *x = input(w, node, 0), *beta = s->beta != 1 ? constant(w, s->beta) : NULL;
  const char *z = beta ? step(w, "Mul", x, beta) : x;
  if (s->threshold >= 16) {
    if (beta)
      finish(w, "Div", NULL, step(w, op, z, NULL), beta);
    else
      finish(w, op, NULL, z, NULL);
    return;
  }
  const char *above = step(w, "Greater", z, constant(w, s->threshold)), *y = step(w, op, z, NULL);
  put_node(w, "Where", w->layer, w->out, NULL, above, x, beta ? step(w, "Div", y, beta) : y, (char *)NULL);
}

static void write_mish(writer *w, const hd_node *node, const char *op) {
  const char *x = input(w, node, 0);
  finish(w, op, NULL, x, step(w, "Tanh", step(w, "Softplus", x, NULL), NULL));
}

/* x / 2 * (1 + erf(x sqrt(1/2))), or tanh(sqrt(2/pi) (x + 0.044715 x^3)) in place of erf. */
static void write_gelu(writer *w, const hd_node *node, const char *op) {
  const char *x = input(w, node, 0), *share;
  if (node->attrs.approximate) {
    const char *cubic = step(w, "Mul", step(w, "Mul", x, x), constant(w, 0.044715f));
    const char *inner = step(w, "Mul", x, constant(w, 0.79788456f));
    share = step(w, "Tanh", step(w, "Mul", inner, step(w, "Add", cubic, constant(w, 1))), NULL);
  } else {
    share = step(w, "Erf", step(w, "Mul", x, constant(w, 0.70710678f)), NULL);
  }
  finish(w, op, NULL, step(w, "Mul", x, step(w, "Add", share, constant(w, 1))), constant(w, 0.5f));
}

static void write_batch_norm(writer *w, const hd_node *node, const char *op) {
  attributes a = {.count = 0};
  add_float(&a, "epsilon", node->geom.norm.eps);
  add_float(&a, "momentum", 1 - node->attrs.momentum);
  put_node(w, op, w->layer, w->out, &a, input(w, node, 0), input(w, node, 1), input(w, node, 2), input(w, node, 3),
           input(w, node, 4), (char *)NULL);
}

static void write_layer_norm(writer *w, const hd_node *node, const char *op) {
  attributes a = {.count = 0};
  add_float(&a, "epsilon", node->geom.norm.eps);
  add_int(&a, "axis", 1);
  put_node(w, op, w->layer, w->out, &a, input(w, node, 0), input(w, node, 1), input(w, node, 2), (char *)NULL);
}

static const char *reshape(writer *w, const char *x, const int64_t *shape, size_t rank) {
  const char *name = new_name(w);
  put_tensor(w, name, INT64, shape, (int64_t[]){(int64_t)rank}, 1);
  return step(w, "Reshape", x, name);
}

static const char *numbers(writer *w, const int64_t *number, int64_t count) {
  const char *name = new_name(w);
  put_tensor(w, name, INT64, number, &count, 1);
  return name;
}

static void write_slice(writer *w, const hd_node *node, const char *op) {
  const int64_t axis = channel_axis(w, node), start = node->geom.slice.start, end = start + node->geom.co;
  put_node(w, op, w->layer, w->out, NULL, input(w, node, 0), numbers(w, &start, 1), numbers(w, &end, 1),
           numbers(w, &axis, 1), (char *)NULL);
}

/* A view, its transposition, and a view of it. */
static void write_reshape(writer *w, const hd_node *node, const char *op) {
  const hd_geom *g = &node->geom;
  const int64_t parts[] = {-1, g->reshape.swap[0], g->reshape.swap[1], g->reshape.inner}, perm[] = {0, 2, 1, 3};
  const int64_t shape[] = {-1, g->co, g->ho, g->wo};
  const char *x = input(w, node, 0), *turned;
  attributes a = {.count = 0};
  if (parts[1] > 1 && parts[2] > 1) {
    add_ints(&a, "perm", perm, 4);
    x = step(w, op, x, numbers(w, parts, 4));
    turned = new_name(w);
    put_node(w, "Transpose", turned, turned, &a, x, (char *)NULL);
    x = turned;
  }
  put_node(w, op, w->layer, w->out, NULL, x, numbers(w, shape, 4), (char *)NULL);
}

/* Whether a side grows by a factor that a float has. */
static bool has_factor(int32_t out, int32_t in) { return (double)((float)out / (float)in) * (double)in == (double)out; }

/* Nearest pixels along a side by their numbers: with a rounded factor a Resize misses some by one. Returns the name of
 * the output, which is `out` unless that is NULL. */
static const char *write_nearest(writer *w, const hd_node *node, const char *x, int side, const char *out) {
  const hd_geom *g = &node->geom;
  const int64_t pixels = side ? g->wo : g->ho, from = side ? g->wi : g->hi;
  int64_t *pixel = hd__malloc((size_t)pixels * sizeof *pixel);
  const char *name = out ? out : new_name(w);
  attributes axis = {.count = 0};
  w->failed |= !pixel;
  for (int64_t i = 0; i < pixels && pixel; i++)
    pixel[i] = i * from / pixels;
  const char *which = pixel ? numbers(w, pixel, pixels) : NULL;
  hd__free(pixel);
  add_int(&axis, "axis", 2 + side);
  return put_node(w, "Gather", out ? w->layer : name, name, &axis, x, which, (char *)NULL);
}

static void write_nearest_sides(writer *w, const hd_node *node) {
  const char *x = input(w, node, 0);
  const bool down = node->geom.ho != node->geom.hi, across = node->geom.wo != node->geom.wi;
  if (down)
    x = write_nearest(w, node, x, 0, across ? NULL : w->out);
  if (across)
    write_nearest(w, node, x, 1, w->out);
}

/* The sizes of all axes of a resized image, whatever the batch is. */
static const char *sizes_of(writer *w, const hd_node *node, const char *x) {
  const char *shape = step(w, "Shape", x, NULL), *batch = new_name(w), *sizes = new_name(w);
  attributes axis = {.count = 0};
  put_node(w, "Slice", batch, batch, NULL, shape, numbers(w, (int64_t[]){0}, 1), numbers(w, (int64_t[]){2}, 1),
           (char *)NULL);
  add_int(&axis, "axis", 0);
  return put_node(w, "Concat", sizes, sizes, &axis, batch, numbers(w, (int64_t[]){node->geom.ho, node->geom.wo}, 2),
                  (char *)NULL);
}

static void write_upsample(writer *w, const hd_node *node, const char *op) {
  const hd_geom *g = &node->geom;
  const bool factors = has_factor(g->ho, g->hi) && has_factor(g->wo, g->wi);
  const float scale[] = {1, 1, (float)g->ho / (float)g->hi, (float)g->wo / (float)g->wi};
  const char *x = input(w, node, 0), *name = NULL;
  attributes a = {.count = 0};
  if (!factors && !g->upsample.bilinear) {
    write_nearest_sides(w, node);
    return;
  }
  if (factors)
    put_tensor(w, name = new_name(w), FLOAT, scale, (int64_t[]){4}, 1);
  else
    name = sizes_of(w, node, x);
  add_text(&a, "mode", g->upsample.bilinear ? "linear" : "nearest");
  add_text(&a, "coordinate_transformation_mode",
           !g->upsample.bilinear       ? "asymmetric"
           : g->upsample.align_corners ? "align_corners"
                                       : "half_pixel");
  if (!g->upsample.bilinear)
    add_text(&a, "nearest_mode", "floor");
  if (factors)
    put_node(w, op, w->layer, w->out, &a, x, "", name, (char *)NULL);
  else
    put_node(w, op, w->layer, w->out, &a, x, "", "", name, (char *)NULL);
}

static void write_pad(writer *w, const hd_node *node, const char *op) {
  static const char *const modes[] = {"constant", "reflect", "edge"};
  const hd_geom *g = &node->geom;
  const int32_t *before = g->pad.before;
  const int64_t pads[] = {0, 0, before[0], before[1], 0, 0, g->ho - g->hi - before[0], g->wo - g->wi - before[1]};
  attributes a = {.count = 0};
  add_text(&a, "mode", modes[g->pad.mode]);
  finish(w, op, &a, input(w, node, 0), numbers(w, pads, 8));
}

static void write_line(writer *w, const hd_node *node, const char *op) {
  attributes a = {.count = 0};
  add_int(&a, "keepdims", 1);
  add_ints(&a, "axes", node->geom.line.channels ? (const int64_t[]){1} : (const int64_t[]){2, 3},
           node->geom.line.channels ? 1 : 2);
  finish(w, op, &a, input(w, node, 0), NULL);
}

/* The maximum of each window along an axis: the elements of all windows, the last one again where a window is short, as
 * an axis of their own. Returns the name of the output, which is `out` unless that is NULL. */
static const char *write_maxima(writer *w, const hd_node *node, const char *x, int side, const char *out) {
  const hd_geom *g = &node->geom;
  const int32_t windows = side ? g->wo : g->ho, elems = side ? g->wi : g->hi, most = elems / windows + 2;
  int64_t *from = hd__malloc((size_t)windows * (size_t)most * sizeof *from);
  const char *of = new_name(w), *all = new_name(w), *name = out ? out : new_name(w);
  attributes axis = {.count = 0}, over = {.count = 0};
  w->failed |= !from;
  for (int i = 0; i < windows && from; i++)
    for (int k = 0; k < most; k++) {
      const int first = adaptive_first(g, side, i), end = adaptive_end(g, side, i);
      from[i * most + k] = first + k < end ? first + k : end - 1;
    }
  if (from)
    put_tensor(w, of, INT64, from, (int64_t[]){windows, most}, 2);
  hd__free(from);
  add_int(&axis, "axis", 2 + side);
  add_int(&over, "keepdims", 0);
  add_ints(&over, "axes", (const int64_t[]){3 + side}, 1);
  put_node(w, "Gather", all, all, &axis, x, of, (char *)NULL);
  return put_node(w, "ReduceMax", out ? w->layer : name, name, &over, all, (char *)NULL);
}

/* The share of each element along a side in the mean of each window: windows x rows, or columns x windows. */
static const char *window_shares(writer *w, const hd_geom *g, int side) {
  const int32_t windows = side ? g->wo : g->ho, elems = side ? g->wi : g->hi;
  float *share = hd__calloc((size_t)windows * (size_t)elems, sizeof *share);
  const char *name = new_name(w);
  w->failed |= !share;
  for (int i = 0; i < windows && share; i++) {
    const int first = adaptive_first(g, side, i), end = adaptive_end(g, side, i);
    for (int k = first; k < end; k++)
      share[side ? k * windows + i : i * elems + k] = 1 / (float)(end - first);
  }
  if (share)
    put_tensor(w, name, FLOAT, share, side ? (int64_t[]){elems, windows} : (int64_t[]){windows, elems}, 2);
  hd__free(share);
  return name;
}

/* Windows that divide the image are a pool's; others overlap, or differ by one: these have a matrix for each side, or
 * an index. */
static void write_adaptive(writer *w, const hd_node *node, const char *op) {
  const hd_geom *g = &node->geom;
  attributes a = {.count = 0};
  if ((g->hi % g->ho || g->wi % g->wo) && node->op == HD_OP_adaptive_max_pool2d) {
    write_maxima(w, node, write_maxima(w, node, input(w, node, 0), 0, NULL), 1, w->out);
    return;
  }
  if (g->hi % g->ho || g->wi % g->wo) {
    const char *rows = step(w, "MatMul", window_shares(w, g, 0), input(w, node, 0));
    finish(w, "MatMul", NULL, rows, window_shares(w, g, 1));
    return;
  }
  add_sides(&a, "kernel_shape", g->hi / g->ho, g->wi / g->wo, false);
  add_sides(&a, "strides", g->hi / g->ho, g->wi / g->wo, false);
  finish(w, op, &a, input(w, node, 0), NULL);
}

static void write_instance_norm(writer *w, const hd_node *node, const char *op) {
  attributes a = {.count = 0};
  add_float(&a, "epsilon", node->geom.norm.eps);
  put_node(w, op, w->layer, w->out, &a, input(w, node, 0), input(w, node, 1), input(w, node, 2), (char *)NULL);
}

/* Channels last, and back. */
static void write_layer_norm2d(writer *w, const hd_node *node, const char *op) {
  const bool is_image = !w->places && w->net->graph->values[node->in[0]].shape.rank == 3;
  attributes a = {.count = 0}, last = {.count = 0}, back = {.count = 0};
  add_float(&a, "epsilon", node->geom.norm.eps);
  add_int(&a, "axis", -1);
  add_ints(&last, "perm", (const int64_t[]){0, 2, 3, 1}, 4);
  add_ints(&back, "perm", (const int64_t[]){0, 3, 1, 2}, 4);
  const char *x = input(w, node, 0), *turned = new_name(w), *normal = new_name(w);
  if (is_image)
    x = put_node(w, "Transpose", turned, turned, &last, x, (char *)NULL);
  put_node(w, op, is_image ? normal : w->layer, is_image ? normal : w->out, &a, x, input(w, node, 1), input(w, node, 2),
           (char *)NULL);
  if (is_image)
    finish(w, "Transpose", &back, normal, NULL);
}

/* x / sqrt(mean of x * x + eps) * weight */
static void write_rms_norm(writer *w, const hd_node *node, const char *op) {
  const char *x = input(w, node, 0), *mean = new_name(w);
  attributes a = {.count = 0};
  add_int(&a, "keepdims", 1);
  add_ints(&a, "axes", (const int64_t[]){channel_axis(w, node)}, 1);
  put_node(w, "ReduceMean", mean, mean, &a, step(w, "Mul", x, x), (char *)NULL);
  const char *root = step(w, "Sqrt", step(w, "Add", mean, constant(w, node->geom.norm.eps)), NULL);
  finish(w, op, NULL, step(w, "Div", x, root), input(w, node, 1));
}

/* A norm of each group, seen as one channel; then weight and bias of the channels. */
static void write_group_norm(writer *w, const hd_node *node, const char *op) {
  const hd_geom *g = &node->geom;
  const size_t rank = 1 + (size_t)w->net->graph->values[node->in[0]].shape.rank;
  float *one = hd__malloc((size_t)g->norm.groups * 2 * sizeof *one);
  attributes a = {.count = 0};
  w->failed |= !one;
  if (!one)
    return;
  for (int i = 0; i < 2 * g->norm.groups; i++)
    one[i] = (float)(i < g->norm.groups);
  const char *weight = new_name(w), *bias = new_name(w), *normal = new_name(w);
  put_tensor(w, weight, FLOAT, one, (int64_t[]){g->norm.groups}, 1);
  put_tensor(w, bias, FLOAT, one + g->norm.groups, (int64_t[]){g->norm.groups}, 1);
  hd__free(one);
  add_float(&a, "epsilon", g->norm.eps);
  put_node(w, "InstanceNormalization", normal, normal, &a,
           reshape(w, input(w, node, 0), (int64_t[]){0, g->norm.groups, -1}, 3), weight, bias, (char *)NULL);
  const char *back = reshape(w, normal, (int64_t[]){0, g->ci, g->hi, g->wi}, rank);
  finish(w, op, NULL, step(w, "Mul", back, input(w, node, 1)), input(w, node, 2));
}

/* ---- Layers of places ---- */

static const char *transpose(writer *w, const char *x, const int64_t *perm, size_t rank) {
  const char *name = new_name(w);
  attributes a = {.count = 0};
  if (rank > 0)
    add_ints(&a, "perm", perm, rank);
  return put_node(w, "Transpose", name, name, &a, x, (char *)NULL);
}

/* x W' + b */
static void write_pointwise(writer *w, const hd_node *node) {
  const char *x = input(w, node, 0), *weight = transpose(w, input(w, node, 1), NULL, 0);
  if (node->in[2] >= 0)
    finish(w, "Add", NULL, step(w, "MatMul", x, weight), input(w, node, 2));
  else
    finish(w, "MatMul", NULL, x, weight);
}

static void write_embedding(writer *w, const hd_node *node, const char *op) {
  finish(w, op, NULL, input(w, node, 1), input(w, node, 0));
}

/* Elements from `first` to `end` - 1 along the last axis. */
static const char *cut(writer *w, const char *x, int64_t first, int64_t end) {
  const int64_t axis = -1;
  const char *name = new_name(w);
  return put_node(w, "Slice", name, name, NULL, x, numbers(w, &first, 1), numbers(w, &end, 1), numbers(w, &axis, 1),
                  (char *)NULL);
}

static const char *join(writer *w, const char *name, const char *out, const char *a, const char *b) {
  attributes axis = {.count = 0};
  add_int(&axis, "axis", -1);
  return put_node(w, "Concat", name, out, &axis, a, b, (char *)NULL);
}

/* cos or sin of the angle of each pair of channels, twice, for each place: places x 1 x channels of a head. */
static const char *angles(writer *w, const hd_geom *g, bool sine) {
  const int64_t places = g->wi, half = rotary_width(g) / 2;
  HD_OWNED float *value = hd__malloc((size_t)(places * half) * 2 * sizeof *value);
  const char *name = new_name(w);
  w->failed |= !value;
  for (int64_t i = 0; i < places * half && value; i++) {
    float c, s;
    rotary_cos_sin(&c, &s, (double)(i / half) * rotary_frequency(g, (int)(i % half)));
    float *at = value + i / half * 2 * half + i % half;
    at[0] = at[half] = sine ? s : c;
  }
  if (value)
    put_tensor(w, name, FLOAT, value, (int64_t[]){places, 1, 2 * half}, 3);
  return name;
}

/* Of queries and keys x * cos + (-x2, x1) * sin, x1 and x2 being the halves of a head; then the values. */
static void write_rotary(writer *w, const hd_node *node, const char *op) {
  const hd_geom *g = &node->geom;
  const int64_t heads = rotary_heads(g), width = rotary_width(g), turned = heads * width;
  const char *x = input(w, node, 0), *head = new_name(w);
  const int64_t shape[] = {0, 0, heads, width}, flat[] = {0, 0, turned};
  put_node(w, "Reshape", head, head, NULL, cut(w, x, 0, turned), numbers(w, shape, 4), (char *)NULL);
  const char *minus = step(w, "Neg", cut(w, head, width / 2, width), NULL), *swapped = new_name(w);
  join(w, swapped, swapped, minus, cut(w, head, 0, width / 2));
  const char *y =
      step(w, "Add", step(w, "Mul", head, angles(w, g, false)), step(w, "Mul", swapped, angles(w, g, true)));
  join(w, w->layer, w->out, step(w, "Reshape", y, numbers(w, flat, 3)), cut(w, x, turned, g->ci));
}

/* 0 where a place sees another, else minus infinity. */
static const char *causal_mask(writer *w, int64_t places) {
  static const char name[] = "causal_mask";
  HD_OWNED float *value = w->masked ? NULL : hd__malloc((size_t)(places * places) * sizeof *value);
  w->failed |= !w->masked && !value;
  for (int64_t i = 0; i < places * places && value; i++)
    value[i] = i % places <= i / places ? 0 : -INFINITY;
  if (value)
    put_tensor(w, name, FLOAT, value, (int64_t[]){places, places}, 2);
  w->masked = true;
  return name;
}

/* A part of the channels as heads x places x channels, or with the last two exchanged; where heads share keys, as key
 * heads x heads that share one x places x channels. */
static const char *heads_of(writer *w, const hd_geom *g, const char *part, int64_t sharing, bool turned) {
  static const int64_t perm[2][2][5] = {{{0, 2, 1, 3}, {0, 2, 3, 1}}, {{0, 2, 3, 1, 4}, {0, 2, 3, 4, 1}}};
  const bool shared = attention_sharing(g) > 1;
  const int64_t width = attention_width(g), rank = shared ? 5 : 4;
  const int64_t shape[] = {0, 0, attention_key_heads(g), shared ? sharing : width, width};
  return transpose(w, step(w, "Reshape", part, numbers(w, shape, rank)), perm[shared][turned], (size_t)rank);
}

static void write_attention(writer *w, const hd_node *node, const char *op) {
  const hd_geom *g = &node->geom;
  const int64_t first = attention_key(g, 0), second = attention_value(g, 0), flat[] = {0, 0, g->co};
  const int64_t sharing = attention_sharing(g), back[] = {0, 2, 1, 3}, back_shared[] = {0, 3, 1, 2, 4};
  const char *x = input(w, node, 0);
  const char *q = heads_of(w, g, cut(w, x, 0, first), sharing, false);
  const char *k = heads_of(w, g, cut(w, x, first, second), 1, true);
  const char *v = heads_of(w, g, cut(w, x, second, g->ci), 1, false);
  const char *score = step(w, "Mul", step(w, "MatMul", q, k), constant(w, 1 / sqrtf((float)attention_width(g))));
  const char *weight = new_name(w);
  attributes last = {.count = 0};
  add_int(&last, "axis", -1);
  if (g->attention.causal)
    score = step(w, "Add", score, causal_mask(w, g->wi));
  put_node(w, "Softmax", weight, weight, &last, score, (char *)NULL);
  const char *y = new_name(w);
  put_node(w, "MatMul", w->layer, y, NULL, weight, v, (char *)NULL);
  y = sharing > 1 ? transpose(w, y, back_shared, 5) : transpose(w, y, back, 4);
  put_node(w, op, new_name(w), w->out, NULL, y, numbers(w, flat, 3), (char *)NULL);
}

/* ---- Recurrent layers ---- */

/* Whether a node computes what a recurrent layer's gates read, which ONNX does together with the recurrence. */
static bool is_for_gates(const hd_graph *graph, const hd_node *node) {
  int reader;
  return hd__graph_reads(graph, node->out[0], &reader) == 1 && hd__op_info(graph->nodes[reader].op)->rule->gates > 0;
}

/* Whether a value is read by another layer than a recurrent one, which has it in another order. */
static bool is_read_by_places(const hd_graph *graph, int value) {
  bool is_read = value == graph->logits;
  for (int i = 0; i < graph->node_count && !is_read; i++)
    for (int k = 0; k < HD_MAX_IN; k++)
      is_read = is_read || (graph->nodes[i].in[k] == value && !is_for_gates(graph, &graph->nodes[i]));
  return is_read;
}

/* Copies the rows of each gate to where ONNX has them. */
static void order_gates(float *to, const writer *w, int value, int gates, size_t each) {
  const hd_graph *graph = w->net->graph;
  int p = 0;
  while (graph->params[p].value != value)
    p++;
  for (int k = 0; k < gates; k++)
    memcpy(to + (size_t)k * each, w->net->param[p] + (size_t)hd__onnx_gate(gates, k) * each, each * sizeof *to);
}

/* The parameters of a row of values, each of `gates` gates, in one tensor; its first dimension is of directions. */
static const char *put_gates(writer *w, const char *name, const int *value, int values, int gates) {
  const hd_shape *shape = &w->net->graph->values[value[0]].shape;
  const size_t elems = (size_t)hd__shape_elems(shape);
  const int64_t dim[] = {1, (int64_t)shape->dim[0] * values, shape->rank > 1 ? shape->dim[1] : 1};
  HD_OWNED float *all = hd__malloc((size_t)values * elems * sizeof *all);
  w->failed |= !all;
  for (int i = 0; i < values && all; i++)
    order_gates(all + (size_t)i * elems, w, value[i], gates, elems / (size_t)gates);
  if (all)
    put_tensor(w, name, FLOAT, all, dim, shape->rank > 1 ? 3 : 2);
  return name;
}

/* What a recurrent layer computed, as steps x batch x channels. */
static const char *steps_of(char name[NAME_BYTES + 8], const writer *w, int value) {
  snprintf(name, NAME_BYTES + 8, "%s/steps", w->net->graph->nodes[w->net->graph->values[value].producer].name);
  return name;
}

/* Another layer's output as steps x batch x channels; an image has one row. */
static const char *to_steps(writer *w, int value) {
  static const int64_t row = 2, of_signal[] = {2, 0, 1}, of_places[] = {1, 0, 2};
  const char *x = w->value[value];
  return w->places ? transpose(w, x, of_places, 3)
                   : transpose(w, step(w, "Squeeze", x, numbers(w, &row, 1)), of_signal, 3);
}

static void write_recurrent(writer *w, const hd_node *node, const char *op) {
  static const int64_t direction = 1, of_places[] = {1, 0, 2}, of_signal[] = {1, 2, 0}, row = 2;
  const hd_graph *graph = w->net->graph;
  const hd_node *input_part = &graph->nodes[graph->values[node->in[0]].producer];
  const int x = input_part->in[0], producer = graph->values[x].producer, gates = hd__op_info(node->op)->rule->gates;
  char before[NAME_BYTES + 8], after[NAME_BYTES + 8];
  const bool chained = producer >= 0 && hd__op_info(graph->nodes[producer].op)->rule->gates > 0;
  const char *in = chained ? steps_of(before, w, x) : to_steps(w, x), *y = new_name(w);
  const char *weight = put_gates(w, graph->values[input_part->in[1]].name, &input_part->in[1], 1, gates);
  const char *state_weight = put_gates(w, graph->values[node->in[1]].name, &node->in[1], 1, gates), *bias = NULL;
  if (node->in[2] >= 0)
    bias = put_gates(w, new_name(w), (const int[]){input_part->in[2], node->in[2]}, 2, gates);
  attributes a = {.count = 0};
  add_int(&a, "hidden_size", node->geom.co);
  if (node->op == HD_OP_gru)
    add_int(&a, "linear_before_reset", 1);
  put_node(w, op, w->layer, y, &a, in, weight, state_weight, bias, (char *)NULL);
  steps_of(after, w, node->out[0]);
  put_node(w, "Squeeze", after, after, NULL, y, numbers(w, &direction, 1), (char *)NULL);
  if (!is_read_by_places(graph, node->out[0]))
    return;
  attributes back = {.count = 0};
  add_ints(&back, "perm", w->places ? of_places : of_signal, 3);
  if (w->places) {
    put_node(w, "Transpose", new_name(w), w->out, &back, after, (char *)NULL);
    return;
  }
  const char *signal = new_name(w);
  put_node(w, "Transpose", signal, signal, &back, after, (char *)NULL);
  put_node(w, "Unsqueeze", new_name(w), w->out, NULL, signal, numbers(w, &row, 1), (char *)NULL);
}

/* The form of each operation: its node, or the last of its nodes. */
static const struct form {
  hd_op op;
  const char *node;
  void (*write)(writer *w, const hd_node *node, const char *op);
} forms[] = {
    {HD_OP_conv2d, "Conv", write_window},
    {HD_OP_conv_transpose2d, "ConvTranspose", write_window},
    {HD_OP_max_pool2d, "MaxPool", write_window},
    {HD_OP_avg_pool2d, "AveragePool", write_window},
    {HD_OP_global_avg_pool2d, "GlobalAveragePool", write_plain},
    {HD_OP_linear, "Gemm", write_linear},
    {HD_OP_relu, "Relu", write_plain},
    {HD_OP_sigmoid, "Sigmoid", write_plain},
    {HD_OP_tanh, "Tanh", write_plain},
    {HD_OP_leaky_relu, "LeakyRelu", write_plain},
    {HD_OP_gelu, "Mul", write_gelu},
    {HD_OP_swish, "Mul", write_swish},
    {HD_OP_relu6, "Clip", write_clip},
    {HD_OP_hardswish, "HardSwish", write_plain},
    {HD_OP_hardsigmoid, "HardSigmoid", write_plain},
    {HD_OP_elu, "Elu", write_plain},
    {HD_OP_selu, "Selu", write_plain},
    {HD_OP_softplus, "Softplus", write_softplus},
    {HD_OP_mish, "Mul", write_mish},
    {HD_OP_clip, "Clip", write_clip},
    {HD_OP_prelu, "PRelu", write_plain},
    {HD_OP_scale, "Mul", write_scale},
    {HD_OP_dropout, "Identity", write_plain},
    {HD_OP_flatten, "Flatten", write_plain},
    {HD_OP_add, "Add", write_plain},
    {HD_OP_mul, "Mul", write_plain},
    {HD_OP_sub, "Sub", write_plain},
    {HD_OP_div, "Div", write_plain},
    {HD_OP_concat, "Concat", write_concat},
    {HD_OP_slice, "Slice", write_slice},
    {HD_OP_reshape, "Reshape", write_reshape},
    {HD_OP_upsample, "Resize", write_upsample},
    {HD_OP_pad, "Pad", write_pad},
    {HD_OP_mean, "ReduceMean", write_line},
    {HD_OP_max, "ReduceMax", write_line},
    {HD_OP_adaptive_avg_pool2d, "AveragePool", write_adaptive},
    {HD_OP_adaptive_max_pool2d, "MaxPool", write_adaptive},
    {HD_OP_instance_norm, "InstanceNormalization", write_instance_norm},
    {HD_OP_layer_norm2d, "LayerNormalization", write_layer_norm2d},
    {HD_OP_rms_norm, "Mul", write_rms_norm},
    {HD_OP_dropout2d, "Identity", write_plain},
    {HD_OP_batch_norm, "BatchNormalization", write_batch_norm},
    {HD_OP_layer_norm, "LayerNormalization", write_layer_norm},
    {HD_OP_group_norm, "Add", write_group_norm},
    {HD_OP_softmax, "Softmax", write_plain},
    {HD_OP_log_softmax, "LogSoftmax", write_plain},
    {HD_OP_embedding, "Gather", write_embedding},
    {HD_OP_position, "Add", write_plain},
    {HD_OP_rotary, "Concat", write_rotary},
    {HD_OP_attention, "Reshape", write_attention},
    {HD_OP_lstm, "LSTM", write_recurrent},
    {HD_OP_gru, "GRU", write_recurrent},
};

static bool is_pointwise(const hd_geom *g) {
  return g->window.kh == 1 && g->window.kw == 1 && g->window.sh == 1 && g->window.sw == 1 && g->window.ph == 0 &&
         g->window.pw == 0 && g->conv.groups == 1;
}

/* Whether there is a form for values of batch x places x channels; or, without tokens, for images. */
static bool fits(const writer *w, const hd_node *node) {
  const hd_op_rule *rule = hd__op_info(node->op)->rule;
  if (!w->places || w->net->graph->values[node->in[0]].shape.rank == 1)
    return rule->places != HD_PLACES_NUMBERED && rule->places != HD_PLACES_PAST && rule->places != HD_PLACES_WEIGHTED &&
           (node->op != HD_OP_embedding || w->places);
  return node->op == HD_OP_conv2d ? is_pointwise(&node->geom)
                                  : rule->elementwise || rule->places != HD_PLACES_ANY || hd__op_drops(node->op) ||
                                        node->op == HD_OP_concat || node->op == HD_OP_slice;
}

/* The node that joins the scores of several heads, which stay apart here; NULL: there is one head. */
static const hd_node *joined_of(const hd_graph *graph) {
  return hd__graph_loss_node(graph)->op == HD_OP_weighted_sum ? hd__graph_head(graph) : NULL;
}

static bool is_output(const hd_graph *graph, int value) {
  const hd_node *joined = joined_of(graph);
  bool is = !joined && value == graph->logits;
  for (int k = 0; k < HD_MAX_IN && joined; k++)
    is = is || value == joined->in[k];
  return is;
}

/* The name of a layer's output: the network's are called as the heads are, or "scores". */
static void name_output(writer *w, const hd_node *node) {
  const bool is_last = is_output(w->net->graph, node->out[0]), is_head = is_last && joined_of(w->net->graph);
  const bool is_taken = !strcmp(node->name, w->value[w->net->graph->input]) || !strcmp(node->name, "pixels");
  char *out = w->value[node->out[0]];
  if (is_last && !is_head && !w->net->target_mean)
    strcpy(out, "scores");
  else
    snprintf(out, NAME_BYTES, is_head && !is_taken ? "%s" : "%s/y", node->name);
}

static hd_status write_layer(writer *w, const hd_node *node) {
  if (is_for_gates(w->net->graph, node) || node == joined_of(w->net->graph))
    return HD_OK;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (forms[i].op == node->op && fits(w, node)) {
      char *out = w->value[node->out[0]];
      name_output(w, node);
      if (hd__op_drops(node->op) && !is_output(w->net->graph, node->out[0])) {
        memcpy(out, w->value[node->in[0]], NAME_BYTES);
        return HD_OK;
      }
      w->layer = node->name;
      w->out = out;
      w->names = 0;
      forms[i].write(w, node, forms[i].node);
      return HD_OK;
    }
  return hd__fail(w->ctx, HD_E_UNSUPPORTED,
                  "layer '%s': expected an operation that heddle writes as ONNX, found %s; leave it out", node->name,
                  hd__op_info(node->op)->name);
}

/* ---- The graph ---- */

/* A parameter as its operator takes it: of some layers, a number for each channel of an image. Recurrent layers write
 * theirs. */
static void write_param(writer *w, const hd_param *param, const float *elems) {
  const hd_graph *graph = w->net->graph;
  const hd_value *value = &graph->values[param->value];
  int64_t dim[HD_MAX_DIMS];
  int reader;
  size_t rank = (size_t)value->shape.rank;
  for (size_t i = 0; i < rank; i++)
    dim[i] = value->shape.dim[i];
  hd__graph_reads(graph, param->value, &reader);
  const hd_op op = graph->nodes[reader].op;
  if (hd__op_info(op)->rule->gates > 0 || is_for_gates(graph, &graph->nodes[reader]))
    return;
  if (!w->places && (op == HD_OP_group_norm || op == HD_OP_prelu || op == HD_OP_rms_norm))
    for (int i = 1; i < graph->values[graph->nodes[reader].in[0]].shape.rank; i++)
      dim[rank++] = 1;
  snprintf(w->value[param->value], NAME_BYTES, "%s", value->name);
  put_tensor(w, value->name, FLOAT, elems, dim, rank);
}

/* A value of the network: "batch" samples of a shape; the input, of a type, or the output. */
static void write_value(writer *w, const char *name, const hd_shape *shape, int input_type) {
  HdOnnx__Graph graph = HD_ONNX__GRAPH__INIT;
  HdOnnx__Value value = HD_ONNX__VALUE__INIT, *list = &value;
  HdOnnx__Type type = HD_ONNX__TYPE__INIT;
  HdOnnx__TensorType tensor = HD_ONNX__TENSOR_TYPE__INIT;
  HdOnnx__Shape dims = HD_ONNX__SHAPE__INIT;
  HdOnnx__Dimension dim[HD_MAX_DIMS + 1], *dim_list[HD_MAX_DIMS + 1];
  for (int i = 0; i <= shape->rank; i++) {
    dim_list[i] = &dim[i];
    hd_onnx__dimension__init(&dim[i]);
    dim[i].has_dim_value = i > 0;
    dim[i].dim_value = i > 0 ? shape->dim[i - 1] : 0;
    dim[i].dim_param = i > 0 ? NULL : "batch";
  }
  dims.dim = dim_list;
  dims.n_dim = 1 + (size_t)shape->rank;
  tensor.has_elem_type = 1;
  tensor.elem_type = input_type ? input_type : FLOAT;
  tensor.shape = &dims;
  type.tensor_type = &tensor;
  value.name = (char *)name;
  value.type = &type;
  if (input_type) {
    graph.input = &list;
    graph.n_input = 1;
  } else {
    graph.output = &list;
    graph.n_output = 1;
  }
  pack(w->to, &graph.base);
}

static const char *cast(writer *w, int type, const char *x) {
  const char *name = new_name(w);
  attributes a = {.count = 0};
  add_int(&a, "to", type);
  return put_node(w, "Cast", name, name, &a, x, (char *)NULL);
}

/* Rows, normalised by columns: (x - mean) / std in double. */
static void write_row_input(writer *w, const hd_shape *shape) {
  const int64_t dim[] = {shape->dim[0], shape->rank > 1 ? shape->dim[1] : 1, shape->rank > 2 ? shape->dim[2] : 1};
  const size_t rank = (size_t)shape->rank;
  put_tensor(w, "pixels/mean", DOUBLE, w->net->mean, dim, rank);
  put_tensor(w, "pixels/std", DOUBLE, w->net->std, dim, rank);
  const char *centred = step(w, "Sub", cast(w, DOUBLE, "pixels"), "pixels/mean");
  attributes a = {.count = 0};
  add_int(&a, "to", FLOAT);
  finish(w, "Cast", &a, step(w, "Div", centred, "pixels/std"), NULL);
}

static void write_input(writer *w) {
  const hd_graph *graph = w->net->graph;
  const hd_shape *shape = &graph->values[graph->input].shape;
  const int64_t dim[] = {hd__shape_image(shape).dim[0], 1, 1};
  const size_t rank = (size_t)shape->rank;
  if (w->places) {
    const hd_shape places = {1, {shape->dim[shape->rank - 1]}};
    write_value(w, strcpy(w->value[graph->input], "tokens"), &places, INT64);
    return;
  }
  w->layer = "pixels";
  w->out = strcpy(w->value[graph->input], "pixels/normalised");
  write_value(w, "pixels", shape, FLOAT);
  if (w->net->mean) {
    write_row_input(w, shape);
    return;
  }
  put_tensor(w, "pixels/scale", FLOAT, w->net->scale, dim, rank);
  put_tensor(w, "pixels/shift", FLOAT, w->net->shift, dim, rank);
  finish(w, "Add", NULL, step(w, "Mul", "pixels", "pixels/scale"), "pixels/shift");
}

/* Scores become numbers on the scale of the targets. */
static void write_unscaling(writer *w) {
  const hd_graph *graph = w->net->graph;
  const int64_t dim[] = {hd__shape_elems(&graph->values[graph->logits].shape)};
  const char *scaled = w->value[graph->logits];
  w->layer = "scores";
  w->out = "scores";
  w->names = 0;
  put_tensor(w, "scores/mean", DOUBLE, w->net->target_mean, dim, 1);
  put_tensor(w, "scores/std", DOUBLE, w->net->target_std, dim, 1);
  const char *spread = step(w, "Mul", cast(w, DOUBLE, scaled), "scores/std");
  attributes a = {.count = 0};
  add_int(&a, "to", FLOAT);
  finish(w, "Cast", &a, step(w, "Add", spread, "scores/mean"), NULL);
}

/* Whether the input is tokens, which one layer makes channels of places of. */
static bool reads_tokens(const hd_graph *graph) {
  int reader;
  const hd_shape *shape = &graph->values[graph->input].shape;
  return hd__graph_reads(graph, graph->input, &reader) == 1 && graph->nodes[reader].op == HD_OP_embedding &&
         hd__shape_elems(shape) == shape->dim[shape->rank - 1];
}

/* Scores for each place, or one after the other; or those of each head. */
static void write_scores(writer *w) {
  const hd_node *joined = joined_of(w->net->graph);
  for (int k = 0; k < HD_MAX_IN && joined && joined->in[k] >= 0; k++)
    write_value(w, w->value[joined->in[k]], &w->net->graph->values[joined->in[k]].shape, 0);
  if (joined)
    return;
  const hd_shape *shape = &w->net->graph->values[w->net->graph->logits].shape;
  const hd_shape places = {2, {shape->dim[2], shape->dim[0]}};
  write_value(w, "scores", w->places && shape->rank == 3 ? &places : shape, 0);
}

static hd_status write_graph(writer *w) {
  const hd_graph *graph = w->net->graph;
  w->places = reads_tokens(graph);
  HdOnnx__Graph head = HD_ONNX__GRAPH__INIT;
  head.name = (char *)w->net->name;
  pack(w->to, &head.base);
  for (int p = 0; p < graph->param_count; p++)
    write_param(w, &graph->params[p], w->net->param[p]);
  write_input(w);
  for (int i = 0; i < graph->node_count; i++)
    if (!hd__op_info(graph->nodes[i].op)->rule->loss)
      HD_TRY(write_layer(w, &graph->nodes[i]));
  if (w->net->target_mean)
    write_unscaling(w);
  write_scores(w);
  return HD_OK;
}

/* An entry of the file's metadata. */
typedef struct entry {
  const char *key, *value; /* NULL: there is none */
} entry;

/* The losses of heads, as model files state them: their weights and settings to the last bit. */
static void describe_losses(entry *out, char text[HD_LOSS_HEADS][2][HEAD_BYTES], const hd_graph *graph) {
  const hd_weighted_sum_geom *sum = &hd__graph_loss_node(graph)->geom.weighted_sum;
  for (int k = 0; joined_of(graph) && k < sum->heads; k++) {
    const hd_loss_head *h = &sum->head[k];
    const bool is_mean = h->loss != HD_HEAD_CROSS_ENTROPY;
    char weight[HD_NUMBER_BYTES], setting[HD_NUMBER_BYTES];
    hd__format_double(weight, (double)h->share * (is_mean ? h->count : 1));
    hd__format_float(setting, h->setting);
    hd_line line = {.text = text[k][1], .bytes = HEAD_BYTES};
    hd__line_add(&line, "{op: %s, loss_weight: %s", hd__op_info(hd__head_op(h))->name, weight);
    if (h->loss == HD_HEAD_CROSS_ENTROPY || h->loss == HD_HEAD_HUBER)
      hd__line_add(&line, ", %s: %s", is_mean ? "delta" : "label_smoothing", setting);
    hd__line_add(&line, "}");
    snprintf(text[k][0], HEAD_BYTES, HD_ONNX_HEAD_LOSS, k);
    out[k] = (entry){text[k][0], text[k][1]};
  }
}

/* The fields of the model, then its graph: a key and a length before the fields. */
static void write_model(FILE *to, const hd_onnx_network *net, const char *graph, size_t length) {
  HdOnnx__Model model = HD_ONNX__MODEL__INIT;
  HdOnnx__OperatorSet opset = HD_ONNX__OPERATOR_SET__INIT, *opsets = &opset;
  entry all[ENTRIES] = {{"heddle.loss", hd__op_info(hd__graph_loss_node(net->graph)->op)->name},
                        {"class_names", net->class_names},
                        {"features", net->features},
                        {"transforms", net->transforms}};
  char losses[HD_LOSS_HEADS][2][HEAD_BYTES];
  describe_losses(all + ENTRIES - HD_LOSS_HEADS, losses, net->graph);
  HdOnnx__Entry item[ENTRIES], *entries[ENTRIES];
  for (int i = 0; i < ENTRIES; i++) {
    if (!all[i].value)
      continue;
    entries[model.n_metadata_props] = &item[i];
    hd_onnx__entry__init(&item[i]);
    item[i].key = (char *)all[i].key;
    item[i].value = (char *)all[i].value;
    model.n_metadata_props++;
  }
  opset.domain = "";
  opset.has_version = model.has_ir_version = 1;
  opset.version = OPSET;
  model.ir_version = IR_VERSION;
  model.producer_name = "heddle";
  model.producer_version = (char *)hd__version();
  model.opset_import = &opsets;
  model.metadata_props = entries;
  model.n_opset_import = 1;
  pack(to, &model.base);
  fputc(7 << 3 | 2, to);
  size_t rest = length;
  for (; rest > 0x7f; rest >>= 7)
    fputc((int)(rest & 0x7f) | 0x80, to);
  fputc((int)rest, to);
  fwrite(graph, 1, length, to);
}

static size_t length_of(const char *text) { return text ? strlen(text) : 0; }

hd_status hd__onnx_write(FILE *to, hd_ctx *ctx, const hd_onnx_network *network) {
  char *graph = NULL;
  size_t length = 0;
  writer w = {.to = open_memstream(&graph, &length), .ctx = ctx, .net = network};
  HD_OWNED char(*value)[NAME_BYTES] = w.value = hd__calloc((size_t)network->graph->value_count, sizeof *value);
  const bool ready = w.to && value;
  hd_status status = ready ? write_graph(&w) : HD_E_NOMEM;
  bool whole = ready && !ferror(w.to) && !w.failed;
  whole = w.to && fclose(w.to) == 0 && whole;
  if (!whole)
    status = hd__fail(ctx, HD_E_NOMEM, "out of memory for an ONNX file");
  else if (status == HD_OK && (int64_t)(length + length_of(network->class_names) + length_of(network->features) +
                                        length_of(network->transforms)) > MOST_BYTES - 1024)
    status = hd__fail(ctx, HD_E_UNSUPPORTED,
                      "expected at most 2 GiB of weights for an ONNX file, found %zu bytes; export "
                      "to C, or use model.safetensors",
                      length);
  if (status == HD_OK)
    write_model(to, network, graph, length);
  free(graph);
  return status;
}

#endif
