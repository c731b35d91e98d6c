/* A layer for each operator of an ONNX file that computes something; see onnx_reader.h. An operator that heddle lacks
 * is refused with the node's name. */
#ifdef HD_HAVE_ONNX

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "onnx/onnx_reader.h"

static hd_status view_of(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, size_t k) {
  return hd__onnx_view(out, r, hd__onnx_input(node, k));
}

/* A layer of each element: it leaves them where they are. */
static hd_status put_plain(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const char *op) {
  char from[HD_ONNX_NAME_BYTES];
  memcpy(from, v->layer, sizeof from);
  return hd__onnx_put(v, r, node, NULL, "%s, from: \"%s\"", op, from);
}

/* ---- Weights ---- */

static hd_shape vector(int64_t count) { return (hd_shape){1, {(int32_t)count}}; }

static hd_status add_vector(hd_onnx_reader *r, const HdOnnx__Node *node, const char *layer, const char *suffix,
                            const char *name, int64_t count) {
  const HdOnnx__Tensor *t;
  float *elems;
  HD_TRY(hd__onnx_read_floats(&elems, &t, r, node, name, count));
  const hd_shape shape = vector(count);
  const hd_status status = hd__onnx_add_weight(r, layer, suffix, &shape, elems);
  hd__free(elems);
  return status;
}

/* A weight and a bias of a norm; "" or NULL: the norm has none, so that they are 1 and 0. */
static hd_status add_affine(hd_onnx_reader *r, const HdOnnx__Node *node, const char *layer, const char *weight,
                            const char *bias, int64_t count) {
  if (weight && *weight)
    HD_TRY(add_vector(r, node, layer, "weight", weight, count));
  else
    HD_TRY(hd__onnx_add_equal(r, layer, "weight", count, 1));
  if (bias && *bias)
    return add_vector(r, node, layer, "bias", bias, count);
  return hd__onnx_add_equal(r, layer, "bias", count, 0);
}

/* The settings of a layer that has parameters, or shares an owner's. */
static const char *parameters(char text[HD_ONNX_NAME_BYTES + 16], const char *owner, bool has_bias) {
  if (owner)
    snprintf(text, HD_ONNX_NAME_BYTES + 16, ", share: \"%s\"", owner);
  else
    strcpy(text, has_bias ? "" : ", bias: false");
  return text;
}

/* ---- Windows ---- */

#define PAIR "[%lld, %lld]"
#define OF(pair) (long long)(pair)[0], (long long)(pair)[1]

typedef struct window {
  int64_t kernel[2], stride[2], dilation[2], begin[2], end[2];
  int sides; /* of an image, or 1 of a signal */
} window;

/* One number for each side of an attribute; `at` 1: those behind the first ones. */
static hd_status sides(int64_t out[2], hd_onnx_reader *r, const HdOnnx__Node *node, const window *w, const char *name,
                       int64_t fallback, int at, int groups) {
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, name);
  out[0] = w->sides == 1 && !strcmp(name, "pads") ? 0 : w->sides == 1 ? 1 : fallback;
  out[1] = fallback;
  if (w->sides == 1 && !strcmp(name, "output_padding"))
    out[0] = 0;
  if (!a || a->n_ints == 0)
    return HD_OK;
  if (a->n_ints != (size_t)(w->sides * groups))
    return hd__onnx_refuse(r, node, "expected %d numbers as '%s', found %zu; use layers for images or signals",
                           w->sides * groups, name, a->n_ints);
  for (int i = 0; i < w->sides; i++)
    out[i + 2 - w->sides] = a->ints[i + at * w->sides];
  return HD_OK;
}

/* Padding that makes the output as large as the input divided by the stride. */
static void pad_same(window *w, const hd_onnx_view *v, bool upper) {
  const int64_t side[2] = {v->h, v->w};
  for (int i = 0; i < 2; i++) {
    const int64_t stride = w->stride[i] > 0 ? w->stride[i] : 1, out = (side[i] + stride - 1) / stride;
    const int64_t all = (out - 1) * stride + w->dilation[i] * (w->kernel[i] - 1) + 1 - side[i];
    w->begin[i] = all < 0 ? 0 : upper ? all / 2 : all - all / 2;
    w->end[i] = all < 0 ? 0 : all - w->begin[i];
  }
}

/* `kernel`: of the weight, or NULL. */
static hd_status read_window(window *w, hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_view *v,
                             const int64_t *kernel) {
  w->sides = v->rank - 2;
  if (w->sides < 1 || w->sides > 2 || v->batch != 0)
    return hd__onnx_refuse(r, node,
                           "expected batch x channels x height x width, or batch x channels x length, found %d "
                           "dimensions; heddle has images and signals",
                           v->rank);
  HD_TRY(sides(w->kernel, r, node, w, "kernel_shape", 0, 0, 1));
  HD_TRY(sides(w->stride, r, node, w, "strides", 1, 0, 1));
  HD_TRY(sides(w->dilation, r, node, w, "dilations", 1, 0, 1));
  HD_TRY(sides(w->begin, r, node, w, "pads", 0, 0, 2));
  HD_TRY(sides(w->end, r, node, w, "pads", 0, 1, 2));
  for (int i = 0; i < 2 && kernel; i++)
    w->kernel[i] = w->kernel[i] && i >= 2 - w->sides && w->kernel[i] != kernel[i] ? -1 : kernel[i];
  for (int i = 0; i < 2; i++)
    if (w->kernel[i] < 1 || w->kernel[i] > 1024 || w->stride[i] < 1 || w->stride[i] > 1024 || w->dilation[i] < 1 ||
        w->dilation[i] > 1024 || w->begin[i] < 0 || w->begin[i] > 1024 || w->end[i] < 0 || w->end[i] > 1024)
      return hd__onnx_refuse(r, node,
                             "expected a kernel, strides and dilations from 1 to 1024 and pads from 0 to 1024, "
                             "found others; export it again");
  if (hd__onnx_text(node, "auto_pad", "SAME_UPPER") || hd__onnx_text(node, "auto_pad", "SAME_LOWER"))
    pad_same(w, v, hd__onnx_text(node, "auto_pad", "SAME_UPPER"));
  if (hd__onnx_text(node, "auto_pad", "VALID"))
    w->begin[0] = w->begin[1] = w->end[0] = w->end[1] = 0;
  return HD_OK;
}

static bool is_even(const window *w) { return w->begin[0] == w->end[0] && w->begin[1] == w->end[1]; }

/* Zeros around the image, so that the window needs none. */
static hd_status put_pad(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, window *w) {
  char from[HD_ONNX_NAME_BYTES];
  memcpy(from, v->layer, sizeof from);
  hd__onnx_whole(v, "", v->rank, false, v->c, v->h + w->begin[0] + w->end[0], v->w + w->begin[1] + w->end[1]);
  HD_TRY(hd__onnx_put(v, r, node, NULL, "op: pad, from: \"%s\", padding: " PAIR ", end: " PAIR, from, OF(w->begin),
                      OF(w->end)));
  for (int i = 0; i < 2; i++)
    w->begin[i] = w->end[i] = 0;
  return HD_OK;
}

static int64_t output_side(const window *w, int i, int64_t side) {
  const int64_t room = side + w->begin[i] + w->end[i] - w->dilation[i] * (w->kernel[i] - 1) - 1;
  return room < 0 ? 0 : room / w->stride[i] + 1;
}

/* ---- Convolutions ---- */

typedef struct convolution {
  const HdOnnx__Node *node;
  const char *weight, *bias;
  bool transposed;
  long long groups, out;
  int64_t dims[4]; /* of the weight, as an image's */
} convolution;

static hd_status read_kernel(convolution *c, hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_view *v) {
  c->node = node;
  c->transposed = !strcmp(node->op_type, "ConvTranspose");
  c->weight = hd__onnx_input(node, 1);
  c->bias = c->bias ? c->bias : hd__onnx_input(node, 2);
  c->groups = hd__onnx_int(node, "group", 1);
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, c->weight);
  if (!t || t->n_dims < 3 || t->n_dims > 4 || (int)t->n_dims != v->rank || c->groups < 1 || c->groups > 1 << 20)
    return hd__onnx_refuse(
        r, node,
        "expected a constant weight of %d dimensions and groups, found something else; use layers for images or "
        "signals",
        v->rank > 2 ? v->rank : 4);
  for (int i = 0; i < 4; i++) {
    c->dims[i] = t->n_dims == 4 ? t->dims[i] : i == 2 ? 1 : t->dims[i - (i > 2)];
    if (c->dims[i] < 1 || c->dims[i] > HD_ONNX_MOST_SIDE)
      return hd__onnx_refuse(
          r, node,
          "expected a weight of sides from 1 to %d that agree with kernel_shape, found others; export "
          "it again",
          HD_ONNX_MOST_SIDE);
  }
  c->out = c->transposed ? c->dims[1] * c->groups : c->dims[0];
  if (c->out > 1 << 20 || (c->transposed ? c->dims[0] : c->dims[1] * c->groups) != v->c || c->out % c->groups)
    return hd__onnx_refuse(r, node,
                           "expected a weight for the %lld channels of the input in %lld groups, found %lld x "
                           "%lld; export it again",
                           (long long)v->c, c->groups, (long long)c->dims[0], (long long)c->dims[1]);
  return HD_OK;
}

