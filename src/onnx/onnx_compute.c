/* What ONNX's operators compute from constants alone, as a reader of the file needs it: see onnx_array.h. */
#ifdef HD_HAVE_ONNX

#include <math.h>
#include <string.h>

#include "onnx/onnx_array.h"

/* The element of an array for element i of a larger one. */
static double spread(const hd_array *a, const hd_array *to, int64_t i) {
  int64_t at = 0, step = 1;
  for (int d = to->rank - 1; d >= 0; d--) {
    const int own = d - (to->rank - a->rank);
    const int64_t place = i % to->dim[d];
    i /= to->dim[d];
    if (own < 0)
      continue;
    at += (a->dim[own] == 1 ? 0 : place) * step;
    step *= a->dim[own];
  }
  return a->at[at];
}

static bool spread_shape(hd_array *out, const hd_array *in, int count) {
  int64_t dim[RANK];
  int rank = 0;
  for (int k = 0; k < count; k++)
    rank = in[k].rank > rank ? in[k].rank : rank;
  for (int d = 0; d < rank; d++) {
    dim[d] = 1;
    for (int k = 0; k < count; k++) {
      const int own = d - (rank - in[k].rank);
      const int64_t side = own < 0 ? 1 : in[k].dim[own];
      if (side != 1 && dim[d] != 1 && dim[d] != side)
        return false;
      dim[d] = side != 1 ? side : dim[d];
    }
  }
  return hd__array_make(out, in[count - 1].type, rank, dim);
}

/* What types an operator takes: numbers, those with fractions, truth values, any; its own: see agree. */
typedef enum kind { NUMBERS, REALS, TRUTHS, ANY, OF_ITS_OWN } kind;

static const struct elementwise {
  const char *op;
  int inputs;
  kind takes;
  bool decides; /* its output is a bool */
} elementwise[] = {{"Add", 2, NUMBERS, false},        {"Sub", 2, NUMBERS, false},
                   {"Mul", 2, NUMBERS, false},        {"Div", 2, NUMBERS, false},
                   {"Pow", 2, OF_ITS_OWN, false},     {"Equal", 2, ANY, true},
                   {"Less", 2, NUMBERS, true},        {"Greater", 2, NUMBERS, true},
                   {"LessOrEqual", 2, NUMBERS, true}, {"GreaterOrEqual", 2, NUMBERS, true},
                   {"And", 2, TRUTHS, true},          {"Or", 2, TRUTHS, true},
                   {"Where", 3, OF_ITS_OWN, false},   {"Sqrt", 1, REALS, false},
                   {"Neg", 1, NUMBERS, false},        {"Reciprocal", 1, REALS, false},
                   {"Not", 1, TRUTHS, true},          {"Exp", 1, REALS, false},
                   {"Log", 1, REALS, false},          {"Abs", 1, NUMBERS, false},
                   {"Floor", 1, REALS, false},        {"Ceil", 1, REALS, false},
                   {"Min", 2, NUMBERS, false},        {"Max", 2, NUMBERS, false}};

/* The operator in this row of the table. */
static double compute(size_t row, const double x[3], bool whole) {
  const double a = x[0], b = x[1];
  switch (row) {
  case 0: return a + b;
  case 1: return a - b;
  case 2: return a * b;
  case 3: return whole ? trunc(a / b) : a / b;
  case 4: return whole ? trunc(pow(a, b)) : pow(a, b);
  case 5: return a == b;
  case 6: return a < b;
  case 7: return a > b;
  case 8: return a <= b;
  case 9: return a >= b;
  case 10: return a != 0 && b != 0;
  case 11: return a != 0 || b != 0;
  case 12: return a != 0 ? b : x[2];
  case 13: return sqrt(a);
  case 14: return -a;
  case 15: return 1 / a;
  case 16: return a == 0;
  case 17: return exp(a);
  case 18: return log(a);
  case 19: return fabs(a);
  case 20: return floor(a);
  case 21: return ceil(a);
  case 22: return isnan(a) || isnan(b) ? a + b : fmin(a, b);
  default: return isnan(a) || isnan(b) ? a + b : fmax(a, b);
  }
}

