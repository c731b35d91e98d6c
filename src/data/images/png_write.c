/* Writing pictures with libpng: in colour, in grey, or as places in a palette. Errors longjmp to one place. */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "data/images/image_file.h"
#include "platform/file.h"

typedef struct png_rows {
  const char *path; /* for messages */
  const uint8_t *rows;
  int32_t height, width;
  int channels; /* of a pixel: 3, or 1 */
  png_color color[256];
  int colors; /* 0: no palette */
} png_rows;

/* Replaces libpng's messages, which it would print. */
static void leave(png_structp png, png_const_charp text) { png_longjmp(png, 1); }

static void ignore(png_structp png, png_const_charp text) {}

static void put(png_structp png, png_infop info, const png_rows *p) {
  const int kind = p->colors ? PNG_COLOR_TYPE_PALETTE : p->channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY;
  png_set_IHDR(png, info, (png_uint_32)p->width, (png_uint_32)p->height, 8, kind, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  /* Choosing a filter for each line and a longer search would make files a fifth smaller and take 15 ms, a fifth of the
   * CPU time of a run of two steps. */
  png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
  png_set_compression_level(png, 3);
  if (p->colors)
    png_set_PLTE(png, info, p->color, p->colors);
  png_write_info(png, info);
  for (int32_t row = 0; row < p->height; row++)
    png_write_row(png, p->rows + (size_t)row * (size_t)p->width * (size_t)p->channels);
  png_write_end(png, NULL);
}

static hd_status write_png(FILE *to, hd_ctx *ctx, void *arg) {
  const char *path = ((const png_rows *)arg)->path;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, leave, ignore);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  if (!info) {
    png_destroy_write_struct(&png, NULL);
    return hd__fail(ctx, HD_E_NOMEM, "%s: out of memory for a picture", path);
  }
  if (setjmp(png_jmpbuf(png))) {
    png_destroy_write_struct(&png, &info);
    return hd__fail(ctx, HD_E_IO, "%s: cannot write the picture: the disk or libpng reported an error; free some space",
                    path);
  }
  png_init_io(png, to);
  put(png, info, arg);
  png_destroy_write_struct(&png, &info);
  return HD_OK;
}

hd_status hd__png_write(hd_ctx *ctx, const char *path, const uint8_t *rgb, int32_t height, int32_t width) {
  png_rows p = {.path = path, .rows = rgb, .height = height, .width = width, .channels = 3};
  return hd__file_write_named(ctx, path, write_png, &p);
}

hd_status hd__png_write_mask(hd_ctx *ctx, const char *path, const uint8_t *mask, const int32_t size[2],
                             const hd_palette *palette, int32_t classes) {
  png_rows m = {.path = path, .rows = mask, .height = size[0], .width = size[1], .channels = 1};
  if (palette->count > 0)
    m.colors = palette->count > classes ? palette->count : classes;
  for (int i = 0; i < m.colors; i++) {
    const uint8_t grey[3] = {(uint8_t)i, (uint8_t)i, (uint8_t)i}, *rgb = i < palette->count ? palette->rgb[i] : grey;
    m.color[i] = (png_color){rgb[0], rgb[1], rgb[2]};
  }
  return hd__file_write_named(ctx, path, write_png, &m);
}
