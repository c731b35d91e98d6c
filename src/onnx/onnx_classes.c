/* The names of a classifier's classes in a file, in the order of their scores: those from which scikit-learn's networks
 * take a label (onnx_outputs.c), texts or whole numbers; or those of a run, which heddle writes into the metadata. */
#ifdef HD_HAVE_ONNX

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "onnx/onnx_reader.h"

enum { TYPE_INT64 = 7, TYPE_STRING = 8, MOST_CLASSES = 65536 };

static hd_status add_name(FILE *to, hd_onnx_reader *r, const char *text, size_t length) {
  if (memchr(text, 0, length))
    return hd__fail(r->ctx, HD_E_FORMAT, "%s: expected names of classes without NUL, found one; export it again",
                    r->path);
  fwrite(text, 1, length, to);
  fputc(0, to);
  r->out->classes.count++;
  return HD_OK;
}

static hd_status add_whole_numbers(FILE *to, hd_onnx_reader *r, const HdOnnx__Tensor *t, int64_t count) {
  bool plain = true;
  for (int64_t i = 0; i < count; i++) {
    int64_t number;
    char text[24];
    memcpy(&number, t->raw_data.data + (size_t)i * sizeof number, sizeof number);
    plain = plain && number == i;
    HD_TRY(add_name(to, r, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)number)));
  }
  if (plain) /* the numbers of the scores: no names */
    r->out->classes.count = 0;
  return HD_OK;
}

static hd_status add_tensor(FILE *to, hd_onnx_reader *r, const HdOnnx__Tensor *t) {
  const int64_t count = hd__onnx_elems(t);
  if (count < 1 || count > MOST_CLASSES)
    return HD_OK;
  if (t->data_type == TYPE_INT64 && t->has_raw_data && t->raw_data.len == (size_t)count * sizeof(int64_t))
    return add_whole_numbers(to, r, t, count);
  for (int64_t i = 0; t->data_type == TYPE_STRING && t->n_string_data == (size_t)count && i < count; i++)
    HD_TRY(add_name(to, r, (const char *)t->string_data[i].data, t->string_data[i].len));
  return HD_OK;
}

static hd_status add_list(FILE *to, hd_onnx_reader *r, const char *text) {
  json_t *list = json_loads(text, 0, NULL), *name;
  hd_status status = HD_OK;
  size_t i;
  json_array_foreach(list, i, name) {
    if (json_is_string(name) && i < MOST_CLASSES)
      HD_THEN(status, add_name(to, r, json_string_value(name), json_string_length(name)));
  }
  json_decref(list);
  return status;
}

hd_status hd__onnx_read_classes(hd_onnx_reader *r, const char *listed) {
  char *text = NULL;
  size_t bytes = 0;
  const HdOnnx__Tensor *t = listed ? NULL : hd__onnx_labels(r);
  if (!t && !listed)
    return HD_OK;
  FILE *to = open_memstream(&text, &bytes);
  HD_TRY(HD_ALLOCATED(to, r->ctx, "%s: out of memory for the names of classes", r->path));
  hd_status status = listed ? add_list(to, r, listed) : add_tensor(to, r, t);
  if (fclose(to) != 0 && status == HD_OK)
    status = hd__fail(r->ctx, HD_E_NOMEM, "%s: out of memory for the names of classes", r->path);
  if (status == HD_OK && r->out->classes.count > 0) {
    char *kept = r->out->classes.text = hd__malloc(bytes);
    status = HD_ALLOCATED(kept, r->ctx, "%s: out of memory for the names of classes", r->path);
    if (kept)
      memcpy(kept, text, bytes);
  }
  free(text);
  return status;
}

#endif
