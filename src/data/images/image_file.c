/* Reads picture files as planes; see image_file.h. */
#include "data/images/image_file.h"

#include <string.h>

#include "base/alloc.h"
#include "data/images/exif.h"
#include "platform/file.h"

static bool is_jpeg(const hd_picture_file *file) {
  return file->length >= 3 && !memcmp(file->bytes, "\xff\xd8\xff", 3);
}

static uint32_t big(const uint8_t *b) {
  return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* The content of the first chunk of a type; NULL if the file has none. Chunks: length, type, content, checksum. */
static const uint8_t *find_chunk(size_t *found, const char *type, const uint8_t *bytes, size_t length) {
  enum { SIGNATURE = 8, HEAD = 8, REST = 12 };
  for (size_t at = SIGNATURE; at + REST <= length;) {
    const size_t content = big(bytes + at);
    if (content > length - at - REST)
      return NULL;
    *found = content;
    if (!memcmp(bytes + at + 4, type, 4))
      return bytes + at + HEAD;
    at += REST + content;
  }
  return NULL;
}

static int orientation_of(const hd_picture_file *file) {
  size_t found;
  if (is_jpeg(file))
    return hd__exif_of_jpeg(file->bytes, file->length);
  const uint8_t *tiff = find_chunk(&found, "eXIf", file->bytes, file->length);
  return tiff ? hd__exif_orientation(tiff, found) : 1;
}

/* The first chunk: signature, length, IHDR, width, height, depth, colour type. */
static hd_status png_head(hd_photo_head *out, hd_ctx *ctx, const hd_picture_file *file) {
  enum { HEAD_BYTES = 33, WIDTH = 16, HEIGHT = 20, COLOR_TYPE = 25, GREY = 0, GREY_ALPHA = 4, RGB_ALPHA = 6 };
  size_t unused;
  if (file->length < HEAD_BYTES || memcmp(file->bytes, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16))
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected a PNG or JPEG picture, found %s; convert it", file->path,
                    file->length == 0 ? "an empty file" : "another format or a truncated file");
  const uint32_t width = big(file->bytes + WIDTH), height = big(file->bytes + HEIGHT);
  if (width < 1 || height < 1 || width > HD_PNG_MAX_SIDE || height > HD_PNG_MAX_SIDE ||
      (int64_t)width * height > HD_PNG_MAX_PIXELS)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "%s: expected a picture of at most %d pixels, found %ux%u; make it smaller",
                    file->path, HD_PNG_MAX_PIXELS, width, height);
  const int type = file->bytes[COLOR_TYPE];
  *out = (hd_photo_head){.size = {(int)height, (int)width},
                         .grey = type == GREY || type == GREY_ALPHA,
                         .alpha = type == GREY_ALPHA || type == RGB_ALPHA ||
                                  find_chunk(&unused, "tRNS", file->bytes, file->length)};
  return HD_OK;
}

static void exchange_sides(int size[2]) {
  const int height = size[0];
  size[0] = size[1];
  size[1] = height;
}

hd_status hd__photo_head(hd_photo_head *out, hd_ctx *ctx, const hd_picture_file *file, hd_photo_rules rules) {
  *out = (hd_photo_head){0};
  HD_TRY(is_jpeg(file) ? hd__jpeg_head(out->size, &out->grey, ctx, file) : png_head(out, ctx, file));
  out->orientation = rules.ignore_exif ? 1 : orientation_of(file);
  if (hd__exif_transposes(out->orientation))
    exchange_sides(out->size);
  return HD_OK;
}

static hd_status wrong_size(hd_ctx *ctx, const char *path, const int size[2], int height, int width) {
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected a picture of %dx%d as before, found %dx%d: it has changed during the run; start again",
                  path, size[1], size[0], width, height);
}

static hd_status png_planes(uint8_t *planes, int channels, const int size[2], hd_ctx *ctx, const hd_picture_file *file,
                            hd_photo_rules rules) {
  HD_RELEASED(hd__picture_fini) hd_picture picture = {0};
  HD_TRY(hd__png_parse(&picture, ctx, file));
  const size_t plane = (size_t)size[0] * (size_t)size[1];
  if (picture.height != size[0] || picture.width != size[1])
    return wrong_size(ctx, file->path, size, picture.height, picture.width);
  for (size_t i = 0; i < plane; i++)
    for (int c = 0; c < channels; c++) {
      const uint8_t color = picture.rgba[4 * i + (size_t)c], alpha = rules.ignore_alpha ? 255 : picture.rgba[4 * i + 3];
      planes[(size_t)c * plane + i] = hd__on_white(color, alpha);
    }
  return HD_OK;
}

