/* The values of an ONNX file; see onnx_reader.h. */
#ifdef HD_HAVE_ONNX

#include "onnx/onnx_reader.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum {
  TYPE_FLOAT = 1,
  TYPE_INT32 = 6,
  TYPE_INT64 = 7,
  TYPE_BOOL = 9,
  TYPE_HALF = 10,
  TYPE_DOUBLE = 11,
  TYPE_BFLOAT16 = 16,
  EXTERNAL = 1
};

hd_status hd__onnx_refuse(hd_onnx_reader *r, const HdOnnx__Node *node, const char *fmt, ...) {
  char message[HD_MESSAGE_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  return hd__fail(r->ctx, HD_E_UNSUPPORTED, "%s: node '%.80s' (%.40s): %s", r->path, node->name ? node->name : "",
                  node->op_type ? node->op_type : "", message);
}

hd_status hd__onnx_refuse_scores(hd_onnx_reader *r, const hd_onnx_scores *scores) {
  return hd__onnx_refuse(r, scores->node,
                         "expected a constant matrix as weight, found another value; heddle has no products of two "
                         "computed values but in attention, softmax(Q K' / sqrt(d)) V");
}

/* ---- Finding a value by its name ---- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const hd_onnx_value *)a)->name, ((const hd_onnx_value *)b)->name);
}

static void add_value(hd_onnx_reader *r, const char *name, int node, int tensor, int output) {
  if (name && *name)
    r->value[r->values++] = (hd_onnx_value){.name = name, .node = node, .tensor = tensor, .output = output};
}

static hd_onnx_value *search(const hd_onnx_reader *r, const char *name) {
  const hd_onnx_value key = {.name = name};
  return r->values ? bsearch(&key, r->value, (size_t)r->values, sizeof key, by_name) : NULL;
}

/* The entry of a name's address, or the free one for it. */
static hd_onnx_place *place_of(const hd_onnx_reader *r, const char *name) {
  size_t at = (size_t)((uintptr_t)name * 0x9e3779b97f4a7c15 >> 20) & (r->places - 1);
  while (r->place[at].name && r->place[at].name != name)
    at = (at + 1) & (r->places - 1);
  return &r->place[at];
}

static void add_place(hd_onnx_reader *r, const char *name) {
  const hd_onnx_value *found = search(r, name);
  *place_of(r, name) = (hd_onnx_place){name, found ? (int)(found - r->value) : -1};
}

/* Readers look for the same few names again and again, and names may be long. */
static hd_onnx_value *find(const hd_onnx_reader *r, const char *name) {
  const hd_onnx_place *known = place_of(r, name);
  return !known->name ? search(r, name) : known->value < 0 ? NULL : &r->value[known->value];
}

enum { MOST_PLACES_OF_NODE = 8 }; /* further inputs are searched for by name */

static hd_status list_places(hd_onnx_reader *r) {
  const HdOnnx__Graph *g = r->graph;
  size_t names = (size_t)r->values + 1;
  for (size_t i = 0; i < g->n_node; i++)
    names += g->node[i]->n_input < MOST_PLACES_OF_NODE ? g->node[i]->n_input : MOST_PLACES_OF_NODE;
  for (r->places = 1; r->places < 2 * names;)
    r->places *= 2;
  HD_TRY(HD_NEW(r->place, r->places, r->ctx, "%s: out of memory while reading", r->path));
  for (int i = 0; i < r->values; i++)
    add_place(r, r->value[i].name);
  for (size_t i = 0; i < g->n_node; i++)
    for (size_t k = 0; k < g->node[i]->n_input && k < MOST_PLACES_OF_NODE; k++)
      add_place(r, g->node[i]->input[k]);
  return HD_OK;
}

static const HdOnnx__Node *node_of(const hd_onnx_reader *r, const char *name) {
  const hd_onnx_value *found = find(r, name);
  return found && found->node >= 0 ? r->graph->node[found->node] : NULL;
}

bool hd__onnx_is(const HdOnnx__Node *node, const char *op) {
  return node && node->op_type && !strcmp(node->op_type, op) &&
         (!node->domain || !*node->domain || !strcmp(node->domain, "ai.onnx"));
}

/* Whether a node only passes its first input on. */
static bool passes(const HdOnnx__Node *node) {
  return hd__onnx_is(node, "Identity") || (hd__onnx_is(node, "Cast") && hd__onnx_int(node, "to", 0) == TYPE_FLOAT);
}

static const char *passed_on(const hd_onnx_reader *r, const hd_onnx_value *v) {
  const HdOnnx__Node *node = v->node >= 0 ? r->graph->node[v->node] : NULL;
  return v->output == 0 && passes(node) ? hd__onnx_input(node, 0) : NULL;
}

/* Sets the result for all values on the way at once, so that long chains of nodes that pass on a value stay cheap.
 * After a cycle it is one of its values. */
static void find_behind(const hd_onnx_reader *r, hd_onnx_value *from) {
  const char *behind = from->name, *next;
  hd_onnx_value *v = from;
  for (int i = 0; i < r->values && v && !v->behind && (next = passed_on(r, v)); i++) {
    behind = next;
    v = find(r, behind);
  }
  if (v && v->behind)
    behind = v->behind;
  for (v = from; v && !v->behind; v = next ? find(r, next) : NULL) {
    next = passed_on(r, v);
    v->behind = behind;
  }
}

/* Of what stands behind names; nodes that pass a value on do not count. */
static void count_uses(hd_onnx_reader *r) {
  const HdOnnx__Graph *g = r->graph;
  for (size_t i = 0; i < g->n_node; i++)
    for (size_t k = 0; k < g->node[i]->n_input && !passes(g->node[i]); k++) {
      hd_onnx_value *used = find(r, hd__onnx_resolve(r, g->node[i]->input[k]));
      if (used)
        used->uses++;
    }
  for (size_t i = 0; i < g->n_output; i++) {
    hd_onnx_value *used = g->output[i]->name ? find(r, hd__onnx_resolve(r, g->output[i]->name)) : NULL;
    if (used)
      used->uses++;
  }
}

int64_t hd__onnx_side(const hd_onnx_view *v, int axis) {
  int64_t side = 1;
  for (int i = 0; i < v->atoms; i++)
    side *= v->atom[i].axis == axis ? v->atom[i].size : 1;
  return side;
}

hd_onnx_value *hd__onnx_find(const hd_onnx_reader *r, const char *name) { return find(r, hd__onnx_resolve(r, name)); }

int hd__onnx_uses(const hd_onnx_reader *r, const char *name) {
  const hd_onnx_value *found = find(r, hd__onnx_resolve(r, name));
  return found ? found->uses : 0;
}

hd_status hd__onnx_list_values(hd_onnx_reader *r) {
  const HdOnnx__Graph *g = r->graph;
  if (g->n_node > HD_ONNX_NODES || g->n_initializer > HD_ONNX_TENSORS)
    return hd__fail(r->ctx, HD_E_UNSUPPORTED,
                    "%s: expected at most %d nodes and %d tensors, found %zu and %zu; simplify it", r->path,
                    HD_ONNX_NODES, HD_ONNX_TENSORS, g->n_node, g->n_initializer);
  size_t outputs = 0;
  for (size_t i = 0; i < g->n_node; i++)
    outputs += g->node[i]->n_output;
  if (outputs > 4 * HD_ONNX_NODES)
    return hd__fail(r->ctx, HD_E_UNSUPPORTED, "%s: expected at most %d outputs of nodes, found %zu; simplify it",
                    r->path, 4 * HD_ONNX_NODES, outputs);
  HD_TRY(HD_NEW(r->value, outputs + g->n_initializer + 1, r->ctx, "%s: out of memory while reading", r->path));
  for (size_t i = 0; i < g->n_initializer; i++)
    add_value(r, g->initializer[i]->name, -1, (int)i, 0);
  for (size_t i = 0; i < g->n_node; i++)
    for (size_t k = 0; k < g->node[i]->n_output; k++)
      add_value(r, g->node[i]->output[k], (int)i, -1, (int)k);
  qsort(r->value, (size_t)r->values, sizeof *r->value, by_name);
  for (int i = 1; i < r->values; i++)
    if (!strcmp(r->value[i - 1].name, r->value[i].name))
      return hd__fail(r->ctx, HD_E_FORMAT,
                      "%s: expected one value of each name, found two called '%.80s'; export it again", r->path,
                      r->value[i].name);
  HD_TRY(list_places(r));
  for (int i = 0; i < r->values; i++)
    find_behind(r, &r->value[i]);
  count_uses(r);
  return HD_OK;
}

const char *hd__onnx_input(const HdOnnx__Node *node, size_t k) { return k < node->n_input ? node->input[k] : ""; }

const char *hd__onnx_resolve(const hd_onnx_reader *r, const char *name) {
  const hd_onnx_value *found = find(r, name);
  return found ? found->behind : name;
}

const HdOnnx__Node *hd__onnx_node(const hd_onnx_reader *r, const char *name) { return node_of(r, name); }

const HdOnnx__Node *hd__onnx_producer(const hd_onnx_reader *r, const char *name, const char *op) {
  const HdOnnx__Node *node = node_of(r, hd__onnx_resolve(r, name));
  return node && (!op || hd__onnx_is(node, op)) ? node : NULL;
}

int hd__onnx_index(const hd_onnx_reader *r, const HdOnnx__Node *node) {
  size_t k = 0;
  while (k + 1 < node->n_output && !*node->output[k]) /* it is left out */
    k++;
  return find(r, node->output[k])->node;
}

/* ---- Constants ---- */

/* Where the constant of this very name is among them; -1: there is none. */
static int64_t own_place(const hd_onnx_reader *r, const hd_onnx_value *v) {
  if (!v || !r->constant || v->output > 0)
    return -1;
  const int64_t at = v->tensor >= 0 ? v->tensor : (int64_t)r->graph->n_initializer + v->node;
  return r->constant[at] ? at : -1;
}

/* A cast to float that stands between a name and another type's numbers has made them its own. */
static int64_t place_of_constant(const hd_onnx_reader *r, const char *name) {
  const int64_t own = own_place(r, find(r, name));
  if (own >= 0)
    return own;
  const int64_t behind = own_place(r, hd__onnx_find(r, name));
  return behind >= 0 && r->constant[behind]->data_type == TYPE_FLOAT ? behind : -1;
}

const HdOnnx__Tensor *hd__onnx_tensor(const hd_onnx_reader *r, const char *name) {
  const int64_t at = place_of_constant(r, name);
  return at < 0 ? NULL : r->constant[at];
}

int hd__onnx_type(const hd_onnx_reader *r, const char *name) {
  const int64_t at = place_of_constant(r, name);
  return at < 0 ? 0 : r->type[at];
}

/* The number of elements, -1 for more than a value may have. */
int64_t hd__onnx_elems(const HdOnnx__Tensor *t) {
  int64_t elems = 1;
  for (size_t i = 0; i < t->n_dims; i++) {
    if (t->dims[i] < 0 || t->dims[i] > HD_ONNX_MOST_SIDE || (t->dims[i] > 0 && elems > HD_ONNX_MOST_SIDE / t->dims[i]))
      return -1;
    elems *= t->dims[i];
  }
  return elems;
}

/* The bytes of a tensor with elements of `size` bytes; NULL: it does not have exactly these. */
static const void *bytes_of(const HdOnnx__Tensor *t, int type, size_t size) {
  const int64_t elems = hd__onnx_elems(t);
  const size_t listed = type == TYPE_FLOAT ? t->n_float_data : type == TYPE_DOUBLE ? t->n_double_data : t->n_int64_data;
  const void *list = type == TYPE_FLOAT    ? (const void *)t->float_data
                     : type == TYPE_DOUBLE ? (const void *)t->double_data
                                           : t->int64_data;
  if (elems < 1 || t->data_type != type || t->data_location == EXTERNAL)
    return NULL;
  if (t->has_raw_data && t->raw_data.len == (size_t)elems * size)
    return t->raw_data.data;
  return !t->has_raw_data && listed == (size_t)elems ? list : NULL;
}

bool hd__onnx_scalar(double *out, const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  *out = 0;
  return t && t->data_type != TYPE_DOUBLE && hd__onnx_reals(out, t, 1);
}

bool hd__onnx_flag(bool *out, const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  if (!t || hd__onnx_elems(t) != 1 || t->data_type != TYPE_BOOL || t->data_location == EXTERNAL)
    return false;
  const bool is_raw = t->has_raw_data && t->raw_data.len == 1;
  *out = is_raw ? t->raw_data.data[0] != 0 : t->n_int32_data == 1 && t->int32_data[0] != 0;
  return is_raw || t->n_int32_data == 1;
}

bool hd__onnx_floats(float *out, const HdOnnx__Tensor *t, int64_t count) {
  const void *bytes = hd__onnx_elems(t) == count ? bytes_of(t, TYPE_FLOAT, sizeof *out) : NULL;
  if (bytes)
    memcpy(out, bytes, (size_t)count * sizeof *out);
  return bytes;
}

hd_onnx_mask hd__onnx_mask_of(const hd_onnx_reader *r, const char *name, bool number, bool keeps) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  const int64_t count = t ? hd__onnx_elems(t) : 0, side = t && t->n_dims > 1 ? t->dims[t->n_dims - 1] : 0;
  bool all = true, lower = true;
  if (side < 1 || count != side * side || t->dims[t->n_dims - 2] != side || count > 1 << 24)
    return HD_ONNX_OTHER_MASK;
  HD_OWNED float *value = hd__malloc((size_t)count * sizeof *value);
  if (!value || (number ? !hd__onnx_floats(value, t, count) : !t->has_raw_data || t->raw_data.len != (size_t)count))
    return HD_ONNX_OTHER_MASK;
  for (int64_t i = 0; i < count; i++) {
    const bool sees = number ? value[i] == 0 : (t->raw_data.data[i] != 0) == keeps, hides = !sees;
    if (number && hides && !(value[i] <= -1e4f))
      return HD_ONNX_OTHER_MASK;
    all = all && sees;
    lower = lower && sees == (i % side <= i / side);
  }
  return all ? HD_ONNX_NO_MASK : lower ? HD_ONNX_CAUSAL : HD_ONNX_OTHER_MASK;
}

