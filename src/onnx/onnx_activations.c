/* Operators of an ONNX file on each element: activations and limits; dropout; see onnx_layers.h. */
#ifdef HD_HAVE_ONNX

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "onnx/onnx_layers.h"

hd_status hd__onnx_read_plain(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  static const char *const op[][2] = {
      {"Relu", "op: relu"},           {"Sigmoid", "op: sigmoid"},       {"Tanh", "op: tanh"},
      {"HardSwish", "op: hardswish"}, {"Softplus", "op: softplus"},     {"Mish", "op: mish"},
      {"Swish", "op: swish"},         {"Neg", "op: scale, factor: -1"}, {"Selu", "op: selu"}};
  size_t i = 0;
  while (i + 1 < sizeof op / sizeof *op && strcmp(op[i][0], node->op_type))
    i++;
  HD_TRY(hd__onnx_beside_view(v, r, hd__onnx_input(node, 0)));
  return hd__onnx_put_plain(v, r, node, op[i][1]);
}

/* relu(x) + relu(-x) */
hd_status hd__onnx_put_abs(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node) {
  hd_onnx_view minus = *v;
  HD_TRY(hd__onnx_put_plain(v, r, node, "op: relu"));
  HD_TRY(hd__onnx_put_plain(&minus, r, node, "op: scale, factor: -1"));
  HD_TRY(hd__onnx_put_plain(&minus, r, node, "op: relu"));
  char from[HD_ONNX_NAME_BYTES];
  memcpy(from, v->layer, sizeof from);
  return hd__onnx_put(v, r, node, NULL, "op: add, from: [\"%s\", \"%s\"]", from, minus.layer);
}

/* Abs, and Softsign: x / (1 + |x|). */
hd_status hd__onnx_read_abs(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  if (!strcmp(node->op_type, "Abs"))
    return hd__onnx_put_abs(v, r, node);
  if (v->flat || v->atoms == 0)
    HD_TRY(hd__onnx_image(v, r, node));
  hd_onnx_view below = *v;
  char from[HD_ONNX_NAME_BYTES];
  memcpy(from, v->layer, sizeof from);
  HD_TRY(hd__onnx_put_abs(&below, r, node));
  HD_TRY(hd__onnx_put_number(&below, r, node, true, 1));
  return hd__onnx_put(v, r, node, NULL, "op: div, from: [\"%s\", \"%s\"]", from, below.layer);
}

/* LeakyRelu, Elu and Celu. */
hd_status hd__onnx_read_slope(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const bool leaks = !strcmp(node->op_type, "LeakyRelu");
  char op[64 + HD_NUMBER_BYTES], alpha[HD_NUMBER_BYTES];
  hd__format_float(alpha, hd__onnx_float(node, "alpha", leaks ? 0.01f : 1));
  snprintf(op, sizeof op, "op: %s, %s: %s", leaks ? "leaky_relu" : "elu", leaks ? "negative_slope" : "alpha", alpha);
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  const double width = (double)hd__onnx_float(node, "alpha", 1);
  if (strcmp(node->op_type, "Celu") != 0 || width == 1)
    return hd__onnx_put_plain(v, r, node, op);
  HD_TRY(hd__onnx_put_number(v, r, node, false, 1 / width));
  HD_TRY(hd__onnx_put_plain(v, r, node, "op: elu"));
  return hd__onnx_put_number(v, r, node, false, width);
}

hd_status hd__onnx_read_hardsigmoid(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const float alpha = hd__onnx_float(node, "alpha", 0.2f), beta = hd__onnx_float(node, "beta", 0.5f);
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  if (fabs((double)alpha - 1.0 / 6) < 1e-6 && beta == 0.5f)
    return hd__onnx_put_plain(v, r, node, "op: hardsigmoid");
  HD_TRY(hd__onnx_put_number(v, r, node, false, (double)alpha));
  HD_TRY(hd__onnx_put_number(v, r, node, true, (double)beta));
  return hd__onnx_put_plain(v, r, node, "op: clip, min: 0, max: 1");
}

/* gamma * elu of x where they are not those of selu. */
hd_status hd__onnx_read_selu(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const float alpha = hd__onnx_float(node, "alpha", 1.67326319f), gamma = hd__onnx_float(node, "gamma", 1.05070102f);
  char op[64 + HD_NUMBER_BYTES], text[HD_NUMBER_BYTES];
  if (fabs((double)alpha - 1.6732632423543773) < 1e-6 && fabs((double)gamma - 1.0507009873554805) < 1e-6)
    return hd__onnx_read_plain(v, r, node, k);
  hd__format_float(text, alpha);
  snprintf(op, sizeof op, "op: elu, alpha: %s", text);
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  HD_TRY(hd__onnx_put_plain(v, r, node, op));
  return hd__onnx_put_number(v, r, node, false, (double)gamma);
}

