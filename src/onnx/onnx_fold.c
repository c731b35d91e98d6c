/* The constants of an ONNX file, as its readers want them: numbers of other types as float32 or int64, those in other
 * files read, and what is computed from constants alone computed; see onnx_reader.h. */
#ifdef HD_HAVE_ONNX

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "onnx/onnx_reader.h"
#include "platform/file.h"

enum { FLOAT = 1, UINT8 = 2, INT8 = 3, INT32 = 6, INT64 = 7, BOOL = 9, HALF = 10, DOUBLE = 11, BF16 = 16 };
enum { RANK = 8, MOST_INPUTS = 16, EXTERNAL = 1, MOST_LOOKS = 1 << 17 };

/* An array while something is computed from it. */
typedef struct array {
  int type, rank;
  int64_t dim[RANK], count, most; /* most: elements that it may have, 0: as many as a tensor */
  double *at;
} array;

/* `from` may be NULL if there are none. */
static void copy_numbers(int64_t *to, const int64_t *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = from[i];
}

static void release_array(array *a) { hd__free(a->at); }
#define ARRAY HD_RELEASED(release_array) array

/* ---- Memory ---- */

struct hd_onnx_block {
  struct hd_onnx_block *next;
  HdOnnx__Tensor tensor;
};

/* A tensor of the reader's with room for `bytes`; NULL: too much of the file's worth, or no memory. */
static HdOnnx__Tensor *new_tensor(hd_onnx_reader *r, int type, const int64_t *dim, size_t rank, size_t bytes) {
  const size_t all = sizeof(struct hd_onnx_block) + rank * sizeof *dim + bytes;
  r->room -= (int64_t)all;
  struct hd_onnx_block *block = r->room < 0 ? NULL : hd__malloc(all);
  if (!block)
    return NULL;
  *block = (struct hd_onnx_block){.next = r->blocks};
  r->blocks = block;
  HdOnnx__Tensor *t = &block->tensor;
  hd_onnx__tensor__init(t);
  t->n_dims = rank;
  t->dims = (int64_t *)(block + 1);
  copy_numbers(t->dims, dim, rank);
  t->has_data_type = 1;
  t->data_type = type;
  t->has_raw_data = 1;
  t->raw_data = (ProtobufCBinaryData){bytes, (uint8_t *)(t->dims + rank)};
  return t;
}

void hd__onnx_free_constants(hd_onnx_reader *r) {
  while (r->blocks) {
    struct hd_onnx_block *next = r->blocks->next;
    hd__free(r->blocks);
    r->blocks = next;
  }
  hd__free(r->constant);
  hd__free(r->type);
}

/* ---- Numbers ---- */

static int64_t count_of(const int64_t *dim, size_t rank) {
  int64_t count = 1;
  for (size_t i = 0; i < rank; i++) {
    if (dim[i] < 0 || (dim[i] > 0 && count > HD_ONNX_MOST_SIDE / dim[i]))
      return -1;
    count *= dim[i];
  }
  return count;
}

static size_t size_of(int type) {
  return type == INT64 || type == DOUBLE  ? 8
         : type == FLOAT || type == INT32 ? 4
         : type == HALF || type == BF16   ? 2
                                          : 1;
}

static double element(const unsigned char *from, int type) {
  union {
    float f;
    double d;
    int64_t l;
    int32_t i;
    uint16_t h;
  } u;
  memcpy(&u, from, size_of(type));
  switch (type) {
  case FLOAT: return (double)u.f;
  case DOUBLE: return u.d;
  case INT64: return (double)u.l;
  case INT32: return u.i;
  case HALF: return (double)hd__from_half(u.h);
  case BF16: return (double)hd__from_bfloat16(u.h);
  case INT8: return (int8_t)*from;
  default: return *from;
  }
}

/* Where a list of numbers in a message has element i; types that have no list of their own are in that of int32. */
static double listed(const HdOnnx__Tensor *t, int64_t i) {
  switch (t->data_type) {
  case FLOAT: return (double)t->float_data[i];
  case DOUBLE: return t->double_data[i];
  case INT64: return (double)t->int64_data[i];
  default: {
    const uint16_t bits = (uint16_t)t->int32_data[i];
    return t->data_type == HALF   ? (double)hd__from_half(bits)
           : t->data_type == BF16 ? (double)hd__from_bfloat16(bits)
                                  : t->int32_data[i];
  }
  }
}

