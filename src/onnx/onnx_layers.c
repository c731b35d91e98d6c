/* A layer for each operator of an ONNX file; see onnx_reader.h. An operator that heddle lacks is refused with the
 * node's name. */
#ifdef HD_HAVE_ONNX

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/number.h"
#include "onnx/onnx_reader.h"

/* ---- Names ---- */

/* Takes a name for a layer; false: another layer has it, which may have changed its node's entry in r->layer to a later
 * layer. r->taken is a hash table with more than twice the room. */
static bool take_name(hd_onnx_reader *r, const char *name) {
  size_t at = 0xcbf29ce484222325;
  for (const char *c = name; *c; c++)
    at = (at ^ (unsigned char)*c) * 0x100000001b3;
  for (at %= HD_ONNX_NAMES; *r->taken_name[at]; at = (at + 1) % HD_ONNX_NAMES)
    if (!strcmp(r->taken_name[at], name))
      return false;
  if (!strcmp(name, "input") || !strcmp(name, "above") || !strcmp(name, r->layer[r->graph->n_node]))
    return false;
  strcpy(r->taken_name[at], name);
  return true;
}

/* A name in the form of layers' names: "/layer1/conv1/Conv" is layer1.conv1.Conv. */
static void clean_name(char out[HD_ONNX_NAME_BYTES], const char *name, size_t length) {
  size_t n = 0;
  for (size_t i = 0; i < length && n < 48; i++) {
    const char c = name[i] == '/' || name[i] == ':' ? '.' : name[i];
    if (isalnum((unsigned char)c) && (unsigned char)c < 0x80)
      out[n++] = c;
    else if (n > 0)
      out[n++] = c == '.' || c == '-' ? c : '_';
  }
  out[n] = 0;
}

/* The name of a layer: of its weight, else of its node, else of its operator; with a number if it is taken. */
static void choose_name(char out[HD_ONNX_NAME_BYTES], hd_onnx_reader *r, const HdOnnx__Node *node, const char *weight) {
  static const char suffix[] = ".weight";
  const size_t length = strlen(weight), tail = sizeof suffix - 1;
  char base[HD_ONNX_NAME_BYTES] = "";
  if (length > tail && !strcmp(weight + length - tail, suffix))
    clean_name(base, weight, length - tail);
  if (!*base && node->name)
    clean_name(base, node->name, strlen(node->name));
  if (!*base)
    clean_name(base, node->op_type, strlen(node->op_type));
  snprintf(out, HD_ONNX_NAME_BYTES, "%s", *base ? base : "layer");
  for (int i = hd__onnx_index(r, node); !take_name(r, out); i++)
    snprintf(out, HD_ONNX_NAME_BYTES, "%.48s_%d", *base ? base : "layer", i);
}

/* Makes the layer of a node; its name is that of `weight` without the suffix, if that has one, else the node's. The
 * description follows in braces. *layer, if not NULL, gets the name. */
static hd_status __attribute__((format(printf, 5, 6)))
put_layer(const char **layer, hd_onnx_reader *r, const HdOnnx__Node *node, const char *weight, const char *fmt, ...) {
  char name[HD_ONNX_NAME_BYTES];
  va_list args;
  if (++r->layers > HD_ONNX_LAYERS)
    return hd__onnx_refuse(r, node, "expected at most %d layers, found more; use a smaller network", HD_ONNX_LAYERS);
  choose_name(name, r, node, weight ? weight : "");
  fprintf(r->text, "  - \"%s\": {", name);
  va_start(args, fmt);
  vfprintf(r->text, fmt, args);
  va_end(args);
  fprintf(r->text, "}\n");
  char *at = r->layer[hd__onnx_index(r, node)];
  strcpy(at, name);
  if (layer)
    *layer = at;
  return HD_OK;
}

/* ---- Windows ---- */

/* Two numbers of an attribute; `both`: four, with equal values at both ends. */
static hd_status sides(int64_t out[2], hd_onnx_reader *r, const HdOnnx__Node *node, const char *name, int64_t fallback,
                       bool both) {
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, name);
  const size_t count = both ? 4 : 2;
  out[0] = out[1] = fallback;
  if (!a || a->n_ints == 0)
    return HD_OK;
  if (a->n_ints != count)
    return hd__onnx_refuse(r, node, "expected %zu numbers as '%s', for images, found %zu; use layers for images", count,
                           name, a->n_ints);
  if (both && (a->ints[0] != a->ints[2] || a->ints[1] != a->ints[3]))
    return hd__onnx_refuse(r, node, "expected equal padding at both ends, found different ones; pad both ends equally");
  memcpy(out, a->ints, 2 * sizeof *out);
  return HD_OK;
}

typedef struct window {
  int64_t kernel[2], stride[2], padding[2], dilation[2];
} window;

static hd_status read_window(window *w, hd_onnx_reader *r, const HdOnnx__Node *node) {
  HD_TRY(sides(w->kernel, r, node, "kernel_shape", 0, false));
  HD_TRY(sides(w->stride, r, node, "strides", 1, false));
  HD_TRY(sides(w->dilation, r, node, "dilations", 1, false));
  HD_TRY(sides(w->padding, r, node, "pads", 0, true));
  const HdOnnx__Attribute *automatic = hd__onnx_attribute(node, "auto_pad");
  if (automatic && !hd__onnx_text(node, "auto_pad", "NOTSET") && !hd__onnx_text(node, "auto_pad", "VALID"))
    return hd__onnx_refuse(r, node, "expected padding in numbers, found auto_pad; export it with 'pads'");
  return HD_OK;
}

