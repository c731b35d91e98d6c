/* Norms of an ONNX file: its operators, and those that are spelled out; see onnx_layers.h. */
#ifdef HD_HAVE_ONNX

#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "onnx/onnx_layers.h"

/* Whether a value is a Constant of these equal numbers: what exporters write for a norm without parameters, which are
 * initializers. */
static bool is_filler(hd_onnx_reader *r, const char *name, int64_t count, float value) {
  const HdOnnx__Tensor *t = hd__onnx_producer(r, name, "Constant") ? hd__onnx_tensor(r, name) : NULL;
  HD_OWNED float *elems = t && hd__onnx_elems(t) == count ? hd__malloc((size_t)count * sizeof *elems) : NULL;
  bool is = elems && hd__onnx_floats(elems, t, count);
  for (int64_t i = 0; i < count && is; i++)
    is = elems[i] == value;
  return is;
}

/* A weight and a bias of a norm; "" or NULL: the norm has none, so that they are 1 and 0. */
typedef struct affine {
  const char *weight, *bias;
} affine;

static hd_status add_affine(hd_onnx_reader *r, const HdOnnx__Node *node, const char *layer, const affine *a,
                            int64_t count) {
  const char *weight = a->weight && is_filler(r, a->weight, count, 1) ? NULL : a->weight;
  const char *bias = a->bias && is_filler(r, a->bias, count, 0) ? NULL : a->bias;
  if (weight && *weight)
    HD_TRY(hd__onnx_add_vector(r, node, layer, "weight", weight, count));
  else
    HD_TRY(hd__onnx_add_equal(r, layer, "weight", count, 1));
  if (bias && *bias)
    return hd__onnx_add_vector(r, node, layer, "bias", bias, count);
  return hd__onnx_add_equal(r, layer, "bias", count, 0);
}

/* "1e-05" */
static const char *eps_of(char text[HD_NUMBER_BYTES], float eps) {
  hd__format_float(text, eps);
  return text;
}

/* The view of what a norm of channels reads, whose first axis is the batch. */
static hd_status view_of_samples(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node) {
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  if (v->batch == 0)
    return HD_OK;
  return hd__onnx_refuse(r, node, "expected the batch as axis 0, found it as axis %d; transpose behind it", v->batch);
}

/* Before opset 14 a norm in training is one with more outputs than one, before opset 7 one without is_test. */
static bool is_in_training(const hd_onnx_reader *r, const HdOnnx__Node *node) {
  bool is = hd__onnx_int(node, "training_mode", 0) != 0 || !hd__onnx_int(node, "is_test", r->opset >= 7);
  for (size_t i = 1; i < node->n_output; i++)
    is = is || *node->output[i];
  return is;
}

hd_status hd__onnx_read_batch_norm(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  static const char *const suffix[] = {"weight", "bias", "running_mean", "running_var"};
  char eps[HD_NUMBER_BYTES], momentum[HD_NUMBER_BYTES], from[HD_ONNX_NAME_BYTES];
  double kept = 0; /* as a decimal number: 1 - 0.9 is 0.1 */
  if (is_in_training(r, node) || hd__onnx_int(node, "spatial", 1) != 1)
    return hd__onnx_refuse(
        r, node, "expected training_mode 0 and spatial 1, found others; export the network in evaluation mode");
  HD_TRY(view_of_samples(v, r, node));
  HD_TRY(hd__onnx_settle(v, r, node));
  hd__format_float(momentum, hd__onnx_float(node, "momentum", 0.9f));
  hd__parse_double(&kept, momentum);
  hd__format_float(momentum, (float)(1 - kept));
  memcpy(from, v->layer, sizeof from);
  HD_TRY(hd__onnx_put(v, r, node, hd__onnx_resolve(r, hd__onnx_input(node, 1)),
                      "op: batch_norm, from: \"%s\", eps: %s, momentum: %s", from,
                      eps_of(eps, hd__onnx_float(node, "epsilon", 1e-5f)), momentum));
  for (int i = 0; i < 4; i++)
    HD_TRY(hd__onnx_add_vector(r, node, v->layer, suffix[i], hd__onnx_input(node, 1 + (size_t)i), v->c));
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
  const bool whole = elems == hd__onnx_sample(v) && !rms, merged = hd__onnx_side(v, v->batch) > 1;
  if (whole || (v->rank == 2 && !merged))
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
    HD_TRY(hd__onnx_add_vector(r, node, v->layer, "weight", weight, elems));
  else if (rms)
    HD_TRY(hd__onnx_add_equal(r, v->layer, "weight", elems, 1));
  else
    HD_TRY(add_affine(r, node, v->layer, &(affine){weight, bias}, elems));
  for (int i = first; i < r->out->weights.count && whole && !v->flat; i++)
    r->out->weights.tensor[i].shape = (hd_shape){3, {(int32_t)v->c, (int32_t)v->h, (int32_t)v->w}};
  return HD_OK;
}