bool hd__onnx_reals(double *out, const HdOnnx__Tensor *t, int64_t count) {
  int64_t whole;
  const void *one = count == 1 && hd__onnx_elems(t) == 1 ? bytes_of(t, TYPE_INT64, sizeof whole) : NULL;
  if (one) {
    memcpy(&whole, one, sizeof whole);
    *out = (double)whole;
    return true;
  }
  const bool doubles = t->data_type == TYPE_DOUBLE;
  const size_t size = doubles ? sizeof(double) : sizeof(float);
  const char *bytes = hd__onnx_elems(t) == count ? bytes_of(t, doubles ? TYPE_DOUBLE : TYPE_FLOAT, size) : NULL;
  for (int64_t i = 0; i < count && bytes; i++) {
    float single;
    memcpy(&single, bytes + i * (int64_t)size, sizeof single);
    out[i] = (double)single;
    if (doubles)
      memcpy(&out[i], bytes + i * (int64_t)size, sizeof *out);
  }
  return bytes;
}

bool hd__onnx_whole_number(int64_t *out, const HdOnnx__Tensor *t, int64_t i) {
  const char *bytes = i >= 0 && i < hd__onnx_elems(t) ? bytes_of(t, TYPE_INT64, sizeof *out) : NULL;
  if (bytes)
    memcpy(out, bytes + i * (int64_t)sizeof *out, sizeof *out);
  return bytes;
}