#define PAIR "[%lld, %lld]"
#define OF(pair) (long long)(pair)[0], (long long)(pair)[1]

static bool same_value(const hd_onnx_reader *r, const char *a, const char *b) {
  return !strcmp(hd__onnx_resolve(r, a), hd__onnx_resolve(r, b));
}

/* The layer that has these parameters already, "" if there is none. */
static const char *find_owner(const hd_onnx_reader *r, const HdOnnx__Node *node) {
  for (size_t i = 0; i < r->graph->n_node && *hd__onnx_input(node, 1); i++) {
    const HdOnnx__Node *other = r->graph->node[i];
    if (*r->layer[i] && other != node && !strcmp(other->op_type, node->op_type) &&
        hd__onnx_int(other, "transB", 0) == hd__onnx_int(node, "transB", 0) &&
        same_value(r, hd__onnx_input(other, 1), hd__onnx_input(node, 1)) &&
        same_value(r, hd__onnx_input(other, 2), hd__onnx_input(node, 2)))
      return r->layer[i];
  }
  return "";
}

/* The prefix of the owner's name, if there is an owner. */
static const char *parameters(bool shares, bool has_bias) {
  return shares ? ", share: " : has_bias ? "" : ", bias: false";
}

/* The weight and the bias, if there is one, of a layer that shares none. */
static hd_status add_weights(hd_onnx_reader *r, const HdOnnx__Node *node, const char *layer, const char *weight,
                             const char *bias, hd_onnx_order order) {
  HD_TRY(hd__onnx_add_weight(r, node, layer, "weight", weight, order));
  return *bias ? hd__onnx_add_weight(r, node, layer, "bias", bias, HD_ONNX_AS_VECTOR) : HD_OK;
}

static hd_status read_conv(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  const char *weight = hd__onnx_input(node, 1), *bias = hd__onnx_input(node, 2), *owner = find_owner(r, node), *layer;
  const bool transposed = !strcmp(node->op_type, "ConvTranspose");
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, weight);
  const long long groups = hd__onnx_int(node, "group", 1);
  window w;
  int64_t more[2];
  HD_TRY(read_window(&w, r, node));
  HD_TRY(sides(more, r, node, "output_padding", 0, false));
  if (!t || t->n_dims != 4 || groups < 1 || groups > 1 << 20 || hd__onnx_attribute(node, "output_shape"))
    return hd__onnx_refuse(
        r, node, "expected a constant weight of 4 dimensions, %s, found something else; use layers for images",
        transposed ? "and no output_shape" : "and groups");
  for (int i = 0; i < 4; i++)
    if (t->dims[i] < 1 || t->dims[i] > HD_ONNX_MOST_SIDE || (i > 1 && w.kernel[i - 2] && w.kernel[i - 2] != t->dims[i]))
      return hd__onnx_refuse(r, node,
                             "expected a weight of sides from 1 to %d that agree with kernel_shape, found others",
                             HD_ONNX_MOST_SIDE);
  const long long out = transposed ? t->dims[1] * groups : t->dims[0];
  char extra[64] = "";
  if (transposed)
    snprintf(extra, sizeof extra, ", output_padding: " PAIR, OF(more));
  HD_TRY(put_layer(&layer, r, node, *owner ? NULL : hd__onnx_resolve(r, weight),
                   "op: %s, from: \"%s\", out: %lld, kernel: " PAIR ", stride: " PAIR ", padding: " PAIR
                   ", dilation: " PAIR ", groups: %lld%s%s%s",
                   transposed ? "conv_transpose2d" : "conv2d", x, out, OF(t->dims + 2), OF(w.stride), OF(w.padding),
                   OF(w.dilation), groups, extra, parameters(*owner, *bias), owner));
  return *owner ? HD_OK : add_weights(r, node, layer, weight, bias, HD_ONNX_AS_IT_IS);
}

static hd_status read_pool(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  const bool mean = !strcmp(node->op_type, "AveragePool");
  window w;
  HD_TRY(read_window(&w, r, node));
  if (w.dilation[0] != 1 || w.dilation[1] != 1)
    return hd__onnx_refuse(r, node, "expected a pool without dilation, found one; leave it out");
  return put_layer(NULL, r, node, NULL,
                   "op: %s, from: \"%s\", kernel: " PAIR ", stride: " PAIR ", padding: " PAIR "%s%s",
                   mean ? "avg_pool2d" : "max_pool2d", x, OF(w.kernel), OF(w.stride), OF(w.padding),
                   !mean                                        ? ""
                   : hd__onnx_int(node, "count_include_pad", 0) ? ", count_include_pad: true"
                                                                : ", count_include_pad: false",
                   hd__onnx_int(node, "ceil_mode", 0) ? ", ceil_mode: true" : "");
}

/* ---- Linear layers ---- */