static hd_status add_kernel(hd_onnx_reader *r, const convolution *c, const char *layer) {
  const HdOnnx__Tensor *t;
  const hd_shape shape = {4, {(int32_t)c->dims[0], (int32_t)c->dims[1], (int32_t)c->dims[2], (int32_t)c->dims[3]}};
  float *elems;
  HD_TRY(hd__onnx_read_floats(&elems, &t, r, c->node, c->weight, hd__shape_elems(&shape)));
  hd_status status = hd__onnx_add_weight(r, layer, "weight", &shape, elems);
  hd__free(elems);
  if (*c->bias)
    HD_THEN(status, add_vector(r, c->node, layer, "bias", c->bias, c->out));
  hd__onnx_keep_owner(r, layer, c->node->op_type, c->weight, c->bias);
  return status;
}

/* `v`: the image that it reads, then its output, whose sides the caller knows. */
static hd_status put_conv(hd_onnx_view *v, hd_onnx_reader *r, const convolution *c, const window *w,
                          const int64_t side[2], const char *extra) {
  const char *owner = hd__onnx_find_owner(r, c->node->op_type, c->weight, c->bias);
  char from[HD_ONNX_NAME_BYTES], text[HD_ONNX_NAME_BYTES + 16];
  if (side[0] < 1 || side[1] < 1)
    return hd__onnx_refuse(r, c->node,
                           "expected an input as large as the kernel, found %lld x %lld; use a smaller "
                           "kernel",
                           (long long)v->h, (long long)v->w);
  memcpy(from, v->layer, sizeof from);
  hd__onnx_whole(v, "", v->rank, false, c->out, side[0], side[1]);
  HD_TRY(hd__onnx_put(v, r, c->node, owner ? NULL : hd__onnx_resolve(r, c->weight),
                      "op: %s, from: \"%s\", out: %lld, kernel: " PAIR ", stride: " PAIR ", padding: " PAIR
                      ", dilation: " PAIR ", groups: %lld%s%s",
                      c->transposed ? "conv_transpose2d" : "conv2d", from, c->out, OF(w->kernel), OF(w->stride),
                      OF(w->begin), OF(w->dilation), c->groups, extra, parameters(text, owner, *c->bias)));
  return owner ? HD_OK : add_kernel(r, c, v->layer);
}

/* What a padding of the two ends leaves of an attribute output_shape. */
static hd_status pad_to_shape(window *w, hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_view *v,
                              const int64_t more[2]) {
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, "output_shape");
  const bool upper = hd__onnx_text(node, "auto_pad", "SAME_UPPER");
  const bool same = upper || hd__onnx_text(node, "auto_pad", "SAME_LOWER");
  const int64_t side[2] = {v->h, v->w};
  for (int i = 2 - w->sides; i < 2 && (a || same); i++) {
    const size_t at = a ? a->n_ints - (size_t)(2 - i) : 0;
    if (a && (a->n_ints < (size_t)w->sides || a->ints[at] < 1))
      return hd__onnx_refuse(r, node, "expected a size for each side as output_shape, found others; export it again");
    const int64_t out = a ? a->ints[at] : side[i] * w->stride[i];
    const int64_t all = w->stride[i] * (side[i] - 1) + more[i] + w->dilation[i] * (w->kernel[i] - 1) + 1 - out;
    w->begin[i] = all < 0 ? 0 : upper ? all / 2 : all - all / 2;
    w->end[i] = all - w->begin[i];
  }
  return HD_OK;
}

/* The padding of heddle's layer is that of the beginning; what the end has less is output_padding, what it has more is
 * cut off. */
static hd_status read_transposed(hd_onnx_view *v, hd_onnx_reader *r, const convolution *c, window *w) {
  const int64_t before[2] = {v->h, v->w};
  int64_t more[2], side[2], cut[2];
  char extra[64];
  HD_TRY(sides(more, r, c->node, w, "output_padding", 0, 0, 1));
  HD_TRY(pad_to_shape(w, r, c->node, v, more));
  for (int i = 0; i < 2; i++) {
    const int64_t ends = more[i] + w->begin[i] - w->end[i];
    more[i] = ends < 0 ? 0 : ends;
    cut[i] = ends < 0 ? -ends : 0;
    side[i] = w->stride[i] * (before[i] - 1) + more[i] + w->dilation[i] * (w->kernel[i] - 1) + 1 - 2 * w->begin[i];
  }
  snprintf(extra, sizeof extra, ", output_padding: " PAIR, OF(more));
  HD_TRY(put_conv(v, r, c, w, side, extra));
  for (int i = 2 - w->sides; i < 2; i++)
    if (cut[i] > 0)
      HD_TRY(hd__onnx_cut(v, r, c->node, i + w->sides, 0, side[i] - cut[i]));
  return HD_OK;
}

/* `bias`: of a node behind it, or NULL; `chomp`: how much of the padding at the end is left out. */
static hd_status convolve(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const char *bias,
                          int64_t chomp) {
  convolution c = {.bias = bias};
  window w;
  HD_TRY(view_of(v, r, node, 0));
  if (v->rank > 2)
    HD_TRY(hd__onnx_settle(v, r, node));
  HD_TRY(read_kernel(&c, r, node, v));
  HD_TRY(read_window(&w, r, node, v, c.dims + 2));
  if (c.transposed)
    return read_transposed(v, r, &c, &w);
  w.end[1] -= chomp;
  if (!is_even(&w))
    HD_TRY(put_pad(v, r, node, &w));
  const int64_t side[2] = {output_side(&w, 0, v->h), output_side(&w, 1, v->w)};
  return put_conv(v, r, &c, &w, side, "");
}

static hd_status read_conv(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  return convolve(out, r, node, NULL, 0);
}

static hd_status read_chomped(bool *found, hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *conv,
                              int64_t from_end) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, hd__onnx_input(conv, 1));
  const HdOnnx__Attribute *pads = hd__onnx_attribute(conv, "pads"), *strides = hd__onnx_attribute(conv, "strides");
  *found = t && t->n_dims == 3 && pads && pads->n_ints == 2 && pads->ints[1] >= from_end && from_end > 0 &&
           (!strides || (strides->n_ints == 1 && strides->ints[0] == 1)) && hd__onnx_uses(r, conv->output[0]) == 1;
  return *found ? convolve(out, r, conv, NULL, from_end) : HD_OK;
}

/* x[:, :, :-n] of a causal convolution pads it less; other parts are cut off. */
static hd_status read_slice(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const HdOnnx__Node *conv = hd__onnx_producer(r, hd__onnx_input(node, 0), "Conv");
  int64_t start[8], end[8], axis[8], step[8] = {1};
  bool found = false;
  if (conv && hd__onnx_list(start, r, node, "starts", 1) == 1 && hd__onnx_list(end, r, node, "ends", 2) == 1 &&
      hd__onnx_list(axis, r, node, "axes", 3) == 1 && start[0] == 0 && end[0] < 0 && end[0] > -1024 &&
      (axis[0] == 2 || axis[0] == -1) &&
      (!*hd__onnx_input(node, 4) || (hd__onnx_ints(step, r, hd__onnx_input(node, 4)) == 1 && step[0] == 1)))
    HD_TRY(read_chomped(&found, out, r, conv, -end[0]));
  return found ? HD_OK : hd__onnx_read_slice(out, r, node, k);
}

/* ---- Pools ---- */

/* A last window reaches beyond the padding, as PyTorch's ceil_mode has it. */
static int64_t ceiled_side(const window *w, int i, int64_t side) {
  const int64_t room = side + 2 * w->begin[i] - w->kernel[i];
  const int64_t last = room < 0 ? 0 : (room + w->stride[i] - 1) / w->stride[i];
  return last - (last * w->stride[i] >= side + w->begin[i]) + 1;
}

