/* Recurrent layers of an ONNX file, LSTM and GRU; see onnx_layers.h.
 *
 *     Y, Y_h = LSTM(X, W, R, B)     X: steps x batch x channels, Y: steps x directions x batch x states
 *
 * Nodes of one kind and width, each of which reads what the one before it gives and nothing else does, are one layer
 * with `num_layers`, unless the names of their weights say that they are several. States begin with zeros. */
#ifdef HD_HAVE_ONNX

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "onnx/onnx_gates.h"
#include "onnx/onnx_layers.h"

enum { MOST_LAYERS = 64, MOST_STEPS = 32, MOST_WIDTH = 1 << 16 };

/* The inputs of both operators, but for lstm's last two: the cell, and what gates see of it. */
enum { IN_X, IN_WEIGHT, IN_STATE_WEIGHT, IN_BIAS, IN_LENGTHS, IN_STATE, IN_CELL, IN_PEEPHOLES };

typedef struct recurrent {
  const HdOnnx__Node *node[MOST_LAYERS]; /* the first one first */
  int layers, gates;
  int64_t width;
  bool bias;
} recurrent;

static bool is_lstm(const HdOnnx__Node *node) { return hd__onnx_is(node, "LSTM"); }

/* ---- What heddle has ---- */

static bool are_zeros(const HdOnnx__Tensor *t) {
  const int64_t elems = hd__onnx_elems(t);
  HD_OWNED float *value = elems > 0 ? hd__malloc((size_t)elems * sizeof *value) : NULL;
  if (!value || !hd__onnx_floats(value, t, elems))
    return false;
  for (int64_t i = 0; i < elems; i++)
    if (value[i] != 0)
      return false;
  return true;
}

/* Whether a state is left out, or zeros for each sample, whose number is not known. */
static bool is_zero_state(const hd_onnx_reader *r, const char *name) {
  static const char *const moves[] = {"Expand", "Slice", "Squeeze", "Unsqueeze", "Reshape", "Gather", "Split", "Tile"};
  for (int steps = 0; steps < MOST_STEPS && *name; steps++) {
    const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
    const HdOnnx__Node *node = hd__onnx_producer(r, name, NULL);
    bool moved = false;
    if (t || !node)
      return t && are_zeros(t);
    if (hd__onnx_is(node, "ConstantOfShape")) {
      const HdOnnx__Attribute *value = hd__onnx_attribute(node, "value");
      return !value || (value->t && are_zeros(value->t));
    }
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
      moved = moved || hd__onnx_is(node, moves[i]);
    if (!moved)
      return false;
    name = hd__onnx_input(node, 0);
  }
  return !*name;
}

/* Activations in the order of the operator; those of both directions may be listed. */
static bool has_usual_activations(const HdOnnx__Node *node) {
  static const char *const usual[] = {"Sigmoid", "Tanh", "Tanh"};
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, "activations");
  const size_t count = is_lstm(node) ? 3 : 2;
  bool same = !a || a->n_strings == count;
  for (size_t i = 0; a && i < count && same; i++)
    same = a->strings[i].len == strlen(usual[i]) && !memcmp(a->strings[i].data, usual[i], a->strings[i].len);
  return same && !hd__onnx_attribute(node, "activation_alpha") && !hd__onnx_attribute(node, "activation_beta");
}

static hd_status check(hd_onnx_reader *r, const HdOnnx__Node *node) {
  const HdOnnx__Attribute *direction = hd__onnx_attribute(node, "direction");
  if (direction && !hd__onnx_text(node, "direction", "forward"))
    return hd__onnx_refuse(r, node, "expected direction forward, found %.*s; heddle has layers of one direction",
                           (int)direction->s.len, (const char *)direction->s.data);
  if (!has_usual_activations(node))
    return hd__onnx_refuse(r, node, "expected activations Sigmoid and Tanh, found others; leave them out");
  if (hd__onnx_attribute(node, "clip") || hd__onnx_int(node, "input_forget", 0))
    return hd__onnx_refuse(r, node, "expected neither clip nor input_forget, found one; leave them out");
  if (!is_lstm(node) && !hd__onnx_int(node, "linear_before_reset", 0))
    return hd__onnx_refuse(r, node,
                           "expected linear_before_reset 1, found 0; heddle's gru, as PyTorch's, resets the product "
                           "of the state (in Keras: reset_after=True)");
  if (*hd__onnx_input(node, IN_LENGTHS))
    return hd__onnx_refuse(r, node, "expected samples of one length, found sequence_lens; leave them out");
  if (!is_zero_state(r, hd__onnx_input(node, IN_STATE)) ||
      (is_lstm(node) && !is_zero_state(r, hd__onnx_input(node, IN_CELL))))
    return hd__onnx_refuse(r, node, "expected states that begin with zeros, found others; leave them out");
  if (is_lstm(node) && !is_zero_state(r, hd__onnx_input(node, IN_PEEPHOLES)))
    return hd__onnx_refuse(r, node, "expected gates that do not see the cell, found peepholes; leave them out");
  for (size_t i = IN_WEIGHT; i <= IN_STATE_WEIGHT; i++)
    if (hd__onnx_uses(r, hd__onnx_input(node, i)) > 1)
      return hd__onnx_refuse(r, node,
                             "expected weights of its own, found '%.80s', which another node reads too; "
                             "give each layer its own",
                             hd__onnx_input(node, i));
  return HD_OK;
}