/* A linear layer of x; `weight` is a matrix of inputs x outputs unless `by_outputs`. */
static hd_status read_linear(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x, const char *weight,
                             const char *bias, bool by_outputs) {
  const HdOnnx__Node *turned = hd__onnx_producer(r, weight, "Transpose");
  const HdOnnx__Attribute *perm = turned ? hd__onnx_attribute(turned, "perm") : NULL;
  const char *matrix = turned ? hd__onnx_input(turned, 0) : weight, *layer, *from;
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, matrix);
  by_outputs ^= turned && (!perm || (perm->n_ints == 2 && perm->ints[0] == 1));
  if (!t || t->n_dims != 2)
    return hd__onnx_refuse(r, node,
                           "expected a constant matrix as weight, found another value; heddle has no products of "
                           "two computed values");
  HD_TRY(hd__onnx_layer(&from, r, x));
  const char *owner = strcmp(node->op_type, "Add") ? find_owner(r, node) : ""; /* now that those before are made */
  HD_TRY(put_layer(&layer, r, node, *owner ? NULL : hd__onnx_resolve(r, matrix),
                   "op: linear, from: \"%s\", out: %lld%s%s", from, (long long)t->dims[by_outputs ? 0 : 1],
                   parameters(*owner, *bias), owner));
  return *owner ? HD_OK : add_weights(r, node, layer, matrix, bias, by_outputs ? HD_ONNX_AS_IT_IS : HD_ONNX_TRANSPOSED);
}

static hd_status read_gemm(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  if (hd__onnx_float(node, "alpha", 1) != 1 || hd__onnx_float(node, "beta", 1) != 1 || hd__onnx_int(node, "transA", 0))
    return hd__onnx_refuse(r, node, "expected alpha 1, beta 1 and transA 0, found others; export it as a linear layer");
  return read_linear(r, node, hd__onnx_input(node, 0), hd__onnx_input(node, 1), hd__onnx_input(node, 2),
                     hd__onnx_int(node, "transB", 0) != 0);
}

static hd_status read_matmul(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  return read_linear(r, node, hd__onnx_input(node, 0), hd__onnx_input(node, 1), "", false);
}

/* ---- Norms ---- */

/* "1e-05" */
static const char *eps_of(char text[HD_NUMBER_BYTES], const HdOnnx__Node *node) {
  hd__format_float(text, hd__onnx_float(node, "epsilon", 1e-5f));
  return text;
}

static hd_status read_batch_norm(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  static const char *const suffix[] = {"weight", "bias", "running_mean", "running_var"};
  char eps[HD_NUMBER_BYTES], momentum[HD_NUMBER_BYTES];
  const char *layer;
  double kept = 0; /* as a decimal number: 1 - 0.9 is 0.1 */
  if (hd__onnx_int(node, "training_mode", 0) != 0 || hd__onnx_int(node, "spatial", 1) != 1)
    return hd__onnx_refuse(
        r, node, "expected training_mode 0 and spatial 1, found others; export the network in evaluation mode");
  hd__format_float(momentum, hd__onnx_float(node, "momentum", 0.9f));
  hd__parse_double(&kept, momentum);
  hd__format_float(momentum, (float)(1 - kept));
  HD_TRY(put_layer(&layer, r, node, hd__onnx_resolve(r, hd__onnx_input(node, 1)),
                   "op: batch_norm, from: \"%s\", eps: %s, momentum: %s", x, eps_of(eps, node), momentum));
  for (int i = 0; i < 4; i++)
    HD_TRY(hd__onnx_add_weight(r, node, layer, suffix[i], hd__onnx_input(node, 1 + (size_t)i), HD_ONNX_AS_VECTOR));
  return HD_OK;
}

static hd_status read_layer_norm(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  char eps[HD_NUMBER_BYTES];
  const char *weight = hd__onnx_input(node, 1), *bias = hd__onnx_input(node, 2), *layer;
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, weight);
  const int64_t axis = hd__onnx_int(node, "axis", -1);
  if (t && axis != 1 && axis != -(int64_t)t->n_dims)
    return hd__onnx_refuse(r, node, "expected a norm over whole samples, from axis 1, found axis %lld",
                           (long long)axis);
  HD_TRY(put_layer(&layer, r, node, hd__onnx_resolve(r, weight), "op: layer_norm, from: \"%s\", eps: %s", x,
                   eps_of(eps, node)));
  HD_TRY(hd__onnx_add_weight(r, node, layer, "weight", weight, HD_ONNX_AS_IT_IS));
  if (*bias)
    return hd__onnx_add_weight(r, node, layer, "bias", bias, HD_ONNX_AS_IT_IS);
  const hd_shape shape = r->out->weights.tensor[r->out->weights.count - 1].shape;
  HD_TRY(hd__onnx_add_equal(r, layer, "bias", hd__shape_elems(&shape), 0));
  r->out->weights.tensor[r->out->weights.count - 1].shape = shape;
  return HD_OK;
}

static bool turns(const HdOnnx__Node *node, const int64_t perm[4]) {
  const HdOnnx__Attribute *a = node ? hd__onnx_attribute(node, "perm") : NULL;
  return a && a->n_ints == 4 && !memcmp(a->ints, perm, 4 * sizeof *perm);
}

