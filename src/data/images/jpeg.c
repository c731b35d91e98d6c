/* Reading JPEG; see image_file.h. */
#include "data/images/image_file.h"

#ifdef HD_HAVE_TURBOJPEG

#include <string.h>
#include <turbojpeg.h>

#include "base/alloc.h"

/* A decompressor that ends with its scope. */
HD_RELEASER(end, void, tjDestroy)
#define TJ_OWNED HD_RELEASED(end) tjhandle

static hd_status damaged(hd_ctx *ctx, const char *path, const char *why) {
  return hd__fail(ctx, HD_E_FORMAT, "%s: expected a whole JPEG picture, found: %.200s; save the picture again", path,
                  why);
}

static hd_status read_head(tjhandle tj, int size[2], bool *grey, hd_ctx *ctx, const hd_picture_file *file) {
  int subsampling, space;
  if (tjDecompressHeader3(tj, file->bytes, (unsigned long)file->length, &size[1], &size[0], &subsampling, &space) != 0)
    return damaged(ctx, file->path, tjGetErrorStr2(tj));
  if (size[0] < 1 || size[1] < 1)
    return damaged(ctx, file->path, "no size");
  if (size[0] > HD_PNG_MAX_SIDE || size[1] > HD_PNG_MAX_SIDE || (int64_t)size[0] * size[1] > HD_PNG_MAX_PIXELS)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "%s: expected a picture of at most %d pixels, found %dx%d; make it smaller",
                    file->path, HD_PNG_MAX_PIXELS, size[1], size[0]);
  if (space == TJCS_CMYK || space == TJCS_YCCK)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "%s: expected a grey or RGB picture, found CMYK; save it as RGB",
                    file->path);
  *grey = space == TJCS_GRAY;
  return HD_OK;
}

hd_status hd__jpeg_head(int size[2], bool *grey, hd_ctx *ctx, const hd_picture_file *file) {
  TJ_OWNED tj = tjInitDecompress();
  HD_TRY(HD_ALLOCATED(tj, ctx, "%s: out of memory for a picture", file->path));
  return read_head(tj, size, grey, ctx, file);
}

/* A warning is an error too, except for bytes between the last pixels and the end, which some cameras write. Bytes
 * before another marker might hide later warnings: only the first one is told. */
static hd_status decompress(tjhandle tj, uint8_t *pixels, const int size[2], int channels, hd_ctx *ctx,
                            const hd_picture_file *file) {
  const int format = channels == 1 ? TJPF_GRAY : TJPF_RGB;
  if (tjDecompress2(tj, file->bytes, (unsigned long)file->length, pixels, size[1], 0, size[0], format,
                    TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS) == 0)
    return HD_OK;
  const char *why = tjGetErrorStr2(tj);
  const bool harmless = tjGetErrorCode(tj) == TJERR_WARNING && strstr(why, "extraneous bytes before marker 0xd9");
  return harmless ? HD_OK : damaged(ctx, file->path, why);
}

typedef uint8_t bytes16 __attribute__((vector_size(16)));

/* Interleaves the first eight bytes of a and b; last_half moves the last eight of a to the front. */
static bytes16 in_turns(bytes16 a, bytes16 b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

static bytes16 last_half(bytes16 a) {
  return __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);
}

/* Separates every third byte into a plane. Of 48 bytes in three vectors, a round moves byte i to 2i mod 47: after
 * four rounds byte i is at 16i, with sixteen bytes of a colour together. */
static void separate_colors(uint8_t *planes, size_t plane, const uint8_t *rgb) {
  enum { ROUNDS = 4 };
  size_t i = 0;
  for (; i + 16 <= plane; i += 16) {
    bytes16 part[3];
    memcpy(part, rgb + 3 * i, sizeof part);
    for (int round = 0; round < ROUNDS; round++) {
      const bytes16 a = part[0], b = part[1], c = part[2];
      part[0] = in_turns(a, last_half(b));
      part[1] = in_turns(last_half(a), c);
      part[2] = in_turns(b, last_half(c));
    }
    for (size_t c = 0; c < 3; c++)
      memcpy(planes + c * plane + i, &part[c], sizeof part[c]);
  }
  for (; i < plane; i++)
    for (size_t c = 0; c < 3; c++)
      planes[c * plane + i] = rgb[3 * i + c];
}

hd_status hd__jpeg_read(uint8_t *planes, int channels, const int size[2], hd_ctx *ctx, const hd_picture_file *file) {
  TJ_OWNED tj = tjInitDecompress();
  int found[2];
  bool grey;
  HD_TRY(HD_ALLOCATED(tj, ctx, "%s: out of memory for a picture", file->path));
  HD_TRY(read_head(tj, found, &grey, ctx, file));
  if (found[0] != size[0] || found[1] != size[1])
    return hd__fail(
        ctx, HD_E_FORMAT,
        "%s: expected a picture of %dx%d as before, found %dx%d: it has changed during the run; start again",
        file->path, size[1], size[0], found[1], found[0]);
  if (channels == 1)
    return decompress(tj, planes, size, channels, ctx, file);
  const size_t plane = (size_t)size[0] * (size_t)size[1];
  HD_OWNED uint8_t *rgb = hd__malloc(3 * plane);
  HD_TRY(HD_ALLOCATED(rgb, ctx, "%s: out of memory for a picture", file->path));
  HD_TRY(decompress(tj, rgb, size, channels, ctx, file));
  separate_colors(planes, plane, rgb);
  return HD_OK;
}

#else

static hd_status not_built(hd_ctx *ctx, const char *path) {
  return hd__fail(ctx, HD_E_UNSUPPORTED,
                  "%s: expected a build with libjpeg-turbo for JPEG pictures, found one without; install "
                  "libturbojpeg0-dev and build again, or convert the pictures to PNG",
                  path);
}

hd_status hd__jpeg_head(int size[2], bool *grey, hd_ctx *ctx, const hd_picture_file *file) {
  return not_built(ctx, file->path);
}

hd_status hd__jpeg_read(uint8_t *planes, int channels, const int size[2], hd_ctx *ctx, const hd_picture_file *file) {
  return not_built(ctx, file->path);
}

#endif