/* ---- Layers one after the other ---- */

/* The number of the layer in a name of PyTorch's, "lstm.weight_ih_l0", and the name before it; -1: it is another. */
static int number_of(const char *name, size_t *length) {
  static const char mark[] = ".weight_ih_l";
  const char *at = strstr(name, mark), *digits = at ? at + sizeof mark - 1 : "";
  *length = at ? (size_t)(at - name) : 0;
  return at && *digits && strspn(digits, "0123456789") == strlen(digits) ? atoi(digits) : -1;
}

/* Whether the names of weights say that a node is the layer behind another one of the same; or say nothing. */
static bool names_follow(const hd_onnx_reader *r, const HdOnnx__Node *before, const HdOnnx__Node *node) {
  const char *a = hd__onnx_resolve(r, hd__onnx_input(before, IN_WEIGHT));
  const char *b = hd__onnx_resolve(r, hd__onnx_input(node, IN_WEIGHT));
  size_t length, other;
  const int number = number_of(a, &length), next = number_of(b, &other);
  return number < 0 && next < 0 ? true : next == number + 1 && length == other && !strncmp(a, b, length);
}

/* The node of the same kind whose states a node reads, and nothing else does; NULL: there is none. */
static const HdOnnx__Node *node_before(hd_onnx_reader *r, const HdOnnx__Node *node) {
  int64_t axis[8];
  const char *x = hd__onnx_input(node, IN_X);
  const HdOnnx__Node *squeeze = hd__onnx_producer(r, x, "Squeeze");
  const HdOnnx__Node *before = squeeze ? hd__onnx_producer(r, hd__onnx_input(squeeze, 0), node->op_type) : NULL;
  if (!before || hd__onnx_list(axis, r, squeeze, "axes", 1) != 1 || axis[0] != 1 || hd__onnx_uses(r, x) != 1 ||
      hd__onnx_uses(r, before->output[0]) != 1 ||
      strcmp(hd__onnx_resolve(r, hd__onnx_input(squeeze, 0)), before->output[0]) != 0)
    return NULL;
  for (size_t i = 1; i < before->n_output; i++)
    if (hd__onnx_uses(r, before->output[i]) > 0)
      return NULL;
  const bool same = hd__onnx_int(before, "hidden_size", 0) == hd__onnx_int(node, "hidden_size", 0) &&
                    !*hd__onnx_input(before, IN_BIAS) == !*hd__onnx_input(node, IN_BIAS) &&
                    hd__onnx_int(node, "layout", 0) == 0 && hd__onnx_int(before, "layout", 0) == 0;
  return same && names_follow(r, before, node) ? before : NULL;
}

static hd_status find_layers(recurrent *out, hd_onnx_reader *r, const HdOnnx__Node *node) {
  const HdOnnx__Node *found[MOST_LAYERS];
  *out = (recurrent){.gates = is_lstm(node) ? 4 : 3, .width = hd__onnx_int(node, "hidden_size", 0)};
  out->bias = *hd__onnx_input(node, IN_BIAS);
  if (out->width < 1 || out->width > MOST_WIDTH)
    return hd__onnx_refuse(r, node, "expected a hidden_size of 1 to %d, found %lld; export it again", MOST_WIDTH,
                           (long long)out->width);
  for (; node && out->layers < MOST_LAYERS; node = node_before(r, node)) {
    HD_TRY(check(r, node));
    found[out->layers++] = node;
  }
  for (int i = 0; i < out->layers; i++)
    out->node[i] = found[out->layers - 1 - i];
  return HD_OK;
}

/* ---- Weights ---- */

/* Adds a parameter, whose gates are in the order of ONNX in `from`. */
static hd_status add_gates(hd_onnx_reader *r, const char *layer, const char *name, const recurrent *of,
                           const float *from, const hd_shape *shape) {
  const int64_t each = hd__shape_elems(shape) / of->gates;
  HD_OWNED float *to = NULL;
  HD_TRY(HD_NEW_RAW(to, of->gates * each, r->ctx, "%s: out of memory while reading", r->path));
  for (int k = 0; k < of->gates; k++)
    memcpy(to + hd__onnx_gate(of->gates, k) * each, from + k * each, (size_t)each * sizeof *to);
  return hd__onnx_add_weight(r, layer, name, shape, to);
}