/* A layer norm of the channels, which are last between two transpositions. */
static hd_status read_transpose(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  static const int64_t last[] = {0, 2, 3, 1}, back[] = {0, 3, 1, 2};
  const HdOnnx__Node *norm = hd__onnx_producer(r, hd__onnx_input(node, 0), "LayerNormalization");
  const HdOnnx__Node *before = norm ? hd__onnx_producer(r, hd__onnx_input(norm, 0), "Transpose") : NULL;
  const int64_t axis = norm ? hd__onnx_int(norm, "axis", -1) : 0;
  const char *layer;
  char eps[HD_NUMBER_BYTES];
  if (!turns(node, back) || !turns(before, last) || (axis != -1 && axis != 3) || !*hd__onnx_input(norm, 2))
    return hd__onnx_refuse(r, node,
                           "expected transpositions around a layer norm of the channels, found another one; heddle's "
                           "images have one order");
  HD_TRY(hd__onnx_layer(&x, r, hd__onnx_input(before, 0)));
  HD_TRY(put_layer(&layer, r, node, hd__onnx_resolve(r, hd__onnx_input(norm, 1)),
                   "op: layer_norm2d, from: \"%s\", eps: %s", x, eps_of(eps, norm)));
  return add_weights(r, node, layer, hd__onnx_input(norm, 1), hd__onnx_input(norm, 2), HD_ONNX_AS_VECTOR);
}

/* GroupNormalization, and InstanceNormalization, whose groups are the channels. */
static hd_status read_group_norm(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  char eps[HD_NUMBER_BYTES];
  const char *weight = hd__onnx_input(node, 1), *layer;
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, weight);
  const long long channels = t && t->n_dims == 1 ? t->dims[0] : 0;
  HD_TRY(put_layer(&layer, r, node, hd__onnx_resolve(r, weight), "op: group_norm, from: \"%s\", groups: %lld, eps: %s",
                   x, (long long)hd__onnx_int(node, "num_groups", channels), eps_of(eps, node)));
  return add_weights(r, node, layer, weight, hd__onnx_input(node, 2), HD_ONNX_AS_VECTOR);
}

/* ---- Shapes ---- */

static void expect_flat(hd_onnx_reader *r, const char *layer, int64_t elems) {
  r->flat[r->flats++] = (hd_onnx_flat){layer, elems};
}

static hd_status read_flatten(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  if (hd__onnx_int(node, "axis", 1) != 1)
    return hd__onnx_refuse(r, node, "expected axis 1, found %lld; flatten whole samples",
                           (long long)hd__onnx_int(node, "axis", 1));
  return put_layer(NULL, r, node, NULL, "op: flatten, from: \"%s\"", x);
}

/* Samples as flat values, whatever the batch is: [-1, N], [B, N] and the like. */
static hd_status read_reshape(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  int64_t shape[8];
  const char *layer;
  if (hd__onnx_ints(shape, r, hd__onnx_input(node, 1)) != 2 || shape[1] == 0)
    return hd__onnx_refuse(r, node,
                           "expected a constant shape [batch, elements], found another; flatten whole samples");
  HD_TRY(put_layer(&layer, r, node, NULL, "op: flatten, from: \"%s\"", x));
  expect_flat(r, layer, shape[1] < 0 ? 0 : shape[1]);
  return HD_OK;
}

/* The axes of a node: an attribute in older opsets, an input in later ones. */
static int axes_of(int64_t axis[8], const hd_onnx_reader *r, const HdOnnx__Node *node) {
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, "axes");
  const int count = a ? (int)(a->n_ints < 8 ? a->n_ints : 0) : hd__onnx_ints(axis, r, hd__onnx_input(node, 1));
  if (a && count)
    memcpy(axis, a->ints, (size_t)count * sizeof *axis);
  return count;
}

static bool over_channels(const hd_onnx_reader *r, const HdOnnx__Node *node) {
  int64_t axis[8];
  return axes_of(axis, r, node) == 1 && axis[0] == 1;
}

static bool over_pixels(const hd_onnx_reader *r, const HdOnnx__Node *node) {
  int64_t axis[8];
  if (axes_of(axis, r, node) != 2)
    return false;
  for (int i = 0; i < 2; i++)
    axis[i] += axis[i] < 0 ? 4 : 0;
  return (axis[0] == 2 && axis[1] == 3) || (axis[0] == 3 && axis[1] == 2);
}

/* ReduceMean and ReduceMax. */
static hd_status read_line(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  const bool is_mean = !strcmp(node->op_type, "ReduceMean");
  char *at = r->layer[hd__onnx_index(r, node)], pool[HD_ONNX_NAME_BYTES];
  if (over_channels(r, node) && hd__onnx_int(node, "keepdims", 1))
    return put_layer(NULL, r, node, NULL, "op: %s, from: \"%s\", over: channels", is_mean ? "mean" : "max", x);
  if (!over_pixels(r, node))
    return hd__onnx_refuse(r, node,
                           "expected height and width, axes 2 and 3, or axis 1 with keepdims, found other axes; heddle "
                           "has no other mean or maximum");
  HD_TRY(put_layer(NULL, r, node, NULL, "op: %s, from: \"%s\"", is_mean ? "global_avg_pool2d" : "max", x));
  if (hd__onnx_int(node, "keepdims", 1))
    return HD_OK;
  memcpy(pool, at, sizeof pool);
  return put_layer(NULL, r, node, NULL, "op: flatten, from: \"%s\"", pool);
}

static hd_status read_squeeze(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  if (!over_pixels(r, node))
    return hd__onnx_refuse(r, node, "expected axes 2 and 3, found others; flatten whole samples");
  return put_layer(NULL, r, node, NULL, "op: flatten, from: \"%s\"", x);
}