/* Whether an operator is defined for the types of its inputs: one type, but for the exponent of a power, whose result
 * has the type of its base, and the truth values of Where. */
static bool agree(const struct elementwise *e, const hd_array *in) {
  if (!strcmp(e->op, "Pow"))
    return in[0].type != BOOL && in[1].type != BOOL;
  if (!strcmp(e->op, "Where"))
    return in[0].type == BOOL && in[1].type == in[2].type;
  const int type = in[0].type;
  return in[e->inputs - 1].type == type && (e->takes == ANY || (e->takes == TRUTHS) == (type == BOOL)) &&
         (e->takes != REALS || is_real(type));
}

static bool fold_elements(hd_array *out, const HdOnnx__Node *node, const hd_array *in, int inputs) {
  size_t i = 0;
  while (i < sizeof elementwise / sizeof *elementwise && strcmp(elementwise[i].op, node->op_type))
    i++;
  if (i == sizeof elementwise / sizeof *elementwise || inputs != elementwise[i].inputs || node->n_attribute > 0 ||
      !agree(&elementwise[i], in) || !spread_shape(out, in, inputs))
    return false;
  out->type = elementwise[i].decides ? BOOL : in[strcmp(node->op_type, "Pow") ? inputs - 1 : 0].type;
  const bool whole = !is_real(out->type);
  for (int64_t k = 0; k < out->count; k++) {
    double x[3] = {0};
    for (int j = 0; j < inputs; j++)
      x[j] = spread(&in[j], out, k);
    out->at[k] = compute(i, x, whole);
    if (!hd__array_round(&out->at[k], out->type))
      return false;
  }
  return true;
}

static int64_t from_end(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

static bool fold_transpose(hd_array *out, const HdOnnx__Node *node, const hd_array *in) {
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, "perm");
  int64_t dim[RANK], step[RANK], own = 1, perm[RANK];
  uint32_t seen = 0;
  if (a && a->n_ints != (size_t)in->rank)
    return false;
  for (int d = 0; d < in->rank; d++) {
    perm[d] = a ? a->ints[d] : in->rank - 1 - d;
    if (perm[d] < 0 || perm[d] >= in->rank || seen >> perm[d] & 1)
      return false;
    seen |= 1u << perm[d];
    dim[d] = in->dim[perm[d]];
  }
  if (!hd__array_make(out, in->type, in->rank, dim))
    return false;
  for (int d = in->rank - 1; d >= 0; own *= in->dim[d--])
    for (int k = 0; k < in->rank; k++)
      if (perm[k] == d)
        step[k] = own;
  for (int64_t i = 0; i < out->count; i++) {
    int64_t at = 0, left = i;
    for (int d = out->rank - 1; d >= 0; left /= dim[d--])
      at += left % dim[d] * step[d];
    out->at[i] = in->at[at];
  }
  return true;
}

static bool as_shape(hd_array *out, const hd_array *in, const int64_t *dim, int rank) {
  if (!hd__array_make(out, in->type, rank, dim) || out->count != in->count)
    return false;
  memcpy(out->at, in->at, (size_t)in->count * sizeof *in->at);
  return true;
}

/* A place along an axis, or a size; those far beyond the largest are all the same. */
static int64_t whole_number(double x) {
  return fabs(x) <= HD_ONNX_MOST_SIDE ? (int64_t)x : x > 0 ? HD_ONNX_MOST_SIDE : -HD_ONNX_MOST_SIDE;
}

static bool whole_list(int64_t out[RANK], const hd_array *a) {
  for (int64_t i = 0; i < a->count && a->count <= RANK; i++)
    out[i] = whole_number(a->at[i]);
  return a->count <= RANK;
}