static hd_status put_pool(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const window *w, bool ceils,
                          const char *extra) {
  const bool mean = !strcmp(node->op_type, "AveragePool");
  const int64_t before[2] = {v->h, v->w};
  int64_t side[2];
  char from[HD_ONNX_NAME_BYTES];
  window even = *w;
  for (int i = 0; i < 2; i++) {
    even.end[i] = even.begin[i];
    side[i] = ceils ? ceiled_side(w, i, before[i]) : output_side(&even, i, before[i]);
    if (side[i] < 1)
      return hd__onnx_refuse(r, node, "expected an input as large as the window, found %lld x %lld; use a smaller one",
                             (long long)v->h, (long long)v->w);
  }
  memcpy(from, v->layer, sizeof from);
  hd__onnx_whole(v, "", v->rank, false, v->c, side[0], side[1]);
  return hd__onnx_put(v, r, node, NULL,
                      "op: %s, from: \"%s\", kernel: " PAIR ", stride: " PAIR ", padding: " PAIR "%s%s",
                      mean ? "avg_pool2d" : "max_pool2d", from, OF(w->kernel), OF(w->stride), OF(w->begin), extra,
                      ceils ? ", ceil_mode: true" : "");
}

/* A pool with more padding at the beginning, whose first windows are left out, as are those behind the last. */
static hd_status put_wide_pool(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const window *w,
                               const char *extra) {
  const int64_t before[2] = {v->h, v->w};
  window wide = *w;
  int64_t first[2];
  for (int i = 0; i < 2; i++) {
    const int64_t missing = w->end[i] - w->begin[i];
    first[i] = missing > 0 ? (missing + w->stride[i] - 1) / w->stride[i] : 0;
    wide.begin[i] = wide.end[i] = w->begin[i] + first[i] * w->stride[i];
  }
  HD_TRY(put_pool(v, r, node, &wide, false, extra));
  for (int i = 2 - w->sides; i < 2; i++)
    HD_TRY(hd__onnx_cut(v, r, node, i + w->sides, first[i], first[i] + output_side(w, i, before[i])));
  return HD_OK;
}

static hd_status read_pool(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const bool mean = !strcmp(node->op_type, "AveragePool"), counts = hd__onnx_int(node, "count_include_pad", 0) != 0;
  bool ceils = hd__onnx_int(node, "ceil_mode", 0) != 0;
  window w;
  HD_TRY(view_of(v, r, node, 0));
  if (v->rank > 2)
    HD_TRY(hd__onnx_settle(v, r, node));
  HD_TRY(read_window(&w, r, node, v, NULL));
  if (w.dilation[0] != 1 || w.dilation[1] != 1)
    return hd__onnx_refuse(r, node, "expected a pool without dilation, found one; leave it out");
  const char *extra = !mean ? "" : counts ? ", count_include_pad: true" : ", count_include_pad: false";
  const bool thick = 2 * w.begin[0] > w.kernel[0] || 2 * w.begin[1] > w.kernel[1];
  if (is_even(&w) && !(thick && mean && counts && !ceils))
    return put_pool(v, r, node, &w, ceils, extra);
  if (mean && counts && !ceils) {
    HD_TRY(put_pad(v, r, node, &w));
    return put_pool(v, r, node, &w, false, extra);
  }
  /* Padding does not count: the windows alone matter, of which there are more or fewer. */
  const int64_t side[2] = {v->h, v->w};
  bool floor_fits = !ceils, ceil_fits = !ceils;
  for (int i = 0; i < 2; i++) {
    window even = w;
    even.end[i] = even.begin[i];
    floor_fits = floor_fits && output_side(&w, i, side[i]) == output_side(&even, i, side[i]);
    ceil_fits = ceil_fits && output_side(&w, i, side[i]) == ceiled_side(&w, i, side[i]);
  }
  if (!ceils && !(mean && counts) && !floor_fits && !ceil_fits)
    return put_wide_pool(v, r, node, &w, extra);
  if ((mean && counts) || (!floor_fits && !ceil_fits))
    return hd__onnx_refuse(r, node,
                           "expected equal padding at both ends, or one more row and column at the end, found "
                           "others; pad both ends equally");
  return put_pool(v, r, node, &w, !floor_fits, extra);
}

/* ---- Linear layers ---- */

typedef struct product {
  const char *x, *weight, *bias;
  bool by_outputs; /* the weight is a matrix of outputs x inputs */
  float alpha, beta;
} product;

static hd_status add_matrix(hd_onnx_reader *r, const HdOnnx__Node *node, const product *p, const hd_onnx_view *x,
                            const char *layer, int64_t outputs, int64_t inputs) {
  const HdOnnx__Tensor *t;
  float *read;
  HD_TRY(hd__onnx_read_floats(&read, &t, r, node, p->weight, outputs * inputs));
  HD_OWNED float *from = read, *to = NULL;
  HD_OWNED int64_t *place = NULL;
  HD_TRY(HD_NEW_RAW(to, outputs * inputs, r->ctx, "%s: out of memory while reading", r->path));
  HD_TRY(HD_NEW_RAW(place, inputs, r->ctx, "%s: out of memory while reading", r->path));
  if (x->flat)
    hd__onnx_places(place, x);
  for (int64_t i = 0; i < inputs && !x->flat; i++)
    place[i] = i;
  for (int64_t out = 0; out < outputs; out++)
    for (int64_t in = 0; in < inputs; in++) {
      const float value = from[p->by_outputs ? out * inputs + in : in * outputs + out];
      to[out * inputs + place[in]] = p->alpha == 1 ? value : p->alpha * value;
    }
  const hd_shape shape = {!x->flat && x->h > 1 ? 4 : 2, {(int32_t)outputs, (int32_t)inputs, 1, 1}};
  HD_TRY(hd__onnx_add_weight(r, layer, "weight", &shape, to));
  if (!*p->bias)
    return HD_OK;
  HD_OWNED float *bias = NULL, *one = NULL;
  HD_TRY(hd__onnx_read_floats(&one, &t, r, node, p->bias, -1));
  HD_TRY(HD_NEW_RAW(bias, outputs, r->ctx, "%s: out of memory while reading", r->path));
  const int64_t count = hd__onnx_elems(t);
  if (count != 1 && (count != outputs || t->dims[t->n_dims - 1] != outputs))
    return hd__onnx_refuse(r, node, "expected a bias of %lld numbers, found another shape; export a linear layer",
                           (long long)outputs);
  for (int64_t i = 0; i < outputs; i++)
    bias[i] = (p->beta == 1 ? 1 : p->beta) * one[count == 1 ? 0 : i];
  const hd_shape of_bias = vector(outputs);
  return hd__onnx_add_weight(r, layer, "bias", &of_bias, bias);
}

static hd_status read_linear(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, product p) {
  const HdOnnx__Node *turned = hd__onnx_producer(r, p.weight, "Transpose");
  const HdOnnx__Attribute *perm = turned ? hd__onnx_attribute(turned, "perm") : NULL;
  const HdOnnx__Tensor *t = turned ? hd__onnx_tensor(r, hd__onnx_input(turned, 0)) : NULL;
  if (t && t->n_dims == 2 && (!perm || (perm->n_ints == 2 && perm->ints[0] == 1))) {
    p.weight = hd__onnx_input(turned, 0);
    p.by_outputs = !p.by_outputs;
  }
  t = hd__onnx_tensor(r, p.weight);
  if (!t || t->n_dims != 2 || hd__onnx_elems(t) < 1)
    return hd__onnx_refuse(r, node,
                           "expected a constant matrix as weight, found another value; heddle has no products of "
                           "two computed values but in attention");
  const int64_t outputs = t->dims[p.by_outputs ? 0 : 1], inputs = t->dims[p.by_outputs ? 1 : 0];
  HD_TRY(hd__onnx_view(v, r, p.x));
  const int last = v->rank - 1;
  if (last < 1 || last == v->batch || hd__onnx_side(v, last) != inputs || outputs > 1 << 20)
    return hd__onnx_refuse(r, node,
                           "expected %lld elements along the last axis, as the weight has, found %lld; flatten "
                           "whole samples",
                           (long long)inputs, (long long)(last < 1 ? 0 : hd__onnx_side(v, last)));
  if (hd__onnx_sample(v) == inputs)
    HD_TRY(hd__onnx_flatten(v, r, node, true));
  else
    HD_TRY(hd__onnx_to_channels(v, r, node, 1u << last, false));
  const bool shares = p.alpha == 1 && p.beta == 1 && (!v->flat || hd__onnx_in_order(v));
  const bool pixels = !v->flat && v->h > 1; /* `linear` is over flat values, or those of a row of places */
  const char *kind = pixels ? p.by_outputs ? "pixels" : "turned pixels" : p.by_outputs ? "linear" : "turned";
  const char *owner = shares ? hd__onnx_find_owner(r, kind, p.weight, p.bias) : NULL;
  char from[HD_ONNX_NAME_BYTES], text[HD_ONNX_NAME_BYTES + 16];
  const hd_onnx_view x = *v;
  memcpy(from, v->layer, sizeof from);
  hd__onnx_set_channels(v, last, outputs);
  HD_TRY(hd__onnx_put(v, r, node, owner ? NULL : hd__onnx_resolve(r, p.weight), "op: %s, from: \"%s\", out: %lld%s",
                      pixels ? "conv2d, kernel: 1" : "linear", from, (long long)outputs,
                      parameters(text, owner, *p.bias)));
  if (owner)
    return HD_OK;
  if (shares)
    hd__onnx_keep_owner(r, v->layer, kind, p.weight, p.bias);
  return add_matrix(r, node, &p, &x, v->layer, outputs, inputs);
}

