/* The values of an ONNX file; see onnx_reader.h. */
#ifdef HD_HAVE_ONNX

#include "onnx/onnx_reader.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { TYPE_FLOAT = 1, TYPE_INT64 = 7, TYPE_BOOL = 9, TYPE_DOUBLE = 11, EXTERNAL = 1 };

hd_status hd__onnx_refuse(hd_onnx_reader *r, const HdOnnx__Node *node, const char *fmt, ...) {
  char message[HD_MESSAGE_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  return hd__fail(r->ctx, HD_E_UNSUPPORTED, "%s: node '%.80s' (%.40s): %s", r->path, node->name ? node->name : "",
                  node->op_type ? node->op_type : "", message);
}

/* ---- Finding a value by its name ---- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const hd_onnx_value *)a)->name, ((const hd_onnx_value *)b)->name);
}

static void add_value(hd_onnx_reader *r, const char *name, int node, int tensor) {
  if (name && *name)
    r->value[r->values++] = (hd_onnx_value){name, node, tensor, NULL};
}

static hd_onnx_value *search(const hd_onnx_reader *r, const char *name) {
  const hd_onnx_value key = {name, -1, -1, NULL};
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
  return passes(node) ? hd__onnx_input(node, 0) : NULL;
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

hd_status hd__onnx_list_values(hd_onnx_reader *r) {
  const HdOnnx__Graph *g = r->graph;
  if (g->n_node > HD_ONNX_NODES || g->n_initializer > HD_ONNX_TENSORS)
    return hd__fail(r->ctx, HD_E_UNSUPPORTED,
                    "%s: expected at most %d nodes and %d tensors, found %zu and %zu; simplify it", r->path,
                    HD_ONNX_NODES, HD_ONNX_TENSORS, g->n_node, g->n_initializer);
  HD_TRY(HD_NEW(r->value, g->n_node + g->n_initializer + 1, r->ctx, "%s: out of memory while reading", r->path));
  for (size_t i = 0; i < g->n_initializer; i++)
    add_value(r, g->initializer[i]->name, -1, (int)i);
  for (size_t i = 0; i < g->n_node; i++)
    if (g->node[i]->n_output > 0)
      add_value(r, g->node[i]->output[0], (int)i, -1);
  qsort(r->value, (size_t)r->values, sizeof *r->value, by_name);
  for (int i = 1; i < r->values; i++)
    if (!strcmp(r->value[i - 1].name, r->value[i].name))
      return hd__fail(r->ctx, HD_E_FORMAT,
                      "%s: expected one value of each name, found two called '%.80s'; export it again", r->path,
                      r->value[i].name);
  HD_TRY(list_places(r));
  for (int i = 0; i < r->values; i++)
    find_behind(r, &r->value[i]);
  return HD_OK;
}

const char *hd__onnx_input(const HdOnnx__Node *node, size_t k) { return k < node->n_input ? node->input[k] : ""; }

const char *hd__onnx_resolve(const hd_onnx_reader *r, const char *name) {
  const hd_onnx_value *found = find(r, name);
  return found ? found->behind : name;
}

const HdOnnx__Node *hd__onnx_producer(const hd_onnx_reader *r, const char *name, const char *op) {
  const HdOnnx__Node *node = node_of(r, hd__onnx_resolve(r, name));
  return node && (!op || hd__onnx_is(node, op)) ? node : NULL;
}

int hd__onnx_index(const hd_onnx_reader *r, const HdOnnx__Node *node) { return find(r, node->output[0])->node; }

/* ---- Constants ---- */

const HdOnnx__Tensor *hd__onnx_tensor(const hd_onnx_reader *r, const char *name) {
  name = hd__onnx_resolve(r, name);
  const hd_onnx_value *found = find(r, name);
  if (found && found->tensor >= 0)
    return r->graph->initializer[found->tensor];
  const HdOnnx__Node *node = hd__onnx_producer(r, name, "Constant");
  const HdOnnx__Attribute *value = node ? hd__onnx_attribute(node, "value") : NULL;
  return value ? value->t : NULL;
}

/* The number of elements, -1 for more than a value may have. */
static int64_t elems_of(const HdOnnx__Tensor *t) {
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
  const int64_t elems = elems_of(t);
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
  const void *bytes = t && elems_of(t) == 1 ? bytes_of(t, TYPE_FLOAT, sizeof(float)) : NULL;
  const HdOnnx__Node *node = hd__onnx_producer(r, name, "Constant");
  const HdOnnx__Attribute *value = node ? hd__onnx_attribute(node, "value_float") : NULL;
  float number = value ? value->f : 0;
  if (bytes)
    memcpy(&number, bytes, sizeof number);
  *out = (double)number;
  return bytes || value;
}

bool hd__onnx_flag(bool *out, const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  if (!t || elems_of(t) != 1 || t->data_type != TYPE_BOOL || t->data_location == EXTERNAL)
    return false;
  const bool is_raw = t->has_raw_data && t->raw_data.len == 1;
  *out = is_raw ? t->raw_data.data[0] != 0 : t->n_int32_data == 1 && t->int32_data[0] != 0;
  return is_raw || t->n_int32_data == 1;
}

bool hd__onnx_floats(float *out, const HdOnnx__Tensor *t, int64_t count) {
  const void *bytes = elems_of(t) == count ? bytes_of(t, TYPE_FLOAT, sizeof *out) : NULL;
  if (bytes)
    memcpy(out, bytes, (size_t)count * sizeof *out);
  return bytes;
}

bool hd__onnx_reals(double *out, const HdOnnx__Tensor *t, int64_t count) {
  const bool doubles = t->data_type == TYPE_DOUBLE;
  const size_t size = doubles ? sizeof(double) : sizeof(float);
  const char *bytes = elems_of(t) == count ? bytes_of(t, doubles ? TYPE_DOUBLE : TYPE_FLOAT, size) : NULL;
  for (int64_t i = 0; i < count && bytes; i++) {
    float single;
    memcpy(&single, bytes + i * (int64_t)size, sizeof single);
    out[i] = (double)single;
    if (doubles)
      memcpy(&out[i], bytes + i * (int64_t)size, sizeof *out);
  }
  return bytes;
}

/* Whole numbers of a tensor or a list; 0: the value is neither, or has too many. */
static int constant_ints(int64_t out[8], const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  const void *bytes = t && elems_of(t) <= 8 ? bytes_of(t, TYPE_INT64, sizeof *out) : NULL;
  const HdOnnx__Node *node = hd__onnx_producer(r, name, "Constant");
  const HdOnnx__Attribute *list = node ? hd__onnx_attribute(node, "value_ints") : NULL;
  if (bytes) {
    memcpy(out, bytes, (size_t)elems_of(t) * sizeof *out);
    return (int)elems_of(t);
  }
  if (!list || list->n_ints > 8)
    return 0;
  memcpy(out, list->ints, list->n_ints * sizeof *out);
  return (int)list->n_ints;
}

/* Whether a value is the size of the batch as exporters spell it out: the first number of a shape. */
static bool is_batch(const hd_onnx_reader *r, const char *name) {
  static const char *const forms[] = {"Unsqueeze", "Squeeze", "Reshape"};
  const HdOnnx__Node *node;
  int64_t index[8];
  for (int i = 0; i < 3; i++)
    if ((node = hd__onnx_producer(r, name, forms[i])))
      name = hd__onnx_input(node, 0);
  node = hd__onnx_producer(r, name, "Gather");
  if (node)
    return hd__onnx_producer(r, hd__onnx_input(node, 0), "Shape") &&
           constant_ints(index, r, hd__onnx_input(node, 1)) == 1 && index[0] == 0;
  node = hd__onnx_producer(r, name, "Shape");
  return node && hd__onnx_int(node, "start", 0) == 0 && hd__onnx_int(node, "end", 0) == 1;
}

int hd__onnx_ints(int64_t out[8], const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Node *node = hd__onnx_producer(r, name, "Concat");
  if (!node)
    return constant_ints(out, r, name);
  for (size_t i = 0; i < node->n_input && i < 8; i++) {
    int64_t one[8];
    const bool batch = is_batch(r, node->input[i]);
    if (!batch && constant_ints(one, r, node->input[i]) != 1)
      return 0;
    out[i] = batch ? -1 : one[0];
  }
  return node->n_input <= 8 ? (int)node->n_input : 0;
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
                         "expected '%.80s' with 1 to 4 dimensions and a float for each of its at most %d elements, "
                         "found others; export it again",
                         name, HD_ONNX_MOST_SIDE);
}

