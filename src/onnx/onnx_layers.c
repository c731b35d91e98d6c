/* The table of operators, each of which becomes layers, and expressions of several of them; see onnx_layers.h. An
 * operator that heddle lacks is refused with the node's name. */
#ifdef HD_HAVE_ONNX

#include <string.h>

#include "base/number.h"
#include "onnx/onnx_layers.h"

static const struct form {
  const char *op;
  hd_onnx_form *read;
  const char *attributes; /* attributes that `read` handles, or that change no number */
} forms[] = {
    {"Conv", hd__onnx_read_conv, "auto_pad dilations group kernel_shape pads strides"},
    {"ConvTranspose", hd__onnx_read_conv,
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
    {"MaxPool", hd__onnx_read_pool, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"},
    {"AveragePool", hd__onnx_read_pool, "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"},
    {"GlobalAveragePool", hd__onnx_read_line, ""},
    {"GlobalMaxPool", hd__onnx_read_line, ""},
    {"ReduceMean", hd__onnx_read_line, "axes keepdims noop_with_empty_axes"},
    {"ReduceMax", hd__onnx_read_line, "axes keepdims noop_with_empty_axes"},
    {"ReduceSum", hd__onnx_read_line, "axes keepdims noop_with_empty_axes"},
    {"ReduceMin", hd__onnx_read_line_of, "axes keepdims noop_with_empty_axes"},
    {"ReduceL1", hd__onnx_read_line_of, "axes keepdims noop_with_empty_axes"},
    {"ReduceSumSquare", hd__onnx_read_line_of, "axes keepdims noop_with_empty_axes"},
    {"Resize", hd__onnx_read_resize,
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
     "keep_aspect_ratio_policy mode nearest_mode"},
    {"Upsample", hd__onnx_read_resize, "mode scales"},
    {"Pad", hd__onnx_read_pad, "mode pads paddings value"},
    {"Gemm", hd__onnx_read_gemm, "alpha beta broadcast transA transB"},
    {"MatMul", hd__onnx_read_matmul, ""},
    {"Einsum", hd__onnx_read_einsum, "equation"},
    {"Add", hd__onnx_read_binary, ""},
    {"Sub", hd__onnx_read_binary, ""},
    {"Mul", hd__onnx_read_binary, ""},
    {"Div", hd__onnx_read_binary, ""},
    {"Sum", hd__onnx_read_sum, ""},
    {"Pow", hd__onnx_read_power, ""},
    {"Min", hd__onnx_read_bound, ""},
    {"Max", hd__onnx_read_bound, ""},
    {"Concat", hd__onnx_read_concat, "axis"},
    {"Split", hd__onnx_read_split, "axis num_outputs split"},
    {"Slice", hd__onnx_read_slice_or_chomp, "axes ends starts"},
    {"Gather", hd__onnx_read_gather, "axis"},
    {"Flatten", hd__onnx_read_flatten, "axis"},
    {"Reshape", hd__onnx_read_reshape, "allowzero shape"},
    {"Squeeze", hd__onnx_read_squeeze, "axes"},
    {"Unsqueeze", hd__onnx_read_unsqueeze, "axes"},
    {"Transpose", hd__onnx_read_transpose, "perm"},
    {"Expand", hd__onnx_read_expand, ""},
    {"Tile", hd__onnx_read_tile, ""},
    {"DepthToSpace", hd__onnx_read_depth, "blocksize mode"},
    {"SpaceToDepth", hd__onnx_read_depth, "blocksize mode"},
    {"BatchNormalization", hd__onnx_read_batch_norm, "epsilon is_test momentum spatial training_mode"},
    {"LayerNormalization", hd__onnx_read_layer_norm, "axis epsilon stash_type"},
    {"RMSNormalization", hd__onnx_read_layer_norm, "axis epsilon stash_type"},
    {"GroupNormalization", hd__onnx_read_group_norm, "epsilon num_groups stash_type"},
    {"InstanceNormalization", hd__onnx_read_group_norm, "epsilon"},
    {"Relu", hd__onnx_read_plain, ""},
    {"LeakyRelu", hd__onnx_read_slope, "alpha"},
    {"Elu", hd__onnx_read_slope, "alpha"},
    {"Celu", hd__onnx_read_slope, "alpha"},
    {"Selu", hd__onnx_read_selu, "alpha gamma"},
    {"HardSigmoid", hd__onnx_read_hardsigmoid, "alpha beta"},
    {"HardSwish", hd__onnx_read_plain, ""},
    {"Softplus", hd__onnx_read_plain, ""},
    {"Mish", hd__onnx_read_plain, ""},
    {"Swish", hd__onnx_read_plain, ""},
    {"Neg", hd__onnx_read_plain, ""},
    {"Abs", hd__onnx_read_abs, ""},
    {"Softsign", hd__onnx_read_abs, ""},
    {"Clip", hd__onnx_read_clip, "min max"},
    {"PRelu", hd__onnx_read_prelu, ""},
    {"Sigmoid", hd__onnx_read_plain, ""},
    {"Tanh", hd__onnx_read_plain, ""},
    {"Gelu", hd__onnx_read_gelu, "approximate"},
    {"Dropout", hd__onnx_read_dropout, "ratio seed"},
    {"Softmax", hd__onnx_read_softmax, "axis"},
    {"LogSoftmax", hd__onnx_read_softmax, "axis"},
    {"LSTM", hd__onnx_read_recurrent,
     "activation_alpha activation_beta activations clip direction hidden_size input_forget layout"},
    {"GRU", hd__onnx_read_recurrent,
     "activation_alpha activation_beta activations clip direction hidden_size layout linear_before_reset"},
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

static hd_status make_expression(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node,
                                 const hd_onnx_expression *e) {
  char number[HD_NUMBER_BYTES], op[64 + HD_NUMBER_BYTES];
  if (e->kind == HD_ONNX_LINEAR)
    return hd__onnx_put_linear(
        v, r, node, (hd_onnx_product){.x = e->x, .weight = e->weight, .bias = e->bias, .alpha = 1, .beta = 1});
  HD_TRY(e->kind == HD_ONNX_FUNCTION ? hd__onnx_beside_view(v, r, e->x) : hd__onnx_view(v, r, e->x));
  if (e->rank > v->rank)
    return hd__onnx_refuse(r, node, "expected numbers of at most %d dimensions, found %d; write single numbers",
                           v->rank, e->rank);
  if (e->kind == HD_ONNX_FUNCTION)
    return hd__onnx_put_plain(v, r, node, e->layer);
  if (e->kind == HD_ONNX_SOFTPLUS) {
    hd__format_float(number, e->number);
    snprintf(op, sizeof op, "op: softplus, beta: %s", number);
    return hd__onnx_put_plain(v, r, node, op);
  }
  return hd__onnx_put_spelled_norm(v, r, node, e);
}

hd_status hd__onnx_make(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  hd_onnx_expression e = {.kind = HD_ONNX_NO_EXPRESSION};
  if (k == 0 && node->n_attribute == 0) /* old operators have some that say how a constant is spread */
    hd__onnx_find_expression(&e, r, node);
  if (e.kind != HD_ONNX_NO_EXPRESSION)
    return make_expression(out, r, node, &e);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (hd__onnx_is(node, forms[i].op)) {
      HD_TRY(check_attributes(r, node, forms[i].attributes));
      if (k > 0 && forms[i].read != hd__onnx_read_split && forms[i].read != hd__onnx_read_recurrent)
        return hd__onnx_refuse(r, node, "expected its first output to be read, found output %d; use the first alone",
                               k + 1);
      return forms[i].read(out, r, node, k);
    }
  return hd__onnx_refuse(r, node, "expected an operator that heddle has, found %.40s; docs/export.md lists them",
                         node->op_type);
}

#endif