static hd_status read_gemm(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  if (hd__onnx_int(node, "transA", 0))
    return hd__onnx_refuse(r, node, "expected transA 0, found 1; export it as a linear layer");
  return read_linear(out, r, node,
                     (product){.x = hd__onnx_input(node, 0),
                               .weight = hd__onnx_input(node, 1),
                               .bias = hd__onnx_input(node, 2),
                               .by_outputs = hd__onnx_int(node, "transB", 0) != 0,
                               .alpha = hd__onnx_float(node, "alpha", 1),
                               .beta = hd__onnx_float(node, "beta", 1)});
}

static hd_status read_matmul(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  if (!hd__onnx_tensor(r, hd__onnx_input(node, 1)) && hd__onnx_is_attention(r, node))
    return hd__onnx_read_attention(out, r, node, k);
  return read_linear(
      out, r, node,
      (product){.x = hd__onnx_input(node, 0), .weight = hd__onnx_input(node, 1), .bias = "", .alpha = 1, .beta = 1});
}

/* ---- Norms ---- */

/* "1e-05" */
static const char *eps_of(char text[HD_NUMBER_BYTES], float eps) {
  hd__format_float(text, eps);
  return text;
}

static hd_status read_batch_norm(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  static const char *const suffix[] = {"weight", "bias", "running_mean", "running_var"};
  char eps[HD_NUMBER_BYTES], momentum[HD_NUMBER_BYTES], from[HD_ONNX_NAME_BYTES];
  double kept = 0; /* as a decimal number: 1 - 0.9 is 0.1 */
  if (hd__onnx_int(node, "training_mode", 0) != 0 || hd__onnx_int(node, "spatial", 1) != 1)
    return hd__onnx_refuse(
        r, node, "expected training_mode 0 and spatial 1, found others; export the network in evaluation mode");
  HD_TRY(view_of(v, r, node, 0));
  HD_TRY(hd__onnx_settle(v, r, node));
  hd__format_float(momentum, hd__onnx_float(node, "momentum", 0.9f));
  hd__parse_double(&kept, momentum);
  hd__format_float(momentum, (float)(1 - kept));
  memcpy(from, v->layer, sizeof from);
  HD_TRY(hd__onnx_put(v, r, node, hd__onnx_resolve(r, hd__onnx_input(node, 1)),
                      "op: batch_norm, from: \"%s\", eps: %s, momentum: %s", from,
                      eps_of(eps, hd__onnx_float(node, "epsilon", 1e-5f)), momentum));
  for (int i = 0; i < 4; i++)
    HD_TRY(add_vector(r, node, v->layer, suffix[i], hd__onnx_input(node, 1 + (size_t)i), v->c));
  return HD_OK;
}

/* A norm of whole samples, or over some last axes, which become the channels; op: "layer_norm" or "rms_norm". */
static hd_status put_norm(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const char *op, uint32_t axes,
                          float eps, const char *weight, const char *bias) {
  const bool rms = !strcmp(op, "rms_norm");
  char text[HD_NUMBER_BYTES], from[HD_ONNX_NAME_BYTES];
  int64_t elems = 1;
  for (int i = 0; i < v->atoms; i++)
    elems *= axes >> v->atom[i].axis & 1 ? v->atom[i].size : 1;
  const bool whole = elems == hd__onnx_sample(v) && !rms;
  if (whole || v->rank == 2)
    HD_TRY(hd__onnx_settle(v, r, node));
  else
    HD_TRY(hd__onnx_to_channels(v, r, node, axes, false));
  memcpy(from, v->layer, sizeof from);
  const char *name = weight && *weight ? hd__onnx_resolve(r, weight) : NULL;
  HD_TRY(hd__onnx_put(v, r, node, name, "op: %s, from: \"%s\", eps: %s",
                      rms     ? op
                      : whole ? "layer_norm"
                              : "layer_norm2d",
                      from, eps_of(text, eps)));
  const int first = r->out->weights.count;
  if (rms && weight && *weight)
    HD_TRY(add_vector(r, node, v->layer, "weight", weight, elems));
  else if (rms)
    HD_TRY(hd__onnx_add_equal(r, v->layer, "weight", elems, 1));
  else
    HD_TRY(add_affine(r, node, v->layer, weight, bias, elems));
  for (int i = first; i < r->out->weights.count && whole && !v->flat; i++)
    r->out->weights.tensor[i].shape = (hd_shape){3, {(int32_t)v->c, (int32_t)v->h, (int32_t)v->w}};
  return HD_OK;
}

static hd_status read_layer_norm(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const bool rms = strstr(node->op_type, "RMS") != NULL;
  HD_TRY(view_of(v, r, node, 0));
  const int axis = hd__onnx_axis(v, hd__onnx_int(node, "axis", -1));
  if (axis < 1 || v->batch >= axis)
    return hd__onnx_refuse(
        r, node,
        "expected a norm over whole samples, or some last axes of them, found axis %lld; normalise behind the batch",
        (long long)hd__onnx_int(node, "axis", -1));
  return put_norm(v, r, node, rms ? "rms_norm" : "layer_norm", ~0u << axis, hd__onnx_float(node, "epsilon", 1e-5f),
                  hd__onnx_input(node, 1), hd__onnx_input(node, 2));
}

static hd_status put_group_norm(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int64_t groups, float eps,
                                const char *weight, const char *bias) {
  char text[HD_NUMBER_BYTES], from[HD_ONNX_NAME_BYTES];
  HD_TRY(hd__onnx_settle(v, r, node));
  memcpy(from, v->layer, sizeof from);
  HD_TRY(hd__onnx_put(v, r, node, weight ? hd__onnx_resolve(r, weight) : NULL,
                      "op: group_norm, from: \"%s\", groups: %lld, eps: %s", from, (long long)groups,
                      eps_of(text, eps)));
  return add_affine(r, node, v->layer, weight, bias, v->c);
}

/* GroupNormalization, whose weights once were those of groups, and InstanceNormalization. */
static hd_status read_group_norm(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  HD_TRY(view_of(v, r, node, 0));
  const int64_t channels = v->rank > 1 ? hd__onnx_side(v, 1) : 0;
  const int64_t groups = hd__onnx_int(node, "num_groups", channels);
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, hd__onnx_input(node, 1));
  if (groups < 1 || channels % groups || (t && hd__onnx_elems(t) != channels && groups != channels))
    return hd__onnx_refuse(r, node,
                           "expected num_groups that divide the %lld channels, and a weight for each of these, "
                           "found others; export it with opset 21",
                           (long long)channels);
  return put_group_norm(v, r, node, groups, hd__onnx_float(node, "epsilon", 1e-5f), hd__onnx_input(node, 1),
                        hd__onnx_input(node, 2));
}

/* ---- Means and maxima ---- */

static hd_status put_line(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, bool mean, uint32_t axes) {
  const int64_t pixels = v->h * v->w;
  char from[HD_ONNX_NAME_BYTES];
  bool channels = !v->flat && v->c > 1;
  for (int i = 0; i < v->atoms; i++)
    channels = channels && (axes >> v->atom[i].axis & 1) == (v->atom[i].step >= pixels) && v->atom[i].step > 0;
  if (!channels)
    HD_TRY(hd__onnx_to_pixels(v, r, node, axes));
  memcpy(from, v->layer, sizeof from);
  if (channels)
    hd__onnx_drop_channels(v);
  else
    hd__onnx_drop_pixels(v);
  return hd__onnx_put(v, r, node, NULL, "op: %s, from: \"%s\"%s",
                      mean && !channels ? "global_avg_pool2d"
                      : mean            ? "mean"
                                        : "max",
                      from, channels ? ", over: channels" : "");
}