static bool is_known(int type) {
  return type == FLOAT || type == UINT8 || type == INT8 || type == INT32 || type == INT64 || type == BOOL ||
         type == HALF || type == DOUBLE || type == BF16;
}

static bool is_real(int type) { return type == FLOAT || type == DOUBLE || type == HALF || type == BF16; }

/* A number with so many binary digits, whose places are not below 2^lowest; infinite beyond `most`. */
static double cut_digits(double x, int digits, int lowest, double most) {
  int exponent;
  if (!isfinite(x) || x == 0)
    return x;
  frexp(x, &exponent);
  const int place = exponent - digits < lowest ? lowest : exponent - digits;
  const double rounded = ldexp(rint(ldexp(x, -place)), place);
  return fabs(rounded) > most ? copysign((double)INFINITY, x) : rounded;
}

/* The nearest number that a type has; false: a whole number that lies outside it, or is not exact as a double. */
static bool round_to(double *x, int type) {
  switch (type) {
  case FLOAT: *x = (double)(float)*x; return true;
  case HALF: *x = cut_digits((double)(float)*x, 11, -24, 65504); return true;
  case BF16: *x = cut_digits((double)(float)*x, 8, -133, 0x1.fep127); return true;
  case INT8: return *x >= INT8_MIN && *x <= INT8_MAX;
  case UINT8: return *x >= 0 && *x <= UINT8_MAX;
  case INT32: return *x >= INT32_MIN && *x <= INT32_MAX;
  case INT64: return fabs(*x) <= 0x1p53;
  default: return true;
  }
}

static bool make_array(array *a, int type, int rank, const int64_t *dim) {
  const int64_t most = a->most ? a->most : HD_ONNX_MOST_SIDE / 8;
  *a = (array){.type = type, .rank = rank};
  if (rank > RANK)
    return false;
  copy_numbers(a->dim, dim, (size_t)rank);
  a->count = count_of(dim, (size_t)rank);
  a->at = a->count < 0 || a->count > most ? NULL : hd__malloc((size_t)(a->count + 1) * sizeof *a->at);
  return a->at;
}

static bool read_array(array *a, const HdOnnx__Tensor *t) {
  *a = (array){0};
  if (!is_known(t->data_type) || t->data_location == EXTERNAL || t->n_dims > RANK ||
      !make_array(a, t->data_type, (int)t->n_dims, t->dims))
    return false;
  const size_t size = size_of(t->data_type), count = (size_t)a->count;
  const size_t in_list = t->data_type == FLOAT    ? t->n_float_data
                         : t->data_type == DOUBLE ? t->n_double_data
                         : t->data_type == INT64  ? t->n_int64_data
                                                  : t->n_int32_data;
  if (t->has_raw_data ? t->raw_data.len != count * size : in_list != count)
    return false;
  for (int64_t i = 0; i < a->count; i++)
    a->at[i] = t->has_raw_data ? element(t->raw_data.data + (size_t)i * size, t->data_type) : listed(t, i);
  for (int64_t i = 0; i < a->count && t->data_type == INT64; i++)
    if (fabs(a->at[i]) > 0x1p53 && fabs(a->at[i]) < 9e18) /* the largest ones stand for the end of an axis */
      return false;
  return true;
}

/* A constant, as its type in the file. */
static bool read_value(array *a, const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Tensor *t = *name ? hd__onnx_tensor(r, name) : NULL;
  *a = (array){0};
  if (!t || !read_array(a, t))
    return false;
  a->type = hd__onnx_type(r, name);
  return true;
}

