/* Convolutions of an ONNX file; see onnx_layers.h. */
#ifdef HD_HAVE_ONNX

#include <string.h>

#include "base/alloc.h"
#include "onnx/onnx_layers.h"

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
    HD_THEN(status, hd__onnx_add_vector(r, c->node, layer, "bias", c->bias, c->out));
  hd__onnx_keep_owner(r, layer, c->node->op_type, c->weight, c->bias);
  return status;
}

/* `v`: the image that it reads, then its output, whose sides the caller knows. */
static hd_status put_conv(hd_onnx_view *v, hd_onnx_reader *r, const convolution *c, const hd_onnx_window *w,
                          const int64_t side[2], const char *extra) {
  const char *owner = hd__onnx_find_owner(r, c->node->op_type, c->weight, c->bias);
  char from[HD_ONNX_NAME_BYTES], text[HD_ONNX_PARAMETERS_BYTES];
  if (side[0] < 1 || side[1] < 1)
    return hd__onnx_refuse(r, c->node,
                           "expected an input as large as the kernel, found %lld x %lld; use a smaller "
                           "kernel",
                           (long long)v->h, (long long)v->w);
  memcpy(from, v->layer, sizeof from);
  hd__onnx_whole(v, "", v->rank, false, c->out, side[0], side[1]);
  HD_TRY(hd__onnx_put(v, r, c->node, owner ? NULL : hd__onnx_resolve(r, c->weight),
                      "op: %s, from: \"%s\", out: %lld, kernel: " HD_ONNX_PAIR ", stride: " HD_ONNX_PAIR
                      ", padding: " HD_ONNX_PAIR ", dilation: " HD_ONNX_PAIR ", groups: %lld%s%s",
                      c->transposed ? "conv_transpose2d" : "conv2d", from, c->out, HD_ONNX_OF(w->kernel),
                      HD_ONNX_OF(w->stride), HD_ONNX_OF(w->begin), HD_ONNX_OF(w->dilation), c->groups, extra,
                      hd__onnx_parameters(text, owner, *c->bias)));
  return owner ? HD_OK : add_kernel(r, c, v->layer);
}

/* What a padding of the two ends leaves of an attribute output_shape. */
static hd_status pad_to_shape(hd_onnx_window *w, hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_view *v,
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
    if (!a && all < 0)
      return hd__onnx_refuse(r, node,
                             "expected a kernel that is at least as large as the stride with auto_pad, found a smaller "
                             "one, of which programs make other sizes; write pads");
    w->begin[i] = all < 0 ? 0 : upper ? all / 2 : all - all / 2;
    w->end[i] = all - w->begin[i];
  }
  return HD_OK;
}

/* The padding of heddle's layer is that of the beginning; what the end has less is output_padding, what it has more is
 * cut off. */
static hd_status read_transposed(hd_onnx_view *v, hd_onnx_reader *r, const convolution *c, hd_onnx_window *w) {
  const int64_t before[2] = {v->h, v->w};
  int64_t more[2], side[2], cut[2];
  char extra[64];
  HD_TRY(hd__onnx_sides(more, r, c->node, w, "output_padding", 0, 0, 1));
  HD_TRY(pad_to_shape(w, r, c->node, v, more));
  for (int i = 0; i < 2; i++) {
    const int64_t ends = more[i] + w->begin[i] - w->end[i];
    more[i] = ends < 0 ? 0 : ends;
    cut[i] = ends < 0 ? -ends : 0;
    side[i] = w->stride[i] * (before[i] - 1) + more[i] + w->dilation[i] * (w->kernel[i] - 1) + 1 - 2 * w->begin[i];
  }
  snprintf(extra, sizeof extra, ", output_padding: " HD_ONNX_PAIR, HD_ONNX_OF(more));
  HD_TRY(put_conv(v, r, c, w, side, extra));
  for (int i = 2 - w->sides; i < 2; i++)
    if (cut[i] > 0)
      HD_TRY(hd__onnx_cut(v, r, c->node, i + w->sides, 0, side[i] - cut[i]));
  return HD_OK;
}

/* `bias`: of a node behind it, or NULL; `chomp`: how much of the padding at the end is left out. */
hd_status hd__onnx_convolve(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const char *bias,
                            int64_t chomp) {
  convolution c = {.bias = bias};
  hd_onnx_window w;
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  if (v->rank > 2)
    HD_TRY(hd__onnx_settle(v, r, node));
  HD_TRY(read_kernel(&c, r, node, v));
  HD_TRY(hd__onnx_read_window(&w, r, node, v, c.dims + 2));
  if (c.transposed)
    return read_transposed(v, r, &c, &w);
  w.end[1] -= chomp;
  if (!hd__onnx_is_even(&w))
    HD_TRY(hd__onnx_put_pad(v, r, node, &w, "zero"));
  const int64_t side[2] = {hd__onnx_output_side(&w, 0, v->h), hd__onnx_output_side(&w, 1, v->w)};
  return put_conv(v, r, &c, &w, side, "");
}

hd_status hd__onnx_read_conv(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  return hd__onnx_convolve(out, r, node, NULL, 0);
}

static hd_status read_chomped(bool *found, hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *conv,
                              int64_t from_end) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, hd__onnx_input(conv, 1));
  const HdOnnx__Attribute *pads = hd__onnx_attribute(conv, "pads"), *strides = hd__onnx_attribute(conv, "strides");
  *found = t && t->n_dims == 3 && pads && pads->n_ints == 2 && pads->ints[1] >= from_end && from_end > 0 &&
           (!strides || (strides->n_ints == 1 && strides->ints[0] == 1)) && hd__onnx_uses(r, conv->output[0]) == 1;
  return *found ? hd__onnx_convolve(out, r, conv, NULL, from_end) : HD_OK;
}

/* x[:, :, :-n] of a causal convolution pads it less; other parts are cut off. */
hd_status hd__onnx_read_slice_or_chomp(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
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

#endif