/* Whether its axes are none, or an empty list. */
static bool has_no_axes(const hd_onnx_reader *r, const HdOnnx__Node *node) {
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, "axes");
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, hd__onnx_input(node, 1));
  return a ? a->n_ints == 0 : !*hd__onnx_input(node, 1) || (t && hd__onnx_elems(t) == 0);
}

static hd_status read_line(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const bool pool = !strncmp(node->op_type, "Global", 6), largest = strstr(node->op_type, "Max") != NULL;
  const bool sum = !strcmp(node->op_type, "ReduceSum");
  int64_t axis[8];
  int to[HD_ONNX_RANK], rank = 0;
  uint32_t axes = 0;
  HD_TRY(view_of(v, r, node, 0));
  const int count = pool ? 0 : hd__onnx_list(axis, r, node, "axes", 1);
  bool good = pool ? v->rank > 2 : count > 0;
  if (!pool && !count && hd__onnx_int(node, "noop_with_empty_axes", 0) && has_no_axes(r, node))
    return HD_OK;
  for (int i = 2; i < v->rank && pool; i++)
    axes |= 1u << i;
  for (int i = 0; i < count; i++) {
    const int a = hd__onnx_axis(v, axis[i]);
    good = good && a >= 0 && a != v->batch;
    axes |= good ? 1u << a : 0;
  }
  if (!good)
    return hd__onnx_refuse(r, node, "expected constant axes behind the batch, found others; name them: x.mean((2, 3))");
  int64_t elems = 1;
  for (int i = 0; i < v->rank; i++)
    elems *= axes >> i & 1 ? hd__onnx_side(v, i) : 1;
  if (elems > 1)
    HD_TRY(put_line(v, r, node, !largest, axes));
  if (sum && elems > 1) {
    char op[64];
    snprintf(op, sizeof op, "op: scale, factor: %lld", (long long)elems);
    HD_TRY(put_plain(v, r, node, op));
  }
  if (pool || hd__onnx_int(node, "keepdims", 1))
    return HD_OK;
  for (int i = 0; i < v->rank; i++)
    to[i] = axes >> i & 1 ? -1 : rank++;
  hd__onnx_rename_axes(v, to, rank);
  return HD_OK;
}

/* Before this version a softmax is over its axis and all later ones. */
enum { SOFTMAX_OF_ONE_AXIS = 13 };

static hd_status read_softmax(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const bool old = r->opset < SOFTMAX_OF_ONE_AXIS;
  HD_TRY(view_of(v, r, node, 0));
  const int axis = hd__onnx_axis(v, hd__onnx_int(node, "axis", old ? 1 : -1));
  if (axis < 1 || axis == v->batch || v->batch != 0)
    return hd__onnx_refuse(r, node, "expected a softmax over an axis behind the batch, found axis %lld; use axis 1",
                           (long long)hd__onnx_int(node, "axis", old ? 1 : -1));
  if (v->rank == 2)
    HD_TRY(hd__onnx_flatten(v, r, node, false));
  else
    HD_TRY(hd__onnx_to_channels(v, r, node, old ? ~0u << axis : 1u << axis, false));
  return put_plain(v, r, node, strcmp(node->op_type, "Softmax") ? "op: log_softmax" : "op: softmax");
}

/* ---- Two values, or a value and a constant ---- */

/* The axes along which a constant has numbers; false: it does not fit the tensor. */
static bool axes_of_constant(uint32_t *axes, const hd_onnx_view *v, const HdOnnx__Tensor *t) {
  *axes = 0;
  for (size_t i = 0; i < t->n_dims; i++) {
    const int64_t axis = (int64_t)v->rank - (int64_t)t->n_dims + (int64_t)i;
    if (t->dims[i] == 1)
      continue;
    if (axis < 0 || axis == v->batch || t->dims[i] != hd__onnx_side(v, (int)axis))
      return false;
    *axes |= 1u << axis;
  }
  return (int64_t)t->n_dims <= v->rank;
}

/* x * weight + bias of each channel: a convolution of single pixels. A weight that the file does not have stays 1. */
static hd_status put_affine(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const char *name,
                            const float *weight, const float *bias, bool fixed) {
  const hd_shape shape = {4, {(int32_t)v->c, 1, 1, 1}}, of_bias = vector(v->c);
  char from[HD_ONNX_NAME_BYTES];
  memcpy(from, v->layer, sizeof from);
  HD_TRY(hd__onnx_put(v, r, node, name, "op: conv2d, from: \"%s\", out: %lld, kernel: 1, groups: %lld%s", from,
                      (long long)v->c, (long long)v->c, bias ? "" : ", bias: false"));
  if (!weight || fixed)
    fprintf(r->rules, "%s{match: \"%s.%s\", requires_grad: false}", ftell(r->rules) > 0 ? ", " : "", v->layer,
            fixed ? "*" : "weight");
  if (weight)
    HD_TRY(hd__onnx_add_weight(r, v->layer, "weight", &shape, weight));
  else {
    HD_TRY(hd__onnx_add_equal(r, v->layer, "weight", v->c, 1));
    r->out->weights.tensor[r->out->weights.count - 1].shape = shape;
  }
  return bias ? hd__onnx_add_weight(r, v->layer, "bias", &of_bias, bias) : HD_OK;
}

/* x + number, x * number. */
static hd_status put_number(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, bool adds, double number) {
  char op[64 + HD_NUMBER_BYTES], text[HD_NUMBER_BYTES];
  if (adds ? number == 0 : number == 1)
    return HD_OK;
  if (!adds && fabs(number) <= 1e6) {
    hd__format_float(text, (float)number);
    snprintf(op, sizeof op, "op: scale, factor: %s", text);
    return put_plain(v, r, node, op);
  }
  if (v->flat || v->atoms == 0)
    HD_TRY(hd__onnx_image(v, r, node));
  HD_OWNED float *all = NULL;
  HD_TRY(HD_NEW_RAW(all, v->c, r->ctx, "%s: out of memory while reading", r->path));
  for (int64_t c = 0; c < v->c; c++)
    all[c] = (float)number;
  return put_affine(v, r, node, NULL, adds ? NULL : all, adds ? all : NULL, true);
}

/* x + c, x - c, x * c or x / c. */
static hd_status apply_constant(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, char op,
                                const char *name) {
  const bool adds = op == 'A' || op == 'S';
  const HdOnnx__Tensor *t;
  uint32_t axes;
  float *read;
  HD_TRY(hd__onnx_read_floats(&read, &t, r, node, name, -1));
  HD_OWNED float *number = read;
  if (!axes_of_constant(&axes, v, t))
    return hd__onnx_refuse(r, node,
                           "expected a constant with numbers along axes of the value, found another shape; make it fit "
                           "without spreading the value");
  for (int64_t i = 0; i < hd__onnx_elems(t); i++)
    number[i] = op == 'S' ? -number[i] : op == 'D' ? 1 / number[i] : number[i];
  if (!axes)
    return put_number(v, r, node, adds, (double)number[0]);
  if (adds && hd__onnx_elems(t) == hd__onnx_sample(v)) {
    if (v->flat)
      HD_TRY(hd__onnx_image(v, r, node));
    return hd__onnx_put_position(v, r, node, hd__onnx_resolve(r, name), number);
  }
  HD_TRY(hd__onnx_to_channels(v, r, node, axes, false));
  return put_affine(v, r, node, hd__onnx_resolve(r, name), adds ? NULL : number, adds ? number : NULL, false);
}