/* Whole numbers of a tensor; 0: the value is none, or has too many. */
static int constant_ints(int64_t out[8], const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  const void *bytes = t && hd__onnx_elems(t) <= 8 ? bytes_of(t, TYPE_INT64, sizeof *out) : NULL;
  if (!bytes)
    return 0;
  memcpy(out, bytes, (size_t)hd__onnx_elems(t) * sizeof *out);
  return (int)hd__onnx_elems(t);
}

enum { MOST_DEPTH = 64, MOST_LOOKS = 1 << 17 };

/* The shape of a computed value, of which only the batch may be unknown. */
static int shape_ints(int64_t out[8], hd_onnx_reader *r, const HdOnnx__Node *node) {
  hd_onnx_view v;
  if (r->merged_view(&v, r, hd__onnx_input(node, 0)) != HD_OK)
    return 0;
  int64_t start = hd__onnx_int(node, "start", 0), end = hd__onnx_int(node, "end", v.rank);
  start += start < 0 ? v.rank : 0;
  end += end < 0 ? v.rank : 0;
  if (start < 0 || end > v.rank || start >= end)
    return 0;
  for (int64_t i = start; i < end; i++)
    out[i - start] = ((int)i == v.batch ? INT64_MIN : 0) + hd__onnx_side(&v, (int)i);
  return (int)(end - start);
}