/* A limit of a clip: an attribute in older opsets, an input in later ones. The format's is the largest float where a
 * file has none, which an infinite value is cut to. */
static hd_status read_limit(float *out, hd_onnx_reader *r, const HdOnnx__Node *node, const char *name, size_t input) {
  const bool is_input = *hd__onnx_input(node, input);
  double value = (double)hd__onnx_float(node, name, input == 1 ? -FLT_MAX : FLT_MAX);
  if (is_input && !hd__onnx_scalar(&value, r, hd__onnx_input(node, input)))
    return hd__onnx_refuse(r, node, "expected a constant '%s', found a computed value; write a number", name);
  *out = (float)value;
  return HD_OK;
}

/* What is between two limits; an infinite one is none. */
static hd_status put_clip(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, float min, float max) {
  char text[HD_NUMBER_BYTES], op[64 + 2 * HD_NUMBER_BYTES] = "op: clip";
  if (min == 0 && (max == 6 || max == INFINITY))
    return hd__onnx_put_plain(v, r, node, max == 6 ? "op: relu6" : "op: relu");
  if (!(min < INFINITY) || !(max > -INFINITY) || min > max)
    return hd__onnx_refuse(r, node,
                           "expected limits of which the first is not above the second, found %g and %g; swap them",
                           (double)min, (double)max);
  hd__format_float(text, min);
  if (min > -INFINITY)
    snprintf(op + strlen(op), sizeof op - strlen(op), ", min: %s", text);
  hd__format_float(text, max);
  if (max < INFINITY)
    snprintf(op + strlen(op), sizeof op - strlen(op), ", max: %s", text);
  return hd__onnx_put_plain(v, r, node, op);
}

hd_status hd__onnx_read_clip(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  float min, max;
  HD_TRY(read_limit(&min, r, node, "min", 1));
  HD_TRY(read_limit(&max, r, node, "max", 2));
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  return put_clip(v, r, node, min, max);
}

/* Min and Max of a value and a number. */
hd_status hd__onnx_read_bound(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const bool min = !strcmp(node->op_type, "Min");
  const size_t which = hd__onnx_tensor(r, hd__onnx_input(node, 0)) ? 0 : 1;
  double number;
  bool good = node->n_input == 2 && hd__onnx_scalar(&number, r, hd__onnx_input(node, which));
  if (good) {
    HD_TRY(hd__onnx_view_of(v, r, node, !which));
    good = (int)hd__onnx_tensor(r, hd__onnx_input(node, which))->n_dims <= v->rank;
  }
  if (!good)
    return hd__onnx_refuse(r, node, "expected a value and a constant number, found others; use clip");
  return put_clip(v, r, node, min ? -INFINITY : (float)number, min ? (float)number : INFINITY);
}

/* A slope for all elements, or C x 1 x 1, one for each channel; before opset 7 C, too. */
hd_status hd__onnx_read_prelu(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const char *slope = hd__onnx_input(node, 1);
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, slope);
  char from[HD_ONNX_NAME_BYTES];
  uint32_t axes = 0;
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  const bool old = r->opset < 7 && t && t->n_dims == 1 && t->dims[0] > 1;
  if (old && v->rank > 2 && v->batch == 0 && t->dims[0] == hd__onnx_side(v, 1))
    axes = 1u << 1;
  else if (!t || (old && v->rank > 2) || !hd__onnx_axes_of_constant(&axes, v, t))
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
  return hd__onnx_add_vector(r, node, v->layer, "weight", slope, hd__onnx_elems(t));
}

hd_status hd__onnx_read_gelu(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  return hd__onnx_put_plain(v, r, node,
                            hd__onnx_text(node, "approximate", "tanh") ? "op: gelu, approximate: tanh"
                                                                       : "op: gelu, approximate: none");
}

hd_status hd__onnx_read_dropout(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  char p[HD_NUMBER_BYTES], op[64 + HD_NUMBER_BYTES];
  double ratio;
  if (hd__onnx_drops(r, node))
    return hd__onnx_refuse(
        r, node, "expected training_mode false, found true or a computed value; export the network in evaluation mode");
  if (!hd__onnx_scalar(&ratio, r, hd__onnx_input(node, 1)))
    ratio = (double)hd__onnx_float(node, "ratio", 0.5f);
  hd__format_float(p, (float)ratio);
  snprintf(op, sizeof op, "op: dropout, p: %s", p);
  HD_TRY(hd__onnx_merged_view(v, r, hd__onnx_input(node, 0)));
  if (v->scores) /* heddle's attention drops none */
    return HD_OK;
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  return hd__onnx_put_plain(v, r, node, op);
}

#endif