/* An operator of a value and a constant, which is input `which`. */
static hd_status read_constant(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int which) {
  const char op = *node->op_type, *name = hd__onnx_input(node, (size_t)which);
  const HdOnnx__Node *conv = hd__onnx_producer(r, hd__onnx_input(node, (size_t)!which), NULL);
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  if (op == 'A' && conv && (hd__onnx_is(conv, "Conv") || hd__onnx_is(conv, "ConvTranspose")) &&
      !*hd__onnx_input(conv, 2) && hd__onnx_uses(r, conv->output[0]) == 1 && t->n_dims >= 3 &&
      t->dims[t->n_dims - 1] == 1 && t->dims[t->n_dims - 2] == 1 && hd__onnx_elems(t) > 1 && t->n_dims == 4)
    return convolve(v, r, conv, name, 0);
  HD_TRY(view_of(v, r, node, (size_t)!which));
  if (op == 'D' && which == 0)
    return hd__onnx_refuse(r, node,
                           "expected a product of a value and a number, or an activation, found a number divided by a "
                           "value; docs/export.md lists what is read");
  if (op == 'S' && which == 0)
    HD_TRY(put_plain(v, r, node, "op: scale, factor: -1"));
  return apply_constant(v, r, node, op == 'S' && which == 0 ? 'A' : op, name);
}

/* Add, Mul, Sub and Div. */
static hd_status read_binary(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  static const char *const ops[] = {"add", "sub", "mul", "div"};
  const char *op = ops[strcspn("ASMD", (char[]){*node->op_type, 0})];
  hd_onnx_view a, b;
  for (int i = 1; i >= 0; i--)
    if (hd__onnx_tensor(r, hd__onnx_input(node, (size_t)i)))
      return read_constant(out, r, node, i);
  HD_TRY(view_of(&a, r, node, 0));
  HD_TRY(view_of(&b, r, node, 1));
  HD_TRY(hd__onnx_pair(out, &a, &b, r, node));
  return hd__onnx_put(out, r, node, NULL, "op: %s, from: [\"%s\", \"%s\"]", op, a.layer, b.layer);
}

/* Sum of several values. */
static hd_status read_sum(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  HD_TRY(view_of(out, r, node, 0));
  for (size_t i = 1; i < node->n_input; i++) {
    hd_onnx_view a = *out, b;
    HD_TRY(view_of(&b, r, node, i));
    HD_TRY(hd__onnx_pair(out, &a, &b, r, node));
    HD_TRY(hd__onnx_put(out, r, node, NULL, "op: add, from: [\"%s\", \"%s\"]", a.layer, b.layer));
  }
  return HD_OK;
}

/* A square. */
static hd_status read_power(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  double power;
  char from[HD_ONNX_NAME_BYTES];
  HD_TRY(view_of(v, r, node, 0));
  if (!hd__onnx_scalar(&power, r, hd__onnx_input(node, 1)) || (power != 2 && power != 1))
    return hd__onnx_refuse(r, node, "expected the power 2, found another; write products");
  memcpy(from, v->layer, sizeof from);
  return power == 1 ? HD_OK : hd__onnx_put(v, r, node, NULL, "op: mul, from: [\"%s\", \"%s\"]", from, from);
}

/* ---- Images ---- */

/* The factors, or the sizes, of all axes; 0: they are not given so. */
static int of_axes(double out[4], hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_view *v, bool scales) {
  const HdOnnx__Attribute *given = hd__onnx_attribute(node, "scales"), *axes = hd__onnx_attribute(node, "axes");
  const bool old = !strcmp(node->op_type, "Upsample") || node->n_input == 2;
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, hd__onnx_input(node, old ? 1 : 2));
  const int count = axes ? (int)axes->n_ints : v->rank;
  float scale[4];
  int64_t size[8];
  if (count > 4 || v->rank > 4)
    return 0;
  for (int i = 0; i < v->rank; i++)
    out[i] = scales ? 1 : i == v->batch ? 1 : (double)hd__onnx_side(v, i);
  if (scales && given && given->n_floats == (size_t)count)
    memcpy(scale, given->floats, (size_t)count * sizeof *scale);
  else if (scales && !(t && hd__onnx_elems(t) == count && hd__onnx_floats(scale, t, count)))
    return 0;
  if (!scales && (old || !*hd__onnx_input(node, 3) || hd__onnx_ints(size, r, hd__onnx_input(node, 3)) != count))
    return 0;
  for (int i = 0; i < count; i++) {
    const int a = axes ? hd__onnx_axis(v, axes->ints[i]) : i;
    if (a < 0 || a == v->batch)
      continue;
    out[a] = scales ? (double)scale[i] : (double)size[i];
  }
  return v->rank;
}

/* The sides of a resized image; 0: they are others, or pixels lie elsewhere than in an image of that size. */
static void resized(int64_t out[2], bool *whole, const hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node) {
  const int64_t side[2] = {v->h, v->w};
  const bool keeps = hd__onnx_text(node, "keep_aspect_ratio_policy", "not_larger") ||
                     hd__onnx_text(node, "keep_aspect_ratio_policy", "not_smaller");
  double of[4];
  const bool scales = of_axes(of, r, node, v, true) > 0;
  out[0] = out[1] = 0;
  *whole = true;
  if (!scales && (keeps || !of_axes(of, r, node, v, false)))
    return;
  if (of[1] != (scales ? 1 : (double)v->c))
    return;
  for (int i = 4 - v->rank; i < 2; i++) {
    const double exact = scales ? of[v->rank - 2 + i] * (double)side[i] : of[v->rank - 2 + i];
    out[i] = exact > 0 && exact < 16385 && exact == floor(exact) ? (int64_t)exact : 0;
    *whole = *whole && out[i] % side[i] == 0;
  }
  if (v->rank == 3)
    out[0] = 1;
}

static hd_status read_resize(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const char *coordinates = "coordinate_transformation_mode";
  const bool old = !strcmp(node->op_type, "Upsample") || node->n_input == 2;
  const bool nearest = hd__onnx_text(node, "mode", "nearest") || !hd__onnx_attribute(node, "mode");
  const bool linear = hd__onnx_text(node, "mode", "linear") || hd__onnx_text(node, "mode", "bilinear");
  const bool aligned = hd__onnx_text(node, coordinates, "align_corners");
  const bool plain = old || hd__onnx_text(node, coordinates, "asymmetric");
  const bool half =
      !old && (hd__onnx_text(node, coordinates, "half_pixel") ||
               hd__onnx_text(node, coordinates, "pytorch_half_pixel") || !hd__onnx_attribute(node, coordinates));
  const bool floors = old || hd__onnx_text(node, "nearest_mode", "floor");
  const bool rounds = !hd__onnx_attribute(node, "nearest_mode") ||
                      hd__onnx_text(node, "nearest_mode", "round_prefer_floor") ||
                      hd__onnx_text(node, "nearest_mode", "round_prefer_ceil");
  int64_t side[2] = {0};
  bool whole = false;
  char from[HD_ONNX_NAME_BYTES];
  HD_TRY(view_of(v, r, node, 0));
  if ((v->rank == 3 || v->rank == 4) && v->batch == 0) {
    HD_TRY(hd__onnx_settle(v, r, node));
    resized(side, &whole, v, r, node);
  }
  const bool tf = whole && floors && hd__onnx_text(node, coordinates, "tf_half_pixel_for_nn");
  const bool point = hd__onnx_text(node, coordinates, "pytorch_half_pixel") && /* then its first pixel */
                     ((side[0] == 1 && v->h > 1) || (side[1] == 1 && v->w > 1));
  const bool same = nearest ? (plain && floors) || (whole && half && rounds) || tf : linear && (aligned || half);
  if (side[0] < 1 || side[1] < 1 || !same || point || hd__onnx_int(node, "antialias", 0) ||
      hd__onnx_int(node, "exclude_outside", 0))
    return hd__onnx_refuse(
        r, node,
        "expected constant factors or sizes of height and width that give whole sides; mode nearest (asymmetric, "
        "floor, "
        "or whole factors) or linear (half_pixel or align_corners), found others; resize as PyTorch's Upsample");
  memcpy(from, v->layer, sizeof from);
  const int64_t before[2] = {v->h, v->w};
  const bool factors = whole && side[0] % before[0] == 0 && side[1] % before[1] == 0;
  hd__onnx_whole(v, "", v->rank, false, v->c, side[0], side[1]);
  for (int i = 0; i < 2 && factors; i++)
    side[i] /= before[i];
  return hd__onnx_put(v, r, node, NULL, "op: upsample, from: \"%s\", %s: " PAIR ", mode: %s%s", from,
                      factors ? "scale_factor" : "size", OF(side), nearest ? "nearest" : "bilinear",
                      !nearest && aligned ? ", align_corners: true" : "");
}