static bool is_real_type(int64_t type) {
  return type == TYPE_FLOAT || type == TYPE_HALF || type == TYPE_DOUBLE || type == TYPE_BFLOAT16;
}

bool hd__onnx_is_real(const hd_onnx_reader *r, const char *name) {
  for (int steps = 0; steps < MOST_DEPTH; steps++) {
    const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
    const HdOnnx__Node *node = node_of(r, name);
    if (t || !node)
      return !t || is_real_type(t->data_type);
    if (hd__onnx_is(node, "Cast"))
      return is_real_type(hd__onnx_int(node, "to", 0));
    if (hd__onnx_is(node, "Shape") || hd__onnx_is(node, "Size"))
      return false;
    name = hd__onnx_input(node, 0);
  }
  return true;
}

/* The same of sizes of which one or both are so many times the batch's. */
static int64_t compute_batches(const char *op, int64_t a, int64_t b, bool *good) {
  const int64_t of_a = hd__onnx_batches(a), of_b = hd__onnx_batches(b), number = of_a ? b : a;
  const int64_t times = of_a ? of_a : of_b;
  if (*op == 'M' && !(of_a && of_b) && number > 0 && number <= INT32_MAX / times)
    return INT64_MIN + times * number;
  if (*op == 'D' && of_a && of_b && of_a % of_b == 0)
    return of_a / of_b;
  if (*op == 'D' && of_a && b > 0 && !of_b && of_a % b == 0)
    return INT64_MIN + of_a / b;
  *good = false;
  return HD_ONNX_BATCH;
}

