/* Layers that ONNX files spell out as several operators; see onnx_reader.h.
 *
 *     x W + b                                              linear
 *     x less its mean, divided by its deviation            layer_norm, rms_norm; times a weight, plus a bias
 *     x s + (shift - mean s), s = weight / deviation       layer_norm, as TensorFlow writes it
 *     a reshape to groups, InstanceNormalization, back     group_norm; then times a weight, plus a bias
 *     an expression of one value                           gelu, swish, hardswish, mish, softplus
 *
 * Exporters write the same function in many forms. An expression of elements is recognised by its values at some
 * points, whatever its form is. */
#ifdef HD_HAVE_ONNX

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "onnx/onnx_reader.h"

/* ---- Expressions of elements ---- */

enum { MOST_OPERATORS = 64, MOST_CANDIDATES = 16 };

/* Evaluates an expression with the value `at` for `x`. */
typedef struct evaluation {
  const hd_onnx_reader *r;
  const char *x;
  double at;
  int operators;
  int rank; /* the most dimensions of a number in it */
} evaluation;

static bool evaluate(double *out, evaluation *e, const char *name);

/* A constant number, whose dimensions the result has at least. */
static bool number_of(double *out, int *rank, const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  if (!hd__onnx_scalar(out, r, name))
    return false;
  *rank = (int)t->n_dims > *rank ? (int)t->n_dims : *rank;
  return true;
}

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
  if (number_of(out, &e->rank, e->r, name))
    return true;
  name = hd__onnx_resolve(e->r, name);
  *out = e->at;
  if (!strcmp(name, e->x))
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
static bool is_function(int *rank, const hd_onnx_reader *r, const char *name, const char *x, double (*of)(double x)) {
  static const double points[] = {-4.5, -2.25, -1, -0.375, 0, 0.25, 0.75, 1.5, 3, 7, -30, 30, -1e3, 1e3, -1e38, 1e38};
  for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
    evaluation e = {.r = r, .x = x, .at = points[i]};
    const double wanted = of(points[i]);
    double value;
    if (!evaluate(&value, &e, name) || !(fabs(value - wanted) < 1e-5 * fmax(1, fabs(wanted) / 8)))
      return false;
    *rank = e.rank;
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
  int rank = 0;
  for (int c = 0; c < count; c++)
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
      if (is_function(&rank, r, node->output[0], candidate[c], functions[i].of)) {
        *out = (hd_onnx_expression){
            .kind = HD_ONNX_FUNCTION, .x = candidate[c], .layer = functions[i].layer, .rank = rank};
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
  const HdOnnx__Tensor *t = matmul ? hd__onnx_tensor(r, bias) : NULL;
  if (t && t->n_dims > 0 && hd__onnx_elems(t) == t->dims[t->n_dims - 1] && hd__onnx_uses(r, product) == 1 &&
      hd__onnx_tensor(r, hd__onnx_input(matmul, 1)))
    *out = (hd_onnx_expression){
        .kind = HD_ONNX_LINEAR, .x = hd__onnx_input(matmul, 0), .weight = hd__onnx_input(matmul, 1), .bias = bias};
}

static bool same(const hd_onnx_reader *r, const char *a, const char *b) {
  return !strcmp(hd__onnx_resolve(r, a), hd__onnx_resolve(r, b));
}

/* Softplus(x * beta) / beta */
static void find_softplus(hd_onnx_expression *out, const hd_onnx_reader *r, const HdOnnx__Node *node) {
  const char *beta, *again, *soft = beside_constant(&beta, r, node);
  const HdOnnx__Node *plus = soft ? hd__onnx_producer(r, soft, "Softplus") : NULL;
  const HdOnnx__Node *times = plus ? hd__onnx_producer(r, hd__onnx_input(plus, 0), "Mul") : NULL;
  const char *x = times ? beside_constant(&again, r, times) : NULL;
  double factor, divisor;
  int rank = 0;
  if (x && number_of(&factor, &rank, r, again) && number_of(&divisor, &rank, r, beta) && factor == divisor &&
      same(r, soft, hd__onnx_input(node, 0)))
    *out = (hd_onnx_expression){.kind = HD_ONNX_SOFTPLUS, .x = x, .number = (float)factor, .rank = rank};
}

/* Sqrt(sum), if a value is its reciprocal. */
static const HdOnnx__Node *root_below(int *rank, const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Node *node = hd__onnx_producer(r, name, "Reciprocal");
  double one;
  if (node)
    return hd__onnx_producer(r, hd__onnx_input(node, 0), "Sqrt");
  node = hd__onnx_producer(r, name, "Div");
  return node && number_of(&one, rank, r, hd__onnx_input(node, 0)) && one == 1
             ? hd__onnx_producer(r, hd__onnx_input(node, 1), "Sqrt")
             : NULL;
}

/* y, if a value is y * y. */
static const char *squared(int *rank, const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Node *node = hd__onnx_producer(r, name, "Mul");
  double two;
  if (node && same(r, hd__onnx_input(node, 0), hd__onnx_input(node, 1)))
    return hd__onnx_input(node, 0);
  node = hd__onnx_producer(r, name, "Pow");
  return node && number_of(&two, rank, r, hd__onnx_input(node, 1)) && two == 2 ? hd__onnx_input(node, 0) : NULL;
}

static bool keeps_axes(const HdOnnx__Node *reduce) { return reduce && hd__onnx_int(reduce, "keepdims", 1) == 1; }

static bool same_axes(hd_onnx_reader *r, const HdOnnx__Node *a, const HdOnnx__Node *b) {
  int64_t of_a[8], of_b[8];
  const int count = hd__onnx_list(of_a, r, a, "axes", 1);
  return count > 0 && hd__onnx_list(of_b, r, b, "axes", 1) == count &&
         !memcmp(of_a, of_b, (size_t)count * sizeof *of_a);
}

/* y / Sqrt(ReduceMean(y * y) + eps), an RMS norm; a layer norm where y is x - ReduceMean(x) */
static bool find_norm(hd_onnx_expression *out, hd_onnx_reader *r, const char *name) {
  const HdOnnx__Node *end = hd__onnx_producer(r, name, NULL), *root = NULL;
  const char *y = NULL, *added;
  double eps;
  int rank = 0;
  if (end && hd__onnx_is(end, "Div")) {
    y = hd__onnx_input(end, 0);
    root = hd__onnx_producer(r, hd__onnx_input(end, 1), "Sqrt");
  }
  for (size_t i = 0; i < 2 && end && hd__onnx_is(end, "Mul") && !root; i++) {
    y = hd__onnx_input(end, i);
    root = root_below(&rank, r, hd__onnx_input(end, !i));
  }
  const HdOnnx__Node *sum = root ? hd__onnx_producer(r, hd__onnx_input(root, 0), "Add") : NULL;
  const char *mean = sum ? beside_constant(&added, r, sum) : NULL;
  const HdOnnx__Node *reduce = mean ? hd__onnx_producer(r, mean, "ReduceMean") : NULL;
  const char *of = keeps_axes(reduce) ? squared(&rank, r, hd__onnx_input(reduce, 0)) : NULL;
  if (!of || !same(r, of, y) || !number_of(&eps, &rank, r, added))
    return false;
  *out = (hd_onnx_expression){.kind = HD_ONNX_RMS_NORM, .x = y, .norm = reduce, .number = (float)eps, .rank = rank};
  const HdOnnx__Node *less = hd__onnx_producer(r, y, "Sub");
  const HdOnnx__Node *middle = less ? hd__onnx_producer(r, hd__onnx_input(less, 1), "ReduceMean") : NULL;
  if (keeps_axes(middle) && same(r, hd__onnx_input(middle, 0), hd__onnx_input(less, 0)) &&
      same_axes(r, middle, reduce)) {
    out->kind = HD_ONNX_LAYER_NORM;
    out->x = hd__onnx_input(less, 0);
  }
  return true;
}

/* A norm, then times a weight, plus a bias, or without these. */
static void find_affine_norm(hd_onnx_expression *out, hd_onnx_reader *r, const HdOnnx__Node *node) {
  hd_onnx_expression e;
  const char *weight = NULL, *bias = NULL, *name = node->output[0];
  if (hd__onnx_is(node, "Add") && !(name = beside_constant(&bias, r, node)))
    return;
  const HdOnnx__Node *times = hd__onnx_producer(r, name, "Mul");
  const char *normal = times ? beside_constant(&weight, r, times) : NULL;
  if (!find_norm(&e, r, normal ? normal : name))
    return;
  e.weight = normal ? weight : NULL;
  e.bias = bias;
  *out = e;
}

/* ---- TensorFlow's layer norm ---- */

/* The other factor of a product, if one is this value; NULL: none is. */
static const char *other_factor(const hd_onnx_reader *r, const HdOnnx__Node *product, const char *value) {
  for (size_t i = 0; product && i < 2; i++)
    if (same(r, hd__onnx_input(product, i), value))
      return hd__onnx_input(product, !i);
  return NULL;
}

/* A mean of x that keeps its axes. */
static bool is_mean_of(const hd_onnx_reader *r, const HdOnnx__Node *node, const char *x) {
  const bool is = hd__onnx_is(node, "GlobalAveragePool") || (hd__onnx_is(node, "ReduceMean") && keeps_axes(node));
  return is && same(r, hd__onnx_input(node, 0), x);
}

static bool same_mean(hd_onnx_reader *r, const HdOnnx__Node *a, const HdOnnx__Node *b) {
  return hd__onnx_is(a, "GlobalAveragePool") ? hd__onnx_is(b, "GlobalAveragePool") : same_axes(r, a, b);
}

/* The scale s of a value: weight / Sqrt(mean of (x - mean)^2 + eps), the weight perhaps left out. */
static bool find_scale(hd_onnx_expression *out, hd_onnx_reader *r, const char *s, const HdOnnx__Node *mean,
                       const char *x) {
  const HdOnnx__Node *times = hd__onnx_producer(r, s, "Mul");
  const char *weight = NULL, *inverse = times ? beside_constant(&weight, r, times) : s, *added = NULL;
  const HdOnnx__Node *root = inverse ? root_below(&out->rank, r, inverse) : NULL;
  const HdOnnx__Node *sum = root ? hd__onnx_producer(r, hd__onnx_input(root, 0), "Add") : NULL;
  const char *variance = sum ? beside_constant(&added, r, sum) : NULL;
  const HdOnnx__Node *reduce = variance ? hd__onnx_producer(r, variance, NULL) : NULL;
  const char *y = reduce ? squared(&out->rank, r, hd__onnx_input(reduce, 0)) : NULL;
  const HdOnnx__Node *less = y ? hd__onnx_producer(r, y, "Sub") : NULL;
  double eps;
  if (!less || !is_mean_of(r, reduce, hd__onnx_input(reduce, 0)) || !same_mean(r, reduce, mean) ||
      !same(r, hd__onnx_input(less, 0), x) || hd__onnx_producer(r, hd__onnx_input(less, 1), NULL) != mean ||
      !number_of(&eps, &out->rank, r, added))
    return false;
  out->weight = weight;
  out->number = (float)eps;
  return true;
}

/* x s + (shift - mean s), or - mean s + shift, in any order of both sums. */
static void find_folded_norm(hd_onnx_expression *out, hd_onnx_reader *r, const HdOnnx__Node *node) {
  for (size_t i = 0; i < 2 && out->kind == HD_ONNX_NO_EXPRESSION; i++) {
    const HdOnnx__Node *scaled = hd__onnx_producer(r, hd__onnx_input(node, i), "Mul");
    const HdOnnx__Node *shifted = hd__onnx_producer(r, hd__onnx_input(node, !i), NULL);
    const char *bias = NULL, *less = hd__onnx_is(shifted, "Add") ? beside_constant(&bias, r, shifted) : NULL;
    const bool minus = hd__onnx_is(shifted, "Sub") && hd__onnx_tensor(r, hd__onnx_input(shifted, 0));
    if (minus) {
      bias = hd__onnx_input(shifted, 0);
      less = hd__onnx_input(shifted, 1);
    }
    const HdOnnx__Node *product = less ? hd__onnx_producer(r, less, "Mul") : NULL;
    for (size_t k = 0; k < 2 && scaled && product && out->kind == HD_ONNX_NO_EXPRESSION; k++) {
      const char *x = hd__onnx_input(scaled, k), *s = hd__onnx_input(scaled, !k), *mean = other_factor(r, product, s);
      const HdOnnx__Node *of = mean ? hd__onnx_producer(r, mean, NULL) : NULL;
      if (of && !minus)
        of = hd__onnx_is(of, "Neg") ? hd__onnx_producer(r, hd__onnx_input(of, 0), NULL) : NULL;
      hd_onnx_expression e = {.kind = HD_ONNX_LAYER_NORM, .x = x, .norm = of, .bias = bias};
      if (of && is_mean_of(r, of, x) && find_scale(&e, r, s, of, x))
        *out = e;
    }
  }
}

static bool all_equal(const hd_onnx_reader *r, const char *name, float expected) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  const int64_t count = t ? hd__onnx_elems(t) : 0;
  HD_OWNED float *value = count > 0 ? hd__malloc((size_t)count * sizeof *value) : NULL;
  bool same = value && hd__onnx_floats(value, t, count);
  for (int64_t i = 0; i < count && same; i++)
    same = value[i] == expected;
  return same;
}