static hd_status read_pad(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  static const char *const modes[][2] = {{"constant", "zero"}, {"reflect", "reflect"}, {"edge", "replicate"}};
  const char *mode = hd__onnx_attribute(node, "mode") ? NULL : "zero";
  int64_t p[8], axis[8];
  window w = {.sides = 2};
  double value = (double)hd__onnx_float(node, "value", 0);
  HD_TRY(view_of(v, r, node, 0));
  const int count = hd__onnx_list(p, r, node, hd__onnx_attribute(node, "paddings") ? "paddings" : "pads", 1);
  const int axes = *hd__onnx_input(node, 3) ? hd__onnx_ints(axis, r, hd__onnx_input(node, 3)) : 0;
  for (int i = 0; i < 3; i++)
    mode = hd__onnx_text(node, "mode", modes[i][0]) ? modes[i][1] : mode;
  if (*hd__onnx_input(node, 2) && !hd__onnx_scalar(&value, r, hd__onnx_input(node, 2)))
    value = (double)NAN;
  bool good = mode && v->batch == 0 && v->rank > 2 && v->rank < 5 && value == 0 && count > 0 &&
              (*hd__onnx_input(node, 3) ? count == 2 * axes : count == 2 * v->rank);
  for (int i = 0; good && i < count / 2; i++) {
    const int a = axes ? hd__onnx_axis(v, axis[i]) : i, at = a + 4 - v->rank - 2;
    const int64_t before = p[i], after = p[i + count / 2];
    good = before <= 1024 && after <= 1024 && a >= 0 && (a > 1 || (before == 0 && after == 0));
    if (!good || a < 2)
      continue;
    const int64_t side = hd__onnx_side(v, a), start = before < 0 ? -before : 0, end = after < 0 ? -after : 0;
    if (start || end)
      HD_TRY(hd__onnx_cut(v, r, node, a, start, side - end));
    w.begin[at] = before < 0 ? 0 : before;
    w.end[at] = after < 0 ? 0 : after;
  }
  if (!good)
    return hd__onnx_refuse(r, node,
                           "expected constant pads of height and width, of at most 1024, with zeros, reflect or edge, "
                           "found others; pad images alone");
  if (!w.begin[0] && !w.begin[1] && !w.end[0] && !w.end[1])
    return HD_OK;
  HD_TRY(hd__onnx_settle(v, r, node));
  char from[HD_ONNX_NAME_BYTES];
  memcpy(from, v->layer, sizeof from);
  hd__onnx_whole(v, "", v->rank, false, v->c, v->h + w.begin[0] + w.end[0], v->w + w.begin[1] + w.end[1]);
  return hd__onnx_put(v, r, node, NULL, "op: pad, from: \"%s\", padding: " PAIR ", end: " PAIR ", mode: %s", from,
                      OF(w.begin), OF(w.end), mode);
}

/* ---- Elements ---- */

static hd_status read_plain(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  static const char *const op[][2] = {
      {"Relu", "op: relu"},           {"Sigmoid", "op: sigmoid"},       {"Tanh", "op: tanh"},
      {"HardSwish", "op: hardswish"}, {"Softplus", "op: softplus"},     {"Mish", "op: mish"},
      {"Swish", "op: swish"},         {"Neg", "op: scale, factor: -1"}, {"Selu", "op: selu"}};
  size_t i = 0;
  while (i + 1 < sizeof op / sizeof *op && strcmp(op[i][0], node->op_type))
    i++;
  HD_TRY(view_of(v, r, node, 0));
  return put_plain(v, r, node, op[i][1]);
}

/* LeakyRelu, Elu and Celu. */
static hd_status read_slope(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const bool leaks = !strcmp(node->op_type, "LeakyRelu");
  char op[64 + HD_NUMBER_BYTES], alpha[HD_NUMBER_BYTES];
  hd__format_float(alpha, hd__onnx_float(node, "alpha", leaks ? 0.01f : 1));
  snprintf(op, sizeof op, "op: %s, %s: %s", leaks ? "leaky_relu" : "elu", leaks ? "negative_slope" : "alpha", alpha);
  HD_TRY(view_of(v, r, node, 0));
  const double width = (double)hd__onnx_float(node, "alpha", 1);
  if (strcmp(node->op_type, "Celu") != 0 || width == 1)
    return put_plain(v, r, node, op);
  HD_TRY(put_number(v, r, node, false, 1 / width));
  HD_TRY(put_plain(v, r, node, "op: elu"));
  return put_number(v, r, node, false, width);
}

static hd_status read_hardsigmoid(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const float alpha = hd__onnx_float(node, "alpha", 0.2f), beta = hd__onnx_float(node, "beta", 0.5f);
  HD_TRY(view_of(v, r, node, 0));
  if (fabs((double)alpha - 1.0 / 6) < 1e-6 && beta == 0.5f)
    return put_plain(v, r, node, "op: hardsigmoid");
  HD_TRY(put_number(v, r, node, false, (double)alpha));
  HD_TRY(put_number(v, r, node, true, (double)beta));
  return put_plain(v, r, node, "op: clip, min: 0, max: 1");
}

/* gamma * elu of x where they are not those of selu. */
static hd_status read_selu(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const float alpha = hd__onnx_float(node, "alpha", 1.67326319f), gamma = hd__onnx_float(node, "gamma", 1.05070102f);
  char op[64 + HD_NUMBER_BYTES], text[HD_NUMBER_BYTES];
  if (fabs((double)alpha - 1.6732632423543773) < 1e-6 && fabs((double)gamma - 1.0507009873554805) < 1e-6)
    return read_plain(v, r, node, k);
  hd__format_float(text, alpha);
  snprintf(op, sizeof op, "op: elu, alpha: %s", text);
  HD_TRY(view_of(v, r, node, 0));
  HD_TRY(put_plain(v, r, node, op));
  return put_number(v, r, node, false, (double)gamma);
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

static hd_status put_clip(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, float min, float max) {
  char text[2][HD_NUMBER_BYTES], op[64 + 2 * HD_NUMBER_BYTES];
  if (min == 0 && (max == 6 || max == FLT_MAX))
    return put_plain(v, r, node, max == 6 ? "op: relu6" : "op: relu");
  hd__format_float(text[0], min);
  hd__format_float(text[1], max);
  snprintf(op, sizeof op, "op: clip, min: %s, max: %s", text[0], text[1]);
  return put_plain(v, r, node, op);
}

static hd_status read_clip(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  float min, max;
  HD_TRY(read_limit(&min, r, node, "min", 1));
  HD_TRY(read_limit(&max, r, node, "max", 2));
  HD_TRY(view_of(v, r, node, 0));
  return put_clip(v, r, node, min, max);
}

/* Min and Max of a value and a number. */
static hd_status read_bound(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const bool min = !strcmp(node->op_type, "Min");
  const size_t which = hd__onnx_tensor(r, hd__onnx_input(node, 0)) ? 0 : 1;
  double number;
  if (node->n_input != 2 || !hd__onnx_scalar(&number, r, hd__onnx_input(node, which)))
    return hd__onnx_refuse(r, node, "expected a value and a constant number, found others; use clip");
  HD_TRY(view_of(v, r, node, !which));
  return put_clip(v, r, node, min ? -FLT_MAX : (float)number, min ? (float)number : FLT_MAX);
}

/* A slope for all elements, or C x 1 x 1, one for each channel. */
static hd_status read_prelu(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const char *slope = hd__onnx_input(node, 1);
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, slope);
  char from[HD_ONNX_NAME_BYTES];
  uint32_t axes = 0;
  HD_TRY(view_of(v, r, node, 0));
  if (!t || !axes_of_constant(&axes, v, t))
    return hd__onnx_refuse(r, node,
                           "expected a constant slope, one number or one for each channel (C x 1 x 1), found "
                           "another value; use PyTorch's PReLU");
  if (axes && v->rank == 2)
    HD_TRY(hd__onnx_flatten(v, r, node, false));
  else if (axes)
    HD_TRY(hd__onnx_to_channels(v, r, node, axes, false));
  memcpy(from, v->layer, sizeof from);
  HD_TRY(hd__onnx_put(v, r, node, hd__onnx_resolve(r, slope), "op: prelu, from: \"%s\", num_parameters: %lld", from,
                      (long long)hd__onnx_elems(t)));
  return add_vector(r, node, v->layer, "weight", slope, hd__onnx_elems(t));
}

static hd_status read_gelu(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  HD_TRY(view_of(v, r, node, 0));
  return put_plain(v, r, node,
                   hd__onnx_text(node, "approximate", "tanh") ? "op: gelu, approximate: tanh"
                                                              : "op: gelu, approximate: none");
}