static int64_t compute(const char *op, int64_t a, int64_t b, bool *good) {
  const int64_t most = (int64_t)1 << 31;
  if (hd__onnx_batches(a) || hd__onnx_batches(b))
    return compute_batches(op, a, b, good);
  if (a > most || a < -most || b > most || b < -most || (*op == 'D' && b == 0)) {
    *good = false;
    return 0;
  }
  return *op == 'M' ? a * b : *op == 'A' ? a + b : *op == 'S' ? a - b : a / b;
}

static int ints_of(int64_t out[8], hd_onnx_reader *r, const char *name, int depth);

static int gathered_ints(int64_t out[8], hd_onnx_reader *r, const HdOnnx__Node *node, int depth) {
  int64_t all[8], index[8];
  const int count = ints_of(all, r, hd__onnx_input(node, 0), depth);
  const int chosen = constant_ints(index, r, hd__onnx_input(node, 1));
  for (int i = 0; i < chosen; i++) {
    index[i] += index[i] < 0 ? count : 0;
    if (index[i] < 0 || index[i] >= count)
      return 0;
    out[i] = all[index[i]];
  }
  return count ? chosen : 0;
}

static int sliced_ints(int64_t out[8], hd_onnx_reader *r, const HdOnnx__Node *node, int depth) {
  int64_t all[8], start[8], end[8], step[8] = {1};
  const int count = ints_of(all, r, hd__onnx_input(node, 0), depth);
  if (!count || hd__onnx_list(start, r, node, "starts", 1) != 1 || hd__onnx_list(end, r, node, "ends", 2) != 1 ||
      (*hd__onnx_input(node, 4) && (constant_ints(step, r, hd__onnx_input(node, 4)) != 1 || step[0] != 1)))
    return 0;
  start[0] += start[0] < 0 ? count : 0;
  end[0] = end[0] < 0 ? end[0] + count : end[0] > count ? count : end[0];
  if (start[0] < 0 || end[0] <= start[0])
    return 0;
  memcpy(out, all + start[0], (size_t)(end[0] - start[0]) * sizeof *out);
  return (int)(end[0] - start[0]);
}