static void find_group_norm(hd_onnx_expression *out, hd_onnx_reader *r, const HdOnnx__Node *node) {
  const char *bias, *weight, *scaled = beside_constant(&bias, r, node);
  const HdOnnx__Node *times = scaled ? hd__onnx_producer(r, scaled, "Mul") : NULL;
  const char *normal = times ? beside_constant(&weight, r, times) : NULL;
  const HdOnnx__Node *back = normal ? hd__onnx_producer(r, normal, "Reshape") : NULL;
  const HdOnnx__Node *norm = back ? hd__onnx_producer(r, hd__onnx_input(back, 0), "InstanceNormalization") : NULL;
  const HdOnnx__Node *groups = norm ? hd__onnx_producer(r, hd__onnx_input(norm, 0), "Reshape") : NULL;
  int64_t shape[8];
  if (!groups || hd__onnx_ints(shape, r, hd__onnx_input(groups, 1)) != 3 || shape[1] < 1 ||
      !all_equal(r, hd__onnx_input(norm, 1), 1) || !all_equal(r, hd__onnx_input(norm, 2), 0))
    return;
  *out = (hd_onnx_expression){.kind = HD_ONNX_GROUP_NORM,
                              .x = hd__onnx_input(groups, 0),
                              .weight = weight,
                              .bias = bias,
                              .norm = norm,
                              .back = back,
                              .groups = shape[1]};
}

void hd__onnx_find_expression(hd_onnx_expression *out, hd_onnx_reader *r, const HdOnnx__Node *node) {
  *out = (hd_onnx_expression){.kind = HD_ONNX_NO_EXPRESSION};
  const bool adds = hd__onnx_is(node, "Add"), divides = hd__onnx_is(node, "Div");
  if (hd__onnx_is(node, "Mul") || divides)
    find_function(out, r, node);
  if (divides)
    find_softplus(out, r, node);
  if (out->kind == HD_ONNX_NO_EXPRESSION && (adds || divides || hd__onnx_is(node, "Mul")))
    find_affine_norm(out, r, node);
  if (adds && out->kind == HD_ONNX_NO_EXPRESSION)
    find_folded_norm(out, r, node);
  if (!adds || out->kind != HD_ONNX_NO_EXPRESSION)
    return;
  find_linear(out, r, node);
  find_group_norm(out, r, node);
}

#endif