/* Before this version a softmax is over its axis and all later ones. */
enum { SOFTMAX_OF_ONE_AXIS = 13 };

static hd_status read_softmax(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  const char *op = strcmp(node->op_type, "Softmax") ? "log_softmax" : "softmax";
  const int64_t axis = hd__onnx_int(node, "axis", r->opset < SOFTMAX_OF_ONE_AXIS ? 1 : -1);
  const char *layer;
  if (axis != 1 && axis != -1)
    return hd__onnx_refuse(r, node, "expected a softmax over channels, axis 1, found axis %lld", (long long)axis);
  HD_TRY(put_layer(&layer, r, node, NULL, "op: %s, from: \"%s\"", op, x));
  if (axis == -1 || r->opset < SOFTMAX_OF_ONE_AXIS)
    expect_flat(r, layer, 0);
  return HD_OK;
}

static hd_status read_concat(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  char list[HD_MAX_IN * (HD_ONNX_NAME_BYTES + 4)] = "";
  if (hd__onnx_int(node, "axis", 0) != 1 || node->n_input > HD_MAX_IN)
    return hd__onnx_refuse(
        r, node, "expected at most %d values along axis 1, found %zu along axis %lld; concatenate in several steps",
        HD_MAX_IN, node->n_input, (long long)hd__onnx_int(node, "axis", 0));
  for (size_t i = 0; i < node->n_input; i++) {
    const char *from;
    HD_TRY(hd__onnx_layer(&from, r, node->input[i]));
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s\"%s\"", i ? ", " : "", from);
  }
  return put_layer(NULL, r, node, NULL, "op: concat, from: [%s]", list);
}

/* Add, Mul, Sub and Div of two computed values. */
static hd_status read_binary(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  static const char *const ops[] = {"add", "sub", "mul", "div"};
  const char *op = ops[strcspn("ASMD", (char[]){*node->op_type, 0})], *a, *b;
  for (size_t i = 0; i < 2; i++)
    if (hd__onnx_tensor(r, hd__onnx_input(node, i)))
      return hd__onnx_refuse(r, node,
                             "expected two computed values, found the constant '%.80s'; heddle has constants only as "
                             "factors, and in linear layers and norms",
                             hd__onnx_input(node, i));
  HD_TRY(hd__onnx_layer(&a, r, hd__onnx_input(node, 0)));
  HD_TRY(hd__onnx_layer(&b, r, hd__onnx_input(node, 1)));
  return put_layer(NULL, r, node, NULL, "op: %s, from: [\"%s\", \"%s\"]", op, a, b);
}

/* Channels start to end - 1. */
static hd_status read_slice(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  int64_t start[8], end[8], axis[8], stride[8] = {1};
  const bool one = hd__onnx_ints(start, r, hd__onnx_input(node, 1)) == 1 &&
                   hd__onnx_ints(end, r, hd__onnx_input(node, 2)) == 1 &&
                   hd__onnx_ints(axis, r, hd__onnx_input(node, 3)) == 1 && axis[0] == 1;
  if (*hd__onnx_input(node, 4) && hd__onnx_ints(stride, r, hd__onnx_input(node, 4)) != 1)
    stride[0] = 0;
  if (!one || stride[0] != 1 || start[0] < 0 || end[0] < 0)
    return hd__onnx_refuse(r, node,
                           "expected constant channels from start to end, axis 1 with step 1, found another "
                           "slice; take neighbouring channels");
  return put_layer(NULL, r, node, NULL, "op: slice, from: \"%s\", start: %lld, end: %lld", x, (long long)start[0],
                   end[0] > 1 << 20 ? 0 : (long long)end[0]);
}

/* Resize by whole factors or to a size. */
static hd_status read_resize(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  const bool nearest = hd__onnx_text(node, "mode", "nearest") || !hd__onnx_attribute(node, "mode");
  const bool aligned = hd__onnx_text(node, "coordinate_transformation_mode", "align_corners");
  const bool plain = hd__onnx_text(node, "coordinate_transformation_mode", "asymmetric") &&
                     hd__onnx_text(node, "nearest_mode", "floor");
  const bool half = hd__onnx_text(node, "coordinate_transformation_mode", "half_pixel") ||
                    hd__onnx_text(node, "coordinate_transformation_mode", "pytorch_half_pixel") ||
                    !hd__onnx_attribute(node, "coordinate_transformation_mode");
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, hd__onnx_input(node, 2));
  const char *name = "scale_factor";
  int64_t size[8] = {0};
  float scale[4];
  if (t && t->n_dims == 1 && t->dims[0] == 4 && hd__onnx_floats(scale, t, 4) && scale[0] == 1 && scale[1] == 1 &&
      scale[2] >= 1 && scale[2] <= 1024 && scale[3] >= 1 && scale[3] <= 1024 && scale[2] == floorf(scale[2]) &&
      scale[3] == floorf(scale[3])) {
    size[2] = (int64_t)scale[2];
    size[3] = (int64_t)scale[3];
  } else if (hd__onnx_ints(size, r, hd__onnx_input(node, 3)) == 4) {
    name = "size";
  } else {
    size[2] = 0;
  }
  if (size[2] < 1 || size[3] < 1 || !(nearest ? plain : (aligned || half) && hd__onnx_text(node, "mode", "linear")))
    return hd__onnx_refuse(
        r, node,
        "expected constant whole factors or sizes of height and width; mode nearest (asymmetric, "
        "floor) or linear (half_pixel or align_corners), found others; resize as PyTorch's Upsample");
  return put_layer(NULL, r, node, NULL, "op: upsample, from: \"%s\", %s: [%lld, %lld], mode: %s%s", x, name,
                   (long long)size[2], (long long)size[3], nearest ? "nearest" : "bilinear",
                   !nearest && aligned ? ", align_corners: true" : "");
}