static hd_status read_stored(uint8_t *planes, int channels, const int size[2], hd_ctx *ctx, const hd_picture_file *file,
                             hd_photo_rules rules) {
  return is_jpeg(file) ? hd__jpeg_read(planes, channels, size, ctx, file)
                       : png_planes(planes, channels, size, ctx, file, rules);
}

hd_status hd__photo_read(uint8_t *planes, int channels, const int size[2], hd_ctx *ctx, const hd_picture_file *file,
                         hd_photo_rules rules) {
  hd_photo_head head;
  HD_TRY(hd__photo_head(&head, ctx, file, rules));
  if (head.size[0] != size[0] || head.size[1] != size[1])
    return wrong_size(ctx, file->path, size, head.size[0], head.size[1]);
  if (head.orientation == 1)
    return read_stored(planes, channels, size, ctx, file, rules);
  const size_t plane = (size_t)size[0] * (size_t)size[1];
  HD_OWNED uint8_t *stored = hd__malloc((size_t)channels * plane);
  HD_TRY(HD_ALLOCATED(stored, ctx, "%s: out of memory for a picture", file->path));
  if (hd__exif_transposes(head.orientation))
    exchange_sides(head.size);
  HD_TRY(read_stored(stored, channels, head.size, ctx, file, rules));
  for (size_t c = 0; c < (size_t)channels; c++)
    hd__exif_turn(planes + c * plane, stored + c * plane, head.size, 1, head.orientation);
  return HD_OK;
}

static hd_status jpeg_picture(hd_picture *out, hd_ctx *ctx, const hd_picture_file *file) {
  int size[2];
  bool grey;
  HD_TRY(hd__jpeg_head(size, &grey, ctx, file));
  const int channels = grey ? 1 : 3;
  const size_t plane = (size_t)size[0] * (size_t)size[1];
  HD_OWNED uint8_t *planes = hd__malloc((size_t)channels * plane);
  HD_TRY(HD_ALLOCATED(planes, ctx, "%s: out of memory for a picture", file->path));
  HD_TRY(hd__jpeg_read(planes, channels, size, ctx, file));
  uint8_t *rgba = hd__malloc(4 * plane);
  HD_TRY(HD_ALLOCATED(rgba, ctx, "%s: out of memory for a picture", file->path));
  for (size_t i = 0; i < plane; i++) {
    for (size_t c = 0; c < 3; c++)
      rgba[4 * i + c] = planes[(grey ? 0 : c) * plane + i];
    rgba[4 * i + 3] = 255;
  }
  *out = (hd_picture){.width = size[1], .height = size[0], .rgba = rgba};
  return HD_OK;
}

static hd_status turn_picture(hd_picture *picture, hd_ctx *ctx, const char *path, int orientation) {
  int size[2] = {picture->height, picture->width};
  uint8_t *turned = orientation == 1 ? NULL : hd__malloc(4 * (size_t)size[0] * (size_t)size[1]);
  if (orientation == 1)
    return HD_OK;
  HD_TRY(HD_ALLOCATED(turned, ctx, "%s: out of memory for a picture", path));
  hd__exif_turn(turned, picture->rgba, size, 4, orientation);
  if (hd__exif_transposes(orientation))
    exchange_sides(size);
  hd__picture_fini(picture);
  *picture = (hd_picture){.height = size[0], .width = size[1], .rgba = turned};
  return HD_OK;
}

hd_status hd__photo_picture(hd_picture *out, hd_ctx *ctx, const char *path, hd_photo_rules rules) {
  HD_MAPPED bytes = {0};
  *out = (hd_picture){0};
  HD_TRY(hd__file_read(&bytes, ctx, path));
  const hd_picture_file file = {path, bytes.bytes, bytes.length};
  HD_TRY(is_jpeg(&file) ? jpeg_picture(out, ctx, &file) : hd__png_parse(out, ctx, &file));
  return turn_picture(out, ctx, path, rules.ignore_exif ? 1 : orientation_of(&file));
}