hd_status hd__onnx_read_layer_norm(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const bool rms = strstr(node->op_type, "RMS") != NULL;
  HD_TRY(hd__onnx_beside_view(v, r, hd__onnx_input(node, 0)));
  const int axis = hd__onnx_axis(v, hd__onnx_int(node, "axis", -1));
  if (axis < 1 || v->batch >= axis)
    return hd__onnx_refuse(
        r, node,
        "expected a norm over whole samples, or some last axes of them, found axis %lld; normalise behind the batch",
        (long long)hd__onnx_int(node, "axis", -1));
  if (!hd__onnx_lies_along(v, r, hd__onnx_input(node, 1), ~0u << axis) ||
      !hd__onnx_lies_along(v, r, hd__onnx_input(node, 2), ~0u << axis))
    return hd__onnx_refuse(r, node,
                           "expected a weight and a bias of the axes from %d on, found others; multiply and add them "
                           "behind the norm",
                           axis);
  return put_norm(v, r, node, rms ? "rms_norm" : "layer_norm", ~0u << axis, hd__onnx_float(node, "epsilon", 1e-5f),
                  hd__onnx_input(node, 1), hd__onnx_input(node, 2));
}

static hd_status put_group_norm(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int64_t groups, float eps,
                                const affine *a) {
  char text[HD_NUMBER_BYTES], from[HD_ONNX_NAME_BYTES];
  HD_TRY(hd__onnx_settle(v, r, node));
  memcpy(from, v->layer, sizeof from);
  HD_TRY(hd__onnx_put(v, r, node, a->weight ? hd__onnx_resolve(r, a->weight) : NULL,
                      "op: group_norm, from: \"%s\", groups: %lld, eps: %s", from, (long long)groups,
                      eps_of(text, eps)));
  return add_affine(r, node, v->layer, a, v->c);
}

/* GroupNormalization, whose weights once were those of groups, and InstanceNormalization. */
hd_status hd__onnx_read_group_norm(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  HD_TRY(view_of_samples(v, r, node));
  const int64_t channels = v->rank > 1 ? hd__onnx_side(v, 1) : 0;
  const int64_t groups = hd__onnx_int(node, "num_groups", channels);
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, hd__onnx_input(node, 1));
  if (groups < 1 || channels % groups || (t && hd__onnx_elems(t) != channels && groups != channels))
    return hd__onnx_refuse(r, node,
                           "expected num_groups that divide the %lld channels, and a weight for each of these, "
                           "found others; export it with opset 21",
                           (long long)channels);
  return put_group_norm(v, r, node, groups, hd__onnx_float(node, "epsilon", 1e-5f),
                        &(affine){hd__onnx_input(node, 1), hd__onnx_input(node, 2)});
}

/* ---- Spelled out ---- */

typedef struct tensor_shape {
  int rank;
  int64_t side[HD_ONNX_RANK]; /* behind the batch, from 1 on */
} tensor_shape;

