/* What a graph's outputs are of; see onnx_reader.h.
 *
 * scikit-learn's networks end behind their probabilities p, of which they give a label and a list:
 *
 *     label = Cast(Reshape(ArrayFeatureExtractor(classes, ArgMax(p)))), or Binarizer(p, 0.5) of several labels a sample
 *     probabilities = ZipMap(p), or p
 *     p = Softmax(scores), of two classes Concat(1 - s, s), of several labels a sample s; s = Sigmoid(score)
 *
 * All outputs are of one p. Its softmax or sigmoid is part of heddle's loss, and classes are numbered as in p. */
#ifdef HD_HAVE_ONNX

#include <string.h>

#include "onnx/onnx_reader.h"

enum { MOST_STEPS = 16 };

/* Whether a node is of an operator of ONNX for other models than networks. */
static bool is_ml(const HdOnnx__Node *node, const char *op) {
  return node && node->op_type && !strcmp(node->op_type, op) && node->domain && !strcmp(node->domain, "ai.onnx.ml");
}

bool hd__onnx_is_scaler(const HdOnnx__Node *node) { return is_ml(node, "Scaler"); }

/* Whether a node changes the shape or the type of labels alone. */
static bool keeps_labels(const HdOnnx__Node *node) {
  static const char *const ops[] = {"Cast", "Identity", "Reshape", "Squeeze", "Flatten"};
  bool is = false;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    is = is || hd__onnx_is(node, ops[i]);
  return is;
}

/* The probabilities that an output gives the labels of; NULL: it gives none. */
static const char *below_labels(const hd_onnx_reader *r, const char *name) {
  for (int steps = 0; steps < MOST_STEPS; steps++) {
    const HdOnnx__Node *node = hd__onnx_node(r, name);
    const bool names = is_ml(node, "ArrayFeatureExtractor") && hd__onnx_tensor(r, hd__onnx_input(node, 0));
    const int64_t axis = node ? hd__onnx_int(node, "axis", 0) : 0;
    if (hd__onnx_is(node, "ArgMax") && (axis == 1 || axis == -1))
      return hd__onnx_input(node, 0);
    if (is_ml(node, "Binarizer") && hd__onnx_float(node, "threshold", 0) == 0.5f)
      return hd__onnx_input(node, 0);
    if (!names && !keeps_labels(node))
      return NULL;
    name = hd__onnx_input(node, names ? 1 : 0);
  }
  return NULL;
}

const HdOnnx__Tensor *hd__onnx_labels(const hd_onnx_reader *r) {
  const HdOnnx__Tensor *found = NULL;
  for (size_t i = 0; i < r->graph->n_node && !found; i++)
    if (is_ml(r->graph->node[i], "ArrayFeatureExtractor"))
      found = hd__onnx_tensor(r, hd__onnx_input(r->graph->node[i], 0));
  return found;
}

const char *hd__onnx_output(const hd_onnx_reader *r) {
  const char *all = NULL;
  for (size_t i = 0; i < r->graph->n_output; i++) {
    const char *name = r->graph->output[i]->name ? r->graph->output[i]->name : "";
    const HdOnnx__Node *map = hd__onnx_producer(r, name, NULL);
    const char *below = is_ml(map, "ZipMap") ? hd__onnx_input(map, 0) : below_labels(r, name);
    const char *of = hd__onnx_resolve(r, below ? below : name);
    if (all && strcmp(all, of) != 0)
      return NULL;
    all = of;
  }
  return all;
}

/* The score of Concat(1 - s, s), s = Sigmoid(score); NULL: a value is no such pair. */
static const char *score_of_pair(const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Node *pair = hd__onnx_producer(r, name, "Concat");
  const int64_t axis = pair ? hd__onnx_int(pair, "axis", 0) : 0;
  const HdOnnx__Node *first = pair && pair->n_input == 2 ? hd__onnx_producer(r, pair->input[0], "Sub") : NULL;
  const HdOnnx__Node *sigmoid = first ? hd__onnx_producer(r, pair->input[1], "Sigmoid") : NULL;
  double one;
  if (!sigmoid || (axis != 1 && axis != -1) || !hd__onnx_scalar(&one, r, hd__onnx_input(first, 0)) || one != 1 ||
      hd__onnx_producer(r, hd__onnx_input(first, 1), "Sigmoid") != sigmoid)
    return NULL;
  return hd__onnx_input(sigmoid, 0);
}

/* Whether an output has the labels of probabilities above one half. */
static bool has_several_labels(const hd_onnx_reader *r) {
  for (size_t i = 0; i < r->graph->n_node; i++)
    if (is_ml(r->graph->node[i], "Binarizer"))
      return true;
  return false;
}

const char *hd__onnx_binary_score(const hd_onnx_reader *r, const char *output) {
  const HdOnnx__Node *sigmoid = hd__onnx_producer(r, output, "Sigmoid");
  const char *score = score_of_pair(r, output);
  return !score && sigmoid && has_several_labels(r) ? hd__onnx_input(sigmoid, 0) : score;
}

hd_status hd__onnx_skip_column(const char **output, hd_onnx_reader *r) {
  const HdOnnx__Node *node = hd__onnx_producer(r, *output, "Reshape");
  int64_t side[8];
  hd_onnx_view v;
  if (!node || hd__onnx_list(side, r, node, "shape", 1) != 2 || side[0] != -1 || side[1] != 1)
    return HD_OK;
  HD_TRY(r->view(&v, r, hd__onnx_input(node, 0)));
  if (v.rank == 2 && v.batch == 0)
    *output = hd__onnx_input(node, 0);
  return HD_OK;
}

#endif