hd_status hd__onnx_add_weight(hd_onnx_reader *r, const HdOnnx__Node *node, const char *layer, const char *suffix,
                              const char *name, hd_onnx_order order) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  const void *bytes = t && t->n_dims <= HD_MAX_DIMS ? bytes_of(t, TYPE_FLOAT, sizeof(float)) : NULL;
  float *to;
  if (!bytes || (order != HD_ONNX_AS_VECTOR && t->n_dims < 1) || (order == HD_ONNX_TRANSPOSED && t->n_dims != 2))
    return refuse_tensor(r, node, name, t);
  hd_shape shape = {.rank = order == HD_ONNX_AS_VECTOR ? 1 : (int32_t)t->n_dims};
  for (int i = 0; i < shape.rank; i++)
    shape.dim[i] =
        (int32_t)(order == HD_ONNX_AS_VECTOR ? elems_of(t) : t->dims[order == HD_ONNX_TRANSPOSED ? 1 - i : i]);
  HD_TRY(new_weight(&to, r, layer, suffix, &shape));
  if (order != HD_ONNX_TRANSPOSED) {
    memcpy(to, bytes, (size_t)elems_of(t) * sizeof *to);
    return HD_OK;
  }
  for (int64_t out = 0; out < shape.dim[0]; out++)
    for (int64_t in = 0; in < shape.dim[1]; in++)
      memcpy(&to[out * shape.dim[1] + in], (const char *)bytes + (in * shape.dim[0] + out) * (int64_t)sizeof *to,
             sizeof *to);
  return HD_OK;
}

hd_status hd__onnx_add_equal(hd_onnx_reader *r, const char *layer, const char *suffix, int64_t count, float value) {
  float *to;
  HD_TRY(new_weight(&to, r, layer, suffix, &(hd_shape){1, {(int32_t)count}}));
  for (int64_t i = 0; i < count; i++)
    to[i] = value;
  return HD_OK;
}

#endif