/* In the types that readers know: float, double where it is, bool, int64 for all whole numbers. */
static HdOnnx__Tensor *keep_array(hd_onnx_reader *r, const array *a) {
  const int type = a->type == FLOAT || a->type == HALF || a->type == BF16 ? FLOAT
                   : a->type == DOUBLE || a->type == BOOL                 ? a->type
                                                                          : INT64;
  const size_t size = size_of(type);
  HdOnnx__Tensor *t = new_tensor(r, type, a->dim, (size_t)a->rank, (size_t)a->count * size);
  for (int64_t i = 0; i < a->count && t; i++) {
    unsigned char *to = t->raw_data.data + (size_t)i * size;
    const float f = (float)a->at[i];
    const int64_t whole = fabs(a->at[i]) < 9e18 ? (int64_t)a->at[i] : a->at[i] > 0 ? INT64_MAX : INT64_MIN;
    if (type == BOOL)
      *to = a->at[i] != 0;
    else
      memcpy(to, type == FLOAT ? (const void *)&f : type == DOUBLE ? (const void *)&a->at[i] : &whole, size);
  }
  return t;
}

/* ---- Other files ---- */

static const char *entry_of(const HdOnnx__Tensor *t, const char *key) {
  for (size_t i = 0; i < t->n_external_data; i++)
    if (t->external_data[i]->key && !strcmp(t->external_data[i]->key, key))
      return t->external_data[i]->value;
  return NULL;
}

/* The bytes of a tensor in a file beside the model's; NULL: it is not there, or lies elsewhere. */
static HdOnnx__Tensor *read_outside(hd_onnx_reader *r, const HdOnnx__Tensor *t) {
  const char *name = entry_of(t, "location"), *offset = entry_of(t, "offset"), *slash = strrchr(r->path, '/');
  const int64_t count = count_of(t->dims, t->n_dims);
  const size_t bytes = count < 0 ? 0 : (size_t)count * size_of(t->data_type);
  const unsigned long long first = offset ? strtoull(offset, NULL, 10) : 0;
  HD_MAPPED file = {0};
  if (!name || !*name || *name == '/' || strstr(name, "..") || !is_known(t->data_type) || !r->beside)
    return NULL;
  char *path = hd__printf_alloc("%.*s%s", slash ? (int)(slash - r->path) + 1 : 0, r->path, name);
  hd_ctx *quiet = NULL; /* the caller names the node */
  const bool good = path && hd_ctx_create(&quiet) == HD_OK && hd__file_map(&file, quiet, path) == HD_OK &&
                    first <= file.length && bytes <= file.length - first;
  hd_ctx_destroy(quiet);
  hd__free(path);
  r->room += good ? (int64_t)file.length : 0;
  HdOnnx__Tensor *copy = good ? new_tensor(r, t->data_type, t->dims, t->n_dims, bytes) : NULL;
  if (copy && bytes)
    memcpy(copy->raw_data.data, file.bytes + first, bytes);
  return copy;
}

/* The tensor in the readers' types; itself where it is, or cannot be read: those that need it say so. */
static const HdOnnx__Tensor *usual(hd_onnx_reader *r, const HdOnnx__Tensor *t) {
  if (t->data_location == EXTERNAL) {
    const HdOnnx__Tensor *copy = read_outside(r, t);
    t = copy ? copy : t;
  }
  const int type = t->data_type;
  if (type == FLOAT || type == DOUBLE || type == INT64 || type == BOOL)
    return t;
  ARRAY a = {0};
  const HdOnnx__Tensor *converted = read_array(&a, t) ? keep_array(r, &a) : NULL;
  return converted ? converted : t;
}

/* ---- What is computed from constants ---- */

