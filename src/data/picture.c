/* Drawing the sheet of mistakes with libpng, and a small bitmap font for its captions.
 *
 * The sheet is 8-bit RGB, light on dark as the digits are: images in a grid, the label in green and the guess in red
 * below. */
#include "data/picture.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sys/file.h"

enum { COLUMNS = 8, CELL_PIXELS = 84, CAPTION = 26, GAP = 10, TITLE = 34, GLYPH_ROWS = 7, GLYPH_COLUMNS = 5 };

typedef struct color {
  uint8_t r, g, b;
} color;

static const color background = {24, 26, 31}, grey = {150, 154, 163}, white = {235, 236, 240}, green = {98, 201, 125},
                   red = {240, 104, 96};

typedef struct sheet {
  int width, height;
  uint8_t *rgb;
} sheet;

/* Glyphs of 5 x 7, a byte a row, the lowest bit rightmost. */
static const struct {
  char c;
  uint8_t row[GLYPH_ROWS];
} font[] = {
    {'0', {14, 17, 19, 21, 25, 17, 14}}, {'1', {4, 12, 4, 4, 4, 4, 14}},      {'2', {14, 17, 1, 2, 4, 8, 31}},
    {'3', {31, 2, 4, 2, 1, 17, 14}},     {'4', {2, 6, 10, 18, 31, 2, 2}},     {'5', {31, 16, 30, 1, 1, 17, 14}},
    {'6', {6, 8, 16, 30, 17, 17, 14}},   {'7', {31, 1, 2, 4, 8, 8, 8}},       {'8', {14, 17, 17, 14, 17, 17, 14}},
    {'9', {14, 17, 17, 15, 1, 2, 12}},   {'a', {0, 0, 14, 1, 15, 17, 15}},    {'c', {0, 0, 14, 16, 16, 17, 14}},
    {'d', {1, 1, 13, 19, 17, 17, 15}},   {'e', {0, 0, 14, 17, 31, 16, 14}},   {'f', {6, 9, 8, 28, 8, 8, 8}},
    {'g', {0, 15, 17, 17, 15, 1, 14}},   {'h', {16, 16, 22, 25, 17, 17, 17}}, {'i', {4, 0, 12, 4, 4, 4, 14}},
    {'m', {0, 0, 26, 21, 21, 17, 17}},   {'n', {0, 0, 22, 25, 17, 17, 17}},   {'o', {0, 0, 14, 17, 17, 17, 14}},
    {'r', {0, 0, 22, 25, 16, 16, 16}},   {'s', {0, 0, 14, 16, 14, 1, 30}},    {'t', {8, 8, 28, 8, 8, 9, 6}},
    {'u', {0, 0, 17, 17, 17, 19, 13}},   {'w', {0, 0, 17, 17, 21, 21, 10}},   {':', {0, 12, 12, 0, 12, 12, 0}},
    {',', {0, 0, 0, 0, 12, 4, 8}},       {'%', {24, 25, 2, 4, 8, 19, 3}},     {'>', {8, 4, 2, 1, 2, 4, 8}},
    {'l', {12, 4, 4, 4, 4, 4, 14}},      {'b', {16, 16, 22, 25, 17, 17, 30}}, {'k', {16, 16, 18, 20, 24, 20, 18}},
};

static void fill(sheet *s, int x, int y, int width, int height, color c) {
  for (int row = y; row < y + height; row++)
    for (int col = x; col < x + width; col++)
      if (row >= 0 && row < s->height && col >= 0 && col < s->width)
        memcpy(s->rgb + ((size_t)row * (size_t)s->width + (size_t)col) * 3, &c, 3);
}

/* Draws text with its upper left corner at (x, y), each pixel `scale` wide; returns where the next would start. */
static int write_text(sheet *s, int x, int y, int scale, color c, const char *text) {
  for (; *text; text++, x += (GLYPH_COLUMNS + 1) * scale)
    for (size_t g = 0; g < sizeof font / sizeof *font; g++) {
      if (font[g].c != *text)
        continue;
      for (int row = 0; row < GLYPH_ROWS; row++)
        for (int col = 0; col < GLYPH_COLUMNS; col++)
          if (font[g].row[row] >> (GLYPH_COLUMNS - 1 - col) & 1)
            fill(s, x + col * scale, y + row * scale, scale, scale, c);
    }
  return x;
}

static void draw_image(sheet *s, int x, int y, const uint8_t *image, int height, int width) {
  for (int row = 0; row < CELL_PIXELS; row++)
    for (int col = 0; col < CELL_PIXELS; col++) {
      uint8_t v = image[row * height / CELL_PIXELS * width + col * width / CELL_PIXELS];
      fill(s, x + col, y + row, 1, 1, (color){v, v, v});
    }
}

static void draw_cell(sheet *s, int index, const hd_mistake *m, int height, int width) {
  int x = GAP + index % COLUMNS * (CELL_PIXELS + GAP), y = TITLE + index / COLUMNS * (CELL_PIXELS + CAPTION + GAP);
  char text[32];
  draw_image(s, x, y, m->image, height, width);
  snprintf(text, sizeof text, "%d", m->label);
  int at = write_text(s, x, y + CELL_PIXELS + 6, 2, green, text);
  at = write_text(s, at, y + CELL_PIXELS + 6, 2, grey, ">");
  snprintf(text, sizeof text, "%d", m->guess);
  write_text(s, at, y + CELL_PIXELS + 6, 2, red, text);
  int percent = (int)(m->confidence * 100 + 0.5f);
  snprintf(text, sizeof text, "%d%%", percent);
  write_text(s, x + CELL_PIXELS - (int)strlen(text) * (GLYPH_COLUMNS + 1), y + CELL_PIXELS + 10, 1, grey, text);
}

static hd_status write_png(FILE *to, hd_ctx *ctx, void *arg) {
  const sheet *s = arg;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  if (!info) {
    png_destroy_write_struct(&png, NULL);
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a picture");
  }
  if (setjmp(png_jmpbuf(png))) {
    png_destroy_write_struct(&png, &info);
    return hd__fail(ctx, HD_E_IO,
                    "expected to write a picture, found an error of the disk or of libpng; free some space");
  }
  png_init_io(png, to);
  png_set_IHDR(png, info, (png_uint_32)s->width, (png_uint_32)s->height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (int row = 0; row < s->height; row++)
    png_write_row(png, s->rgb + (size_t)row * (size_t)s->width * 3);
  png_write_end(png, NULL);
  png_destroy_write_struct(&png, &info);
  return HD_OK;
}

hd_status hd__picture_mistakes(hd_ctx *ctx, const char *path, const hd_mistake *mistake, int count, int64_t wrong,
                               int64_t total, int height, int width) {
  int rows = (count + COLUMNS - 1) / COLUMNS;
  sheet s = {.width = GAP + COLUMNS * (CELL_PIXELS + GAP), .height = TITLE + rows * (CELL_PIXELS + CAPTION + GAP)};
  char title[96];
  s.rgb = hd__malloc((size_t)s.width * (size_t)s.height * 3);
  if (!s.rgb)
    return hd__fail(ctx, HD_E_NOMEM, "%s: out of memory for a picture", path);
  fill(&s, 0, 0, s.width, s.height, background);
  snprintf(title, sizeof title, "%lld of %lld wrong: the most confident", (long long)wrong, (long long)total);
  write_text(&s, GAP, 10, 2, white, title);
  for (int i = 0; i < count; i++)
    draw_cell(&s, i, &mistake[i], height, width);
  hd_status status = hd__file_write(ctx, path, write_png, &s);
  hd__free(s.rgb);
  return status;
}