static int joined_ints(int64_t out[8], hd_onnx_reader *r, const HdOnnx__Node *node, int depth) {
  int count = 0;
  for (size_t i = 0; i < node->n_input; i++) {
    int64_t some[8];
    const int n = ints_of(some, r, node->input[i], depth);
    if (!n || count + n > 8)
      return 0;
    memcpy(out + count, some, (size_t)n * sizeof *out);
    count += n;
  }
  return count;
}

/* The product of all numbers of a list. */
static int product_ints(int64_t out[8], hd_onnx_reader *r, const HdOnnx__Node *node, int depth) {
  int64_t all[8];
  bool good = true;
  const int count = ints_of(all, r, hd__onnx_input(node, 0), depth);
  out[0] = 1;
  for (int i = 0; i < count; i++)
    out[0] = compute("M", out[0], all[i], &good);
  return count && good;
}

/* The larger of two lists of sizes, which mostly are equal. */
static int larger_ints(int64_t out[8], hd_onnx_reader *r, const HdOnnx__Node *node, int depth) {
  int64_t b[8];
  const int count = ints_of(out, r, hd__onnx_input(node, 0), depth);
  if (node->n_input != 2 || !count || ints_of(b, r, hd__onnx_input(node, 1), depth) != count)
    return 0;
  for (int i = 0; i < count; i++) {
    if (out[i] != b[i] && (hd__onnx_batches(out[i]) || hd__onnx_batches(b[i])))
      return 0;
    out[i] = b[i] > out[i] ? b[i] : out[i];
  }
  return count;
}

static int ints_of(int64_t out[8], hd_onnx_reader *r, const char *name, int depth) {
  static const char *const plain[] = {"Unsqueeze", "Squeeze", "Reshape", "Floor", "Ceil"};
  static const char *const operators[] = {"Mul", "Add", "Sub", "Div"};
  const int known = constant_ints(out, r, name);
  const HdOnnx__Node *node = hd__onnx_producer(r, name, NULL);
  if (known || !node || depth > MOST_DEPTH || ++r->looks > MOST_LOOKS)
    return known;
  const int64_t to = hd__onnx_is(node, "Cast") ? hd__onnx_int(node, "to", 0) : 0;
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    if (hd__onnx_is(node, plain[i]) || to == TYPE_INT64 || to == TYPE_INT32 || to == TYPE_FLOAT || to == TYPE_DOUBLE)
      return ints_of(out, r, hd__onnx_input(node, 0), depth + 1);
  for (int i = 0; i < 4; i++)
    if (hd__onnx_is(node, operators[i])) {
      int64_t b[8];
      bool good = true;
      const int count = ints_of(out, r, hd__onnx_input(node, 0), depth + 1);
      if (count < 1 || ints_of(b, r, hd__onnx_input(node, 1), depth + 1) != count)
        return 0;
      const bool exact = i == 3 && hd__onnx_is_real(r, hd__onnx_input(node, 0));
      for (int k = 0; k < count; k++) {
        good = good && !(exact && !hd__onnx_batches(out[k]) && b[k] != 0 && out[k] % b[k] != 0);
        out[k] = compute(operators[i], out[k], b[k], &good);
      }
      return good ? count : 0;
    }
  if (hd__onnx_is(node, "Shape"))
    return shape_ints(out, r, node);
  if (hd__onnx_is(node, "Gather"))
    return gathered_ints(out, r, node, depth + 1);
  if (hd__onnx_is(node, "Slice"))
    return sliced_ints(out, r, node, depth + 1);
  if (hd__onnx_is(node, "Concat"))
    return joined_ints(out, r, node, depth + 1);
  if (hd__onnx_is(node, "ReduceProd"))
    return product_ints(out, r, node, depth + 1);
  return hd__onnx_is(node, "Max") ? larger_ints(out, r, node, depth + 1) : 0;
}