static bool fold_reshape(hd_array *out, const HdOnnx__Node *node, const hd_array *in, int inputs) {
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, "shape");
  int64_t dim[RANK], known = 1;
  const int rank = inputs == 2 ? (int)in[1].count : a && a->n_ints <= RANK ? (int)a->n_ints : -1;
  if (rank < 0 || rank > RANK || (inputs == 2 && !whole_list(dim, &in[1])))
    return false;
  if (inputs != 2)
    copy_numbers(dim, a->ints, (size_t)rank);
  for (int i = 0; i < rank; i++) {
    dim[i] = dim[i] == 0 && i < in->rank ? in->dim[i] : dim[i];
    known *= dim[i] > 0 && dim[i] < HD_ONNX_MOST_SIDE && known < HD_ONNX_MOST_SIDE ? dim[i] : 1;
  }
  for (int i = 0; i < rank; i++)
    dim[i] = dim[i] == -1 ? in->count / known : dim[i];
  return as_shape(out, in, dim, rank);
}

/* Unsqueeze and Squeeze; the axes are an attribute or an input. */
static bool fold_sides(hd_array *out, const HdOnnx__Node *node, const hd_array *in, int inputs) {
  const bool adds = !strcmp(node->op_type, "Unsqueeze");
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, "axes");
  int64_t axis[RANK], dim[RANK];
  const int axes = inputs == 2 ? (int)in[1].count : a && a->n_ints <= RANK ? (int)a->n_ints : 0;
  if (axes > RANK || (inputs == 2 && !whole_list(axis, &in[1])) || (adds && in->rank + axes > RANK))
    return false;
  if (inputs != 2 && a)
    copy_numbers(axis, a->ints, (size_t)axes);
  uint32_t marked = 0;
  const int rank = adds ? in->rank + axes : in->rank;
  for (int i = 0; i < axes; i++) {
    const int64_t d = from_end(axis[i], rank);
    if (d < 0 || d >= rank)
      return false;
    marked |= 1u << d;
  }
  for (int d = 0; axes == 0 && d < rank && !adds; d++)
    marked |= (uint32_t)(in->dim[d] == 1) << d;
  int n = 0;
  for (int d = 0, own = 0; d < rank; d++)
    if (adds)
      dim[n++] = marked >> d & 1 ? 1 : own < in->rank ? in->dim[own++] : 1;
    else if (!(marked >> d & 1))
      dim[n++] = in->dim[d];
  return as_shape(out, in, dim, n);
}

/* Elements along an axis: outer x chosen x inner. */
static bool choose(hd_array *out, const hd_array *in, int64_t axis, const hd_array *index, bool keeps) {
  int64_t dim[RANK] = {0}, inner = 1, outer = 1;
  int rank = 0;
  if (axis < 0 || axis >= in->rank || in->rank - 1 + index->rank > RANK)
    return false;
  for (int d = 0; d < axis; d++)
    outer *= dim[rank++] = in->dim[d];
  for (int d = 0; d < index->rank && !keeps; d++)
    dim[rank++] = index->dim[d];
  if (keeps)
    dim[rank++] = index->count;
  for (int d = (int)axis + 1; d < in->rank; d++)
    inner *= dim[rank++] = in->dim[d];
  if (!hd__array_make(out, in->type, rank, dim))
    return false;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t k = 0; k < index->count; k++) {
      const int64_t at = from_end(whole_number(index->at[k]), in->dim[axis]);
      if (at < 0 || at >= in->dim[axis])
        return false;
      memcpy(out->at + (o * index->count + k) * inner, in->at + (o * in->dim[axis] + at) * inner,
             (size_t)inner * sizeof *in->at);
    }
  return true;
}

