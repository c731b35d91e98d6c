/* Reading IDX files; see idx.h. */
#include "data/idx.h"

#include <stdbool.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"

enum { TYPE_U8 = 8, MAX_BYTES_LOG2 = 36 };

/* Checks the header's bytes and fills rank, sizes and length. */
static hd_status read_header(hd_idx *idx, hd_ctx *ctx, const char *path, const uint8_t *head, int rank) {
  uint32_t magic = (uint32_t)head[0] << 24 | (uint32_t)head[1] << 16 | (uint32_t)head[2] << 8 | head[3];
  uint32_t wanted = TYPE_U8 << 8 | (uint32_t)rank;
  if (magic != wanted)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected magic 0x%08x (bytes, %d dimensions), found 0x%08x; is it the right IDX file?", path, wanted, rank, magic);
  idx->rank = rank;
  idx->length = 1;
  for (int i = 0; i < rank; i++) {
    const uint8_t *b = head + 4 + 4 * i;
    idx->size[i] = (int64_t)((uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3]);
    if (idx->size[i] == 0 || idx->length > (INT64_C(1) << MAX_BYTES_LOG2) / idx->size[i])
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected dimensions from 1 up to 64 GiB in all, found %lld as dimension %d; the header is damaged", path,
                      (long long)idx->size[i], i);
    idx->length *= idx->size[i];
  }
  return HD_OK;
}

static hd_status wrong_length(hd_ctx *ctx, const char *path, int64_t expected, const char *found) {
  return hd__fail(ctx, HD_E_FORMAT, "%s: expected %lld bytes behind the header, found %s; fetch the file again", path, (long long)expected, found);
}

static hd_status read_plain(hd_idx *idx, hd_ctx *ctx, const char *path, int rank) {
  HD_TRY(hd__file_map(&idx->mapping, ctx, path));
  int64_t head = 4 + 4 * rank, found = (int64_t)idx->mapping.length - head;
  char text[48];
  if (found < 0)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected an IDX header of %lld bytes, found a file of %zu; fetch the file again", path, (long long)head,
                    idx->mapping.length);
  HD_TRY(read_header(idx, ctx, path, idx->mapping.bytes, rank));
  snprintf(text, sizeof text, "%lld", (long long)found);
  if (found != idx->length)
    return wrong_length(ctx, path, idx->length, text);
  idx->bytes = idx->mapping.bytes + head;
  return HD_OK;
}

/* Reads exactly `bytes` bytes of the decompressed stream; less is an error. */
static hd_status inflate_exactly(gzFile file, hd_ctx *ctx, const char *path, uint8_t *to, int64_t bytes) {
  for (int64_t at = 0; at < bytes;) {
    int64_t step = bytes - at < (1 << 26) ? bytes - at : 1 << 26;
    int got = gzread(file, to + at, (unsigned)step);
    if (got > 0) {
      at += got;
      continue;
    }
    int code = Z_OK;
    const char *why = gzerror(file, &code);
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected %lld more bytes of gzip data, found %s; fetch the file again", path, (long long)(bytes - at),
                    got < 0 && code != Z_OK && *why ? "damage" : "its end");
  }
  return HD_OK;
}

static hd_status read_gzip_open(hd_idx *idx, hd_ctx *ctx, const char *path, int rank, gzFile file) {
  uint8_t head[4 + 4 * HD_IDX_MAX_RANK], rest;
  gzbuffer(file, 1 << 17);
  HD_TRY(inflate_exactly(file, ctx, path, head, 4 + 4 * rank));
  if (gzdirect(file))
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected gzip data, found something else; fetch the file again or drop the .gz", path);
  HD_TRY(read_header(idx, ctx, path, head, rank));
  idx->copy = hd__malloc((size_t)idx->length);
  if (!idx->copy)
    return hd__fail(ctx, HD_E_NOMEM, "%s: expected %lld bytes of memory, found less", path, (long long)idx->length);
  HD_TRY(inflate_exactly(file, ctx, path, idx->copy, idx->length));
  int more = gzread(file, &rest, 1); /* reaches the checksum, too */
  if (more > 0)
    return wrong_length(ctx, path, idx->length, "more");
  if (more < 0)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected a valid gzip checksum, found a wrong one; fetch the file again", path);
  idx->bytes = idx->copy;
  return HD_OK;
}

static hd_status read_gzip(hd_idx *idx, hd_ctx *ctx, const char *path, int rank) {
  hd_mapping probe; /* reports a path that is missing, a folder or unreadable */
  HD_TRY(hd__file_map(&probe, ctx, path));
  hd__file_unmap(&probe);
  gzFile file = gzopen(path, "rbe");
  if (!file)
    return hd__fail(ctx, HD_E_NOMEM, "%s: out of memory while opening", path);
  hd_status status = read_gzip_open(idx, ctx, path, rank, file);
  gzclose(file);
  return status;
}

hd_status hd__idx_read(hd_idx *out, hd_ctx *ctx, const char *path, int rank) {
  *out = (hd_idx){0};
  size_t length = strlen(path);
  bool gzip = length > 3 && !strcmp(path + length - 3, ".gz");
  hd_status status = gzip ? read_gzip(out, ctx, path, rank) : read_plain(out, ctx, path, rank);
  if (status != HD_OK)
    hd__idx_fini(out);
  return status;
}

void hd__idx_fini(hd_idx *idx) {
  hd__file_unmap(&idx->mapping);
  hd__free(idx->copy);
  *idx = (hd_idx){0};
}