int hd__onnx_ints(int64_t out[8], hd_onnx_reader *r, const char *name) { return ints_of(out, r, name, 0); }

static bool number_of(double *out, hd_onnx_reader *r, const char *name, int depth) {
  static const char *const ops[] = {"Mul", "Div", "Add", "Sub", "Pow"};
  const HdOnnx__Node *node = hd__onnx_node(r, name);
  int64_t one[8];
  double a, b;
  if (hd__onnx_scalar(out, r, name))
    return true;
  if (!node || depth > MOST_DEPTH || ++r->looks > MOST_LOOKS)
    return false;
  const bool casts = hd__onnx_is(node, "Cast"), root = hd__onnx_is(node, "Sqrt"), real = hd__onnx_is_real(r, name);
  if (casts || root || hd__onnx_is(node, "Reciprocal") || hd__onnx_is(node, "Identity")) {
    const bool good = number_of(&a, r, hd__onnx_input(node, 0), depth + 1);
    *out = root ? sqrt(a) : hd__onnx_is(node, "Reciprocal") ? 1 / a : casts && !real ? trunc(a) : a;
    return good && !(casts && hd__onnx_int(node, "to", 0) == TYPE_BOOL);
  }
  for (int i = 0; i < 5; i++)
    if (hd__onnx_is(node, ops[i]) && number_of(&a, r, hd__onnx_input(node, 0), depth + 1) &&
        number_of(&b, r, hd__onnx_input(node, 1), depth + 1)) {
      *out = i == 0 ? a * b : i == 1 ? a / b : i == 2 ? a + b : i == 3 ? a - b : pow(a, b);
      *out = real ? *out : trunc(*out);
      return true;
    }
  if (hd__onnx_ints(one, r, name) != 1 || hd__onnx_batches(one[0]))
    return false;
  *out = (double)one[0];
  return true;
}

bool hd__onnx_keeps_batch(const hd_onnx_reader *r, int64_t side) {
  return side == HD_ONNX_BATCH || side == 0 || (r->batch > 0 && side == r->batch);
}

bool hd__onnx_number(double *out, hd_onnx_reader *r, const char *name) { return number_of(out, r, name, 0); }

static int given_ints(int64_t out[8], hd_onnx_reader *r, const char *name) {
  const int count = *name ? hd__onnx_ints(out, r, name) : 0;
  if (count || !*name)
    return count;
  r->fold_late(r, name);
  return constant_ints(out, r, name);
}

int hd__onnx_list(int64_t out[8], hd_onnx_reader *r, const HdOnnx__Node *node, const char *attribute, size_t input) {
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, attribute);
  if (!a)
    return given_ints(out, r, hd__onnx_input(node, input));
  if (a->n_ints > 8)
    return 0;
  for (size_t i = 0; i < a->n_ints; i++)
    out[i] = a->ints[i];
  return (int)a->n_ints;
}

/* ---- Attributes ---- */

const HdOnnx__Attribute *hd__onnx_attribute(const HdOnnx__Node *node, const char *name) {
  for (size_t i = 0; i < node->n_attribute; i++)
    if (node->attribute[i]->name && !strcmp(node->attribute[i]->name, name))
      return node->attribute[i];
  return NULL;
}

int64_t hd__onnx_int(const HdOnnx__Node *node, const char *name, int64_t fallback) {
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, name);
  return a ? a->i : fallback;
}

float hd__onnx_float(const HdOnnx__Node *node, const char *name, float fallback) {
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, name);
  return a ? a->f : fallback;
}