static hd_status read_pad(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  static const char *const modes[][2] = {{"constant", "zero"}, {"reflect", "reflect"}, {"edge", "replicate"}};
  const HdOnnx__Attribute *given = hd__onnx_attribute(node, "pads");
  const char *mode = hd__onnx_attribute(node, "mode") ? NULL : "zero";
  int64_t p[8];
  double value = (double)hd__onnx_float(node, "value", 0);
  int count = given ? (int)(given->n_ints == 8 ? 8 : 0) : hd__onnx_ints(p, r, hd__onnx_input(node, 1));
  if (given && count)
    memcpy(p, given->ints, sizeof p);
  for (int i = 0; i < 3; i++)
    mode = hd__onnx_text(node, "mode", modes[i][0]) ? modes[i][1] : mode;
  if (*hd__onnx_input(node, 2) && !hd__onnx_scalar(&value, r, hd__onnx_input(node, 2)))
    value = (double)NAN;
  bool good = count == 8 && mode && value == 0 && !p[0] && !p[1] && !p[4] && !p[5];
  for (int i = 0; good && i < 8; i++)
    good = p[i] >= 0 && p[i] <= 1024;
  if (!good)
    return hd__onnx_refuse(r, node,
                           "expected constant pads of height and width, from 0 to 1024, with zeros, reflect or edge, "
                           "found others; pad images alone");
  return put_layer(NULL, r, node, NULL, "op: pad, from: \"%s\", padding: [%lld, %lld], end: [%lld, %lld], mode: %s", x,
                   (long long)p[2], (long long)p[3], (long long)p[6], (long long)p[7], mode);
}

/* ---- Elements ---- */

static hd_status read_plain(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  static const char *const op[][2] = {
      {"Relu", "relu"},           {"Sigmoid", "sigmoid"},   {"Tanh", "tanh"},
      {"HardSwish", "hardswish"}, {"Softplus", "softplus"}, {"Mish", "mish"},
      {"Selu", "selu"},           {"GlobalMaxPool", "max"}, {"GlobalAveragePool", "global_avg_pool2d"}};
  size_t i = 0;
  while (i + 1 < sizeof op / sizeof *op && strcmp(op[i][0], node->op_type))
    i++;
  return put_layer(NULL, r, node, NULL, "op: %s, from: \"%s\"", op[i][1], x);
}

/* LeakyRelu and Elu. */
static hd_status read_slope(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  const bool is_elu = !strcmp(node->op_type, "Elu");
  char alpha[HD_NUMBER_BYTES];
  hd__format_float(alpha, hd__onnx_float(node, "alpha", is_elu ? 1 : 0.01f));
  return put_layer(NULL, r, node, NULL, "op: %s, from: \"%s\", %s: %s", is_elu ? "elu" : "leaky_relu", x,
                   is_elu ? "alpha" : "negative_slope", alpha);
}

/* Whether an attribute has a value that heddle's layer has fixed, given here, to the precision of float. */
static hd_status fixed(hd_onnx_reader *r, const HdOnnx__Node *node, const char *name, float standard, double value) {
  const float found = hd__onnx_float(node, name, standard);
  if (fabs((double)found - value) < 1e-6)
    return HD_OK;
  return hd__onnx_refuse(r, node, "expected %s %.6g, which heddle's layer has, found %.6g; use that one", name, value,
                         (double)found);
}

static hd_status read_hardsigmoid(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  HD_TRY(fixed(r, node, "alpha", 0.2f, 1.0 / 6));
  HD_TRY(fixed(r, node, "beta", 0.5f, 0.5));
  return put_layer(NULL, r, node, NULL, "op: hardsigmoid, from: \"%s\"", x);
}

static hd_status read_selu(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  HD_TRY(fixed(r, node, "alpha", 1.67326319f, 1.6732632423543773));
  HD_TRY(fixed(r, node, "gamma", 1.05070102f, 1.0507009873554805));
  return read_plain(r, node, x);
}

/* A limit of a clip: an attribute in older opsets, an input in later ones. */
static hd_status read_limit(float *out, hd_onnx_reader *r, const HdOnnx__Node *node, const char *name, size_t input) {
  const bool is_input = *hd__onnx_input(node, input);
  double value = (double)hd__onnx_float(node, name, input == 1 ? -FLT_MAX : FLT_MAX);
  if (is_input && !hd__onnx_scalar(&value, r, hd__onnx_input(node, input)))
    return hd__onnx_refuse(r, node, "expected a constant '%s', found a computed value; write a number", name);
  *out = (float)value < -FLT_MAX ? -FLT_MAX : (float)value > FLT_MAX ? FLT_MAX : (float)value;
  return HD_OK;
}

