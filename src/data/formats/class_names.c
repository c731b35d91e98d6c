/* Reading names of classes; see format.h. */
#include "data/formats/format.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "platform/file.h"

enum { MOST_BYTES = 1 << 16 };

static hd_status take_lines(hd_names *out, hd_ctx *ctx, const char *path, const hd_mapping *file, int count) {
  const char *at = file->bytes ? (const char *)file->bytes : "", *end = at + file->length;
  out->text = hd__malloc(file->length + (size_t)count + 1);
  out->name = hd__calloc((size_t)count, sizeof *out->name);
  HD_TRY(HD_ALLOCATED(out->text && out->name, ctx, "%s: out of memory for the names of classes", path));
  char *to = out->text;
  while (at < end) {
    const char *line = memchr(at, '\n', (size_t)(end - at)), *stop = line ? line : end;
    const size_t length = (size_t)(stop - at) - (stop > at && stop[-1] == '\r');
    if (length > 0 && out->count < count) {
      hd__utf8_clean(to, length + 1, at, length);
      out->name[out->count] = to;
      to += strlen(to) + 1;
    }
    out->count += length > 0;
    at = stop + 1;
  }
  if (out->count == count)
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT, "%s: expected %d names, a line each, found %d; fetch the file again", path, count,
                  out->count);
}

hd_status hd__names_read(hd_names *out, hd_ctx *ctx, const char *path, int count) {
  hd_mapping file;
  HD_TRY(hd__file_read(&file, ctx, path));
  hd_status status = HD_OK;
  if (file.length > MOST_BYTES)
    status = hd__fail(ctx, HD_E_FORMAT, "%s: expected at most %d bytes of names, found %zu; fetch the file again", path,
                      MOST_BYTES, file.length);
  HD_THEN(status, take_lines(out, ctx, path, &file, count));
  hd__file_unmap(&file);
  return status;
}

void hd__names_fini(hd_names *names) {
  hd__free(names->name);
  hd__free(names->text);
  *names = (hd_names){0};
}