bool hd__onnx_text(const HdOnnx__Node *node, const char *name, const char *expected) {
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, name);
  return a && a->s.len == strlen(expected) && !memcmp(a->s.data, expected, a->s.len);
}

/* ---- Weights ---- */

/* Room for `elems` floats under LAYER.SUFFIX. */
static hd_status new_weight(float **elems, hd_onnx_reader *r, const char *layer, const char *suffix,
                            const hd_shape *shape) {
  hd_st_list *list = &r->out->weights;
  const size_t bytes = (size_t)hd__shape_elems(shape) * sizeof **elems;
  if (list->count == HD_ONNX_TENSORS)
    return hd__fail(r->ctx, HD_E_UNSUPPORTED, "%s: expected at most %d weights, found one more; use fewer layers",
                    r->path, HD_ONNX_TENSORS);
  char *name = hd__printf_alloc("%s.%s", layer, suffix);
  *elems = r->out->memory[list->count] = hd__malloc(bytes);
  list->tensor[list->count++] =
      (hd_st_tensor){.name = name, .type = HD_ST_F32, .shape = *shape, .bytes = *elems, .length = bytes};
  return HD_ALLOCATED(name && *elems, r->ctx, "%s: out of memory while reading", r->path);
}

static hd_status refuse_tensor(hd_onnx_reader *r, const HdOnnx__Node *node, const char *name, const HdOnnx__Tensor *t) {
  if (!t)
    return hd__onnx_refuse(
        r, node, "expected a constant as '%.80s', found a computed value; export with constants folded", name);
  if (t->data_location == EXTERNAL || t->n_external_data > 0)
    return hd__onnx_refuse(
        r, node, "expected '%.80s' inside the file, found it in another file; save the model as one file", name);
  if (t->data_type != TYPE_FLOAT)
    return hd__onnx_refuse(r, node, "expected '%.80s' as float32, found type %d; export in float32", name,
                           t->data_type);
  return hd__onnx_refuse(r, node,
                         "expected '%.80s' with a float for each of its at most %d elements, found others; export it "
                         "again",
                         name, HD_ONNX_MOST_SIDE);
}

hd_status hd__onnx_read_floats(float **out, const HdOnnx__Tensor **tensor, hd_onnx_reader *r, const HdOnnx__Node *node,
                               const char *name, int64_t count) {
  const HdOnnx__Tensor *t = *tensor = hd__onnx_tensor(r, name);
  const void *bytes = t ? bytes_of(t, TYPE_FLOAT, sizeof **out) : NULL;
  *out = NULL;
  if (!bytes)
    return refuse_tensor(r, node, name, t);
  if (count >= 0 && hd__onnx_elems(t) != count)
    return hd__onnx_refuse(r, node, "expected %lld numbers as '%.80s', found %lld; export it again", (long long)count,
                           name, (long long)hd__onnx_elems(t));
  HD_TRY(HD_NEW_RAW(*out, hd__onnx_elems(t), r->ctx, "%s: out of memory while reading", r->path));
  memcpy(*out, bytes, (size_t)hd__onnx_elems(t) * sizeof **out);
  return HD_OK;
}

hd_status hd__onnx_add_weight(hd_onnx_reader *r, const char *layer, const char *suffix, const hd_shape *shape,
                              const float *elems) {
  float *to;
  HD_TRY(new_weight(&to, r, layer, suffix, shape));
  memcpy(to, elems, (size_t)hd__shape_elems(shape) * sizeof *to);
  return HD_OK;
}

hd_status hd__onnx_add_equal(hd_onnx_reader *r, const char *layer, const char *suffix, int64_t count, float value) {
  float *to;
  HD_TRY(new_weight(&to, r, layer, suffix, &(hd_shape){1, {(int32_t)count}}));
  for (int64_t i = 0; i < count; i++)
    to[i] = value;
  fprintf(r->rules, "%s{match: \"%s.%s\", requires_grad: false}", ftell(r->rules) > 0 ? ", " : "", layer, suffix);
  return HD_OK;
}

#endif