/* Along one axis. */
static bool fold_slice(hd_array *out, const HdOnnx__Node *node, const hd_array *in, int inputs) {
  const HdOnnx__Attribute *starts = hd__onnx_attribute(node, "starts"), *ends = hd__onnx_attribute(node, "ends"),
                          *axes = hd__onnx_attribute(node, "axes");
  int64_t axis = axes && axes->n_ints == 1 ? axes->ints[0] : 0, start, end, step = 1;
  HD_ARRAY index = {0};
  if (inputs >= 3) {
    if (in[1].count != 1 || in[2].count != 1 || (inputs > 3 && in[3].count != 1) || (inputs > 4 && in[4].count != 1))
      return false;
    step = inputs > 4 ? whole_number(in[4].at[0]) : 1;
    start = whole_number(in[1].at[0]);
    end = whole_number(in[2].at[0]);
    axis = inputs > 3 ? whole_number(in[3].at[0]) : 0;
  } else {
    if (!starts || !ends || starts->n_ints != 1 || ends->n_ints != 1)
      return false;
    start = starts->ints[0];
    end = ends->ints[0];
  }
  axis = from_end(axis, in->rank);
  if (axis < 0 || axis >= in->rank)
    return false;
  const int64_t side = in->dim[axis], least = step < 0 ? -1 : 0;
  start = start < 0 ? start + side : start;
  end = end < 0 ? end + side : end;
  start = start < 0 ? 0 : start > side + least ? side + least : start;
  end = end < least ? least : end > side ? side : end;
  const int64_t count = step > 0 ? (end - start + step - 1) / step : step < 0 ? (start - end - step - 1) / -step : -1;
  if (count < 0 || !hd__array_make(&index, INT64, 1, &count))
    return false;
  for (int64_t i = 0; i < count; i++)
    index.at[i] = (double)(start + i * step);
  return choose(out, in, axis, &index, true);
}

static bool fold_concat(hd_array *out, const HdOnnx__Node *node, const hd_array *in, int inputs) {
  const int64_t axis = from_end(hd__onnx_int(node, "axis", 0), in->rank);
  int64_t dim[RANK], inner = 1, outer = 1, to = 0;
  if (axis < 0 || axis >= in->rank)
    return false;
  memcpy(dim, in->dim, sizeof dim);
  for (int k = 1; k < inputs; k++) {
    if (in[k].rank != in->rank || in[k].type != in->type)
      return false;
    for (int d = 0; d < in->rank; d++)
      if (d != axis && in[k].dim[d] != in->dim[d])
        return false;
    dim[axis] += in[k].dim[axis];
  }
  for (int d = 0; d < in->rank; d++)
    *(d < axis ? &outer : &inner) *= d == axis ? 1 : dim[d];
  if (!hd__array_make(out, in->type, in->rank, dim))
    return false;
  for (int64_t o = 0; o < outer; o++)
    for (int k = 0; k < inputs; k++) {
      const int64_t some = in[k].dim[axis] * inner;
      memcpy(out->at + to, in[k].at + o * some, (size_t)some * sizeof *in->at);
      to += some;
    }
  return true;
}

static bool fold_filled(hd_array *out, const HdOnnx__Node *node, const hd_array *in, int inputs) {
  const HdOnnx__Attribute *value = hd__onnx_attribute(node, "value");
  int64_t dim[RANK];
  HD_ARRAY number = {0};
  if (in->count > RANK || !whole_list(dim, in) || (value && (!value->t || !hd__array_read(&number, value->t))) ||
      (value && number.count != 1) || !hd__array_make(out, value ? number.type : FLOAT, (int)in->count, dim))
    return false;
  for (int64_t i = 0; i < out->count; i++)
    out->at[i] = value ? number.at[0] : 0;
  return true;
}

static bool fold_expand(hd_array *out, const hd_array *in, int inputs) {
  hd_array both[2] = {in[0], {.type = in->type, .rank = (int)in[1].count}};
  if (inputs != 2 || in[1].count > RANK || !whole_list(both[1].dim, &in[1]) || !spread_shape(out, both, 2))
    return false;
  for (int64_t i = 0; i < out->count; i++)
    out->at[i] = spread(in, out, i);
  return true;
}

