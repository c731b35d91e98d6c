/* The part that does not depend on protobuf-c; see onnx.h. */
#include "onnx/onnx.h"

#include <string.h>

#include "base/alloc.h"

bool hd__onnx_is_path(const char *path) {
  const size_t length = strlen(path);
  return length > 5 && !strchr(path, '\n') && !strcmp(path + length - 5, ".onnx");
}

void hd__onnx_fini(hd_onnx_model *model) {
  for (int i = 0; i < model->weights.count; i++)
    hd__free(model->memory[i]);
  hd__free(model->memory);
  hd__free(model->text);
  hd__free(model->input.mean);
  hd__free(model->classes.text);
  hd__st_fini(&model->weights);
  *model = (hd_onnx_model){0};
}

#ifndef HD_HAVE_ONNX

static hd_status missing(hd_ctx *ctx) {
  return hd__fail(ctx, HD_E_UNSUPPORTED,
                  "expected a build with protobuf-c for ONNX files, found one without; install libprotobuf-c-dev and "
                  "protobuf-c-compiler and build again");
}

hd_status hd__onnx_write(FILE *to, hd_ctx *ctx, const hd_onnx_network *network) { return missing(ctx); }

hd_status hd__onnx_parse(hd_onnx_model *out, hd_ctx *ctx, const char *path, const unsigned char *bytes, size_t length) {
  return missing(ctx);
}

#endif