/* The element of an array for element i of a larger one. */
static double spread(const array *a, const array *to, int64_t i) {
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

static bool spread_shape(array *out, const array *in, int count) {
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
  return make_array(out, in[count - 1].type, rank, dim);
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
static bool agree(const struct elementwise *e, const array *in) {
  if (!strcmp(e->op, "Pow"))
    return in[0].type != BOOL && in[1].type != BOOL;
  if (!strcmp(e->op, "Where"))
    return in[0].type == BOOL && in[1].type == in[2].type;
  const int type = in[0].type;
  return in[e->inputs - 1].type == type && (e->takes == ANY || (e->takes == TRUTHS) == (type == BOOL)) &&
         (e->takes != REALS || is_real(type));
}

static bool fold_elements(array *out, const HdOnnx__Node *node, const array *in, int inputs) {
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
    if (!round_to(&out->at[k], out->type))
      return false;
  }
  return true;
}

static int64_t from_end(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

static bool fold_transpose(array *out, const HdOnnx__Node *node, const array *in) {
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
  if (!make_array(out, in->type, in->rank, dim))
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

static bool as_shape(array *out, const array *in, const int64_t *dim, int rank) {
  if (!make_array(out, in->type, rank, dim) || out->count != in->count)
    return false;
  memcpy(out->at, in->at, (size_t)in->count * sizeof *in->at);
  return true;
}

/* A place along an axis, or a size; those far beyond the largest are all the same. */
static int64_t whole_number(double x) {
  return fabs(x) <= HD_ONNX_MOST_SIDE ? (int64_t)x : x > 0 ? HD_ONNX_MOST_SIDE : -HD_ONNX_MOST_SIDE;
}

static bool whole_list(int64_t out[RANK], const array *a) {
  for (int64_t i = 0; i < a->count && a->count <= RANK; i++)
    out[i] = whole_number(a->at[i]);
  return a->count <= RANK;
}

static bool fold_reshape(array *out, const HdOnnx__Node *node, const array *in, int inputs) {
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
static bool fold_sides(array *out, const HdOnnx__Node *node, const array *in, int inputs) {
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
static bool choose(array *out, const array *in, int64_t axis, const array *index, bool keeps) {
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
  if (!make_array(out, in->type, rank, dim))
    return false;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t k = 0; k < index->count; k++) {
      const int64_t at = from_end((int64_t)index->at[k], in->dim[axis]);
      if (at < 0 || at >= in->dim[axis])
        return false;
      memcpy(out->at + (o * index->count + k) * inner, in->at + (o * in->dim[axis] + at) * inner,
             (size_t)inner * sizeof *in->at);
    }
  return true;
}

/* Along one axis. */
static bool fold_slice(array *out, const HdOnnx__Node *node, const array *in, int inputs) {
  const HdOnnx__Attribute *starts = hd__onnx_attribute(node, "starts"), *ends = hd__onnx_attribute(node, "ends"),
                          *axes = hd__onnx_attribute(node, "axes");
  int64_t axis = axes && axes->n_ints == 1 ? axes->ints[0] : 0, start, end, step = 1;
  ARRAY index = {0};
  if (inputs >= 3) {
    if (in[1].count != 1 || in[2].count != 1 || (inputs > 3 && in[3].count != 1) || (inputs > 4 && in[4].count != 1))
      return false;
    step = inputs > 4 ? (int64_t)in[4].at[0] : 1;
    start = whole_number(in[1].at[0]);
    end = whole_number(in[2].at[0]);
    axis = inputs > 3 ? (int64_t)in[3].at[0] : 0;
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
  if (count < 0 || !make_array(&index, INT64, 1, &count))
    return false;
  for (int64_t i = 0; i < count; i++)
    index.at[i] = (double)(start + i * step);
  return choose(out, in, axis, &index, true);
}

static bool fold_concat(array *out, const HdOnnx__Node *node, const array *in, int inputs) {
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
  if (!make_array(out, in->type, in->rank, dim))
    return false;
  for (int64_t o = 0; o < outer; o++)
    for (int k = 0; k < inputs; k++) {
      const int64_t some = in[k].dim[axis] * inner;
      memcpy(out->at + to, in[k].at + o * some, (size_t)some * sizeof *in->at);
      to += some;
    }
  return true;
}

static bool fold_filled(array *out, const HdOnnx__Node *node, const array *in, int inputs) {
  const HdOnnx__Attribute *value = hd__onnx_attribute(node, "value");
  int64_t dim[RANK];
  ARRAY number = {0};
  if (in->count > RANK || !whole_list(dim, in) || (value && (!value->t || !read_array(&number, value->t))) ||
      (value && number.count != 1) || !make_array(out, value ? number.type : FLOAT, (int)in->count, dim))
    return false;
  for (int64_t i = 0; i < out->count; i++)
    out->at[i] = value ? number.at[0] : 0;
  return true;
}

static bool fold_expand(array *out, const array *in, int inputs) {
  array both[2] = {in[0], {.type = in->type, .rank = (int)in[1].count}};
  if (inputs != 2 || in[1].count > RANK || !whole_list(both[1].dim, &in[1]) || !spread_shape(out, both, 2))
    return false;
  for (int64_t i = 0; i < out->count; i++)
    out->at[i] = spread(in, out, i);
  return true;
}

static bool fold_range(array *out, const array *in, int inputs) {
  if (inputs != 3 || in[0].count != 1 || in[1].count != 1 || in[2].count != 1 || in[2].at[0] == 0)
    return false;
  const double steps = ceil((in[1].at[0] - in[0].at[0]) / in[2].at[0]);
  const int64_t count = steps > 0 && steps < 1 << 20 ? (int64_t)steps : 0;
  bool good = !(steps > (double)count) && in[1].type == in->type && in[2].type == in->type &&
              make_array(out, in->type, 1, &count);
  for (int64_t i = 0; i < count && good; i++) {
    out->at[i] = in[0].at[0] + (double)i * in[2].at[0];
    good = round_to(&out->at[i], out->type);
  }
  return good;
}

static bool fold_triangle(array *out, const HdOnnx__Node *node, const array *in, int inputs) {
  const bool upper = hd__onnx_int(node, "upper", 1);
  const int64_t k = inputs > 1 && in[1].count == 1 ? (int64_t)in[1].at[0] : 0;
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

static bool fold_cast(array *out, const HdOnnx__Node *node, const array *in) {
  const int type = (int)hd__onnx_int(node, "to", 0);
  if (!is_known(type) || !as_shape(out, in, in->dim, in->rank))
    return false;
  out->type = type;
  for (int64_t i = 0; i < out->count && type != in->type; i++) {
    out->at[i] = type == BOOL ? in->at[i] != 0 : is_real(type) ? in->at[i] : trunc(in->at[i]);
    if (!round_to(&out->at[i], type))
      return false;
  }
  return true;
}

static bool fold_shape(array *out, const array *in) {
  const int64_t rank = in->rank;
  if (!make_array(out, INT64, 1, &rank))
    return false;
  for (int d = 0; d < in->rank; d++)
    out->at[d] = (double)in->dim[d];
  return true;
}

static bool fold(array *out, const HdOnnx__Node *node, const array *in, int inputs) {
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

static void keep_constant(hd_onnx_reader *r, size_t at, const HdOnnx__Tensor *t, int type) {
  r->constant[at] = t;
  r->type[at] = type;
}

/* A node Constant, in any of its forms. */
static const HdOnnx__Tensor *read_constant(int *type, hd_onnx_reader *r, const HdOnnx__Node *node) {
  const HdOnnx__Attribute *a = node->n_attribute == 1 ? node->attribute[0] : NULL;
  if (!a || !a->name)
    return NULL;
  *type = a->t ? a->t->data_type : 0;
  if (!strcmp(a->name, "value") && a->t)
    return usual(r, a->t);
  const bool floats = strstr(a->name, "float") != NULL, list = a->name[strlen(a->name) - 1] == 's';
  const int64_t count = !list ? 1 : (int64_t)(floats ? a->n_floats : a->n_ints);
  ARRAY out = {0};
  if ((!floats && !strstr(a->name, "int")) || !make_array(&out, floats ? FLOAT : INT64, list, &count))
    return NULL;
  *type = out.type;
  for (int64_t i = 0; i < count; i++)
    out.at[i] = floats ? (double)(list ? a->floats[i] : a->f) : (double)(list ? a->ints[i] : a->i);
  return keep_array(r, &out);
}

/* A result may be as large as what is still allowed, and counts whether it is kept or not. */
static const HdOnnx__Tensor *fold_and_keep(int *type, hd_onnx_reader *r, const HdOnnx__Node *node, const array *in,
                                           int inputs) {
  ARRAY out = {.most = r->room / (int64_t)sizeof(double) + 1};
  const bool good = r->room > 0 && fold(&out, node, in, inputs);
  r->room -= out.at ? out.count : 0;
  *type = out.type;
  return good ? keep_array(r, &out) : NULL;
}

/* Whether a node's output is its input as it is, in the readers' types. */
static bool repeats_input(const hd_onnx_reader *r, const HdOnnx__Node *node) {
  const HdOnnx__Tensor *t = node->n_input == 1 ? hd__onnx_tensor(r, node->input[0]) : NULL;
  return t && (!strcmp(node->op_type, "Identity") ||
               (!strcmp(node->op_type, "Cast") && t->data_type == FLOAT && hd__onnx_int(node, "to", 0) == FLOAT));
}

static const HdOnnx__Tensor *fold_node(int *type, hd_onnx_reader *r, const HdOnnx__Node *node) {
  array in[MOST_INPUTS] = {{0}};
  const HdOnnx__Tensor *result = NULL;
  size_t n = 0;
  if (!hd__onnx_is(node, node->op_type) || node->n_output != 1 || node->n_input > MOST_INPUTS)
    return NULL;
  if (!strcmp(node->op_type, "Constant"))
    return read_constant(type, r, node);
  if (repeats_input(r, node)) {
    *type = !strcmp(node->op_type, "Cast") ? FLOAT : hd__onnx_type(r, node->input[0]);
    return hd__onnx_tensor(r, node->input[0]);
  }
  while (n < node->n_input && read_value(&in[n], r, node->input[n]))
    n++;
  if (n > 0 && n == node->n_input)
    result = fold_and_keep(type, r, node, in, (int)n);
  for (size_t i = 0; i < n && i < MOST_INPUTS; i++)
    release_array(&in[i]);
  if (n < node->n_input)
    release_array(&in[n]);
  return result;
}

/* Whole numbers that follow from sizes, as an array. */
static const HdOnnx__Tensor *sizes_of(hd_onnx_reader *r, const char *name) {
  int64_t list[8];
  const int64_t count = hd__onnx_is_real(r, name) ? 0 : hd__onnx_ints(list, r, name);
  ARRAY a = {0};
  if (count == 0 || !make_array(&a, INT64, 1, &count))
    return NULL;
  for (int64_t i = 0; i < count; i++) {
    if (hd__onnx_batches(list[i]))
      return NULL;
    a.at[i] = (double)list[i];
  }
  return keep_array(r, &a);
}

enum { MOST_DEPTH = 32 };

static const HdOnnx__Tensor *fold_late(hd_onnx_reader *r, const char *name, int depth) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  const HdOnnx__Node *node = hd__onnx_node(r, name);
  array in[MOST_INPUTS] = {{0}};
  size_t n = 0;
  int type;
  if (t || !node || depth > MOST_DEPTH || node->n_output != 1 || node->n_input > MOST_INPUTS ||
      ++r->looks > MOST_LOOKS || hd__onnx_is(node, "Shape"))
    return t;
  for (; n < node->n_input; n++) {
    const HdOnnx__Tensor *from = fold_late(r, node->input[n], depth + 1);
    if (from ? !read_value(&in[n], r, node->input[n])
             : !(from = sizes_of(r, node->input[n])) || !read_array(&in[n], from))
      break;
  }
  if (n > 0 && n == node->n_input) {
    t = fold_and_keep(&type, r, node, in, (int)n);
    keep_constant(r, r->graph->n_initializer + (size_t)hd__onnx_index(r, node), t, type);
  }
  for (size_t i = 0; i < n || (i == n && n < node->n_input); i++)
    release_array(&in[i]);
  return t;
}

void hd__onnx_fold_late(hd_onnx_reader *r, const char *name) { fold_late(r, name, 0); }

hd_status hd__onnx_fold(hd_onnx_reader *r) {
  const HdOnnx__Graph *g = r->graph;
  const size_t all = g->n_initializer + g->n_node + 1;
  HD_TRY(HD_NEW(r->constant, all, r->ctx, "%s: out of memory while reading", r->path));
  HD_TRY(HD_NEW(r->type, all, r->ctx, "%s: out of memory while reading", r->path));
  for (size_t i = 0; i < g->n_initializer; i++)
    keep_constant(r, i, usual(r, g->initializer[i]), g->initializer[i]->data_type);
  for (size_t i = 0; i < g->n_node; i++)
    if (g->node[i]->n_output > 0) {
      int type = 0;
      const HdOnnx__Tensor *t = fold_node(&type, r, g->node[i]);
      keep_constant(r, g->n_initializer + i, t, type);
    }
  return HD_OK;
}

#endif