static hd_status read_clip(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  char text[2][HD_NUMBER_BYTES];
  float min, max;
  HD_TRY(read_limit(&min, r, node, "min", 1));
  HD_TRY(read_limit(&max, r, node, "max", 2));
  if (min == 0 && max == 6)
    return put_layer(NULL, r, node, NULL, "op: relu6, from: \"%s\"", x);
  hd__format_float(text[0], min);
  hd__format_float(text[1], max);
  return put_layer(NULL, r, node, NULL, "op: clip, from: \"%s\", min: %s, max: %s", x, text[0], text[1]);
}

/* A slope for all elements, or C x 1 x 1, one for each channel. */
static hd_status read_prelu(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  const char *slope = hd__onnx_input(node, 1), *layer;
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, slope);
  const long long weights = t && t->n_dims > 0 ? t->dims[0] : 1;
  bool good = t && weights > 0;
  for (size_t i = 1; t && i < t->n_dims; i++)
    good &= t->dims[i] == 1;
  if (!good)
    return hd__onnx_refuse(r, node,
                           "expected a constant slope, one number or one for each channel (C x 1 x 1), found "
                           "another value; use PyTorch's PReLU");
  HD_TRY(put_layer(&layer, r, node, hd__onnx_resolve(r, slope), "op: prelu, from: \"%s\", num_parameters: %lld", x,
                   weights));
  return hd__onnx_add_weight(r, node, layer, "weight", slope, HD_ONNX_AS_VECTOR);
}

/* x * c, c * x or x / c. */
static hd_status read_scale(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  const bool divides = !strcmp(node->op_type, "Div");
  char factor[HD_NUMBER_BYTES];
  double number;
  for (size_t i = divides ? 1 : 0; i < 2; i++)
    if (hd__onnx_scalar(&number, r, hd__onnx_input(node, i))) {
      HD_TRY(hd__onnx_layer(&x, r, hd__onnx_input(node, 1 - i)));
      hd__format_float(factor, (float)(divides ? 1 / number : number));
      return put_layer(NULL, r, node, NULL, "op: scale, from: \"%s\", factor: %s", x, factor);
    }
  if (!hd__onnx_tensor(r, hd__onnx_input(node, 0)) && !hd__onnx_tensor(r, hd__onnx_input(node, 1)))
    return read_binary(r, node, x);
  return hd__onnx_refuse(r, node,
                         "expected a product of a value and a number, or an activation, found another product; "
                         "docs/export.md lists what is read");
}

static hd_status read_gelu(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  return put_layer(NULL, r, node, NULL, "op: gelu, from: \"%s\", approximate: %s", x,
                   hd__onnx_text(node, "approximate", "tanh") ? "tanh" : "none");
}

static hd_status read_dropout(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  char p[HD_NUMBER_BYTES];
  double ratio;
  bool is_training = false;
  if (*hd__onnx_input(node, 2) && (!hd__onnx_flag(&is_training, r, hd__onnx_input(node, 2)) || is_training))
    return hd__onnx_refuse(
        r, node, "expected training_mode false, found true or a computed value; export the network in evaluation mode");
  if (!hd__onnx_scalar(&ratio, r, hd__onnx_input(node, 1)))
    ratio = (double)hd__onnx_float(node, "ratio", 0.5f);
  hd__format_float(p, (float)ratio);
  return put_layer(NULL, r, node, NULL, "op: dropout, from: \"%s\", p: %s", x, p);
}

/* ---- The table ---- */