static hd_status read_dropout(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  char p[HD_NUMBER_BYTES], op[64 + HD_NUMBER_BYTES];
  double ratio;
  bool is_training = false;
  if (*hd__onnx_input(node, 2) && (!hd__onnx_flag(&is_training, r, hd__onnx_input(node, 2)) || is_training))
    return hd__onnx_refuse(
        r, node, "expected training_mode false, found true or a computed value; export the network in evaluation mode");
  if (!hd__onnx_scalar(&ratio, r, hd__onnx_input(node, 1)))
    ratio = (double)hd__onnx_float(node, "ratio", 0.5f);
  hd__format_float(p, (float)ratio);
  snprintf(op, sizeof op, "op: dropout, p: %s", p);
  HD_TRY(view_of(v, r, node, 0));
  return put_plain(v, r, node, op);
}

/* ---- The table ---- */

static const struct form {
  const char *op;
  hd_onnx_form *read;
  const char *attributes; /* attributes that `read` handles, or that change no number */
} forms[] = {
    {"Conv", read_conv, "auto_pad dilations group kernel_shape pads strides"},
    {"ConvTranspose", read_conv, "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
    {"MaxPool", read_pool, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"},
    {"AveragePool", read_pool, "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"},
    {"GlobalAveragePool", read_line, ""},
    {"GlobalMaxPool", read_line, ""},
    {"ReduceMean", read_line, "axes keepdims noop_with_empty_axes"},
    {"ReduceMax", read_line, "axes keepdims noop_with_empty_axes"},
    {"ReduceSum", read_line, "axes keepdims noop_with_empty_axes"},
    {"Resize", read_resize,
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
     "keep_aspect_ratio_policy mode nearest_mode"},
    {"Upsample", read_resize, "mode scales"},
    {"Pad", read_pad, "mode pads paddings value"},
    {"Gemm", read_gemm, "alpha beta broadcast transA transB"},
    {"MatMul", read_matmul, ""},
    {"Add", read_binary, ""},
    {"Sub", read_binary, ""},
    {"Mul", read_binary, ""},
    {"Div", read_binary, ""},
    {"Sum", read_sum, ""},
    {"Pow", read_power, ""},
    {"Min", read_bound, ""},
    {"Max", read_bound, ""},
    {"Concat", hd__onnx_read_concat, "axis"},
    {"Split", hd__onnx_read_split, "axis num_outputs split"},
    {"Slice", read_slice, "axes ends starts"},
    {"Gather", hd__onnx_read_gather, "axis"},
    {"Flatten", hd__onnx_read_flatten, "axis"},
    {"Reshape", hd__onnx_read_reshape, "allowzero shape"},
    {"Squeeze", hd__onnx_read_squeeze, "axes"},
    {"Unsqueeze", hd__onnx_read_unsqueeze, "axes"},
    {"Transpose", hd__onnx_read_transpose, "perm"},
    {"Expand", hd__onnx_read_expand, ""},
    {"DepthToSpace", hd__onnx_read_depth, "blocksize mode"},
    {"SpaceToDepth", hd__onnx_read_depth, "blocksize mode"},
    {"BatchNormalization", read_batch_norm, "epsilon momentum spatial training_mode"},
    {"LayerNormalization", read_layer_norm, "axis epsilon stash_type"},
    {"RMSNormalization", read_layer_norm, "axis epsilon stash_type"},
    {"GroupNormalization", read_group_norm, "epsilon num_groups stash_type"},
    {"InstanceNormalization", read_group_norm, "epsilon"},
    {"Relu", read_plain, ""},
    {"LeakyRelu", read_slope, "alpha"},
    {"Elu", read_slope, "alpha"},
    {"Celu", read_slope, "alpha"},
    {"Selu", read_selu, "alpha gamma"},
    {"HardSigmoid", read_hardsigmoid, "alpha beta"},
    {"HardSwish", read_plain, ""},
    {"Softplus", read_plain, ""},
    {"Mish", read_plain, ""},
    {"Swish", read_plain, ""},
    {"Neg", read_plain, ""},
    {"Clip", read_clip, "min max"},
    {"PRelu", read_prelu, ""},
    {"Sigmoid", read_plain, ""},
    {"Tanh", read_plain, ""},
    {"Gelu", read_gelu, "approximate"},
    {"Dropout", read_dropout, "ratio seed"},
    {"Softmax", read_softmax, "axis"},
    {"LogSoftmax", read_softmax, "axis"},
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

/* A weight of the normalised axes is the norm's, another one a layer of its own. */
static hd_status make_spelled_norm(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node,
                                   const hd_onnx_expression *e) {
  const HdOnnx__Tensor *of[] = {e->weight ? hd__onnx_tensor(r, e->weight) : NULL,
                                e->bias ? hd__onnx_tensor(r, e->bias) : NULL};
  const bool rms = e->kind == HD_ONNX_RMS_NORM;
  int64_t axis[8], elems = 1;
  uint32_t axes = 0, wanted = 0, found;
  const int count = hd__onnx_list(axis, r, e->norm, "axes", 1);
  for (int i = 0; i < count; i++) {
    const int a = hd__onnx_axis(v, axis[i]);
    if (a < 0 || a == v->batch)
      return hd__onnx_refuse(r, node, "expected a norm over axes behind the batch, found others; normalise channels");
    axes |= 1u << a;
    wanted |= hd__onnx_side(v, a) > 1 ? 1u << a : 0;
    elems *= hd__onnx_side(v, a);
  }
  bool owns = count > 0 && !(rms && e->bias);
  for (int i = 0; i < 2; i++)
    owns =
        owns && (!of[i] || (axes_of_constant(&found, v, of[i]) && found == wanted && hd__onnx_elems(of[i]) == elems));
  if (!count)
    return hd__onnx_refuse(r, node, "expected constant axes of the norm, found others; export it again");
  HD_TRY(put_norm(v, r, node, rms ? "rms_norm" : "layer_norm", axes, e->number, owns ? e->weight : NULL,
                  owns ? e->bias : NULL));
  if (!owns && e->weight)
    HD_TRY(apply_constant(v, r, node, 'M', e->weight));
  return !owns && e->bias ? apply_constant(v, r, node, 'A', e->bias) : HD_OK;
}

/* Whether a reshape has the shape of a view. */
static bool restores(hd_onnx_reader *r, const hd_onnx_view *v, const HdOnnx__Node *reshape) {
  int64_t side[8];
  bool same = hd__onnx_list(side, r, reshape, "shape", 1) == v->rank && v->batch == 0;
  for (int i = 1; i < v->rank && same; i++)
    same = side[i] == -1 || side[i] == 0 || side[i] == hd__onnx_side(v, i);
  return same;
}

static hd_status make_expression(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node,
                                 const hd_onnx_expression *e) {
  char number[HD_NUMBER_BYTES], op[64 + HD_NUMBER_BYTES];
  if (e->kind == HD_ONNX_LINEAR)
    return read_linear(v, r, node, (product){.x = e->x, .weight = e->weight, .bias = e->bias, .alpha = 1, .beta = 1});
  HD_TRY(hd__onnx_view(v, r, e->x));
  if (e->kind == HD_ONNX_FUNCTION)
    return put_plain(v, r, node, e->layer);
  if (e->kind == HD_ONNX_SOFTPLUS) {
    hd__format_float(number, e->number);
    snprintf(op, sizeof op, "op: softplus, beta: %s", number);
    return put_plain(v, r, node, op);
  }
  if (e->kind == HD_ONNX_GROUP_NORM && !restores(r, v, e->back))
    return hd__onnx_refuse(r, node, "expected a group norm that keeps the shape, found another one; export it again");
  if (e->kind == HD_ONNX_GROUP_NORM)
    return put_group_norm(v, r, node, e->groups, hd__onnx_float(e->norm, "epsilon", 1e-5f), e->weight, e->bias);
  return make_spelled_norm(v, r, node, e);
}

hd_status hd__onnx_make(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  hd_onnx_expression e;
  if (k == 0)
    hd__onnx_find_expression(&e, r, node);
  if (k == 0 && e.kind != HD_ONNX_NO_EXPRESSION)
    return make_expression(out, r, node, &e);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (hd__onnx_is(node, forms[i].op)) {
      HD_TRY(check_attributes(r, node, forms[i].attributes));
      if (k > 0 && forms[i].read != hd__onnx_read_split)
        return hd__onnx_refuse(r, node, "expected its first output to be read, found output %d; use the first alone",
                               k + 1);
      return forms[i].read(out, r, node, k);
    }
  return hd__onnx_refuse(r, node, "expected an operator that heddle has, found %.40s; docs/export.md lists them",
                         node->op_type);
}

#endif