/* Whether a reshape from one shape gives another, and keeps the batch. */
static bool gives(hd_onnx_reader *r, const HdOnnx__Node *reshape, const tensor_shape *from, const tensor_shape *to) {
  int64_t side[8];
  const bool copies = !hd__onnx_int(reshape, "allowzero", 0);
  bool same = hd__onnx_list(side, r, reshape, "shape", 1) == to->rank, open = false;
  for (int i = 1; i < to->rank && same; i++) {
    open = open || side[i] == -1;
    side[i] = side[i] == 0 && copies && i < from->rank ? from->side[i] : side[i];
    same = side[i] == -1 || side[i] == to->side[i];
  }
  return same && (side[0] == HD_ONNX_BATCH || (side[0] == 0 && copies) || (side[0] == -1 && !open) ||
                  (r->batch > 0 && side[0] == r->batch));
}

/* A norm of groups of channels: samples x groups x the rest, and back. */
static hd_status put_spelled_group_norm(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node,
                                        const hd_onnx_expression *e) {
  const HdOnnx__Node *groups = hd__onnx_producer(r, hd__onnx_input(e->norm, 0), "Reshape");
  const uint32_t channels = 1u << 1;
  const tensor_shape grouped = {3, {1, e->groups, hd__onnx_sample(v) / e->groups}};
  tensor_shape whole = {.rank = v->rank};
  for (int i = 0; i < v->rank; i++)
    whole.side[i] = hd__onnx_side(v, i);
  if (v->batch != 0 || v->rank < 2 || whole.side[1] % e->groups || !gives(r, groups, &whole, &grouped) ||
      !gives(r, e->back, &grouped, &whole))
    return hd__onnx_refuse(r, node, "expected a group norm that keeps the shape, found another one; export it again");
  const bool owns = hd__onnx_lies_along(v, r, e->weight, channels) && hd__onnx_lies_along(v, r, e->bias, channels);
  HD_TRY(put_group_norm(v, r, node, e->groups, hd__onnx_float(e->norm, "epsilon", 1e-5f),
                        owns ? &(affine){e->weight, e->bias} : &(affine){0}));
  if (owns)
    return HD_OK;
  HD_TRY(hd__onnx_apply_constant(v, r, node, 'M', e->weight));
  return hd__onnx_apply_constant(v, r, node, 'A', e->bias);
}

hd_status hd__onnx_put_spelled_norm(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node,
                                    const hd_onnx_expression *e) {
  if (e->kind == HD_ONNX_GROUP_NORM)
    return put_spelled_group_norm(v, r, node, e);
  const bool rms = e->kind == HD_ONNX_RMS_NORM;
  int64_t axis[8];
  uint32_t axes = 0;
  const bool pool = hd__onnx_is(e->norm, "GlobalAveragePool");
  int count = pool ? v->rank - 2 : hd__onnx_list(axis, r, e->norm, "axes", 1);
  for (int i = 0; i < count && pool; i++)
    axis[i] = 2 + i;
  for (int i = 0; i < count; i++) {
    const int a = hd__onnx_axis(v, axis[i]);
    if (a < 0 || a == v->batch)
      return hd__onnx_refuse(r, node, "expected a norm over axes behind the batch, found others; normalise channels");
    axes |= 1u << a;
  }
  const bool owns =
      !(rms && e->bias) && hd__onnx_lies_along(v, r, e->weight, axes) && hd__onnx_lies_along(v, r, e->bias, axes);
  if (!count)
    return hd__onnx_refuse(r, node, "expected constant axes of the norm, found others; export it again");
  HD_TRY(put_norm(v, r, node, rms ? "rms_norm" : "layer_norm", axes, e->number, owns ? e->weight : NULL,
                  owns ? e->bias : NULL));
  if (!owns && e->weight)
    HD_TRY(hd__onnx_apply_constant(v, r, node, 'M', e->weight));
  return !owns && e->bias ? hd__onnx_apply_constant(v, r, node, 'A', e->bias) : HD_OK;
}

#endif
