/* Layers that ONNX files spell out as several operators; see onnx_reader.h.
 *
 *     x W + b                                              linear
 *     a reshape to groups, InstanceNormalization, back     group_norm; then times a weight, plus a bias
 *     an expression of one value                           gelu, swish, hardswish, mish, softplus
 *
 * Exporters write the same function in many forms. An expression of elements is recognised by its values at some
 * points, whatever its form is. */
#ifdef HD_HAVE_ONNX

#include <math.h>
#include <string.h>

#include "onnx/onnx_reader.h"

/* ---- Expressions of elements ---- */

enum { MOST_OPERATORS = 64, MOST_CANDIDATES = 16 };

/* Evaluates an expression with the value `at` for `x`. */
typedef struct evaluation {
  const hd_onnx_reader *r;
  const char *x;
  double at;
  int operators;
} evaluation;

static bool evaluate(double *out, evaluation *e, const char *name);

enum { MOST_OPERANDS = 3 };

static const struct operation {
  const char *name;
  int operands;
} operators[] = {{"Add", 2}, {"Sub", 2},  {"Mul", 2},     {"Div", 2},      {"Pow", 2}, {"Clip", 3},
                 {"Erf", 1}, {"Tanh", 1}, {"Sigmoid", 1}, {"Softplus", 1}, {NULL, 0}};

static double compute(const char *op, double a, double b, double c) {
  switch (op[0] == 'S' ? op[1] : op[0]) {
  case 'A': return a + b;
  case 'u': return a - b;
  case 'M': return a * b;
  case 'D': return a / b;
  case 'P': return pow(a, b);
  case 'C': return fmin(fmax(a, b), c);
  case 'E': return erf(a);
  case 'T': return tanh(a);
  case 'i': return 1 / (1 + exp(-a));
  case 'o': return log1p(exp(-fabs(a))) + fmax(a, 0);
  default: return (double)NAN;
  }
}

/* The operator of the node that computes a value; the end of the list: none of these. */
static int operator_of(const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Node *node = hd__onnx_producer(r, name, NULL);
  int i = 0;
  while (operators[i].name && !(node && hd__onnx_is(node, operators[i].name)))
    i++;
  return i;
}

static bool evaluate(double *out, evaluation *e, const char *name) {
  double operand[MOST_OPERANDS] = {0};
  name = hd__onnx_resolve(e->r, name);
  *out = e->at;
  if (!strcmp(name, e->x) || hd__onnx_scalar(out, e->r, name))
    return true;
  const struct operation *op = &operators[operator_of(e->r, name)];
  const HdOnnx__Node *node = op->name ? hd__onnx_producer(e->r, name, op->name) : NULL;
  if (!node || node->n_input != (size_t)op->operands || ++e->operators > MOST_OPERATORS)
    return false;
  for (int i = 0; i < op->operands; i++)
    if (!evaluate(&operand[i], e, node->input[i]))
      return false;
  *out = compute(op->name, operand[0], operand[1], operand[2]);
  return true;
}

static double swish(double x) { return x / (1 + exp(-x)); }
static double gelu(double x) { return x / 2 * (1 + erf(x * sqrt(0.5))); }
static double gelu_tanh(double x) { return x / 2 * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x))); }

static double hardsigmoid(double x) { return fmin(fmax(x + 3, 0), 6) / 6; }
static double hardswish(double x) { return x * hardsigmoid(x); }
static double softplus(double x) { return log1p(exp(-fabs(x))) + fmax(x, 0); }
static double mish(double x) { return x * tanh(softplus(x)); }

static const struct function {
  double (*of)(double x);
  const char *layer;
} functions[] = {{swish, "op: swish"},
                 {gelu, "op: gelu"},
                 {gelu_tanh, "op: gelu, approximate: tanh"},
                 {hardsigmoid, "op: hardsigmoid"},
                 {hardswish, "op: hardswish"},
                 {softplus, "op: softplus"},
                 {mish, "op: mish"}};

