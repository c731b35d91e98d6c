/* Reading an ONNX file from the disk. */
#include "onnx/onnx.h"
#include "platform/file.h"

hd_status hd__onnx_read(hd_onnx_model *out, hd_ctx *ctx, const char *path) {
  HD_MAPPED size = {0}, file = {0};
  *out = (hd_onnx_model){0};
  HD_TRY(hd__file_map(&size, ctx, path));
  if (size.length > INT32_MAX)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected an ONNX file of at most 2 GiB, found %zu bytes; export it again",
                    path, size.length);
  HD_TRY(hd__file_read(&file, ctx, path)); /* a file that changes meanwhile does no harm */
  return hd__onnx_parse(out, ctx, path, file.bytes, file.length);
}