static const struct form {
  const char *op;
  hd_status (*read)(hd_onnx_reader *r, const HdOnnx__Node *node, const char *x);
  bool finds_inputs;      /* else x is the layer of the first one */
  const char *attributes; /* attributes that `read` handles, or that change no number */
} forms[] = {
    {"Conv", read_conv, false, "auto_pad dilations group kernel_shape pads strides"},
    {"ConvTranspose", read_conv, false,
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
    {"MaxPool", read_pool, false, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"},
    {"AveragePool", read_pool, false, "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"},
    {"GlobalAveragePool", read_plain, false, ""},
    {"GlobalMaxPool", read_plain, false, ""},
    {"ReduceMean", read_line, false, "axes keepdims noop_with_empty_axes"},
    {"ReduceMax", read_line, false, "axes keepdims noop_with_empty_axes"},
    {"Slice", read_slice, false, ""},
    {"Resize", read_resize, false, "coordinate_transformation_mode cubic_coeff_a mode nearest_mode"},
    {"Pad", read_pad, false, "mode pads value"},
    {"Gemm", read_gemm, true, "alpha beta transA transB"},
    {"MatMul", read_matmul, true, ""},
    {"Add", read_binary, true, ""},
    {"Sub", read_binary, true, ""},
    {"Concat", read_concat, true, "axis"},
    {"Flatten", read_flatten, false, "axis"},
    {"Reshape", read_reshape, false, "allowzero"},
    {"Squeeze", read_squeeze, false, "axes"},
    {"BatchNormalization", read_batch_norm, false, "epsilon momentum spatial training_mode"},
    {"LayerNormalization", read_layer_norm, false, "axis epsilon stash_type"},
    {"Transpose", read_transpose, true, "perm"},
    {"GroupNormalization", read_group_norm, false, "epsilon num_groups stash_type"},
    {"InstanceNormalization", read_group_norm, false, "epsilon"},
    {"Relu", read_plain, false, ""},
    {"LeakyRelu", read_slope, false, "alpha"},
    {"Elu", read_slope, false, "alpha"},
    {"Selu", read_selu, false, "alpha gamma"},
    {"HardSigmoid", read_hardsigmoid, false, "alpha beta"},
    {"HardSwish", read_plain, false, ""},
    {"Softplus", read_plain, false, ""},
    {"Mish", read_plain, false, ""},
    {"Clip", read_clip, false, "min max"},
    {"PRelu", read_prelu, false, ""},
    {"Sigmoid", read_plain, false, ""},
    {"Tanh", read_plain, false, ""},
    {"Gelu", read_gelu, false, "approximate"},
    {"Mul", read_scale, true, ""},
    {"Div", read_scale, true, ""},
    {"Dropout", read_dropout, false, "ratio seed"},
    {"Softmax", read_softmax, false, "axis"},
    {"LogSoftmax", read_softmax, false, "axis"},
};

/* Whether a list of words has one. */
static bool has_word(const char *list, const char *word) {
  const size_t length = strlen(word);
  for (const char *at = list; *at; at += strspn(at, " ")) {
    const size_t next = strcspn(at, " ");
    if (next == length && !memcmp(at, word, length))
      return true;
    at += next;
  }
  return false;
}

/* An attribute that is not read could mean anything; stash_type is that of sums, float32. */
static hd_status check_attributes(hd_onnx_reader *r, const HdOnnx__Node *node, const char *known) {
  if (hd__onnx_int(node, "stash_type", 1) != 1)
    return hd__onnx_refuse(r, node, "expected sums in float32, found stash_type %lld; export it in float32",
                           (long long)hd__onnx_int(node, "stash_type", 1));
  for (size_t i = 0; i < node->n_attribute; i++) {
    const char *name = node->attribute[i]->name;
    if (!name || !has_word(known, name))
      return hd__onnx_refuse(r, node, "expected no attribute '%.40s', found one; export the model without it",
                             name ? name : "");
  }
  return HD_OK;
}

static hd_status make_expression(hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_expression *e) {
  char number[HD_NUMBER_BYTES];
  const char *from, *layer;
  if (e->kind == HD_ONNX_LINEAR)
    return read_linear(r, node, e->x, e->weight, e->bias, false);
  HD_TRY(hd__onnx_layer(&from, r, e->x));
  if (e->kind == HD_ONNX_FUNCTION)
    return put_layer(NULL, r, node, NULL, "%s, from: \"%s\"", e->layer, from);
  if (e->kind == HD_ONNX_SOFTPLUS) {
    hd__format_float(number, e->number);
    return put_layer(NULL, r, node, NULL, "op: softplus, from: \"%s\", beta: %s", from, number);
  }
  if (e->kind == HD_ONNX_RMS_NORM) {
    hd__format_float(number, e->number);
    HD_TRY(put_layer(&layer, r, node, hd__onnx_resolve(r, e->weight), "op: rms_norm, from: \"%s\", eps: %s", from,
                     number));
    return hd__onnx_add_weight(r, node, layer, "weight", e->weight, HD_ONNX_AS_VECTOR);
  }
  HD_TRY(put_layer(&layer, r, node, hd__onnx_resolve(r, e->weight),
                   "op: group_norm, from: \"%s\", groups: %lld, eps: %s", from, (long long)e->groups,
                   eps_of(number, e->norm)));
  return add_weights(r, node, layer, e->weight, e->bias, HD_ONNX_AS_VECTOR);
}

static hd_status make_layer(hd_onnx_reader *r, const HdOnnx__Node *node) {
  const char *x = NULL;
  hd_onnx_expression e;
  hd__onnx_find_expression(&e, r, node);
  if (e.kind != HD_ONNX_NO_EXPRESSION)
    return make_expression(r, node, &e);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (hd__onnx_producer(r, node->output[0], forms[i].op)) {
      HD_TRY(check_attributes(r, node, forms[i].attributes));
      if (!forms[i].finds_inputs)
        HD_TRY(hd__onnx_layer(&x, r, hd__onnx_input(node, 0)));
      return forms[i].read(r, node, x);
    }
  return hd__onnx_refuse(r, node, "expected an operator that heddle has, found %.40s; docs/export.md lists them",
                         node->op_type);
}

hd_status hd__onnx_layer(const char **layer, hd_onnx_reader *r, const char *value) {
  if (hd__onnx_is_input(r, value)) {
    *layer = r->layer_in;
    return hd__onnx_take_input(r, value);
  }
  const HdOnnx__Node *node = hd__onnx_producer(r, value, NULL);
  if (!node || !node->op_type)
    return hd__fail(
        r->ctx, HD_E_UNSUPPORTED,
        "%s: expected a node that computes '%.80s', found none; heddle reads values that follow from one input",
        r->path, value);
  *layer = r->layer[hd__onnx_index(r, node)];
  if (**layer)
    return HD_OK;
  if (++r->depth > HD_ONNX_LAYERS)
    return hd__onnx_refuse(r, node, "expected a chain of at most %d layers, found more, or a cycle", HD_ONNX_LAYERS);
  HD_TRY(make_layer(r, node));
  r->depth--;
  return HD_OK;
}

#endif
