/* Nodes, tensors and attributes of an ONNX file as messages; see onnx_writer.h. */
#ifdef HD_HAVE_ONNX

#include <stdarg.h>
#include <string.h>

#include "onnx/onnx_writer.h"

enum { ATTRIBUTE_FLOAT = 1, ATTRIBUTE_INT = 2, ATTRIBUTE_STRING = 3, ATTRIBUTE_INTS = 7 };

typedef struct file_buffer {
  ProtobufCBuffer base;
  FILE *to;
} file_buffer;

static void append(ProtobufCBuffer *buffer, size_t length, const uint8_t *bytes) {
  fwrite(bytes, 1, length, ((file_buffer *)buffer)->to);
}

void hd__onnx_pack(FILE *to, const void *message) {
  file_buffer buffer = {{append}, to};
  protobuf_c_message_pack_to_buffer(message, &buffer.base);
}

static HdOnnx__Attribute *add_attribute(hd_onnx_attributes *a, const char *name, int32_t type) {
  HdOnnx__Attribute *at = a->list[a->count] = &a->item[a->count];
  hd_onnx__attribute__init(at);
  at->name = (char *)name;
  at->has_type = 1;
  at->type = type;
  a->count++;
  return at;
}

void hd__onnx_set_int(hd_onnx_attributes *a, const char *name, int64_t value) {
  HdOnnx__Attribute *at = add_attribute(a, name, ATTRIBUTE_INT);
  at->has_i = 1;
  at->i = value;
}

void hd__onnx_set_float(hd_onnx_attributes *a, const char *name, float value) {
  HdOnnx__Attribute *at = add_attribute(a, name, ATTRIBUTE_FLOAT);
  at->has_f = 1;
  at->f = value;
}

void hd__onnx_set_text(hd_onnx_attributes *a, const char *name, const char *text) {
  HdOnnx__Attribute *at = add_attribute(a, name, ATTRIBUTE_STRING);
  at->has_s = 1;
  at->s = (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}

void hd__onnx_set_ints(hd_onnx_attributes *a, const char *name, const int64_t *from, size_t count) {
  int64_t *number = a->number[a->count];
  HdOnnx__Attribute *at = add_attribute(a, name, ATTRIBUTE_INTS);
  memcpy(number, from, count * sizeof *number);
  at->ints = number;
  at->n_ints = count;
}

void hd__onnx_set_sides(hd_onnx_attributes *a, const char *name, int32_t down, int32_t across, bool twice) {
  int64_t *number = a->number[a->count];
  HdOnnx__Attribute *at = add_attribute(a, name, ATTRIBUTE_INTS);
  number[0] = number[2] = down;
  number[1] = number[3] = across;
  at->ints = number;
  at->n_ints = twice ? 4 : 2;
}

void hd__onnx_write_tensor(hd_onnx_writer *w, const char *name, int type, const void *bytes, const int64_t *dim,
                           size_t rank) {
  HdOnnx__Graph graph = HD_ONNX__GRAPH__INIT;
  HdOnnx__Tensor tensor = HD_ONNX__TENSOR__INIT, *list = &tensor;
  size_t length = type == HD_ONNX_FLOAT ? sizeof(float) : sizeof(int64_t); /* or a double */
  for (size_t i = 0; i < rank; i++)
    length *= (size_t)dim[i];
  tensor.name = (char *)name;
  tensor.has_data_type = tensor.has_raw_data = 1;
  tensor.data_type = type;
  tensor.dims = (int64_t *)dim;
  tensor.n_dims = rank;
  tensor.raw_data = (ProtobufCBinaryData){length, (uint8_t *)bytes};
  graph.initializer = &list;
  graph.n_initializer = 1;
  hd__onnx_pack(w->to, &graph.base);
}

const char *hd__onnx_new_name(hd_onnx_writer *w) {
  char *name = w->name[w->names];
  snprintf(name, HD_ONNX_VALUE_BYTES, "%s/%d", w->layer, w->names++);
  return name;
}

const char *hd__onnx_write_number(hd_onnx_writer *w, float value) {
  const char *name = hd__onnx_new_name(w);
  hd__onnx_write_tensor(w, name, HD_ONNX_FLOAT, &value, NULL, 0);
  return name;
}

const char *hd__onnx_write_numbers(hd_onnx_writer *w, const int64_t *number, int64_t count) {
  const char *name = hd__onnx_new_name(w);
  hd__onnx_write_tensor(w, name, HD_ONNX_INT64, number, &count, 1);
  return name;
}

const char *hd__onnx_write_node(hd_onnx_writer *w, const char *op, const char *name, const char *out,
                                const hd_onnx_attributes *a, ...) {
  HdOnnx__Graph graph = HD_ONNX__GRAPH__INIT;
  HdOnnx__Node node = HD_ONNX__NODE__INIT, *list = &node;
  char *in[HD_MAX_IN + 1];
  va_list args;
  va_start(args, a);
  while (node.n_input < HD_MAX_IN && (in[node.n_input] = va_arg(args, char *)))
    node.n_input++;
  va_end(args);
  node.op_type = (char *)op;
  node.name = (char *)name;
  node.input = in;
  node.output = (char *[]){(char *)out};
  node.n_output = 1;
  if (a) {
    node.attribute = (HdOnnx__Attribute **)a->list;
    node.n_attribute = a->count;
  }
  graph.node = &list;
  graph.n_node = 1;
  hd__onnx_pack(w->to, &graph.base);
  return out;
}

const char *hd__onnx_step(hd_onnx_writer *w, const char *op, const char *a, const char *b) {
  const char *name = hd__onnx_new_name(w);
  return hd__onnx_write_node(w, op, name, name, NULL, a, b, (char *)NULL);
}

void hd__onnx_finish(hd_onnx_writer *w, const char *op, const hd_onnx_attributes *a, const char *x, const char *y) {
  hd__onnx_write_node(w, op, w->layer, w->out, a, x, y, (char *)NULL);
}

const char *hd__onnx_step_reshape(hd_onnx_writer *w, const char *x, const int64_t *shape, size_t rank) {
  const char *name = hd__onnx_new_name(w);
  hd__onnx_write_tensor(w, name, HD_ONNX_INT64, shape, (int64_t[]){(int64_t)rank}, 1);
  return hd__onnx_step(w, "Reshape", x, name);
}

const char *hd__onnx_step_transpose(hd_onnx_writer *w, const char *x, const int64_t *perm, size_t rank) {
  const char *name = hd__onnx_new_name(w);
  hd_onnx_attributes a = {.count = 0};
  if (rank > 0)
    hd__onnx_set_ints(&a, "perm", perm, rank);
  return hd__onnx_write_node(w, "Transpose", name, name, &a, x, (char *)NULL);
}

#endif