static bool fold_range(hd_array *out, const hd_array *in, int inputs) {
  if (inputs != 3 || in[0].count != 1 || in[1].count != 1 || in[2].count != 1 || in[2].at[0] == 0)
    return false;
  const double steps = ceil((in[1].at[0] - in[0].at[0]) / in[2].at[0]);
  const int64_t count = steps > 0 && steps < 1 << 20 ? (int64_t)steps : 0;
  bool good = !(steps > (double)count) && in[1].type == in->type && in[2].type == in->type &&
              hd__array_make(out, in->type, 1, &count);
  for (int64_t i = 0; i < count && good; i++) {
    out->at[i] = in[0].at[0] + (double)i * in[2].at[0];
    good = hd__array_round(&out->at[i], out->type);
  }
  return good;
}

static bool fold_triangle(hd_array *out, const HdOnnx__Node *node, const hd_array *in, int inputs) {
  const bool upper = hd__onnx_int(node, "upper", 1);
  const int64_t k = inputs > 1 && in[1].count == 1 ? whole_number(in[1].at[0]) : 0;
  if (in->rank < 2 || !as_shape(out, in, in->dim, in->rank))
    return false;
  const int64_t columns = in->dim[in->rank - 1], rows = in->dim[in->rank - 2];
  for (int64_t i = 0; i < out->count; i++) {
    const int64_t row = i / columns % rows, column = i % columns;
    if (upper ? column < row + k : column > row + k)
      out->at[i] = 0;
  }
  return true;
}

static bool fold_cast(hd_array *out, const HdOnnx__Node *node, const hd_array *in) {
  const int type = (int)hd__onnx_int(node, "to", 0);
  if (!is_known(type) || !as_shape(out, in, in->dim, in->rank))
    return false;
  out->type = type;
  for (int64_t i = 0; i < out->count && type != in->type; i++) {
    out->at[i] = type == BOOL ? in->at[i] != 0 : is_real(type) ? in->at[i] : trunc(in->at[i]);
    if (!hd__array_round(&out->at[i], type))
      return false;
  }
  return true;
}

static bool fold_shape(hd_array *out, const hd_array *in) {
  const int64_t rank = in->rank;
  if (!hd__array_make(out, INT64, 1, &rank))
    return false;
  for (int d = 0; d < in->rank; d++)
    out->at[d] = (double)in->dim[d];
  return true;
}

bool hd__array_compute(hd_array *out, const HdOnnx__Node *node, const hd_array *in, int inputs) {
  const char *op = node->op_type;
  if (!strcmp(op, "Transpose"))
    return fold_transpose(out, node, in);
  if (!strcmp(op, "Reshape"))
    return fold_reshape(out, node, in, inputs);
  if (!strcmp(op, "Unsqueeze") || !strcmp(op, "Squeeze"))
    return fold_sides(out, node, in, inputs);
  if (!strcmp(op, "Gather"))
    return inputs == 2 && choose(out, in, from_end(hd__onnx_int(node, "axis", 0), in->rank), &in[1], false);
  if (!strcmp(op, "Slice"))
    return fold_slice(out, node, in, inputs);
  if (!strcmp(op, "Concat"))
    return fold_concat(out, node, in, inputs);
  if (!strcmp(op, "ConstantOfShape"))
    return fold_filled(out, node, in, inputs);
  if (!strcmp(op, "Expand"))
    return fold_expand(out, in, inputs);
  if (!strcmp(op, "Range"))
    return fold_range(out, in, inputs);
  if (!strcmp(op, "Trilu"))
    return fold_triangle(out, node, in, inputs);
  if (!strcmp(op, "Cast"))
    return fold_cast(out, node, in);
  if (!strcmp(op, "Identity"))
    return as_shape(out, in, in->dim, in->rank);
  if (!strcmp(op, "Shape"))
    return node->n_attribute == 0 && fold_shape(out, in);
  return fold_elements(out, node, in, inputs);
}

#endif
