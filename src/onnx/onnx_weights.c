/* Weights of layers that are made of an ONNX file, and layers that share them; see onnx_layers.h. */
#ifdef HD_HAVE_ONNX

#include <string.h>

#include "base/alloc.h"
#include "onnx/onnx_layers.h"

hd_status hd__onnx_add_vector(hd_onnx_reader *r, const HdOnnx__Node *node, const char *layer, const char *suffix,
                              const char *name, int64_t count) {
  const HdOnnx__Tensor *t;
  float *elems;
  HD_TRY(hd__onnx_read_floats(&elems, &t, r, node, name, count));
  const hd_shape shape = hd__onnx_vector(count);
  const hd_status status = hd__onnx_add_weight(r, layer, suffix, &shape, elems);
  hd__free(elems);
  return status;
}

static bool same_value(const hd_onnx_reader *r, const char *a, const char *b) {
  return !strcmp(hd__onnx_resolve(r, a), hd__onnx_resolve(r, b));
}

/* The layer that has these parameters already; NULL: there is none. */
const char *hd__onnx_find_owner(const hd_onnx_reader *r, const char *kind, const char *weight, const char *bias) {
  for (int i = 0; i < r->owners; i++)
    if (!strcmp(r->owner[i].kind, kind) && same_value(r, r->owner[i].weight, weight) &&
        same_value(r, r->owner[i].bias, bias))
      return r->owner[i].layer;
  return NULL;
}

void hd__onnx_keep_owner(hd_onnx_reader *r, const char *layer, const char *kind, const char *weight, const char *bias) {
  hd_onnx_owner *owner = &r->owner[r->owners++];
  *owner = (hd_onnx_owner){.kind = kind, .weight = weight, .bias = bias};
  snprintf(owner->layer, sizeof owner->layer, "%s", layer);
}

/* The settings of a layer that has parameters, or shares an owner's. */
const char *hd__onnx_parameters(char text[HD_ONNX_PARAMETERS_BYTES], const char *owner, bool has_bias) {
  if (owner)
    snprintf(text, HD_ONNX_PARAMETERS_BYTES, ", share: \"%s\"", owner);
  else
    strcpy(text, has_bias ? "" : ", bias: false");
  return text;
}

#endif