/* Whether a value is a function of x. */
static bool is_function(const hd_onnx_reader *r, const char *name, const char *x, double (*of)(double x)) {
  static const double points[] = {-4.5, -2.25, -1, -0.375, 0, 0.25, 0.75, 1.5, 3, 7};
  for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
    evaluation e = {.r = r, .x = x, .at = points[i]};
    double value;
    if (!evaluate(&value, &e, name) || !(fabs(value - of(points[i])) < 1e-5))
      return false;
  }
  return true;
}

/* Values that an expression may be a function of, those nearest to its end first. */
static int list_candidates(const char *list[MOST_CANDIDATES], const hd_onnx_reader *r, const HdOnnx__Node *end) {
  int count = 0, next = 0;
  for (const HdOnnx__Node *node = end; node;) {
    for (size_t i = 0; i < node->n_input && i < MOST_OPERANDS && count < MOST_CANDIDATES; i++)
      if (!hd__onnx_tensor(r, node->input[i]))
        list[count++] = hd__onnx_resolve(r, node->input[i]);
    for (node = NULL; next < count && !node; next++)
      node = operators[operator_of(r, list[next])].name ? hd__onnx_producer(r, list[next], NULL) : NULL;
  }
  return count;
}

static void find_function(hd_onnx_expression *out, const hd_onnx_reader *r, const HdOnnx__Node *node) {
  const char *candidate[MOST_CANDIDATES];
  const int count = list_candidates(candidate, r, node);
  for (int c = 0; c < count; c++)
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
      if (is_function(r, node->output[0], candidate[c], functions[i].of)) {
        *out = (hd_onnx_expression){.kind = HD_ONNX_FUNCTION, .x = candidate[c], .layer = functions[i].layer};
        return;
      }
}

/* ---- Pairs of a computed value and a constant ---- */

/* The computed operand of a node of two, if the other one is a constant; NULL: it is not. */
static const char *beside_constant(const char **constant, const hd_onnx_reader *r, const HdOnnx__Node *node) {
  if (!node || node->n_input != 2)
    return NULL;
  const int which = hd__onnx_tensor(r, node->input[0]) ? 0 : 1;
  *constant = node->input[which];
  return hd__onnx_tensor(r, *constant) && !hd__onnx_tensor(r, node->input[!which]) ? node->input[!which] : NULL;
}

static void find_linear(hd_onnx_expression *out, const hd_onnx_reader *r, const HdOnnx__Node *node) {
  const char *bias, *product = beside_constant(&bias, r, node);
  const HdOnnx__Node *matmul = product ? hd__onnx_producer(r, product, "MatMul") : NULL;
  if (matmul)
    *out = (hd_onnx_expression){
        .kind = HD_ONNX_LINEAR, .x = hd__onnx_input(matmul, 0), .weight = hd__onnx_input(matmul, 1), .bias = bias};
}

/* Softplus(x * beta) / beta */
static void find_softplus(hd_onnx_expression *out, const hd_onnx_reader *r, const HdOnnx__Node *node) {
  const char *beta, *again, *soft = beside_constant(&beta, r, node);
  const HdOnnx__Node *plus = soft ? hd__onnx_producer(r, soft, "Softplus") : NULL;
  const HdOnnx__Node *times = plus ? hd__onnx_producer(r, hd__onnx_input(plus, 0), "Mul") : NULL;
  const char *x = times ? beside_constant(&again, r, times) : NULL;
  double factor, divisor;
  if (x && hd__onnx_scalar(&factor, r, again) && hd__onnx_scalar(&divisor, r, beta) && factor == divisor)
    *out = (hd_onnx_expression){.kind = HD_ONNX_SOFTPLUS, .x = x, .number = (float)factor};
}

static bool same(const hd_onnx_reader *r, const char *a, const char *b) {
  return !strcmp(hd__onnx_resolve(r, a), hd__onnx_resolve(r, b));
}

