/* Linear layers of an ONNX file: products with a constant matrix; see onnx_layers.h. */
#ifdef HD_HAVE_ONNX

#include <string.h>

#include "base/alloc.h"
#include "onnx/onnx_layers.h"

enum { TYPE_FLOAT = 1 };

static hd_status add_matrix(hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_product *p,
                            const hd_onnx_view *x, const char *layer, int64_t outputs, int64_t inputs) {
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
  if ((int)t->n_dims > x->rank || (count != 1 && (count != outputs || t->dims[t->n_dims - 1] != outputs)))
    return hd__onnx_refuse(r, node, "expected a bias of %lld numbers, found another shape; export a linear layer",
                           (long long)outputs);
  for (int64_t i = 0; i < outputs; i++)
    bias[i] = (p->beta == 1 ? 1 : p->beta) * one[count == 1 ? 0 : i];
  const hd_shape of_bias = hd__onnx_vector(outputs);
  return hd__onnx_add_weight(r, layer, "bias", &of_bias, bias);
}

/* The weight before a transposition. */
static void untranspose(hd_onnx_product *p, const hd_onnx_reader *r) {
  const HdOnnx__Node *turned = hd__onnx_producer(r, p->weight, "Transpose");
  const HdOnnx__Attribute *perm = turned ? hd__onnx_attribute(turned, "perm") : NULL;
  const HdOnnx__Tensor *t = turned ? hd__onnx_tensor(r, hd__onnx_input(turned, 0)) : NULL;
  if (t && t->data_type == TYPE_FLOAT && t->n_dims == 2 && (!perm || (perm->n_ints == 2 && perm->ints[0] == 1))) {
    p->weight = hd__onnx_input(turned, 0);
    p->by_outputs = !p->by_outputs;
  }
}

hd_status hd__onnx_put_product(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, hd_onnx_product p) {
  const bool matrix = p.outputs == 0;
  if (matrix)
    untranspose(&p, r);
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, p.weight);
  if (!t || (matrix && t->n_dims != 2) || hd__onnx_elems(t) < 1)
    return hd__onnx_refuse(r, node,
                           "expected a constant matrix as weight, found another value; heddle has no products of "
                           "two computed values but in attention");
  const int64_t outputs = matrix ? t->dims[p.by_outputs ? 0 : 1] : p.outputs,
                inputs = matrix ? t->dims[p.by_outputs ? 1 : 0] : p.inputs;
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
  const bool shares = matrix && p.alpha == 1 && p.beta == 1 && (!v->flat || hd__onnx_in_order(v));
  const bool pixels = !v->flat && v->h > 1; /* `linear` is over flat values, or those of a row of places */
  const char *kind = pixels ? p.by_outputs ? "pixels" : "turned pixels" : p.by_outputs ? "linear" : "turned";
  const char *owner = shares ? hd__onnx_find_owner(r, kind, p.weight, p.bias) : NULL;
  char from[HD_ONNX_NAME_BYTES], text[HD_ONNX_PARAMETERS_BYTES];
  const hd_onnx_view x = *v;
  memcpy(from, v->layer, sizeof from);
  HD_TRY(hd__onnx_set_channels(v, r, node, last, outputs));
  HD_TRY(hd__onnx_put(v, r, node, owner ? NULL : hd__onnx_resolve(r, p.weight), "op: %s, from: \"%s\", out: %lld%s",
                      pixels ? "conv2d, kernel: 1" : "linear", from, (long long)outputs,
                      hd__onnx_parameters(text, owner, *p.bias)));
  if (owner)
    return HD_OK;
  if (shares)
    hd__onnx_keep_owner(r, v->layer, kind, p.weight, p.bias);
  return add_matrix(r, node, &p, &x, v->layer, outputs, inputs);
}

hd_status hd__onnx_put_linear(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, hd_onnx_product p) {
  if (!hd__onnx_tensor(r, p.weight))
    return hd__onnx_put_product(v, r, node, p); /* refuses it */
  HD_TRY(hd__onnx_beside_view(v, r, p.x));
  return hd__onnx_put_product(v, r, node, p);
}

hd_status hd__onnx_read_gemm(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  if (hd__onnx_int(node, "transA", 0))
    return hd__onnx_refuse(r, node, "expected transA 0, found 1; export it as a linear layer");
  return hd__onnx_put_linear(out, r, node,
                             (hd_onnx_product){.x = hd__onnx_input(node, 0),
                                               .weight = hd__onnx_input(node, 1),
                                               .bias = hd__onnx_input(node, 2),
                                               .by_outputs = hd__onnx_int(node, "transB", 0) != 0,
                                               .alpha = hd__onnx_float(node, "alpha", 1),
                                               .beta = hd__onnx_float(node, "beta", 1)});
}

hd_status hd__onnx_read_matmul(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  bool is_attention = false;
  if (!hd__onnx_tensor(r, hd__onnx_input(node, 1))) {
    HD_TRY(hd__onnx_read_attention(&is_attention, out, r, node));
    return is_attention ? HD_OK : hd__onnx_read_product(out, r, node, k);
  }
  hd_onnx_product p = {
      .x = hd__onnx_input(node, 0), .weight = hd__onnx_input(node, 1), .bias = "", .alpha = 1, .beta = 1};
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, p.weight);
  const bool vector = t && t->n_dims == 1;
  int to[HD_ONNX_RANK];
  if (vector) {
    p.inputs = t->dims[0];
    p.outputs = 1;
  }
  HD_TRY(hd__onnx_put_linear(out, r, node, p));
  if (!vector)
    return HD_OK;
  if (out->rank < 3 || out->batch == out->rank - 1)
    return hd__onnx_refuse(r, node, "expected a matrix as weight, found a vector; use a linear layer of one output");
  for (int i = 0; i < out->rank; i++)
    to[i] = i < out->rank - 1 ? i : -1;
  hd__onnx_rename_axes(out, to, out->rank - 1);
  return HD_OK;
}

#endif
