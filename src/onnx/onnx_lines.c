/* Operators of an ONNX file along some axes: means, maxima, sums and softmax; see onnx_layers.h. */
#ifdef HD_HAVE_ONNX

#include <string.h>

#include "onnx/onnx_layers.h"

/* Whether some axes are the channels of an image, and the others its pixels. */
static bool are_channels(const hd_onnx_view *v, uint32_t axes) {
  const int64_t pixels = v->h * v->w;
  int64_t channels = 1;
  bool are = !v->flat && v->c > 1;
  for (int i = 0; i < v->atoms; i++) {
    const bool chosen = axes >> v->atom[i].axis & 1;
    are = are && chosen == (v->atom[i].step >= pixels) && v->atom[i].step > 0;
    channels *= chosen ? v->atom[i].size : 1;
  }
  return are && channels == v->c;
}

static hd_status put_line(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, bool mean, uint32_t axes) {
  const bool channels = are_channels(v, axes);
  char from[HD_ONNX_NAME_BYTES];
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

/* A value along the axes of a node: its largest element, its sum, or its mean. */
static hd_status put_axes(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, bool largest, bool sum) {
  const bool pool = !strncmp(node->op_type, "Global", 6);
  int64_t axis[8];
  int to[HD_ONNX_RANK], rank = 0;
  uint32_t axes = 0;
  const int count = pool ? 0 : hd__onnx_list(axis, r, node, "axes", 1);
  bool good = pool ? v->rank > 2 && v->batch < 2 : count > 0;
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
    HD_TRY(hd__onnx_put_plain(v, r, node, op));
  }
  if (pool || hd__onnx_int(node, "keepdims", 1))
    return HD_OK;
  for (int i = 0; i < v->rank; i++)
    to[i] = axes >> i & 1 ? -1 : rank++;
  hd__onnx_rename_axes(v, to, rank);
  return HD_OK;
}

hd_status hd__onnx_read_line(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  return put_axes(v, r, node, strstr(node->op_type, "Max") != NULL, !strcmp(node->op_type, "ReduceSum"));
}

/* ReduceMin as -max(-x), ReduceL1 as the sum of |x|, ReduceSumSquare as that of x * x. */
hd_status hd__onnx_read_line_of(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  char from[HD_ONNX_NAME_BYTES];
  const bool min = !strcmp(node->op_type, "ReduceMin");
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  memcpy(from, v->layer, sizeof from);
  if (min)
    HD_TRY(hd__onnx_put_plain(v, r, node, "op: scale, factor: -1"));
  else if (!strcmp(node->op_type, "ReduceL1"))
    HD_TRY(hd__onnx_put_abs(v, r, node));
  else
    HD_TRY(hd__onnx_put(v, r, node, NULL, "op: mul, from: [\"%s\", \"%s\"]", from, from));
  HD_TRY(put_axes(v, r, node, min, !min));
  return min ? hd__onnx_put_plain(v, r, node, "op: scale, factor: -1") : HD_OK;
}

hd_status hd__onnx_read_softmax(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const bool old = r->opset < HD_ONNX_SOFTMAX_OF_ONE_AXIS;
  HD_TRY(hd__onnx_merged_view(v, r, hd__onnx_input(node, 0)));
  if (v->scores && !strcmp(node->op_type, "Softmax"))
    return hd__onnx_softmax_of_scores(v, r, node, hd__onnx_int(node, "axis", old ? 1 : -1), old);
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  const int axis = hd__onnx_axis(v, hd__onnx_int(node, "axis", old ? 1 : -1));
  if (axis < 1 || axis == v->batch || v->batch != 0)
    return hd__onnx_refuse(r, node, "expected a softmax over an axis behind the batch, found axis %lld; use axis 1",
                           (long long)hd__onnx_int(node, "axis", old ? 1 : -1));
  if (v->rank == 2)
    HD_TRY(hd__onnx_flatten(v, r, node, false));
  else
    HD_TRY(hd__onnx_to_channels(v, r, node, old ? ~0u << axis : 1u << axis, false));
  return hd__onnx_put_plain(v, r, node, strcmp(node->op_type, "Softmax") ? "op: log_softmax" : "op: softmax");
}

#endif