/* x / Sqrt(ReduceMean(x * x) + eps) * weight, over the channels */
static void find_rms_norm(hd_onnx_expression *out, const hd_onnx_reader *r, const HdOnnx__Node *node) {
  const char *weight, *added, *normal = beside_constant(&weight, r, node);
  const HdOnnx__Node *quotient = normal ? hd__onnx_producer(r, normal, "Div") : NULL;
  const HdOnnx__Node *root = quotient ? hd__onnx_producer(r, hd__onnx_input(quotient, 1), "Sqrt") : NULL;
  const HdOnnx__Node *sum = root ? hd__onnx_producer(r, hd__onnx_input(root, 0), "Add") : NULL;
  const char *mean = sum ? beside_constant(&added, r, sum) : NULL;
  const HdOnnx__Node *reduce = mean ? hd__onnx_producer(r, mean, "ReduceMean") : NULL;
  const HdOnnx__Node *square = reduce ? hd__onnx_producer(r, hd__onnx_input(reduce, 0), "Mul") : NULL;
  const HdOnnx__Attribute *axes = reduce ? hd__onnx_attribute(reduce, "axes") : NULL;
  const char *x = square ? hd__onnx_input(square, 0) : NULL;
  double eps;
  if (x && same(r, x, hd__onnx_input(square, 1)) && same(r, x, hd__onnx_input(quotient, 0)) && axes &&
      axes->n_ints == 1 && axes->ints[0] == 1 && hd__onnx_int(reduce, "keepdims", 1) && hd__onnx_scalar(&eps, r, added))
    *out = (hd_onnx_expression){.kind = HD_ONNX_RMS_NORM, .x = x, .weight = weight, .number = (float)eps};
}

static bool all_equal(const hd_onnx_reader *r, const char *name, float expected) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  const size_t count = t && t->has_raw_data ? t->raw_data.len / sizeof(float) : 0;
  float value;
  for (size_t i = 0; i < count; i++) {
    memcpy(&value, t->raw_data.data + i * sizeof value, sizeof value);
    if (value != expected)
      return false;
  }
  return count > 0;
}

static void find_group_norm(hd_onnx_expression *out, const hd_onnx_reader *r, const HdOnnx__Node *node) {
  const char *bias, *weight, *scaled = beside_constant(&bias, r, node);
  const HdOnnx__Node *times = scaled ? hd__onnx_producer(r, scaled, "Mul") : NULL;
  const char *normal = times ? beside_constant(&weight, r, times) : NULL;
  const HdOnnx__Node *back = normal ? hd__onnx_producer(r, normal, "Reshape") : NULL;
  const HdOnnx__Node *norm = back ? hd__onnx_producer(r, hd__onnx_input(back, 0), "InstanceNormalization") : NULL;
  const HdOnnx__Node *groups = norm ? hd__onnx_producer(r, hd__onnx_input(norm, 0), "Reshape") : NULL;
  int64_t shape[8];
  if (!groups || hd__onnx_ints(shape, r, hd__onnx_input(groups, 1)) != 3 || shape[1] < 1 || shape[2] != -1 ||
      !all_equal(r, hd__onnx_input(norm, 1), 1) || !all_equal(r, hd__onnx_input(norm, 2), 0))
    return;
  *out = (hd_onnx_expression){.kind = HD_ONNX_GROUP_NORM,
                              .x = hd__onnx_input(groups, 0),
                              .weight = weight,
                              .bias = bias,
                              .norm = norm,
                              .groups = shape[1]};
}

void hd__onnx_find_expression(hd_onnx_expression *out, const hd_onnx_reader *r, const HdOnnx__Node *node) {
  *out = (hd_onnx_expression){.kind = HD_ONNX_NO_EXPRESSION};
  if (hd__onnx_producer(r, node->output[0], "Mul") || hd__onnx_producer(r, node->output[0], "Div"))
    find_function(out, r, node);
  if (hd__onnx_producer(r, node->output[0], "Mul"))
    find_rms_norm(out, r, node);
  if (hd__onnx_producer(r, node->output[0], "Div"))
    find_softplus(out, r, node);
  if (!hd__onnx_producer(r, node->output[0], "Add"))
    return;
  find_linear(out, r, node);
  find_group_norm(out, r, node);
}

#endif
