/* Arithmetic of an ONNX file: a value and a constant, or two values; see onnx_layers.h. */
#ifdef HD_HAVE_ONNX

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "onnx/onnx_layers.h"

/* The axes along which a constant has numbers; false: it does not fit the tensor. */
bool hd__onnx_axes_of_constant(uint32_t *axes, const hd_onnx_view *v, const HdOnnx__Tensor *t) {
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

bool hd__onnx_lies_along(const hd_onnx_view *v, const hd_onnx_reader *r, const char *name, uint32_t axes) {
  const HdOnnx__Tensor *t = name && *name ? hd__onnx_tensor(r, name) : NULL;
  uint32_t found, wanted = 0;
  for (int axis = 0; axis < v->rank; axis++)
    wanted |= axes >> axis & 1 && hd__onnx_side(v, axis) > 1 ? 1u << axis : 0;
  return !t || (hd__onnx_axes_of_constant(&found, v, t) && found == wanted);
}

/* x * weight + bias of each channel: a convolution of single pixels. A weight that the file does not have stays 1. */
static hd_status put_affine(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const char *name,
                            const float *weight, const float *bias, bool fixed) {
  const hd_shape shape = {4, {(int32_t)v->c, 1, 1, 1}}, of_bias = hd__onnx_vector(v->c);
  char from[HD_ONNX_NAME_BYTES];
  memcpy(from, v->layer, sizeof from);
  HD_TRY(hd__onnx_put(v, r, node, name, "op: conv2d, from: \"%s\", out: %lld, kernel: 1, groups: %lld%s", from,
                      (long long)v->c, (long long)v->c, bias ? "" : ", bias: false"));
  if (fixed)
    fprintf(r->rules, "%s{match: \"%s.%s\", requires_grad: false}", ftell(r->rules) > 0 ? ", " : "", v->layer,
            weight ? "weight" : "bias");
  if (weight)
    HD_TRY(hd__onnx_add_weight(r, v->layer, "weight", &shape, weight));
  else {
    HD_TRY(hd__onnx_add_equal(r, v->layer, "weight", v->c, 1));
    r->out->weights.tensor[r->out->weights.count - 1].shape = shape;
  }
  return bias ? hd__onnx_add_weight(r, v->layer, "bias", &of_bias, bias) : HD_OK;
}

/* x + number, x * number. */
hd_status hd__onnx_put_number(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, bool adds, double number) {
  if (adds ? number == 0 : number == 1)
    return HD_OK;
  if (!adds && fabs(number) <= HD_ONNX_MOST_FACTOR)
    return hd__onnx_put_scale(v, r, node, number);
  if (v->flat || v->atoms == 0)
    HD_TRY(hd__onnx_image(v, r, node));
  HD_OWNED float *all = NULL;
  HD_TRY(HD_NEW_RAW(all, v->c, r->ctx, "%s: out of memory while reading", r->path));
  for (int64_t c = 0; c < v->c; c++)
    all[c] = (float)number;
  return put_affine(v, r, node, NULL, adds ? NULL : all, adds ? all : NULL, true);
}

/* x + c, x - c, x * c or x / c. */
hd_status hd__onnx_apply_constant(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, char op,
                                  const char *name) {
  const bool adds = op == 'A' || op == 'S';
  const HdOnnx__Tensor *t;
  uint32_t axes;
  float *read;
  HD_TRY(hd__onnx_read_floats(&read, &t, r, node, name, -1));
  HD_OWNED float *number = read;
  if (!hd__onnx_axes_of_constant(&axes, v, t))
    return hd__onnx_refuse(r, node,
                           "expected a constant with numbers along axes of the value, found another shape; make it fit "
                           "without spreading the value");
  for (int64_t i = 0; i < hd__onnx_elems(t); i++)
    number[i] = op == 'S' ? -number[i] : op == 'D' ? 1 / number[i] : number[i];
  if (!axes)
    return hd__onnx_put_number(v, r, node, adds, (double)number[0]);
  if (adds && hd__onnx_elems(t) == hd__onnx_sample(v)) {
    if (v->flat)
      HD_TRY(hd__onnx_image(v, r, node));
    return hd__onnx_put_position(v, r, node, hd__onnx_resolve(r, name), number);
  }
  HD_TRY(hd__onnx_to_channels(v, r, node, axes, false));
  return put_affine(v, r, node, hd__onnx_resolve(r, name), adds ? NULL : number, adds ? number : NULL, false);
}

/* Whether a constant behind a convolution of images is a number for each channel. */
static bool is_bias_of(const HdOnnx__Tensor *t, const HdOnnx__Tensor *kernel) {
  return kernel && kernel->n_dims == 4 && t->n_dims == 4 && t->dims[1] > 1 && t->dims[1] == hd__onnx_elems(t);
}

/* An operator of a value and a constant, which is input `which`. */
static hd_status read_constant(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int which) {
  const char op = *node->op_type, *name = hd__onnx_input(node, (size_t)which);
  const HdOnnx__Node *conv = hd__onnx_producer(r, hd__onnx_input(node, (size_t)!which), NULL);
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  const char *kernel = conv ? hd__onnx_input(conv, 1) : "";
  if (op == 'A' && conv && (hd__onnx_is(conv, "Conv") || hd__onnx_is(conv, "ConvTranspose")) &&
      !*hd__onnx_input(conv, 2) && hd__onnx_uses(r, conv->output[0]) == 1 && is_bias_of(t, hd__onnx_tensor(r, kernel)))
    return hd__onnx_convolve(v, r, conv, name, 0);
  HD_TRY(hd__onnx_merged_view(v, r, hd__onnx_input(node, (size_t)!which)));
  if (v->scores && (op == 'A' || op == 'M' || (op == 'D' && which == 1)))
    return hd__onnx_change_scores(v, r, node, op, name);
  HD_TRY(hd__onnx_beside_view(v, r, hd__onnx_input(node, (size_t)!which)));
  if (op == 'D' && which == 0)
    return hd__onnx_refuse(r, node,
                           "expected a product of a value and a number, or an activation, found a number divided by a "
                           "value; docs/export.md lists what is read");
  if (op == 'S' && which == 0)
    HD_TRY(hd__onnx_put_plain(v, r, node, "op: scale, factor: -1"));
  return hd__onnx_apply_constant(v, r, node, op == 'S' && which == 0 ? 'A' : op, name);
}

/* a + b; where one of them is spread, a - -b: heddle's `add` spreads none. */
static hd_status put_sum(hd_onnx_view *out, hd_onnx_view *a, hd_onnx_view *b, hd_onnx_reader *r,
                         const HdOnnx__Node *node) {
  HD_TRY(hd__onnx_pair(out, a, b, r, node));
  hd_onnx_view *large = out->c * out->h * out->w == a->c * a->h * a->w ? a : b, *small = large == a ? b : a;
  if (small->c == large->c && small->h == large->h && small->w == large->w)
    return hd__onnx_put(out, r, node, NULL, "op: add, from: [\"%s\", \"%s\"]", a->layer, b->layer);
  HD_TRY(hd__onnx_put_plain(small, r, node, "op: scale, factor: -1"));
  return hd__onnx_put(out, r, node, NULL, "op: sub, from: [\"%s\", \"%s\"]", large->layer, small->layer);
}

/* Add, Mul, Sub and Div. */
hd_status hd__onnx_read_binary(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  static const char *const ops[] = {"", "sub", "mul", "div"};
  const char *op = ops[strcspn("ASMD", (char[]){*node->op_type, 0})];
  hd_onnx_view a, b;
  for (int i = 1; i >= 0; i--)
    if (hd__onnx_tensor(r, hd__onnx_input(node, (size_t)i)))
      return read_constant(out, r, node, i);
  HD_TRY(hd__onnx_beside_view(&a, r, hd__onnx_input(node, 0)));
  HD_TRY(hd__onnx_beside_view(&b, r, hd__onnx_input(node, 1)));
  if (*node->op_type == 'A')
    return put_sum(out, &a, &b, r, node);
  HD_TRY(hd__onnx_pair(out, &a, &b, r, node));
  return hd__onnx_put(out, r, node, NULL, "op: %s, from: [\"%s\", \"%s\"]", op, a.layer, b.layer);
}

/* Sum of several values. */
hd_status hd__onnx_read_sum(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  HD_TRY(hd__onnx_view_of(out, r, node, 0));
  for (size_t i = 1; i < node->n_input; i++) {
    hd_onnx_view a = *out, b;
    HD_TRY(hd__onnx_view_of(&b, r, node, i));
    HD_TRY(put_sum(out, &a, &b, r, node));
  }
  return HD_OK;
}

/* A square. */
hd_status hd__onnx_read_power(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  double power;
  char from[HD_ONNX_NAME_BYTES];
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  if (!hd__onnx_scalar(&power, r, hd__onnx_input(node, 1)) || (power != 2 && power != 1) ||
      (int)hd__onnx_tensor(r, hd__onnx_input(node, 1))->n_dims > v->rank)
    return hd__onnx_refuse(r, node, "expected the power 2, found another; write products");
  memcpy(from, v->layer, sizeof from);
  return power == 1 ? HD_OK : hd__onnx_put(v, r, node, NULL, "op: mul, from: [\"%s\", \"%s\"]", from, from);
}

#endif
