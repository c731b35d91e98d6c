/* The constants of an ONNX file, as its readers want them: numbers of other types as float32 or int64, those in other
 * files read, and what is computed from constants alone computed; see onnx_reader.h. */
#ifdef HD_HAVE_ONNX

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "onnx/onnx_array.h"
#include "platform/file.h"

enum { MOST_INPUTS = 16, MOST_LOOKS = 1 << 17 };

/* A constant, as its type in the file. */
static bool read_value(hd_array *a, const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Tensor *t = *name ? hd__onnx_tensor(r, name) : NULL;
  *a = (hd_array){0};
  if (!t || !hd__array_read(a, t))
    return false;
  a->type = hd__onnx_type(r, name);
  return true;
}

static const char *entry_of(const HdOnnx__Tensor *t, const char *key) {
  for (size_t i = 0; i < t->n_external_data; i++)
    if (t->external_data[i]->key && !strcmp(t->external_data[i]->key, key))
      return t->external_data[i]->value;
  return NULL;
}

/* The bytes of a tensor in a file beside the model's; NULL: it is not there, or lies elsewhere. */
static HdOnnx__Tensor *read_outside(hd_onnx_reader *r, const HdOnnx__Tensor *t) {
  const char *name = entry_of(t, "location"), *offset = entry_of(t, "offset"), *slash = strrchr(r->path, '/');
  const int64_t count = hd__array_count(t->dims, t->n_dims);
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
  HdOnnx__Tensor *copy = good ? hd__onnx_new_tensor(r, t->data_type, t->dims, t->n_dims, bytes) : NULL;
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
  HD_ARRAY a = {0};
  const HdOnnx__Tensor *converted = hd__array_read(&a, t) ? hd__array_keep(r, &a) : NULL;
  return converted ? converted : t;
}

static void keep_constant(hd_onnx_reader *r, size_t at, const HdOnnx__Tensor *t, int type) {
  r->constant[at] = t;
  r->type[at] = type;
}

/* A node Constant, in any of its forms. */
static const HdOnnx__Tensor *read_constant(int *type, hd_onnx_reader *r, const HdOnnx__Node *node) {
  const HdOnnx__Attribute *a = node->n_attribute == 1 ? node->attribute[0] : NULL;
  const char *name = a && a->name ? a->name : "";
  *type = a && a->t ? a->t->data_type : 0;
  if (!strcmp(name, "value") && a->t)
    return usual(r, a->t);
  const bool list = !strcmp(name, "value_floats") || !strcmp(name, "value_ints");
  const bool floats = !strcmp(name, "value_float") || !strcmp(name, "value_floats");
  if (!list && !floats && strcmp(name, "value_int") != 0)
    return NULL;
  const int64_t count = !list ? 1 : (int64_t)(floats ? a->n_floats : a->n_ints);
  HD_ARRAY out = {0};
  if (!hd__array_make(&out, floats ? FLOAT : INT64, list, &count))
    return NULL;
  *type = out.type;
  for (int64_t i = 0; i < count; i++)
    out.at[i] = floats ? (double)(list ? a->floats[i] : a->f) : (double)(list ? a->ints[i] : a->i);
  return hd__array_keep(r, &out);
}

/* A result may be as large as what is still allowed, and counts whether it is kept or not. */
static const HdOnnx__Tensor *fold_and_keep(int *type, hd_onnx_reader *r, const HdOnnx__Node *node, const hd_array *in,
                                           int inputs) {
  HD_ARRAY out = {.most = r->room / (int64_t)sizeof(double) + 1};
  const bool good = r->room > 0 && hd__array_compute(&out, node, in, inputs);
  r->room -= out.at ? out.count : 0;
  *type = out.type;
  return good ? hd__array_keep(r, &out) : NULL;
}

/* Whether a node's output is its input as it is, in the readers' types. */
static bool repeats_input(const hd_onnx_reader *r, const HdOnnx__Node *node) {
  const HdOnnx__Tensor *t = node->n_input == 1 ? hd__onnx_tensor(r, node->input[0]) : NULL;
  return t && (!strcmp(node->op_type, "Identity") ||
               (!strcmp(node->op_type, "Cast") && t->data_type == FLOAT && hd__onnx_int(node, "to", 0) == FLOAT));
}

static const HdOnnx__Tensor *fold_node(int *type, hd_onnx_reader *r, const HdOnnx__Node *node) {
  hd_array in[MOST_INPUTS] = {{0}};
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
    hd__array_release(&in[i]);
  if (n < node->n_input)
    hd__array_release(&in[n]);
  return result;
}

/* Whole numbers that follow from sizes, as an array. */
static const HdOnnx__Tensor *sizes_of(hd_onnx_reader *r, const char *name) {
  int64_t list[8];
  const int64_t count = hd__onnx_is_real(r, name) ? 0 : hd__onnx_ints(list, r, name);
  HD_ARRAY a = {0};
  if (count == 0 || !hd__array_make(&a, INT64, 1, &count))
    return NULL;
  for (int64_t i = 0; i < count; i++) {
    if (hd__onnx_batches(list[i]))
      return NULL;
    a.at[i] = (double)list[i];
  }
  return hd__array_keep(r, &a);
}

enum { MOST_DEPTH = 32 };

static const HdOnnx__Tensor *fold_late(hd_onnx_reader *r, const char *name, int depth) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  const HdOnnx__Node *node = hd__onnx_node(r, name);
  size_t n = 0;
  int type;
  if (t || !node || depth > MOST_DEPTH || node->n_output != 1 || node->n_input > MOST_INPUTS ||
      ++r->looks > MOST_LOOKS || !hd__onnx_is(node, node->op_type) || hd__onnx_is(node, "Shape"))
    return t;
  HD_OWNED hd_array *in = hd__calloc(node->n_input + 1, sizeof *in); /* calls nest as deep as a file's nodes */
  for (; in && n < node->n_input; n++) {
    const HdOnnx__Tensor *from = fold_late(r, node->input[n], depth + 1);
    if (from ? !read_value(&in[n], r, node->input[n])
             : !(from = sizes_of(r, node->input[n])) || !hd__array_read(&in[n], from))
      break;
  }
  if (n > 0 && n == node->n_input) {
    t = fold_and_keep(&type, r, node, in, (int)n);
    keep_constant(r, r->graph->n_initializer + (size_t)hd__onnx_index(r, node), t, type);
  }
  for (size_t i = 0; in && i <= n && i < node->n_input; i++)
    hd__array_release(&in[i]);
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