static hd_status add_matrix(hd_onnx_reader *r, const char *layer, const char *name, const recurrent *of,
                            const HdOnnx__Node *node, int input, int64_t columns) {
  const int64_t rows = of->gates * of->width;
  const HdOnnx__Tensor *t;
  float *elems;
  HD_TRY(hd__onnx_read_floats(&elems, &t, r, node, hd__onnx_input(node, (size_t)input), rows * columns));
  HD_OWNED float *owned = elems;
  if (t->n_dims != 3 || t->dims[0] != 1 || t->dims[1] != rows)
    return hd__onnx_refuse(r, node, "expected a weight of 1 x %lld x %lld, found another shape; export it again",
                           (long long)rows, (long long)columns);
  return add_gates(r, layer, name, of, owned, &(hd_shape){2, {(int32_t)rows, (int32_t)columns}});
}

/* The parameters of the layer with this number. */
static hd_status add_weights(hd_onnx_reader *r, const char *layer, const recurrent *of, int number, int64_t channels) {
  const HdOnnx__Node *node = of->node[number];
  const int64_t rows = of->gates * of->width;
  const hd_shape shape = hd__onnx_vector(rows);
  const HdOnnx__Tensor *t;
  char name[32];
  float *elems;
  snprintf(name, sizeof name, "weight_ih_l%d", number);
  HD_TRY(add_matrix(r, layer, name, of, node, IN_WEIGHT, channels));
  snprintf(name, sizeof name, "weight_hh_l%d", number);
  HD_TRY(add_matrix(r, layer, name, of, node, IN_STATE_WEIGHT, of->width));
  if (!of->bias)
    return HD_OK;
  HD_TRY(hd__onnx_read_floats(&elems, &t, r, node, hd__onnx_input(node, IN_BIAS), 2 * rows));
  HD_OWNED float *owned = elems;
  snprintf(name, sizeof name, "bias_ih_l%d", number);
  HD_TRY(add_gates(r, layer, name, of, owned, &shape));
  snprintf(name, sizeof name, "bias_hh_l%d", number);
  return add_gates(r, layer, name, of, owned + rows, &shape);
}

/* ---- The layer ---- */

/* The name of the module, as weights of PyTorch's and heddle's have it. */
static const char *called(char text[HD_ONNX_NAME_BYTES + 16], const hd_onnx_reader *r, const HdOnnx__Node *node) {
  const char *name = hd__onnx_resolve(r, hd__onnx_input(node, IN_WEIGHT));
  size_t length;
  if (number_of(name, &length) != 0 || length == 0 || length > HD_ONNX_NAME_BYTES)
    return NULL;
  snprintf(text, HD_ONNX_NAME_BYTES + 16, "%.*s.weight", (int)length, name);
  return text;
}

/* The states of all steps; `batch_first`: batch x steps x directions x states. */
static hd_status make_states(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, bool batch_first) {
  recurrent of;
  char from[HD_ONNX_NAME_BYTES], text[HD_ONNX_NAME_BYTES + 16];
  HD_TRY(find_layers(&of, r, node));
  const HdOnnx__Node *first = of.node[0];
  HD_TRY(hd__onnx_view(v, r, hd__onnx_input(first, IN_X)));
  if (v->rank != 3 || v->batch != !batch_first)
    return hd__onnx_refuse(r, node, "expected %s x channels, found others; transpose them before it",
                           batch_first ? "batch x steps" : "steps x batch");
  HD_TRY(hd__onnx_to_channels(v, r, node, 1u << 2, true));
  const int64_t channels = v->c, places = v->h * v->w;
  memcpy(from, v->layer, sizeof from);
  hd__onnx_whole(v, "", 3, false, of.width, 1, places);
  HD_TRY(hd__onnx_put(
      v, r, first, called(text, r, first), "op: %s, from: \"%s\", hidden_size: %lld, num_layers: %d, bias: %s",
      is_lstm(node) ? "lstm" : "gru", from, (long long)of.width, of.layers, of.bias ? "true" : "false"));
  for (int i = 0; i < of.layers; i++)
    HD_TRY(add_weights(r, v->layer, &of, i, i == 0 ? channels : of.width));
  hd__onnx_rename_axes(v, batch_first ? (const int[]){0, 3, 1} : (const int[]){2, 3, 0}, 4);
  return HD_OK;
}

/* Of outputs the states of all steps, or that of the last one. */
hd_status hd__onnx_read_recurrent(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const bool batch_first = hd__onnx_int(node, "layout", 0) != 0;
  if (k > 1)
    return hd__onnx_refuse(r, node, "expected states to be read, found the cell of the last step; read the states");
  if (k == 0 || !*node->output[0])
    HD_TRY(make_states(v, r, node, batch_first));
  else
    HD_TRY(hd__onnx_view(v, r, node->output[0]));
  if (k == 0)
    return HD_OK;
  const int axis = batch_first ? 1 : 0;
  const int64_t last = hd__onnx_side(v, axis) - 1;
  HD_TRY(hd__onnx_cut(v, r, node, axis, last, last + 1));
  hd__onnx_rename_axes(v, batch_first ? (const int[]){0, -1, 1, 2} : (const int[]){-1, 0, 1, 2}, 3);
  return HD_OK;
}

#endif
